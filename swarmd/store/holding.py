"""What operators put down in rows of their own: pauses, acknowledgements, settled conflicts."""

from __future__ import annotations

import sqlite3
from datetime import datetime

from swarmd.core.instants import to_text
from swarmd.store import meta


def pause(connection: sqlite3.Connection, point: str, *, reason: str, by: str, now: datetime) -> None:
    """Hold an agent and all below it, or `all`."""
    connection.execute(
        "INSERT OR REPLACE INTO pauses (agent, reason, by, at) VALUES (?,?,?,?)",
        (point, reason, by, to_text(now)),
    )


def resume(connection: sqlite3.Connection, point: str, now: datetime) -> None:
    """Lift the pause that was set at this very point, if there is one. Its failures are counted anew from here."""
    connection.execute("DELETE FROM pauses WHERE agent = ?", (point,))
    meta.put(connection, resumed_key(point), to_text(now))


def resumed_key(point: str) -> str:
    """Where the store keeps when this point was resumed last."""
    return f"resumed:{point}"


def acknowledge(connection: sqlite3.Connection, id: str, *, since: str, by: str, now: datetime) -> None:
    """An attention item was seen as it was since that moment."""
    connection.execute(
        "INSERT OR REPLACE INTO acks (id, since, by, at) VALUES (?,?,?,?)", (id, since, by, to_text(now))
    )


def settle_conflict(connection: sqlite3.Connection, id: int, how: str) -> None:
    """A conflict is settled; it stays in history."""
    connection.execute("UPDATE conflicts SET resolved = ? WHERE id = ?", (how, id))


def end_live(connection: sqlite3.Connection, reason: str, now: datetime) -> None:
    """End sessions that a copied store has as queued or running: they are another state's."""
    connection.execute(
        "UPDATE sessions SET state = 'ended', outcome = 'lost', reason = ?, ended = ?, token_hash = NULL "
        "WHERE state != 'ended'",
        (reason, to_text(now)),
    )
    # The memory files are not there yet: every head is published anew. (Read from the store, so never as gone.)
    connection.execute("DELETE FROM published")
    connection.execute("DELETE FROM pending")
    connection.execute(
        "INSERT INTO pending (agent, path, rev, phase) "
        "SELECT agent, path, rev, 'todo' FROM heads WHERE hash IS NOT NULL"
    )
    connection.execute("INSERT OR REPLACE INTO meta (key, value) VALUES ('files_fingerprint', '')")
