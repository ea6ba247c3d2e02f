"""Reads of sessions, for people and for those who decide what runs. Rows come back as plain dicts."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence

from swarmd.store.rows import ORDINARY
from swarmd.store.windows import Row, Window, select, windowed


def sessions(
    connection: sqlite3.Connection,
    window: Window,
    *,
    agents: Sequence[str] | None = None,
    outcome: str | None = None,
) -> list[Row]:
    """Sessions (None: of all agents), newest first; `outcome` may also be a state."""
    where, values = windowed("queued", window)
    order = "queued DESC, id DESC"
    if agents is not None:
        where.append(f"agent IN ({','.join('?' * len(agents))})")
        values.extend(agents)
        order = "id DESC" if len(agents) == 1 else order
    if outcome is not None:
        where.append("(outcome = ? OR (outcome IS NULL AND state = ?))")
        values.extend((outcome, outcome))
    return select(connection, "SELECT * FROM sessions", where, values, order, window.n)


def changes(connection: sqlite3.Connection, ids: Sequence[int]) -> dict[int, list[Row]]:
    """The change rows of these sessions, by session, in order."""
    found: dict[int, list[Row]] = {id: [] for id in ids}
    for start in range(0, len(ids), 500):
        some = ids[start : start + 500]
        marks = ",".join("?" * len(some))
        for row in connection.execute(
            f"SELECT * FROM changes WHERE session IN ({marks}) ORDER BY session, seq", some
        ):
            found[row["session"]].append(dict(row))
    return found


def last_session(connection: sqlite3.Connection, agent: str, at: str | None = None) -> int | None:
    """The agent's newest session; with `at`, the newest that was queued by then."""
    row = connection.execute(
        "SELECT id FROM sessions WHERE agent = ? AND (? IS NULL OR coalesce(started, queued) <= ?) "
        "ORDER BY id DESC LIMIT 1",
        (agent, at, at),
    ).fetchone()
    return None if row is None else int(row["id"])


def live(connection: sqlite3.Connection) -> list[Row]:
    """Sessions that are queued or running, oldest first."""
    rows = connection.execute(
        "SELECT * FROM sessions INDEXED BY sessions_live WHERE state != 'ended' ORDER BY id"
    )
    return [dict(row) for row in rows]


def last_end(connection: sqlite3.Connection) -> str | None:
    """When a session ended last."""
    row = connection.execute(
        "SELECT max(ended) FROM sessions INDEXED BY sessions_ended WHERE state = 'ended'"
    ).fetchone()
    return None if row is None else row[0]


def last_sessions(connection: sqlite3.Connection) -> dict[str, Row]:
    """The newest ended session of every agent that has one, in one read."""
    rows = connection.execute(
        "SELECT s.* FROM (SELECT a.name, (SELECT id FROM sessions WHERE agent = a.name AND state = 'ended' AND "
        f"mode = 'commit' AND {ORDINARY} ORDER BY id DESC LIMIT 1) AS id FROM agents a) l "
        "JOIN sessions s ON s.id = l.id"
    )
    return {row["agent"]: dict(row) for row in rows}


def last_started(connection: sqlite3.Connection, agent: str, n: int) -> list[Row]:
    """The agent's newest sessions that were shown a prompt, newest first."""
    where = ["agent = ?", "state = 'ended'", "mode = 'commit'", "prompt IS NOT NULL", ORDINARY]
    return select(connection, "SELECT * FROM sessions", where, (agent,), "id DESC", n)


def refused_with(connection: sqlite3.Connection, sessions: Sequence[int], beginning: str) -> list[Row]:
    """Acts of these sessions that were refused for a reason that begins so, by session, in order."""
    found: list[Row] = []
    for start in range(0, len(sessions), 500):
        some = sorted(sessions)[start : start + 500]
        rows = connection.execute(
            f"SELECT session, target, reason FROM changes WHERE session IN ({','.join('?' * len(some))}) AND "
            "verdict = 'refused' AND substr(reason, 1, ?) = ? ORDER BY session, seq",
            (*some, len(beginning), beginning),
        )
        found += [dict(row) for row in rows]
    return found


def started_after(connection: sqlite3.Connection, row: Row) -> Iterator[Row]:
    """The sessions that started after this one had, oldest first, with what each was shown (see store.bases.shown)."""
    rows = connection.execute(
        "SELECT id, agent, trigger, subject, base FROM sessions WHERE started >= ? AND id != ? ORDER BY started, id",
        (row["started"], row["id"]),
    )
    return (dict(found) for found in rows)


def counts(connection: sqlite3.Connection) -> Row:
    """How many sessions wait and run."""
    row = connection.execute(
        "SELECT count(*) FILTER (WHERE state = 'queued') AS queued, "
        "count(*) FILTER (WHERE state = 'running') AS running "
        "FROM sessions INDEXED BY sessions_live WHERE state != 'ended'"
    ).fetchone()
    return dict(row)


def by_ids(connection: sqlite3.Connection, ids: Sequence[int]) -> list[Row]:
    """These sessions, in order."""
    found: list[Row] = []
    for start in range(0, len(ids), 500):
        some = ids[start : start + 500]
        marks = ",".join("?" * len(some))
        found += [
            dict(r)
            for r in connection.execute(f"SELECT * FROM sessions WHERE id IN ({marks}) ORDER BY id", some)
        ]
    return found


def retries_of(connection: sqlite3.Connection, id: int) -> list[Row]:
    """The queued sessions that are to retry this one."""
    rows = connection.execute(
        "SELECT * FROM sessions INDEXED BY sessions_live WHERE state = 'queued' AND state != 'ended' AND retry_of = ?",
        (id,),
    )
    return [dict(row) for row in rows]


def caused(connection: sqlite3.Connection, handoff: int) -> int:
    """How many sessions a handoff has caused."""
    row = connection.execute(
        "SELECT count(*) FROM sessions WHERE cause_handoff = ? AND started IS NOT NULL", (handoff,)
    )
    return int(row.fetchone()[0])
