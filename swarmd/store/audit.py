"""The audit: one row a write, append-only by trigger, each row's hash made of its content and the row before.

A chain shows edits, losses and reorderings inside it, and the head that is kept beside it a tail that was cut off. It
does not stop somebody who may write the file and makes all of that anew: the daemon's log has the head after each
start, as a copy outside.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from swarmd.core.instants import to_text
from swarmd.store import sums

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
    hash_ = chained(before, row)
    connection.execute(
        "INSERT INTO audit (seq, at, by, act, target, detail, session, hash) VALUES (?,?,?,?,?,?,?,?)",
        (*row, hash_),
    )
    # Beside the chain, so that a tail which was cut off shows. One more row than before, not `seq`: it stays cut off.
    connection.execute(
        "INSERT INTO sums (name, rows, sum) VALUES (?, 1, ?) "
        "ON CONFLICT (name) DO UPDATE SET rows = rows + 1, sum = excluded.sum",
        (sums.AUDIT, bytes.fromhex(hash_)),
    )


def chained(before: str, row: tuple[Any, ...]) -> str:
    """The hash of a row that follows one with the hash `before`."""
    content = json.dumps(row, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(f"{before}\n{content}".encode("utf-8", "surrogatepass")).hexdigest()


def head(connection: sqlite3.Connection) -> tuple[int, str]:
    """The newest row's number and hash."""
    last = connection.execute("SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1").fetchone()
    return (last["seq"], last["hash"]) if last is not None else (0, ROOT)


def faults(
    connection: sqlite3.Connection, limit: int = 20, pause: Callable[[], None] = lambda: None
) -> list[str]:
    """What is wrong with the chain: a sentence a row, at most `limit`; `pause` is called after each row."""
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
            return found
        pause()
    return found + _tail(connection, seq, before, whole=not found)


def _tail(connection: sqlite3.Connection, seq: int, hash_: str, *, whole: bool) -> list[str]:
    """Whether the chain ends where the last write ended it. Not `whole`: what is wrong with it is told already."""
    kept = sums.kept(connection).get(sums.AUDIT)
    if kept is None:
        return ["the head of the audit is gone"] if seq else []
    if kept["rows"] > seq:
        return [
            f"what was written last is missing from the audit, {kept['rows'] - seq} of its rows: it was cut off"
        ]
    if whole and (kept["rows"], kept["sum"]) != (seq, bytes.fromhex(hash_)):
        return [f"audit row {seq} is not the one that was written last"]
    return []
