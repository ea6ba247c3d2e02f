"""What only an operator does to sessions: cancel, apply or discard a draft, revert what was written."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from swarmd.core.changes import Report, WriteMemory
from swarmd.core.documents import verdict_doc
from swarmd.core.world import Actor
from swarmd.errors import BadInput, NotFound, Refused
from swarmd.service.caller import Operator
from swarmd.service.reading import read
from swarmd.service.reverting import Plan, compensation
from swarmd.service.sessions_named import named
from swarmd.service.view import JSON, Args, View
from swarmd.store import approving, audit, consolidated, meta, sessions, windows
from swarmd.store import commit as committing
from swarmd.store.connections import Connection
from swarmd.store.world import SqlWorld

if TYPE_CHECKING:
    from swarmd.service.acting import Service


def session_cancel(service: Service, caller: Operator, args: Args) -> JSON:
    """End a session; its change set stays as a draft."""
    row = named(service.view(caller), args.get("session"))
    if row["state"] == "ended":
        raise Refused(f"session {row['id']} has ended already ({row['outcome']})")
    service.control.cancel(row["id"], f"cancelled by {caller.by}")
    service.store.writer.do(lambda connection: _tell(service, connection, caller, "session_cancel", row))
    return _shown(service, caller, row)


def _tell(service: Service, connection: Connection, caller: Operator, act: str, row: windows.Row) -> None:
    audit.write(connection, at=service.now(), by=caller.by, act=act, target=_target(row))


def _target(row: windows.Row) -> str:
    return f"{row['agent']}/{row['id']}"


def _shown(service: Service, caller: Operator, row: windows.Row) -> JSON:
    return read(service.view(caller), "session_show", {"session": row["id"]})


def session_apply(service: Service, caller: Operator, args: Args) -> JSON:
    """Commit a session's draft: judged as its agent, or with `as_operator` in the operator's own name. What comes of
    it stands in the session, so that it is traced and reverted with it. `applied` of the answer says what became of
    each change: what needs an operator's approval is held for it, and not saved.
    """
    row = named(service.view(caller), args.get("session"))
    changes = sessions.draft(service.store.reader(), row["id"])
    if row["draft"] != "open" or not changes:
        raise NotFound(f"session {row['id']} has no open draft")
    if row["quarantined"] is not None:
        raise Refused(
            f"session {row['id']} is in quarantine; swarmd session unquarantine {row['id']} first, or discard the draft"
        )
    of_session = {"session": row["id"], "depth": row["depth"], "cause_handoff": row["cause_handoff"],
                  "subject": row["subject"]}  # fmt: skip
    if args.get("as_operator"):
        actor = Actor(by=caller.by, **of_session)
        changes = [
            dataclasses.replace(c, agent=row["agent"]) if isinstance(c, Report) else c for c in changes
        ]
    else:
        actor = Actor(by=f"{caller.by} as {row['agent']}", agent=row["agent"], **of_session)
    done = service.commit(actor, changes, act="session_apply", target=_target(row), part=row["checkpoints"] + 1,
                   also=lambda connection: sessions.close_draft(connection, row["id"], "applied"))  # fmt: skip
    verdicts = zip(done.changes, done.folded.verdicts, strict=True)
    return {**_shown(service, caller, row), "applied": [verdict_doc(*one) for one in verdicts]}


def session_discard(service: Service, caller: Operator, args: Args) -> JSON:
    """Close a session's draft; its text stays in history."""
    row = named(service.view(caller), args.get("session"))

    def work(connection: Connection) -> None:
        sessions.close_draft(connection, row["id"], "discarded")
        _tell(service, connection, caller, "session_discard", row)

    service.store.writer.do(work)
    return _shown(service, caller, row)


def session_revert(service: Service, caller: Operator, args: Args) -> JSON:
    """Undo what sessions wrote, as far as nobody has built on it; the rest is named."""
    view = service.view(caller)
    wanted = args.get("sessions")
    if not isinstance(wanted, list) or not wanted:
        raise BadInput("sessions: name at least one session")
    found = list({row["id"]: row for row in (named(view, name) for name in wanted)}.values())
    # Looked at once for whose files are in it: what people have saved there is taken in first.
    foreseen = compensation(view, found, lambda: 0)
    for agent in {change.agent for change in foreseen.changes if isinstance(change, WriteMemory)}:
        service.store.folders.settle(agent)
    plan, memory_of = service.store.writer.do(lambda connection: _revert(service, caller, connection, found))
    service.publish(memory_of)
    service.control.wake()
    return {"undone": plan.undone, "not_undone": plan.not_undone}


def _revert(
    service: Service, caller: Operator, connection: Connection, found: list[windows.Row]
) -> tuple[Plan, frozenset[str]]:
    """Plan and write in one transaction: nobody comes in between."""
    now, actor = service.now(), Actor(by=caller.by)
    view = View(connection=connection, world=SqlWorld(connection, now), actor=actor, places=service.places)
    plan = compensation(view, found, lambda: meta.bump(connection, "handoffs"))
    target = ", ".join(_target(row) for row in found)
    done = committing.commit(
        connection, actor, plan.changes, now, act="session_revert", target=target, always_told=True
    )
    done.must_stand()
    withdrawn = approving.withdraw(connection, [row["id"] for row in found], by=caller.by,
                                   reason="the session was reverted", now=now)  # fmt: skip
    plan.undone += [{"act": "approval", "target": f"approval {one.id}: {one.target}"} for one in withdrawn]
    for row in found:
        consolidated.undone(connection, row["id"])
    return plan, done.memory_of
