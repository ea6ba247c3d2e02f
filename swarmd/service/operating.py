"""Acts that only an operator has: pause and resume, run, cancel, drafts, revert, rename, attention, reload."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from swarmd.core.changes import WriteMemory
from swarmd.core.names import REASON_BYTES, text_problem
from swarmd.core.world import Actor
from swarmd.errors import BadInput, Busy, NotFound, Refused
from swarmd.service import attention, rows
from swarmd.service.caller import Operator
from swarmd.service.control import RunWish
from swarmd.service.reading import read
from swarmd.service.reverting import compensation
from swarmd.service.sessions_named import named
from swarmd.service.view import JSON, Args, View, number, text
from swarmd.store import audit, holding, moving, queries, sessions
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
        for row in queries.live(service.store.reader()):
            if point == "all" or view.tree.is_within(row["agent"], point):
                service.control.cancel(row["id"], f"paused by {caller.by}")
    return _pause_doc(service, point)


def resume(service: Service, caller: Operator, args: Args) -> JSON:
    """Lift the pause that was set at this very point; those set above it stay, and are named."""
    point = _point(service.view(caller), args)

    def work(connection: Connection) -> None:
        now = service.now()
        holding.resume(connection, point, now)
        audit.write(connection, at=now, by=caller.by, act="resume", target=point)

    service.store.writer.do(work)
    service.control.wake()
    return _pause_doc(service, point)


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
    agent, mode = view.agent(args), args.get("mode") or "commit"
    if mode not in ("commit", "no_commit", "dry_run"):
        raise BadInput(f"mode: {mode!r:.40} is none of commit, no_commit, dry_run")
    if agent not in view.tree:
        raise NotFound(f"the agent {agent!r} is not in force")
    held = rows.held_by(agent, view.tree.above(agent), queries.pauses(view.connection))
    if held and not args.get("force"):
        raise Refused(
            f"{agent} is paused at {held[0]}; resume it with swarmd resume {held[0]}, or add --force"
        )
    _must_be_free(view, agent)
    if mode == "dry_run":
        return _dry_run(service, view, agent, args)
    wish = RunWish(agent=agent, by=caller.by, mode=mode, text=args.get("text"), file_text=args.get("file_text"),
                   file_path=args.get("file_path"), force=bool(args.get("force")))  # fmt: skip
    id = service.control.run(wish)
    return read(service.view(caller), "session_show", {"session": id})


def _must_be_free(view: View, agent: str) -> None:
    for row in queries.live(view.connection):
        if row["agent"] == agent and row["state"] == "running":
            raise Busy(
                f"{agent} already runs (session {row['id']}); wait for it, or swarmd session cancel {row['id']}"
            )


def _dry_run(service: Service, view: View, agent: str, args: Args) -> JSON:
    """What a run would start, without starting anything."""
    from swarmd.service.dry_run import dry_run

    return dry_run(view, agent, args)


def session_cancel(service: Service, caller: Operator, args: Args) -> JSON:
    """End a session; its change set stays as a draft."""
    row = named(service.view(caller), args.get("session"))
    if row["state"] == "ended":
        raise Refused(f"session {row['id']} has ended already ({row['outcome']})")
    service.control.cancel(row["id"], f"cancelled by {caller.by}")
    _told(service, caller, "session_cancel", row)
    return read(service.view(caller), "session_show", {"session": row["id"]})


def _told(service: Service, caller: Operator, act: str, row: queries.Row) -> None:
    service.store.writer.do(
        lambda connection: audit.write(connection, at=service.now(), by=caller.by, act=act,
                                       target=f"{row['agent']}/{row['id']}")
    )  # fmt: skip


def session_apply(service: Service, caller: Operator, args: Args) -> JSON:
    """Commit a session's draft: judged as its agent, or with `as_operator` in the operator's own name."""
    row = named(service.view(caller), args.get("session"))
    changes = sessions.draft(service.store.reader(), row["id"])
    if row["draft"] != "open" or not changes:
        raise NotFound(f"session {row['id']} has no open draft")
    own = Actor(by=caller.by)
    actor = own if args.get("as_operator") else Actor(by=f"{caller.by} as {row['agent']}", agent=row["agent"])
    service.commit(actor, changes, act="session_apply", target=f"{row['agent']}/{row['id']}",
                   also=lambda connection: sessions.close_draft(connection, row["id"], "applied"))  # fmt: skip
    return read(service.view(caller), "session_show", {"session": row["id"]})


def session_discard(service: Service, caller: Operator, args: Args) -> JSON:
    """Close a session's draft; its text stays in history."""
    row = named(service.view(caller), args.get("session"))
    service.store.writer.do(lambda connection: sessions.close_draft(connection, row["id"], "discarded"))
    _told(service, caller, "session_discard", row)
    return read(service.view(caller), "session_show", {"session": row["id"]})


