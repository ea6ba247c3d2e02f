"""The folders that a prompt shows beside the session's own: shared ones, those it may read, an agent's general notes.

Of most files only the beginning is read: a shared folder may be large, and every session of everyone who has it starts
with this read.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

from swarmd.core.agent import Agent
from swarmd.core.memory import FIRST_FILE
from swarmd.core.owners import shared_owner
from swarmd.core.snapshot import ConflictSeen, FileSeen, FolderSeen
from swarmd.core.world import Document
from swarmd.store import texts
from swarmd.store.rows import UNTAINTED, document_of
from swarmd.store.world import NOT_ARCHIVED, SqlWorld

START_BYTES = 400
"""How much of a file is read for its first line."""
CONFLICTS_SHOWN = 50

_NOW = (
    "SELECT r.agent, r.path, r.rev, r.size, r.hash, r.by FROM heads h JOIN revisions r ON r.agent = h.agent AND "
    "r.path = h.path AND r.rev = h.rev WHERE h.agent = ? AND h.hash IS NOT NULL"
)
_THEN = "SELECT agent, path, rev, size, hash, by, at FROM revisions WHERE agent = ? AND path = ? AND rev = ?"


def shared_now(world: SqlWorld, agent: Agent, connection: sqlite3.Connection) -> tuple[FolderSeen, ...]:
    """The shared folders that the agent's file lists. Raises DamagedText."""
    owners = [shared_owner(folder.name) for folder in agent.memory.shared]
    return tuple(folder_now(world, owner, connection) for owner in owners)


def folder_now(world: SqlWorld, owner: str, connection: sqlite3.Connection) -> FolderSeen:
    """A folder with its MEMORY.md whole; archives are left out. Raises DamagedText."""
    rows = connection.execute(
        f"{_NOW} AND h.path != ? AND {NOT_ARCHIVED} ORDER BY h.path", (owner, FIRST_FILE)
    )
    first = world.document(owner, FIRST_FILE)
    return FolderSeen(owner=owner, first=first if first is not None and first.data is not None else None,
                      files=tuple(_seen(connection, row) for row in rows))  # fmt: skip


def general_now(
    world: SqlWorld, agent: Agent, subject: str | None, connection: sqlite3.Connection
) -> FolderSeen | None:
    """In a session about a subject what its agent knows in general; else, and where it keeps nothing, None."""
    if subject is None or not agent.memory.persistent:
        return None
    return folder_now(world, agent.name, connection)


def readable_now(world: SqlWorld, agent: Agent, connection: sqlite3.Connection) -> tuple[FolderSeen, ...]:
    """The beginning of MEMORY.md of each agent in force whose memory the file lets it read."""
    found = []
    for name in agent.memory.reads:
        if name == agent.name or name not in world.tree:
            continue
        rows = connection.execute(f"{_NOW} AND h.path = ?", (name, FIRST_FILE))
        found.append(FolderSeen(owner=name, files=tuple(_seen(connection, row) for row in rows)))
    return tuple(found)


def _seen(connection: sqlite3.Connection, row: sqlite3.Row) -> FileSeen:
    start = texts.start_of(connection, row["hash"], START_BYTES)
    return FileSeen(path=row["path"], rev=row["rev"], size=row["size"], start=start, by=row["by"])


def conflicts_now(
    connection: sqlite3.Connection, agent: Agent, own: str, subject: str | None
) -> list[ConflictSeen]:
    """Open conflicts of lines that sessions wrote to the session's own folder; in shared ones those that the agent's
    sessions wrote about the same subject, and of nobody else's. Those of two people are theirs to settle.
    """
    sql = "SELECT c.id, c.path, c.line, c.ours, c.theirs, c.agent FROM conflicts c INDEXED BY conflicts_open"
    found = connection.execute(
        f"{sql} WHERE c.agent = ? AND c.resolved IS NULL AND c.session IS NOT NULL AND {UNTAINTED} "
        "ORDER BY c.id LIMIT ?",
        (own, CONFLICTS_SHOWN),
    ).fetchall()
    for folder in agent.memory.shared:
        found += connection.execute(
            f"{sql} JOIN sessions s ON s.id = c.session WHERE c.agent = ? AND c.resolved IS NULL AND s.agent = ? "
            "AND s.subject IS ? AND s.quarantined IS NULL ORDER BY c.id LIMIT ?",
            (shared_owner(folder.name), agent.name, subject, CONFLICTS_SHOWN),
        ).fetchall()
    return [conflict_of(row, own) for row in found]


def conflict_of(row: sqlite3.Row, own: str) -> ConflictSeen:
    """A row of `conflicts` as a session whose own folder is `own` sees it."""
    owner = None if row["agent"] == own else row["agent"]
    return ConflictSeen(id=row["id"], path=row["path"], line=row["line"], ours=row["ours"], theirs=row["theirs"],
                        owner=owner)  # fmt: skip


# -- the same again, out of history -----------------------------------------------------------------------------------


def revisions_of(folder: FolderSeen) -> dict[str, int]:
    """Which revision of each file was seen: what `folder_again` goes by."""
    first = {} if folder.first is None else {folder.first.path: folder.first.rev}
    return {**first, **{file.path: file.rev for file in folder.files}}


def folder_again(
    connection: sqlite3.Connection, owner: str, revs: Mapping[str, int], missing: list[str], *, whole: bool
) -> FolderSeen:
    """The folder as it was seen; what is not kept any more is added to `missing`. `whole`: with MEMORY.md in full."""
    first: Document | None = None
    files = []
    for path, rev in sorted(revs.items()):
        row = connection.execute(_THEN, (owner, path, rev)).fetchone()
        if row is None or texts.of_digest(connection, row["hash"]) is None:
            missing.append(f"{owner}:{path}, revision {rev}")
        elif whole and path == FIRST_FILE:
            first = document_of(connection, row)
        else:
            files.append(_seen(connection, row))
    return FolderSeen(owner=owner, first=first, files=tuple(files))
