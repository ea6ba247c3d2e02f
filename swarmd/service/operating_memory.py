"""What only an operator does to memory: make it small, bring a revision back, settle a conflict."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from swarmd.core.authority import unread_memory
from swarmd.core.changes import Change, WriteMemory
from swarmd.core.compaction import log_of, summarizer_of
from swarmd.core.memory import FIRST_FILE
from swarmd.core.merge import lines_of
from swarmd.core.owners import agent_of_owner, subject_of
from swarmd.core.sessions import COMPACT
from swarmd.core.world import Actor
from swarmd.errors import BadInput, Failed, NotFound
from swarmd.service.caller import Operator
from swarmd.service.control import RunWish
from swarmd.service.memory_reads import path_of
from swarmd.service.sessions_named import must_be_free, next_part
from swarmd.service.view import JSON, Args, View, number, text
from swarmd.store import compactions, holding, queries, sessions
from swarmd.store.connections import Connection

if TYPE_CHECKING:
    from swarmd.core.agent import Agent
    from swarmd.service.acting import Service


def memory_compact(service: Service, caller: Operator, args: Args) -> JSON:
    """Put a summary in the place of MEMORY.md, and its whole text into the archive. The answer comes at the end of the
    session that does it.
    """
    view = service.view(caller)
    owner, summary = view.memory_of(args), text(args, "summary", required=False) or None
    agent = agent_of_owner(owner)
    if agent is None:
        raise BadInput(
            f"{owner} is a folder that several share, and no summarizer is there for it: make it small by hand, "
            f"with swarmd memory edit {owner}"
        )
    found = view.tree.agent(agent)
    if found is None:
        raise NotFound(f"the agent {agent!r} is not in force; swarmd agent history {agent} tells why")
    if args.get("summary") is not None and not (summary or "").strip():
        raise BadInput("the summary is empty")
    must_be_free(view, agent)
    service.store.folders.settle(owner)
    head = service.view(caller).world.document(owner, FIRST_FILE)
    if head is None or not (head.data or b"").strip():
        raise NotFound(f"{owner} has nothing in {FIRST_FILE} that could be made small")
    if summary is None and not found.memory.persistent:
        raise BadInput(f"the memory of {owner} is not summarized: {unread_memory(agent)}")
    if summary is None and not _has_summarizer(found, head.data or b""):
        raise BadInput(
            f"nobody is there to summarize the memory of {owner}: give a summary with --summary-file, or set "
            f"memory.summarizer_model or memory.summarizer_command in {agent}.toml"
        )
    wish = RunWish(agent=agent, by=caller.by, trigger=COMPACT, summary=summary, subject=subject_of(owner))
    return _compacted(service.view(caller), owner, service.control.run(wish))


def _has_summarizer(agent: Agent, data: bytes) -> bool:
    rotates = agent.memory.log or log_of(data) is not None
    return summarizer_of(agent, asked=True) is not None or rotates


def _compacted(view: View, owner: str, id: int) -> JSON:
    row = sessions.row(view.connection, id)
    told = compactions.figures(view.connection, id) if row["outcome"] == "committed" else {}
    head = view.world.document(owner, FIRST_FILE)
    return {
        "agent": owner, "file": FIRST_FILE, "session": id, "outcome": row["outcome"], "reason": row["reason"],
        "rev": head.rev if head is not None else None, "archive": told.get("archive"),
        "tokens_before": told.get("before"), "tokens_after": told.get("after"),
        "tokens_in": row["tokens_in"], "tokens_out": row["tokens_out"], "usd": row["usd"],
    }  # fmt: skip


def memory_restore(service: Service, caller: Operator, args: Args) -> JSON:
    """Make an earlier revision of a memory file the newest."""
    view = service.view(caller)
    agent, path, rev = view.memory_of(args), path_of(args), number(args, "rev")
    row = queries.revision(view.connection, agent, path, rev)
    if row is None:
        raise NotFound(
            f"{agent} has no revision {rev} of {path}; swarmd memory history {agent} {path} shows them"
        )
    service.store.folders.settle(agent)
    head = view.world.document(agent, path)
    data = None if row["hash"] is None else view.world.revision(agent, path, rev)
    if data is None and row["hash"] is not None:
        raise Failed(f"the text of {agent}:{path} revision {rev} is not kept any more")
    change = WriteMemory(agent=agent, path=path, data=data, base=head.rev if head is not None else 0)
    service.commit(Actor(by=caller.by), [change], act="memory_restore", target=f"{agent}:{path}")
    return service.memory_head(agent, path)


def memory_take(service: Service, caller: Operator, args: Args) -> JSON:
    """Settle a conflict: `theirs` leaves the file as it is, `ours` puts the agent's lines in, which stay those of the
    session that wrote them.
    """
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
    changes: list[Change] = []
    if side == "ours":
        old = (head.data or b"") if head is not None else b""
        changes = [WriteMemory(agent=agent, path=row["path"], data=_with_lines(old, row),
                               base=head.rev if head is not None else 0)]  # fmt: skip

    def settle(connection: Connection) -> None:
        holding.settle_conflict(connection, id, f"{side} by {caller.by}")

    author, part = Actor(by=caller.by), 0
    if changes and row["session"] is not None:
        author = Actor(by=row["by"], session=row["session"])
        part = next_part(view.connection, row["session"])
    service.commit(
        author, changes, act="memory_take", target=f"{agent}:{row['path']}", part=part, also=settle,
        approver=caller.by,
    )  # fmt: skip
    return service.memory_head(agent, row["path"])


def _with_lines(old: bytes, row: Mapping[str, Any]) -> bytes:
    """The file with the lines that were set aside: in the place of those they met, else after that place."""
    lines, ours, theirs = lines_of(old), lines_of(row["ours"].encode()), lines_of(row["theirs"].encode())
    met = [n for n in range(len(lines)) if theirs and lines[n : n + len(theirs)] == theirs]
    place = min(max(row["line"] - 1, 0), len(lines))
    before, after = lines[:place], lines[place:]
    if len(met) == 1:
        before, after = lines[: met[0]], lines[met[0] + len(theirs) :]
    return b"".join([*_ended(before), *(_ended(ours) if after else ours), *after])


def _ended(lines: list[bytes]) -> list[bytes]:
    """Lines after which others may follow."""
    if not lines or lines[-1].endswith(b"\n"):
        return lines
    return [*lines[:-1], lines[-1] + b"\n"]
