"""The rows as they were when a session started: core.world.World over history, for `run --from-session`.

What the session was shown is exactly as it was shown; all else is what history dates before its start. Two things
keep no history and are as they are now: the priority and due time of handoffs that were not shown, and blobs.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from swarmd.core.agent import Agent
from swarmd.core.handoffs import FINAL, RESULT, Handoff, Move, Status
from swarmd.core.instants import from_text, to_text
from swarmd.core.memory import is_archive
from swarmd.core.snapshot import Snapshot
from swarmd.core.tree import Tree
from swarmd.core.world import Document, FileFacts, Key, World
from swarmd.store import trees
from swarmd.store.bases import rebuilt
from swarmd.store.handoff_rows import handoffs_of
from swarmd.store.rows import HANDOFF_COLUMNS, between, document_of, facts_of
from swarmd.store.windows import Row
from swarmd.store.world import SqlWorld

_MOVES = {move.value: status for move, status in RESULT.items()}
_THEN = (
    "WHERE r.agent = ?1 AND r.rev = "
    "(SELECT max(rev) FROM revisions WHERE agent = r.agent AND path = r.path AND at < ?2)"
)
_REVISION = f"SELECT r.agent, r.path, r.rev, r.hash, r.at, r.by FROM revisions r {_THEN}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """The moment at which a session started: what it was shown, and the tree."""

    seen: Snapshot
    tree: Tree

    def with_agent(self, agent: Agent) -> Past:
        """The same moment, had the agent been defined so."""
        return Past(
            seen=replace(self.seen, agent=agent, zone=agent.when.timezone),
            tree=Tree({**self.tree.agents, agent.name: agent}),
        )


def past_of(connection: sqlite3.Connection, row: Row | sqlite3.Row) -> Past:
    """The moment of this session. Call it in one read transaction. Raises bases.NotKept."""
    seen = rebuilt(connection, row)
    return Past(seen=seen, tree=_tree_at(connection, seen.now))


def world_at(connection: sqlite3.Connection, now: datetime, past: Past | None) -> World:
    """The rows as they are, or as they were."""
    return SqlWorld(connection, now) if past is None else PastWorld(connection, past)


def _tree_at(connection: sqlite3.Connection, now: datetime) -> Tree:
    rows = connection.execute(
        "SELECT agent, hash FROM agent_history h WHERE hash IS NOT NULL AND id = "
        "(SELECT max(id) FROM agent_history WHERE agent = h.agent AND at <= ?)",
        (to_text(now),),
    )
    found = {row["agent"]: trees.definition(connection, row["hash"]) for row in rows}
    return Tree({name: agent for name, agent in found.items() if agent is not None})


class PastWorld:
    """A world over a connection, as of a moment; consistent when the caller holds a transaction."""

    def __init__(self, connection: sqlite3.Connection, past: Past) -> None:
        self._connection = connection
        self._seen = past.seen
        self._tree = past.tree
        self._today = SqlWorld(connection, past.seen.now, past.tree)
        self._at = to_text(past.seen.now)
        self._keys = {past.seen.agent.name: past.seen.keys, **{b.agent: b.keys for b in past.seen.below}}
        self._handoffs = {h.id: h for h in (*past.seen.open_handoffs, *past.seen.sent)}
        firsts = [folder.first for folder in past.seen.others if folder.first is not None]
        self._documents = {(d.agent, d.path): d for d in (*past.seen.memory, *firsts)}

    @property
    def tree(self) -> Tree:
        """As World."""
        return self._tree

    @property
    def now(self) -> datetime:
        """The moment of the session's start: for the rules no time has passed since."""
        return self._seen.now

    def key(self, agent: str, key: str) -> Key | None:
        """As World."""
        shown = next((row for row in self._keys.get(agent, ()) if row.key == key), None)
        if shown is not None:
            return shown
        row = self._connection.execute(
            "SELECT * FROM key_history WHERE agent = ? AND key = ? AND at < ? ORDER BY version DESC LIMIT 1",
            (agent, key, self._at),
        ).fetchone()
        return None if row is None else _key(row)

    def keys(self, agent: str) -> Sequence[Key]:
        """As World."""
        if agent in self._keys:
            return list(self._keys[agent])
        rows = self._connection.execute(
            "SELECT * FROM key_history h WHERE agent = ?1 AND value IS NOT NULL AND version = (SELECT max(version) "
            "FROM key_history WHERE agent = ?1 AND key = h.key AND at < ?2) ORDER BY key",
            (agent, self._at),
        )
        return [_key(row) for row in rows]

    def handoff(self, id: int) -> Handoff | None:
        """As World."""
        found = self._found("id = ?", (id,), 1)
        return found[0] if found else None

    def handoffs(
        self,
        *,
        receiver: str | None = None,
        sender: str | None = None,
        statuses: Sequence[str] | None = None,
        limit: int = 1000,
    ) -> Sequence[Handoff]:
        """As World. A status is told only after the thread is read, so that more rows are read than are asked for."""
        where, values = between(receiver, sender)
        found = self._found(" AND ".join(where), values, limit if statuses is None else -1)
        return [h for h in found if statuses is None or h.status in statuses][:limit]

    def _found(self, where: str, values: Sequence[object], limit: int) -> list[Handoff]:
        rows = self._connection.execute(
            f"SELECT {HANDOFF_COLUMNS} FROM handoffs WHERE {where} AND created <= ? ORDER BY id DESC LIMIT ?",
            (*values, self._at, limit),
        ).fetchall()
        found = handoffs_of(self._connection, rows)
        return [self._then(h) for h in found if h.created < self.now or h.id in self._handoffs]

    def _then(self, handoff: Handoff) -> Handoff:
        if handoff.id in self._handoffs:
            return self._handoffs[handoff.id]
        thread = tuple(entry for entry in handoff.thread if entry.at < self.now)
        moves = [_MOVES[entry.kind] for entry in thread if entry.kind in set(Move)]
        return replace(handoff, thread=thread, status=moves[-1] if moves else Status.OPEN)

    def open_with_dedupe(self, sender: str, receiver: str, dedupe: str) -> Handoff | None:
        """As World."""
        found = self._found("receiver = ? AND sender = ? AND dedupe = ?", (receiver, sender, dedupe), -1)
        return next((h for h in reversed(found) if h.status not in FINAL), None)

    def sent_in_session(self, session: int) -> int:
        """As World: what it has saved itself, which is nothing."""
        return 0

    def document(self, agent: str, path: str) -> Document | None:
        """As World."""
        if (agent, path) in self._documents:
            return self._documents[agent, path]
        row = self._connection.execute(f"{_REVISION} AND r.path = ?3", (agent, self._at, path)).fetchone()
        return None if row is None else document_of(self._connection, row)

    def documents(self, agent: str) -> Sequence[Document]:
        """As World."""
        if agent == self._seen.owner:
            return list(self._seen.memory)
        sql = f"{_REVISION} AND r.hash IS NOT NULL ORDER BY r.path"
        rows = self._connection.execute(sql, (agent, self._at))
        return [document_of(self._connection, row) for row in rows if not is_archive(row["path"])]

    def files(self, agent: str) -> Sequence[FileFacts]:
        """As World."""
        sql = f"SELECT r.agent, r.path, r.rev, r.size, r.at, r.by FROM revisions r {_THEN} AND r.hash IS NOT NULL"
        found = {row["path"]: facts_of(row) for row in self._connection.execute(sql, (agent, self._at))}
        if agent == self._seen.agent.name:
            found = {path: row for path, row in found.items() if is_archive(path)}
            found |= {document.path: FileFacts.of(document) for document in self._seen.memory}
        return [row for _, row in sorted(found.items())]

    def revision(self, agent: str, path: str, rev: int) -> bytes | None:
        """As World."""
        return self._today.revision(agent, path, rev)

    def blob(self, hash: str) -> bytes | None:
        """As World."""
        return self._today.blob(hash)


def _key(row: sqlite3.Row) -> Key:
    return Key(agent=row["agent"], key=row["key"], value=row["value"], version=row["version"],
               updated=from_text(row["at"]), by=row["by"])  # fmt: skip
