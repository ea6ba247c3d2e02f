"""Whether the store is whole: what SQLite says, whether every text is there, which files should be on disk."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass

_TEXTS = """
SELECT r.hash, r.agent, r.path, max(r.rev) AS rev, EXISTS (SELECT 1 FROM heads h
  WHERE h.agent = r.agent AND h.path = r.path AND h.hash = r.hash) AS head
  FROM revisions r WHERE r.hash IS NOT NULL GROUP BY r.hash, r.agent, r.path
UNION ALL
SELECT hash, NULL, NULL, NULL, 0 FROM blobs WHERE hash NOT IN (SELECT hash FROM revisions WHERE hash IS NOT NULL)
ORDER BY 2, 3, 4 DESC"""
"""Every text that there is or should be: without the bytes, so that sorting them costs little; the newest of a
file first, by which older ones may be told."""


def integrity(connection: sqlite3.Connection, table: str | None = None) -> list[str]:
    """SQLite's own word on the file, or on one table with its indexes; empty when all is well."""
    what = 20 if table is None else f'"{table}"'
    rows = [row[0] for row in connection.execute(f"PRAGMA integrity_check({what})")]
    return [] if rows == ["ok"] else rows


def tables(connection: sqlite3.Connection) -> list[str]:
    """Every table of the file."""
    return [
        row[0]
        for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenText:
    """A text that is gone or is not what its digest says, and the newest revision that has it (None: no one has)."""

    hash: str
    agent: str | None
    path: str | None
    rev: int | None
    head: bool
    """Whether that revision is the one in force."""

    def told(self) -> str:
        """As a sentence."""
        if self.agent is None:
            return f"the text {self.hash[:12]}, which no revision has any more, is damaged"
        return f"the text of {self.agent}:{self.path} revision {self.rev} is damaged or gone"


def broken_texts(
    connection: sqlite3.Connection, pause: Callable[[], None] = lambda: None
) -> Iterator[BrokenText]:
    """Every broken text, once; `pause` is called after each look."""
    from swarmd.store.rows import is_text
    from swarmd.store.texts import Texts

    texts = Texts(connection)
    for row in connection.execute(_TEXTS):
        if not is_text(texts.of_digest(row["hash"]), row["hash"]):
            yield BrokenText(hash=row["hash"], agent=row["agent"], path=row["path"], rev=row["rev"],
                             head=bool(row["head"]))  # fmt: skip
        pause()


def published_files(connection: sqlite3.Connection) -> list[tuple[str, str, bool]]:
    """Every memory file that should be on disk: agent, path, and whether its publishing waits."""
    rows = connection.execute(
        "SELECT h.agent, h.path, p.phase = 'todo' AS waits FROM heads h LEFT JOIN pending p "
        "ON p.agent = h.agent AND p.path = h.path WHERE h.hash IS NOT NULL ORDER BY h.agent, h.path"
    )
    return [(row["agent"], row["path"], bool(row["waits"])) for row in rows]
