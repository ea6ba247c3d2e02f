"""Acts that only an operator has, by name; here are those on agents: pause and resume, run, rename, reload ..."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING

from swarmd.config.load import ABSENCE_SECONDS
from swarmd.core.consolidation import problem_of
from swarmd.core.counts import counted
from swarmd.core.instants import maybe_instant
from swarmd.core.names import REASON_BYTES, text_problem
from swarmd.core.owners import renamed
from swarmd.core.sessions import CONSOLIDATE
from swarmd.errors import BadInput, Busy, NotFound, Refused
from swarmd.service import attention, rows
from swarmd.service.caller import Operator
from swarmd.service.control import RunWish
from swarmd.service.operating_approvals import approval_approve, approval_deny
from swarmd.service.operating_import import memory_import
from swarmd.service.operating_memory import memory_compact, memory_restore, memory_take
from swarmd.service.operating_sessions import session_apply, session_cancel, session_discard, session_revert
from swarmd.service.operating_subjects import forget_subject
from swarmd.service.quarantine import session_quarantine, session_unquarantine
from swarmd.service.reading import read
from swarmd.service.sessions_named import must_be_free, named
from swarmd.service.view import JSON, Args, View, subject_of, text
from swarmd.store import audit, holding, moving, owners, queries, session_reads, windows
from swarmd.store.connections import Connection
from swarmd.store.world import SqlWorld

if TYPE_CHECKING:
    from swarmd.service.acting import Service

Act = Callable[["Service", Operator, Args], JSON]


def pause(service: Service, caller: Operator, args: Args) -> JSON:
    """Hold an agent and all below it, or all; `now` also cancels what runs there."""
    view = service.view(caller)
    point = _point(view, args)
    reason = text(args, "reason", required=False)
    if problem := text_problem("a reason", reason, REASON_BYTES, may_be_empty=True):
        raise BadInput(problem)

    def work(connection: Connection) -> None:
        now = service.now()
        holding.pause(connection, point, reason=reason, by=caller.by, now=now)
        audit.write(connection, at=now, by=caller.by, act="pause", target=point, detail={"reason": reason})

    service.store.writer.do(work)
    service.control.wake()
    if args.get("now"):
        for row in session_reads.live(service.store.reader()):
            if point == "all" or view.tree.is_within(row["agent"], point):
                with suppress(Refused):  # it has ended by itself
                    service.control.cancel(row["id"], f"paused by {caller.by}")
    return _pause_doc(service, point)


def resume(service: Service, caller: Operator, args: Args) -> JSON:
    """Lift the pause that was set at this very point; those set above it stay, and are named."""
    point = _point(service.view(caller), args)

    def work(connection: Connection) -> bool:
        now = service.now()
        was = point in queries.pauses(connection)
        if was:
            holding.resume(connection, point, now)
            audit.write(connection, at=now, by=caller.by, act="resume", target=point)
        return was

    lifted = service.store.writer.do(work)
    service.control.wake()
    return {**_pause_doc(service, point), "lifted": lifted}


def _point(view: View, args: Args) -> str:
    return "all" if args.get("agent") == "all" else view.agent(args)


def _pause_doc(service: Service, point: str) -> JSON:
    reader = service.store.reader()
    pauses = queries.pauses(reader)
    tree = SqlWorld(reader, service.now()).tree
    held = rows.held_by(point, [] if point == "all" else tree.above(point), pauses)
    own = pauses.get(point)
    return {"agent": point, "paused": bool(held), "reason": own["reason"] if own else None,
            "by": own["by"] if own else None, "held_by": held}  # fmt: skip


def run(service: Service, caller: Operator, args: Args) -> JSON:
    """Run an agent now. The answer comes when its session has ended."""
    view = service.view(caller)
    agent, mode = view.agent(args), text(args, "mode", required=False) or "commit"
    if mode not in ("commit", "no_commit", "dry_run"):
        raise BadInput(f"mode: {mode!r:.40} is none of commit, no_commit, dry_run")
    if agent not in view.tree:
        raise NotFound(f"the agent {agent!r} is not in force; swarmd agent history {agent} tells why")
    held = rows.held_by(agent, view.tree.above(agent), queries.pauses(view.connection))
    if held and not args.get("force"):
        raise Refused(
            f"{agent} is paused at {held[0]}; resume it with swarmd resume {held[0]}, or add --force"
        )
    must_be_free(view, agent)
    subject, trigger = subject_of(args), _trigger(view, agent, args)
    earlier = _earlier(view, agent, mode, args)
    if mode == "dry_run":
        return _dry_run(service, view, agent, args)
    given = {name: text(args, name, required=False) or None for name in ("text", "file_text", "file_path")}
    wish = RunWish(
        agent=agent, by=caller.by, mode=mode, force=bool(args.get("force")), trigger=trigger,
        from_session=None if earlier is None else earlier["id"],
        subject=subject if earlier is None else earlier["subject"], **given,
    )  # fmt: skip
    id = service.control.run(wish)
    found = read(service.view(caller), "session_show", {"session": id})
    if earlier is None:
        return found
    from swarmd.service.comparing import compared

    there = read(service.view(caller), "session_show", {"session": earlier["id"]})
    return {**found, "compared": compared(service.view(caller), there, found)}


def _trigger(view: View, agent: str, args: Args) -> str:
    """Why it is started: an operator wants it to work, or its memory to be put in order."""
    trigger = text(args, "trigger", required=False) or "manual"
    if trigger not in ("manual", CONSOLIDATE):
        raise BadInput(f"trigger: {trigger!r:.40} is neither manual nor {CONSOLIDATE}")
    if trigger == CONSOLIDATE:
        if any(args.get(name) is not None for name in ("text", "file_text", "from_session", "subject")):
            raise BadInput(
                f"trigger: {CONSOLIDATE} goes with no text, no other file, no earlier session and no subject"
            )
        definition = view.tree.agent(agent)
        problem = None if definition is None else problem_of(definition)
        if problem is not None:
            raise Refused(problem)
    return trigger


def _earlier(view: View, agent: str, mode: str, args: Args) -> windows.Row | None:
    """The row of the session whose snapshot is to be given again. Raises where it is not kept, before anything is
    queued.
    """
    if args.get("from_session") is None:
        return None
    if mode != "no_commit" or args.get("text") is not None:
        raise BadInput(
            "from_session: what it wants is of another day: it goes with no_commit, and without a text"
        )
    if args.get("subject") is not None:
        raise BadInput("subject: a session given again is about what the earlier one was about: leave it out")
    from swarmd.store.bases import rebuilt

    row = named(view, args["from_session"])
    if row["trigger"] == CONSOLIDATE:
        raise BadInput(
            f"from_session: session {row['id']} put the memory in order, and is given to no other session"
        )
    if row["agent"] != agent:
        raise BadInput(f"from_session: session {row['id']} is one of {row['agent']}, not of {agent}")
    rebuilt(view.connection, row)
    return row


def _dry_run(service: Service, view: View, agent: str, args: Args) -> JSON:
    """What a run would start, without starting anything."""
    from swarmd.service.dry_run import dry_run

    return dry_run(view, agent, args)


def attention_ack(service: Service, caller: Operator, args: Args) -> JSON:
    """Take an item off the list, until it happens anew."""
    id = text(args, "id")
    item = next((i for i in attention.found(service.view(caller)) if i["id"] == id), None)
    if item is None:
        raise NotFound(f"there is no open item {id!r}; swarmd attention lists them")

    def work(connection: Connection) -> None:
        now = service.now()
        holding.acknowledge(connection, id, since=item["since"], by=caller.by, now=now)
        audit.write(connection, at=now, by=caller.by, act="attention_ack", target=id)

    service.store.writer.do(work)
    return {**item, "acked": True}


def reload(service: Service, caller: Operator, args: Args) -> JSON:
    """Look at the agent files now."""
    return service.control.reload(allow_empty=bool(args.get("allow_empty")), by=caller.by)


def rename(service: Service, caller: Operator, args: Args) -> JSON:
    """Give the state of an agent whose file was renamed to its new name."""
    old, new = text(args, "old"), text(args, "new")
    service.control.reload(allow_empty=False, by=caller.by)
    view = service.view(caller)
    known = queries.agent_rows(view.connection)
    if new not in view.tree:
        raise NotFound(
            f"no agent is named {new!r}: rename its file in {view.places.agents} first, then call this"
        )
    if old not in known:
        raise NotFound(f"no agent was ever named {old!r}; swarmd agent list shows all")
    if old in view.tree and not known[old]["absent_since"]:
        raise Refused(f"{old} still has its file: rename {old}.toml to {new}.toml first, then call this")
    if moving.has_state(view.connection, new):
        raise Refused(
            f"{new} has keys, memory, sessions or handoffs of its own, which would be mixed with those of {old}"
        )
    if any(row["agent"] == old for row in session_reads.live(view.connection)):
        raise Busy(f"a session of {old} waits or runs; wait for it, or cancel it")
    folders = [old, *owners.folders_of(view.connection, old)]
    for owner in folders:
        service.store.folders.settle(owner)

    def work(connection: Connection) -> None:
        moving.rename(connection, old, new)
        audit.write(connection, at=service.now(), by=caller.by, act="rename", target=new, detail={"old": old})

    service.store.writer.do(work)
    for owner in folders:
        service.store.folders.drop(owner)
        service.store.folders.settle(renamed(owner, old, new))
    return {"old": old, "new": new}


def forget(service: Service, caller: Operator, args: Args) -> JSON:
    """Remove keys and memory of an agent that is out of force."""
    name = text(args, "name")
    view = service.view(caller)
    if name in view.tree:
        service.control.reload(allow_empty=False, by=caller.by)
        view = service.view(caller)
    if name in view.tree:
        raise Refused(_still_in_force(name, queries.agent_rows(view.connection)[name], service.now()))
    if name not in queries.agent_rows(view.connection):
        raise NotFound(f"no agent was ever named {name!r}")
    if any(row["agent"] == name for row in session_reads.live(view.connection)):
        raise Busy(f"a session of {name} waits or still runs; wait for it, or cancel it")

    def work(connection: Connection) -> list[str]:
        audit.write(connection, at=service.now(), by=caller.by, act="forget", target=name)
        return moving.forget(connection, name)

    folders = [name, *owners.folders_of(view.connection, name)]
    texts = service.store.writer.do(work)
    # The folders first: a file whose text the store does not know is a person's, and stays.
    for owner in folders:
        service.store.folders.drop(owner)
    service.store.writer.do(lambda connection: moving.forget_texts(connection, texts))
    return {"name": name, "forgotten": True}


def _still_in_force(name: str, row: windows.Row, now: datetime) -> str:
    since = maybe_instant(row["absent_since"])
    if since is None:
        return f"{name} is in force: remove {name}.toml first"
    left = max(1, math.ceil(ABSENCE_SECONDS - (now - since).total_seconds()))
    return (
        f"{name}.toml is gone, which takes force {ABSENCE_SECONDS:.0f} seconds after it was first seen: "
        f"try again in {counted(left, 'second')}"
    )


ACTS: Mapping[str, Act] = {
    "pause": pause, "resume": resume, "run": run, "session_cancel": session_cancel, "session_apply": session_apply,
    "session_discard": session_discard, "session_revert": session_revert, "attention_ack": attention_ack,
    "reload": reload, "rename": rename, "forget": forget, "forget_subject": forget_subject,
    "memory_restore": memory_restore, "memory_take": memory_take, "memory_import": memory_import,
    "memory_compact": memory_compact, "approval_approve": approval_approve, "approval_deny": approval_deny,
    "session_quarantine": session_quarantine, "session_unquarantine": session_unquarantine,
}  # fmt: skip
