"""Sessions that were lost with the daemon: found at start, their processes ended, their drafts kept."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

from swarmd.core.changes import AppendMemory, Change
from swarmd.core.interaction_log import HEADING
from swarmd.core.memory import FIRST_FILE
from swarmd.core.owners import subject_owner
from swarmd.core.sessions import COMPACT, CONSOLIDATE, is_asked_for
from swarmd.core.staging import Verdict
from swarmd.core.wire import MemoryTree
from swarmd.runners.host import Host
from swarmd.runners.leftovers import kill_leftovers
from swarmd.runners.memory_copy import read_memory
from swarmd.runners.workspace import CHECK, HOOK, Workspace, clear, places
from swarmd.session import journal
from swarmd.session.known_secrets import Masking, passed_by
from swarmd.store import audit, session_reads, sessions, trees, windows
from swarmd.store import commit as committing
from swarmd.store.connections import Connection
from swarmd.store.store import Store
from swarmd.store.trees import tree_of
from swarmd.store.world import SqlWorld

REASON = "the daemon died while it ran"


def recover(store: Store, host: Host, now: datetime) -> list[int]:
    """End what a daemon that died has left running, and what an operator's run had only queued. Returns the lost."""
    lost = []
    for row in session_reads.live(store.reader()):
        if row["state"] == "running":
            _end_lost(store, host, row, now)
            lost.append(row["id"])
        elif is_asked_for(row["trigger"], row["by"]) or row["trigger"] == COMPACT or row["mode"] != "commit":
            _end_queued(store, row["id"], now)
    return lost


def _end_queued(store: Store, id: int, now: datetime) -> None:
    store.writer.do(
        lambda connection: sessions.end(
            connection, id, outcome="cancelled", reason="the daemon stopped before it started", now=now
        )
    )


def _end_lost(store: Store, host: Host, row: windows.Row, now: datetime) -> None:
    where = places(host, str(row["id"]))
    others = [places(host, f"{row['id']}/{name}") for name in (CHECK, HOOK)]
    kill_leftovers(where.socket, *(one.temp for one in others))
    saves = row["mode"] == "commit" and row["trigger"] != COMPACT
    world = SqlWorld(store.reader(), now)
    staged, made = _left(world, store, host, row) if saves else ([], [])
    # Once it has ended nobody comes here again: what this session has left is cleared away before that, and what it
    # has made of its memory is kept before that, should this process die meanwhile too.
    if not saves or journal.keep_left(Path(where.folder), made, journal.text_in(world)):
        _clear(*others, where)
    _write(store, row, [*staged, *made], now)
    _clear(*others, where)


def _clear(*made: Workspace) -> None:
    for one in made:
        clear(one)


def _write(store: Store, row: windows.Row, changes: list[Change], now: datetime) -> None:
    def work(connection: Connection) -> None:
        agent = tree_of(connection).agent(row["agent"])
        draft = [] if row["trigger"] == CONSOLIDATE else changes
        # What its checkpoints wrote has rows already; this is what was under way.
        verdicts = [Verdict(decision="nothing", reason="not saved: the session is lost")] * len(changes)
        committing.record(connection, row["id"], row["checkpoints"] + 1, changes, verdicts,
                          verdict_of=lambda _: "not_written")  # fmt: skip
        sessions.end(connection, row["id"], outcome="lost", reason=REASON, now=now,
                     limits=agent.limits if agent is not None else None, draft=draft)  # fmt: skip
        audit.write(connection, at=now, by="system", act="session_end", target=row["agent"],
                    detail={"outcome": "lost"}, session=row["id"])  # fmt: skip

    store.writer.do(work)


def _left(world: SqlWorld, store: Store, host: Host, row: windows.Row) -> tuple[list[Change], list[Change]]:
    """What the session had staged when it was lost, and the difference that its memory copy makes."""
    folder = Path(host.sessions_dir) / str(row["id"])
    changes, bases = journal.read(folder, row["checkpoints"])
    whole = journal.is_of_this_boot(folder)
    if not whole and row["checkpoints"] and bases is None:
        return [], []  # what the checkpoint has saved already cannot be told from what came after it
    if (ended := journal.left(folder, journal.text_in(world))) is not None:
        return changes, ended
    logged = _logged(row, journal.log_blocks(folder, row["checkpoints"]))
    if not whole:
        # What a power cut has left of the memory copy is nothing that the session has written.
        return changes, logged
    shown = json.loads(row["base"])["memory"] if row["base"] else {}
    known: journal.Bases = bases if bases is not None else {path: (rev, None) for path, rev in shown.items()}
    owner = row["agent"] if row["subject"] is None else subject_owner(row["agent"], row["subject"])
    base = _base_tree(world, owner, known)
    copy = folder / "memory"
    agent = trees.definition(store.reader(), row["definition"]) if row["definition"] else None
    if not copy.is_dir() or (agent is not None and not agent.memory.persistent):
        return changes, logged
    own = agent.memory.read_only if agent is not None else ()
    memory, problems = read_memory(str(copy), base, (*own, "archive/**"))
    if memory is None or problems:
        return changes, logged
    # Its token is dead, and known only by its hash.
    passed = passed_by(host.environ)
    secrets = passed(agent.runner_options, agent.folder) if agent is not None else ()
    masked = Masking(secrets).tree(memory, base)
    return changes, [*journal.differences(owner, base, masked, known), *logged]


def _logged(row: windows.Row, blocks: list[str]) -> list[Change]:
    """The blocks that were to be added to the log, as the session's end would have had them."""
    if not blocks:
        return []
    owner = row["agent"] if row["subject"] is None else subject_owner(row["agent"], row["subject"])
    return [AppendMemory(agent=owner, path=FIRST_FILE, text="".join(blocks), under=HEADING)]


def _base_tree(world: SqlWorld, agent: str, bases: journal.Bases) -> MemoryTree:
    files: dict[str, bytes] = {}
    for path, (rev, hash) in bases.items():
        data = world.blob(hash) if hash is not None else world.revision(agent, path, rev)
        if data is not None:
            files[path] = data
    return MemoryTree.of(files)
