"""The rows as the rules see them: core.world.World over one SQLite connection."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from swarmd.core.memory import ARCHIVE
from swarmd.core.world import Document, FileFacts, Key
from swarmd.store.rows import HANDOFF_COLUMNS, between, document_of, facts_of, is_text, key_of
from swarmd.store.texts import Texts

if TYPE_CHECKING:
    from swarmd.core.handoffs import Handoff
    from swarmd.core.tree import Tree

_DOCUMENT = (
    "SELECT h.agent, h.path, h.rev, h.hash, r.at, r.by FROM heads h "
    "JOIN revisions r ON r.agent = h.agent AND r.path = h.path AND r.rev = h.rev WHERE h.agent = ?"
)
NOT_ARCHIVED = f"(h.path < '{ARCHIVE}' OR h.path >= '{ARCHIVE[:-1]}0')"
"""The condition on a head that it is none of the archive: the digit follows the slash, so that this is a range."""


class SqlWorld:
    """A world over a connection; consistent when the caller holds a transaction."""

    def __init__(self, connection: sqlite3.Connection, now: datetime, tree: Tree | None = None) -> None:
        self._connection = connection
        self._now = now
        self._tree = tree
        self._texts = Texts(connection)

    @property
    def tree(self) -> Tree:
        """The agents in force, read when first asked for."""
        if self._tree is None:
            # Imported when it is asked for: operators' reads of keys, handoffs and memory do without.
            from swarmd.store.trees import tree_of

            self._tree = tree_of(self._connection)
        return self._tree

    @property
    def now(self) -> datetime:
        """The moment that the caller gave."""
        return self._now

    def key(self, agent: str, key: str) -> Key | None:
        """As World."""
        row = self._connection.execute(
            "SELECT * FROM keys WHERE agent = ? AND key = ?", (agent, key)
        ).fetchone()
        return None if row is None else key_of(row)

    def keys(self, agent: str) -> Sequence[Key]:
        """As World."""
        rows = self._connection.execute(
            "SELECT * FROM keys WHERE agent = ? AND value IS NOT NULL ORDER BY key", (agent,)
        )
        return [key_of(row) for row in rows]

    def handoff(self, id: int) -> Handoff | None:
        """As World."""
        rows = self._connection.execute(
            f"SELECT {HANDOFF_COLUMNS} FROM handoffs WHERE id = ?", (id,)
        ).fetchall()
        return self._handoffs(rows)[0] if rows else None

    def handoffs(
        self,
        *,
        receiver: str | None = None,
        sender: str | None = None,
        statuses: Sequence[str] | None = None,
        limit: int = 1000,
    ) -> Sequence[Handoff]:
        """As World."""
        where, values = between(receiver, sender)
        if statuses is not None:
            # Literals, not parameters: only then does SQLite use the partial index on open work.
            listed = ",".join("'" + str(status).replace("'", "''") + "'" for status in statuses)
            where.append(f"status IN ({listed})")
        rows = self._connection.execute(
            f"SELECT {HANDOFF_COLUMNS} FROM handoffs WHERE {' AND '.join(where)} ORDER BY id DESC LIMIT ?",
            (*values, limit),
        ).fetchall()
        return self._handoffs(rows)

    def _handoffs(self, rows: Sequence[sqlite3.Row]) -> list[Handoff]:
        from swarmd.store.handoff_rows import handoffs_of

        return handoffs_of(self._connection, rows)

    def open_with_dedupe(self, sender: str, receiver: str, dedupe: str) -> Handoff | None:
        """As World."""
        row = self._connection.execute(
            "SELECT id FROM handoffs WHERE receiver = ? AND status IN ('open', 'acknowledged', 'waiting') "
            "AND sender = ? AND dedupe = ? ORDER BY id LIMIT 1",
            (receiver, sender, dedupe),
        ).fetchone()
        return None if row is None else self.handoff(row["id"])

    def sent_in_session(self, session: int) -> int:
        """As World."""
        row = self._connection.execute(
            "SELECT count(*) FROM handoffs WHERE cause_session = ?", (session,)
        ).fetchone()
        return int(row[0])

    def document(self, agent: str, path: str) -> Document | None:
        """As World."""
        row = self._connection.execute(f"{_DOCUMENT} AND h.path = ?", (agent, path)).fetchone()
        return None if row is None else document_of(self._connection, row)

    def documents(self, agent: str) -> Sequence[Document]:
        """As World."""
        rows = self._connection.execute(
            f"{_DOCUMENT} AND h.hash IS NOT NULL AND {NOT_ARCHIVED} ORDER BY h.path", (agent,)
        )
        return [document_of(self._connection, row) for row in rows]

    def files(self, agent: str) -> Sequence[FileFacts]:
        """As World."""
        rows = self._connection.execute(
            "SELECT r.agent, r.path, r.rev, r.size, r.at, r.by FROM heads h JOIN revisions r ON r.agent = h.agent AND "
            "r.path = h.path AND r.rev = h.rev WHERE h.agent = ? AND h.hash IS NOT NULL ORDER BY h.path",
            (agent,),
        )
        return [facts_of(row) for row in rows]

    def archived(self, agent: str) -> int:
        """How many older texts its archive has."""
        row = self._connection.execute(
            f"SELECT count(*) FROM heads h WHERE h.agent = ? AND h.hash IS NOT NULL AND NOT {NOT_ARCHIVED}",
            (agent,),
        ).fetchone()
        return int(row[0])

    def revision(self, agent: str, path: str, rev: int) -> bytes | None:
        """As World."""
        row = self._connection.execute(
            "SELECT hash FROM revisions WHERE agent = ? AND path = ? AND rev = ? AND hash IS NOT NULL",
            (agent, path, rev),
        ).fetchone()
        data = None if row is None else self._texts.of_digest(row["hash"])
        return data if data is not None and is_text(data, row["hash"]) else None

    def blob(self, hash: str) -> bytes | None:
        """As World."""
        return self._texts.of_digest(hash)