def session_revert(service: Service, caller: Operator, args: Args) -> JSON:
    """Undo what sessions wrote, as far as nobody has built on it; the rest is named."""
    view = service.view(caller)
    wanted = args.get("sessions")
    if not isinstance(wanted, list) or not wanted:
        raise BadInput("sessions: name at least one session")
    found = [named(view, name) for name in wanted]
    plan = compensation(view, found, service.store.reserve)
    if plan.changes:
        target = ", ".join(f"{row['agent']}/{row['id']}" for row in found)
        service.commit(Actor(by=caller.by), plan.changes, act="session_revert", target=target)
    return {"undone": plan.undone, "not_undone": plan.not_undone}


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
    if any(row["agent"] == old for row in queries.live(view.connection)):
        raise Busy(f"a session of {old} waits or runs; wait for it, or cancel it")
    service.store.folders.settle(old)

    def work(connection: Connection) -> None:
        moving.rename(connection, old, new)
        audit.write(connection, at=service.now(), by=caller.by, act="rename", target=new, detail={"old": old})

    service.store.writer.do(work)
    service.store.folders.drop(old)
    service.store.folders.settle(new)
    return {"old": old, "new": new}


def forget(service: Service, caller: Operator, args: Args) -> JSON:
    """Remove keys and memory of an agent that is out of force."""
    name = text(args, "name")
    view = service.view(caller)
    if name in view.tree:
        raise Refused(f"{name} is in force: remove {name}.toml first")
    if name not in queries.agent_rows(view.connection):
        raise NotFound(f"no agent was ever named {name!r}")
    if any(row["agent"] == name for row in queries.live(view.connection)):
        raise Busy(f"a session of {name} waits or still runs; wait for it, or cancel it")

    def work(connection: Connection) -> list[str]:
        audit.write(connection, at=service.now(), by=caller.by, act="forget", target=name)
        return moving.forget(connection, name)

    texts = service.store.writer.do(work)
    # The folder first: a file whose text the store does not know is a person's, and stays.
    service.store.folders.drop(name)
    service.store.writer.do(lambda connection: moving.forget_texts(connection, texts))
    return {"name": name, "forgotten": True}


def memory_restore(service: Service, caller: Operator, args: Args) -> JSON:
    """Make an earlier revision of a memory file the newest."""
    view = service.view(caller)
    agent, path, rev = view.memory_of(args), args.get("file") or "MEMORY.md", number(args, "rev")
    row = next(
        (r for r in queries.revisions(view.connection, agent, path, 1_000_000) if r["rev"] == rev), None
    )
    if row is None:
        raise NotFound(
            f"{agent} has no revision {rev} of {path}; swarmd memory history {agent} {path} shows them"
        )
    service.store.folders.settle(agent)
    head = view.world.document(agent, path)
    data = None if row["hash"] is None else view.world.revision(agent, path, rev)
    change = WriteMemory(agent=agent, path=path, data=data, base=head.rev if head is not None else 0)
    service.commit(Actor(by=caller.by), [change], act="memory_restore", target=f"{agent}:{path}")
    return service.memory_head(agent, path)


def memory_take(service: Service, caller: Operator, args: Args) -> JSON:
    """Settle a conflict: `theirs` leaves the file as it is, `ours` puts the agent's lines in."""
    view = service.view(caller)
    agent, id, side = view.memory_of(args), number(args, "conflict"), args.get("side")
    if side not in ("ours", "theirs"):
        raise BadInput(
            f"side: {side!r:.40} is neither ours (the agent's lines) nor theirs (what is in the file)"
        )
    row = next((r for r in queries.conflicts(view.connection, agent) if r["id"] == id), None)
    if row is None:
        raise NotFound(f"{agent} has no open conflict {id}; swarmd memory conflicts {agent} lists them")
    service.store.folders.settle(agent)
    head = view.world.document(agent, row["path"])
    changes: list[Any] = []
    if side == "ours":
        old = (head.data or b"") if head is not None else b""
        changes = [WriteMemory(agent=agent, path=row["path"], data=_with_lines(old, row),
                               base=head.rev if head is not None else 0)]  # fmt: skip

    def settle(connection: Connection) -> None:
        holding.settle_conflict(connection, id, f"{side} by {caller.by}")

    service.commit(
        Actor(by=caller.by), changes, act="memory_take", target=f"{agent}:{row['path']}", also=settle
    )
    return service.memory_head(agent, row["path"])


def _with_lines(old: bytes, row: Mapping[str, Any]) -> bytes:
    """The file with the lines that were set aside: in the place of those they met, else after that place."""
    ours, theirs = row["ours"].encode(), row["theirs"].encode()
    if theirs and old.count(theirs) == 1:
        return old.replace(theirs, ours)
    lines = old.splitlines(keepends=True)
    place = min(max(row["line"] - 1, 0), len(lines))
    if place and not lines[place - 1].endswith(b"\n"):
        lines[place - 1] += b"\n"
    block = ours if ours.endswith(b"\n") or place == len(lines) else ours + b"\n"
    return b"".join([*lines[:place], block, *lines[place:]])


ACTS: Mapping[str, Act] = {
    "pause": pause, "resume": resume, "run": run, "session_cancel": session_cancel, "session_apply": session_apply,
    "session_discard": session_discard, "session_revert": session_revert, "attention_ack": attention_ack,
    "reload": reload, "rename": rename, "forget": forget, "memory_restore": memory_restore, "memory_take": memory_take,
}  # fmt: skip
