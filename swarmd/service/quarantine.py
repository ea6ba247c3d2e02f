"""A session that has read or written what it should not is cut out: its texts are taken away from agents, and what it
wrote that still stands is named, or undone with it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from swarmd.core.changes import Change, WriteMemory
from swarmd.core.handoffs import FINAL
from swarmd.core.instants import to_text
from swarmd.core.judge_memory import unknown_owner
from swarmd.core.memory import is_archive
from swarmd.core.names import REASON_BYTES, text_problem
from swarmd.core.world import Actor
from swarmd.errors import BadInput, NotFound, Refused
from swarmd.service.caller import Operator
from swarmd.service.own_lines import OwnLines, own_lines
from swarmd.service.reverting import Plan, before, compensation, overwritten
from swarmd.service.sessions_named import named
from swarmd.service.view import JSON, Args, View, text
from swarmd.store import (
    approvals,
    approving,
    audit,
    consolidated,
    lineage,
    meta,
    session_reads,
    sessions,
    windows,
)
from swarmd.store import commit as committing
from swarmd.store.connections import Connection
from swarmd.store.world import SqlWorld

if TYPE_CHECKING:
    from swarmd.service.acting import Service

ALIKE = "memory_alike"
"""The kind of what only says the same as lines of the session's."""
REPORT = "report"
"""The kind of what was told, and cannot be taken back."""
LINES_SHOWN = 50
NUMBERS_SHOWN = 10


@dataclass(slots=True, kw_only=True)
class _Found:
    """What a session wrote that is still in force, a row each."""

    items: list[dict[str, Any]] = field(default_factory=list)
    files: list[OwnLines] = field(default_factory=list)


def session_quarantine(service: Service, caller: Operator, args: Args) -> JSON:
    """Take a session's texts out of prompts, agents' reads and consolidations. `revert`: also undo what it wrote, and
    cut its lines out of memory files that others have changed since.
    """
    row = named(service.view(caller), args.get("session"))
    reason = text(args, "reason", required=False)
    if problem := text_problem("a reason", reason, REASON_BYTES, may_be_empty=True):
        raise BadInput(problem)
    if row["state"] != "ended":
        raise Refused(f"session {row['id']} has not ended; swarmd session cancel {row['id']} first")
    for owner in lineage.written(service.store.reader(), row["id"]):
        service.store.folders.settle(owner)

    def work(connection: Connection) -> tuple[_Found, Plan | None, frozenset[str]]:
        now = service.now()
        if row["quarantined"] is None:
            mark = json.dumps({"at": to_text(now), "by": caller.by, "reason": reason}, ensure_ascii=False)
            sessions.quarantine(connection, row["id"], mark)
        audit.write(connection, at=now, by=caller.by, act="session_quarantine", target=_target(row),
                    detail={"reason": reason})  # fmt: skip
        view = View(connection=connection, world=SqlWorld(connection, now), actor=Actor(by=caller.by),
                    places=service.places)  # fmt: skip
        if not args.get("revert"):
            return _in_force(view, row), None, frozenset()
        plan, memory_of = _reverted(view, caller, row)
        return _in_force(view, row), plan, memory_of

    found, plan, memory_of = service.store.writer.do(work)
    service.publish(memory_of)
    service.control.wake()
    return _document(service, caller, row, found, plan)


def session_unquarantine(service: Service, caller: Operator, args: Args) -> JSON:
    """Let a session's texts be seen again. What was undone stays so."""
    row = named(service.view(caller), args.get("session"))
    if row["quarantined"] is None:
        raise NotFound(f"session {row['id']} is not in quarantine")

    def work(connection: Connection) -> None:
        sessions.quarantine(connection, row["id"], None)
        audit.write(
            connection, at=service.now(), by=caller.by, act="session_unquarantine", target=_target(row)
        )

    service.store.writer.do(work)
    service.control.wake()
    return _document(service, caller, row, _in_force(service.view(caller), row), None)


def _target(row: windows.Row) -> str:
    return f"{row['agent']}/{row['id']}"


def _document(
    service: Service, caller: Operator, row: windows.Row, found: _Found, plan: Plan | None
) -> dict[str, JSON]:
    id = row["id"]
    mark = sessions.row(service.store.reader(), id)["quarantined"]
    step = _next_step(id, found, reverted=plan is not None) if mark is not None else None
    return {
        "session": id, "agent": row["agent"], "quarantined": None if mark is None else json.loads(mark),
        "in_force": found.items, "undone": [] if plan is None else plan.undone,
        "not_undone": [] if plan is None else plan.not_undone, "next_step": step,
    }  # fmt: skip


def _next_step(id: int, found: _Found, *, reverted: bool) -> str | None:
    """What is to be done about what stands; what a revert has left does not go with another."""
    kinds = {item["kind"] for item in found.items}
    who = f"swarmd session trace {id} tells who has seen it"
    if not reverted and kinds - {ALIKE, REPORT}:
        return f"swarmd session quarantine {id} --revert takes it out; {who}"
    steps = [f"what stands cannot be taken back: {who}"] if kinds - {ALIKE} else []
    if ALIKE in kinds:
        steps.append(
            "what is alike stays: swarmd memory blame tells who brought it there, swarmd memory edit takes it out"
        )
    return "; ".join(steps) or None


def _in_force(view: View, row: windows.Row) -> _Found:
    found = _Found()
    _memory(view, row, found)
    for held in approvals.of_sessions(view.connection, [row["id"]]):
        found.items.append(_item("approval", f"approval {held.id}: {held.target}", []))
    changes = session_reads.changes(view.connection, [row["id"]])[row["id"]]
    seen: set[tuple[str, str]] = set()
    for change in changes:
        for trace in json.loads(change["effect"] or "[]") if change["verdict"] == "done" else ():
            item = _standing(view, trace)
            if item is not None and (item["kind"], item["target"]) not in seen:
                seen.add((item["kind"], item["target"]))
                found.items.append(item)
    return found


