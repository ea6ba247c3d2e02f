"""The change set that undoes what sessions wrote, where nobody has built on it; what cannot be undone is named."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from swarmd.core.changes import Change, MoveHandoff, SendHandoff, SetKey, UnsetKey, WriteMemory
from swarmd.core.handoffs import FINAL, Handoff, Move
from swarmd.core.judge_memory import unknown_owner
from swarmd.service.view import View
from swarmd.store import queries, session_reads, windows


@dataclass(slots=True, kw_only=True)
class Plan:
    """What will be undone, what cannot be, and the changes that do it."""

    changes: list[Change] = field(default_factory=list)
    undone: list[dict[str, Any]] = field(default_factory=list)
    not_undone: list[dict[str, Any]] = field(default_factory=list)


Trace = tuple[windows.Row, dict[str, Any]]


def compensation(view: View, sessions: Sequence[windows.Row], reserve: Callable[[], int]) -> Plan:
    """Go through what the sessions wrote, newest first. A key or file is put back to what it was before the oldest of
    these sessions touched it, when its newest version is one of theirs.
    """
    plan = Plan()
    rows = session_reads.changes(view.connection, [row["id"] for row in sessions])
    traces = [
        (change, trace)
        for row in sorted(sessions, key=lambda r: -r["id"])
        for change in reversed(rows[row["id"]]) if change["effect"] and change["verdict"] == "done"
        for trace in json.loads(change["effect"])
    ]  # fmt: skip
    _keys(view, plan, traces)
    _memory(view, plan, traces)
    _handoffs(view, plan, traces, reserve)
    for change, trace in traces:
        if "report" in trace:
            _cannot(plan, change, "a report that was made cannot be taken back")
    return plan


def _versions(traces: Sequence[Trace], kind: str) -> dict[tuple[str, str], tuple[windows.Row, list[int]]]:
    """By key or file: the newest change of it, and all versions that these sessions made."""
    found: dict[tuple[str, str], tuple[windows.Row, list[int]]] = {}
    for change, trace in traces:
        if kind in trace:
            agent, name, version = trace[kind]
            found.setdefault((agent, name), (change, []))[1].append(version)
    return found


def before(version: int, own: Collection[int]) -> int:
    """The version on which the sessions have built."""
    while version in own:
        version -= 1
    return version


def _keys(view: View, plan: Plan, traces: Sequence[Trace]) -> None:
    for (agent, key), (change, versions) in _versions(traces, "key").items():
        current = view.world.key(agent, key)
        if agent not in view.tree:
            _cannot(plan, change, f"the agent {agent!r} is not in force any more")
        elif current is None or current.version not in versions:
            who = current.by if current is not None else "somebody"
            _cannot(plan, change, f"{agent}/{key} was changed by {who} since")
        else:
            old = queries.key_value(view.connection, agent, key, before(current.version, versions))
            plan.changes.append(UnsetKey(agent=agent, key=key) if old is None
                                else SetKey(agent=agent, key=key, value=old))  # fmt: skip
            _will(plan, change)


def _memory(view: View, plan: Plan, traces: Sequence[Trace]) -> None:
    """Files that the sessions rewrote first: where one stays as it is, those that they made stay too, for text may have
    been moved there, as a compaction moves it into the archive.
    """
    stays: dict[str, str] = {}
    versions = _versions(traces, "memory")
    heads = {place: view.world.document(*place) for place in versions}
    made = {place for place, (_, revs) in versions.items() if _was_made(view, place, revs)}
    for place, (change, revs) in sorted(versions.items(), key=lambda item: item[0] in made):
        (agent, path), head = place, heads[place]
        if unknown := unknown_owner(agent, view.world):
            _cannot(plan, change, unknown)
        elif head is None or head.rev not in revs:
            if place not in made:
                stays.setdefault(agent, path)
            _cannot(plan, change, overwritten(f"{agent}:{path}"))
        elif place in made and agent in stays:
            reason = f"it stays, since text of {stays[agent]}, which is not put back, may be in it"
            _cannot(plan, change, reason)
        else:
            base = before(head.rev, revs)
            row = queries.revision(view.connection, agent, path, base)
            data = view.world.revision(agent, path, base)
            if row is not None and row["hash"] is not None and data is None:
                stays.setdefault(agent, path)
                _cannot(plan, change, f"the text of {agent}:{path} revision {base} is not kept any more")
                continue
            plan.changes.append(WriteMemory(agent=agent, path=path, data=data, base=head.rev))
            _will(plan, change)


def _was_made(view: View, place: tuple[str, str], revs: Sequence[int]) -> bool:
    """Whether these revisions began the file."""
    row = queries.revision(view.connection, *place, before(max(revs), revs))
    return row is None or row["hash"] is None


def _handoffs(view: View, plan: Plan, traces: Sequence[Trace], reserve: Callable[[], int]) -> None:
    """Each handoff once, by what the sessions did to it all in all."""
    touched: dict[int, list[Trace]] = {}
    for change, trace in traces:
        if "handoff" in trace:
            touched.setdefault(trace["handoff"], []).append((change, trace))
    for id, steps in touched.items():
        handoff = view.world.handoff(id)
        if handoff is None:
            _cannot(plan, steps[0][0], "the handoff is gone")
            continue
        sent = next((change for change, trace in steps if trace["created"]), None)
        if sent is not None:
            _unsend(
                plan, handoff, sent, ended_here=any(change["after"] == handoff.status for change, _ in steps)
            )
        else:
            _send_anew(view, plan, handoff, [change for change, _ in steps], reserve)


def _unsend(plan: Plan, handoff: Handoff, change: windows.Row, *, ended_here: bool) -> None:
    if handoff.status not in FINAL:
        text = "the session that sent it was reverted"
        plan.changes.append(MoveHandoff(id=handoff.id, move=Move.CANCEL, text=text))
        _will(plan, change)
    elif not ended_here:  # else the sessions sent it and took it back: there is nothing to undo
        _cannot(plan, change, f"handoff {handoff.id} has ended already ({handoff.status})")


def _send_anew(
    view: View, plan: Plan, handoff: Handoff, changes: Sequence[windows.Row], reserve: Callable[[], int]
) -> None:
    end = next(
        (change for change in changes if handoff.status in FINAL and change["after"] == handoff.status), None
    )
    if end is None:
        _cannot(plan, changes[0], f"handoff {handoff.id} was moved on: it is {handoff.status}, and stays so")
    elif handoff.receiver not in view.tree:
        _cannot(
            plan, end, f"handoff {handoff.id} went to {handoff.receiver!r}, which is not in force any more"
        )
    else:
        expires = handoff.expires if handoff.expires is None or handoff.expires > view.now else None
        plan.changes.append(SendHandoff(id=reserve(), to=handoff.receiver, text=handoff.text, priority=handoff.priority,
                                        due=handoff.due, expires=expires, sender=handoff.sender))  # fmt: skip
        _will(plan, end)


def _will(plan: Plan, change: windows.Row) -> None:
    plan.undone.append({"act": change["act"], "target": change["target"]})


def overwritten(target: str) -> str:
    """Why a memory file cannot be set back."""
    return f"{target} was changed since"


def _cannot(plan: Plan, change: windows.Row, reason: str) -> None:
    plan.not_undone.append({"act": change["act"], "target": change["target"], "reason": reason})
