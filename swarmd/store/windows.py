"""What all reads of lists have in common: a part of a list by time and length, and rows as plain dicts."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Which part of a list: `since` and `until` as store text (inclusive, exclusive), at most `n` rows."""

    since: str | None = None
    until: str | None = None
    n: int = 1000


def select(
    connection: sqlite3.Connection, sql: str, where: Sequence[str], values: Sequence[Any], order: str, n: int
) -> list[Row]:
    """At most `n` rows of `sql` that meet all of `where`, in this order."""
    clause = f" WHERE {' AND '.join(where)}" if where else ""
    return [dict(row) for row in connection.execute(f"{sql}{clause} ORDER BY {order} LIMIT ?", (*values, n))]


def windowed(column: str, window: Window) -> tuple[list[str], list[Any]]:
    """The conditions for the window's time, and their values."""
    where, values = list[str](), list[Any]()
    if window.since is not None:
        where.append(f"{column} >= ?")
        values.append(window.since)
    if window.until is not None:
        where.append(f"{column} < ?")
        values.append(window.until)
    return where, values
