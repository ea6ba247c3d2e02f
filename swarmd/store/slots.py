"""Slots: a row for every due moment, durable before anything starts, each (agent, instant) once."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from swarmd.core.instants import maybe_text, to_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A decided slot to be written. `started` and `deferred` ones get a session; a deferred one becomes `started`
    when that session starts.
    """

    agent: str
    slot: datetime
    last: datetime
    count: int
    decision: str
    reason: str
    trigger: str = "cron"
    not_before: datetime | None = None
    note: str = ""


def claim(connection: sqlite3.Connection, claims: Iterable[Claim], now: datetime) -> list[int]:
    """Write the rows and queue a session for each `started` or `deferred` one; a slot that has a row is left alone.

    Returns the new sessions' ids. Also moves each agent's `handled_until` on.
    """
    started: list[int] = []
    for wish in claims:
        cursor = connection.execute(
            "INSERT OR IGNORE INTO slots (agent, slot, last, count, decision, reason, at) VALUES (?,?,?,?,?,?,?)",
            (
                wish.agent,
                to_text(wish.slot),
                to_text(wish.last),
                wish.count,
                wish.decision,
                wish.reason,
                to_text(now),
            ),
        )
        if cursor.rowcount == 1 and wish.decision in ("started", "deferred"):
            session = queue(
                connection, agent=wish.agent, trigger=wish.trigger, slot=wish.slot, now=now, by="schedule",
                not_before=wish.not_before, note=wish.note,
            )  # fmt: skip
            connection.execute("UPDATE slots SET session = ? WHERE agent = ? AND slot = ?",
                               (session, wish.agent, to_text(wish.slot)))  # fmt: skip
            started.append(session)
        until = to_text(wish.last)
        connection.execute(
            "UPDATE agents SET handled_until = ? WHERE name = ? AND (handled_until IS NULL OR handled_until < ?)",
            (until, wish.agent, until),
        )
    return started


def queue(
    connection: sqlite3.Connection,
    *,
    agent: str,
    trigger: str,
    now: datetime,
    by: str,
    slot: datetime | None = None,
    not_before: datetime | None = None,
    attempt: int = 1,
    retry_of: int | None = None,
    note: str = "",
    mode: str = "commit",
    cause_handoff: int | None = None,
    depth: int = 0,
    subject: str | None = None,
) -> int:
    """A new session that waits for its start; `subject` is what it is about. Returns its id."""
    cursor = connection.execute(
        "INSERT INTO sessions (agent, attempt, trigger, slot, state, queued, not_before, by, mode, retry_of, note, "
        "cause_handoff, depth, subject) VALUES (?,?,?,?,'queued',?,?,?,?,?,?,?,?,?)",
        (agent, attempt, trigger, maybe_text(slot), to_text(now), maybe_text(not_before), by, mode, retry_of, note,
         cause_handoff, depth, subject),
    )  # fmt: skip
    return int(cursor.lastrowid or 0)


def redecide(connection: sqlite3.Connection, session: int, decision: str, reason: str) -> None:
    """A claimed slot whose session will not start after all: say so in its row."""
    connection.execute("UPDATE slots SET decision = ?, reason = ?, session = NULL WHERE session = ?",
                       (decision, reason, session))  # fmt: skip


def caught_up(connection: sqlite3.Connection, session: int, reason: str) -> None:
    """A queued session of a slot that starts late: it catches its slot up, and is told why."""
    connection.execute(
        "UPDATE sessions SET trigger = 'catch_up', note = ? WHERE id = ? AND state = 'queued'",
        (reason, session),
    )
    connection.execute("UPDATE slots SET reason = ? WHERE session = ?", (reason, session))
