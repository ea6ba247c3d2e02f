"""Single values of the store: its id, counters, the fence secret."""

from __future__ import annotations

import sqlite3


def get(connection: sqlite3.Connection, key: str) -> str | None:
    """The value, or None."""
    row = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    return None if row is None else str(row[0])


def put(connection: sqlite3.Connection, key: str, value: str) -> None:
    """Set the value."""
    connection.execute("INSERT OR REPLACE INTO meta (key, value) VALUES (?,?)", (key, value))


def bump(connection: sqlite3.Connection, key: str, by: int = 1) -> int:
    """Add `by` to a counter and return its new value; it starts at 0."""
    value = int(get(connection, key) or "0") + by
    put(connection, key, str(value))
    return value
