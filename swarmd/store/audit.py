"""The audit: one row a write, append-only by trigger, each row's hash made of its content and the row before.

A chain shows edits, losses and reorderings inside it. It does not stop somebody who may write the file and makes
the whole chain anew: the daemon's log has the head after each start, as a copy outside.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from swarmd.core.instants import to_text

ROOT = "0" * 64


def write(
    connection: sqlite3.Connection,
    *,
    at: datetime,
    by: str,
    act: str,
    target: str = "",
    detail: Mapping[str, Any] | None = None,
    session: int | None = None,
) -> None:
    """Append a row. Must be called in the transaction that does what it tells of."""
    last = connection.execute("SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1").fetchone()
    seq, before = (last["seq"] + 1, last["hash"]) if last is not None else (1, ROOT)
    text = json.dumps(detail or {}, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    row = (seq, to_text(at), by, act, target, text, session)
    connection.execute(
        "INSERT INTO audit (seq, at, by, act, target, detail, session, hash) VALUES (?,?,?,?,?,?,?,?)",
        (*row, chained(before, row)),
    )


def chained(before: str, row: tuple[Any, ...]) -> str:
    """The hash of a row that follows one with the hash `before`."""
    content = json.dumps(row, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(f"{before}\n{content}".encode("utf-8", "surrogatepass")).hexdigest()


def head(connection: sqlite3.Connection) -> tuple[int, str]:
    """The newest row's number and hash."""
    last = connection.execute("SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1").fetchone()
    return (last["seq"], last["hash"]) if last is not None else (0, ROOT)


def faults(connection: sqlite3.Connection, limit: int = 20) -> list[str]:
    """What is wrong with the chain: a sentence a row, at most `limit`."""
    found: list[str] = []
    seq, before = 0, ROOT
    for row in connection.execute(
        "SELECT seq, at, by, act, target, detail, session, hash FROM audit ORDER BY seq"
    ):
        if row["seq"] != seq + 1:
            found.append(f"audit rows {seq + 1} to {row['seq'] - 1} are missing")
        if row["hash"] != chained(before, tuple(row)[:-1]):
            found.append(
                f"audit row {row['seq']} ({row['at']}, {row['act']} by {row['by']}) was changed, or one before it"
            )
        seq, before = row["seq"], row["hash"]
        if len(found) >= limit:
            break
    return found
