"""What is raised to a person's attention, and cured."""

from __future__ import annotations

import sqlite3
from datetime import datetime

from swarmd.core.instants import to_text


def raise_attention(
    connection: sqlite3.Connection,
    *,
    id: str,
    kind: str,
    agent: str | None,
    text: str,
    next_step: str,
    now: datetime,
) -> None:
    """Raise something to a person's attention. Raised again it keeps its first moment, unless somebody has seen that
    and it says something new: then it is on the list again.
    """
    connection.execute(
        "INSERT INTO raised (id, kind, agent, since, text, next_step) VALUES (?,?,?,?,?,?) "
        "ON CONFLICT (id) DO UPDATE SET text = excluded.text, next_step = excluded.next_step, since = CASE WHEN "
        "raised.text != excluded.text AND EXISTS "
        "(SELECT 1 FROM acks a WHERE a.id = raised.id AND a.since = raised.since) "
        "THEN excluded.since ELSE raised.since END",
        (id, kind, agent, to_text(now), text, next_step),
    )


def cure(connection: sqlite3.Connection, id: str) -> None:
    """What was raised under this id is over."""
    connection.execute("DELETE FROM raised WHERE id = ?", (id,))
