"""The bytes of memory texts, by digest: the one place that knows how they lie in the table `blobs`."""

from __future__ import annotations

import sqlite3


def of_digest(connection: sqlite3.Connection, hash_: str | None) -> bytes | None:
    """The text of that digest; None where it is gone. Whoever needs to be sure that it is right asks `rows.is_text`."""
    if hash_ is None:
        return None
    row = connection.execute(
        "SELECT data FROM blobs WHERE hash = ? AND typeof(data) = 'blob'", (hash_,)
    ).fetchone()
    return None if row is None else bytes(row[0])


def of_revision(connection: sqlite3.Connection, agent: str, path: str, rev: int) -> bytes | None:
    """The text of a revision; None for one that never was, for a deletion, and where it is gone."""
    row = connection.execute(
        "SELECT hash FROM revisions WHERE agent = ? AND path = ? AND rev = ?", (agent, path, rev)
    ).fetchone()
    return None if row is None else of_digest(connection, row[0])