def _memory(view: View, row: windows.Row, found: _Found) -> None:
    found.files = own_lines(view, row["id"])
    for file in found.files:
        if lines := file.lines():
            found.items.append(_item("memory", file.target, lines))
        if file.alike:
            found.items.append(_item(ALIKE, file.target, file.texts(file.alike)))


def _standing(view: View, trace: Mapping[str, Any]) -> dict[str, Any] | None:
    """The key, handoff or report of a trace, where it still is what the session made it."""
    if "key" in trace:
        agent, name, version = trace["key"]
        key = view.world.key(agent, name)
        stands = key is not None and key.version == version and key.value is not None
        return _item("key", f"{agent}/{name}", [key.value or ""]) if key is not None and stands else None
    if "handoff" in trace:
        handoff = view.world.handoff(trace["handoff"])
        stands = handoff is not None and trace["created"] and handoff.status not in FINAL
        return _item("handoff", f"handoff {trace['handoff']}", [handoff.text]) if handoff and stands else None
    return _item(REPORT, f"report {trace['report']}", []) if "report" in trace else None


def _item(kind: str, target: str, lines: list[str]) -> dict[str, Any]:
    return {"kind": kind, "target": target, "lines": [line[:500] for line in lines[:LINES_SHOWN]],
            "count": len(lines)}  # fmt: skip


def _reverted(view: View, caller: Operator, row: windows.Row) -> tuple[Plan, frozenset[str]]:
    """What `session revert` undoes, and of memory that was changed since the session's lines. In one transaction."""
    connection, now = view.connection, view.now
    plan = compensation(view, [row], lambda: meta.bump(connection, "handoffs"))
    gone = {file.target: len(file.lines()) for file in own_lines(view, row["id"])}
    cuts = _cut(view, row["id"], plan)
    done = committing.commit(connection, Actor(by=caller.by), [*plan.changes, *cuts], now, act="session_revert",
                             target=_target(row), always_told=True)  # fmt: skip
    done.must_stand()
    cut = [f"{change.agent}:{change.path}" for change in cuts]
    left = own_lines(view, row["id"])
    unclear = {*cut, *(file.target for file in left if file.unknown)}
    plan.not_undone = [dict(_told(item)) for item in plan.not_undone if item["target"] not in unclear]
    plan.undone += [{"act": "memory_write", "target": target} for target in sorted(cut)]
    for item in plan.undone:
        if item["target"] in gone:
            item["lines"] = gone[item["target"]]
    plan.not_undone += [item for file in left for item in _left(file)]
    withdrawn = approving.withdraw(connection, [row["id"]], by=caller.by, now=now,
                                   reason="the session was put into quarantine and reverted")  # fmt: skip
    plan.undone += [{"act": "approval", "target": f"approval {one.id}: {one.target}"} for one in withdrawn]
    consolidated.undone(connection, row["id"])
    return plan, done.memory_of


def _cut(view: View, session: int, plan: Plan) -> list[WriteMemory]:
    """The files without its lines. What the plan puts back goes without those that it had written still earlier."""
    own = lineage.own_revisions(view.connection, session)
    back = {
        (change.agent, change.path): (before(change.base or 0, own[change.agent, change.path]), change.data)
        for change in plan.changes
        if isinstance(change, WriteMemory)
    }
    cuts = {(file.owner, file.path): file for file in own_lines(view, session, back) if any(file.marks)}
    changes: list[Change] = []
    for change in plan.changes:
        earlier = cuts.pop((change.agent, change.path), None) if isinstance(change, WriteMemory) else None
        if isinstance(change, WriteMemory) and earlier is not None:
            changes.append(replace(change, data=earlier.cut()))
        else:
            changes.append(change)
    plan.changes = changes
    return [
        WriteMemory(agent=file.owner, path=file.path, data=file.cut(), base=file.rev)
        for file in cuts.values()
        if unknown_owner(file.owner, view.world) is None
    ]


def _left(file: OwnLines) -> Iterator[dict[str, Any]]:
    """Lines of the file that were not cut, with the reason and what a person can do."""
    by_hand = (
        f"swarmd memory blame {file.owner} {file.path} tells whose each is, and swarmd memory edit {file.owner} "
        f"{file.path} takes it out"
    )
    for places, reason in (
        (file.alike, "the session wrote the same, and history does not give it this one"),
        (file.carried, "moved there by the session, and in the folder before it"),
        (
            [n for n in file.unknown if n not in file.alike],
            "perhaps the session's: an older text of the file is not kept (a backup may have it)",
        ),
    ):
        if places:
            numbers = ", ".join(str(n + 1) for n in places[:NUMBERS_SHOWN])
            more = f" and {len(places) - NUMBERS_SHOWN:,} more" if len(places) > NUMBERS_SHOWN else ""
            lines = "line" if len(places) == 1 else "lines"
            told = f"{lines} {numbers}{more}: {reason}, so not cut; {by_hand}"
            yield {"act": "memory_write", "target": file.target, "reason": told}


def _told(item: dict[str, Any]) -> dict[str, Any]:
    """What was not undone; of a memory file out of which no line could be cut, that there was none."""
    target = str(item["target"])
    if item["reason"] != overwritten(target) or is_archive(target.rpartition(":")[2]):
        return item
    return {
        **item,
        "reason": f"{target} was changed since, and none of the session's lines stand there any more",
    }
