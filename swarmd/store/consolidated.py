"""How far each agent's sessions have been looked through for its memory: candidates, due times, and what was done."""

from __future__ import annotations

import json
import sqlite3
from datetime import datetime
from typing import Any

from swarmd.core.agent import Agent
from swarmd.core.calibration import measured_as
from swarmd.core.consolidation_due import Facts
from swarmd.core.instants import from_text, maybe_instant, to_text
from swarmd.core.sessions import CONSOLIDATE, GOOD
from swarmd.core.snapshot import Snapshot, Trigger
from swarmd.store import usage
from swarmd.store.connections import reading
from swarmd.store.rows import ORDINARY
from swarmd.store.snapshots import fence
from swarmd.store.windows import Row
from swarmd.store.world import SqlWorld

_LOOKED_AT = (
    "agent = :agent AND id > :until - 1000 AND (id > :until OR ended > :at) AND state = 'ended' "
    f"AND started IS NOT NULL AND mode = 'commit' AND subject IS NULL AND quarantined IS NULL AND {ORDINARY}"
)
"""What a consolidation is given: sessions of the agent's own work. One about a subject has a memory of its own, with
which nothing is mixed. A retry that waited for long may have ended after newer ones had been looked at.
"""
_COLUMNS = "id, trigger, started, outcome, reason"
_NEVER = "9999"
"""Later than any moment that is stored."""


def until(connection: sqlite3.Connection, agent: str) -> int:
    """The newest session that a consolidation has been given; 0: none."""
    return int(_after(connection, agent)["until"])


def _after(connection: sqlite3.Connection, agent: str) -> dict[str, Any]:
    row = connection.execute(
        "SELECT c.until_session, s.started FROM consolidated c LEFT JOIN sessions s ON s.id = c.session "
        "WHERE c.agent = ?",
        (agent,),
    ).fetchone()
    if row is None:
        return {"agent": agent, "until": 0, "at": _NEVER}
    return {"agent": agent, "until": row["until_session"], "at": row["started"] or _NEVER}


def pending(connection: sqlite3.Connection, agent: str) -> int | None:
    """The oldest session that no consolidation has been given, or None."""
    row = connection.execute(
        f"SELECT id FROM sessions WHERE {_LOOKED_AT} ORDER BY id LIMIT 1", _after(connection, agent)
    ).fetchone()
    return None if row is None else int(row[0])


def candidates(connection: sqlite3.Connection, agent: str, most: int) -> tuple[list[Row], int]:
    """The newest sessions that no consolidation has been given, oldest first, and how many older ones there are."""
    after = _after(connection, agent)
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM sessions WHERE {_LOOKED_AT} ORDER BY id DESC LIMIT :most",
        {**after, "most": most},
    ).fetchall()
    more = 0
    if len(rows) == most:
        count = connection.execute(f"SELECT count(*) FROM sessions WHERE {_LOOKED_AT}", after).fetchone()
        more = int(count[0]) - len(rows)
    return [dict(row) for row in reversed(rows)], more


def shown(connection: sqlite3.Connection, ids: list[int]) -> list[Row]:
    """These sessions as `candidates` gives them."""
    found = []
    for id in ids:
        row = connection.execute(f"SELECT {_COLUMNS} FROM sessions WHERE id = ?", (id,)).fetchone()
        found += [] if row is None else [dict(row)]
    return found


def snapshot(connection: sqlite3.Connection, agent: Agent, trigger: Trigger, now: datetime) -> Snapshot:
    """What a consolidation may know, but for the transcripts: the agent's own memory, no work and no state."""
    with reading(connection):
        world = SqlWorld(connection, now)
        corrected = usage.learnt(connection, agent.name, measured_as(agent))
        return Snapshot(
            agent=agent, now=now, zone=agent.when.timezone, trigger=trigger,
            memory=tuple(world.documents(agent.name)), archived=world.archived(agent.name),
            fence=fence(connection, agent.name),
            token_ratio=corrected.ratio, token_overhead=corrected.overhead,
        )  # fmt: skip


def done(connection: sqlite3.Connection, session: int, now: datetime) -> None:
    """This consolidation has gone well: what it was given is not given to another."""
    row = connection.execute("SELECT agent, base FROM sessions WHERE id = ?", (session,)).fetchone()
    given = given_to(row["base"])
    if given is not None:
        connection.execute(
            "INSERT OR REPLACE INTO consolidated (agent, until_session, at, session) VALUES (?,?,?,?)",
            (row["agent"], given["until"], to_text(now), session),
        )


def undone(connection: sqlite3.Connection, session: int) -> None:
    """What this session has written was reverted: where it was the agent's last consolidation, what it was given is
    looked through anew.
    """
    row = connection.execute("SELECT agent, base FROM sessions WHERE id = ?", (session,)).fetchone()
    given = None if row is None else given_to(row["base"])
    if given is not None:
        connection.execute(
            "UPDATE consolidated SET until_session = ? WHERE agent = ? AND session = ?",
            (given["since"], row["agent"], session),
        )


def given_to(base: str | None) -> dict[str, Any] | None:
    """What a session's base says of the transcripts that it was shown: sessions, more, since, until; else None."""
    found: dict[str, Any] | None = json.loads(base).get("consolidates") if base else None
    return found


def facts(connection: sqlite3.Connection, agent: str) -> Facts:
    """What decides when the agent's memory is consolidated next."""
    since = connection.execute("SELECT since FROM agents WHERE name = ?", (agent,)).fetchone()
    last = connection.execute(
        f"SELECT ended FROM sessions WHERE agent = ? AND state = 'ended' AND started IS NOT NULL AND {ORDINARY} "
        "ORDER BY id DESC LIMIT 1",
        (agent,),
    ).fetchone()
    tried = connection.execute(
        "SELECT queued, ended FROM sessions INDEXED BY sessions_consolidate "
        "WHERE agent = ? AND trigger = 'consolidate' AND mode = 'commit' ORDER BY id DESC LIMIT 1",
        (agent,),
    ).fetchone()
    return Facts(
        since=from_text(since["since"]), pending=pending(connection, agent),
        last_ended=None if last is None else maybe_instant(last["ended"]),
        attempted=None if tried is None else from_text(tried["ended"] or tried["queued"]),
        failures=len(failed(connection, agent)),
    )  # fmt: skip


def failed(connection: sqlite3.Connection, agent: str, most: int = 100) -> list[Row]:
    """The agent's last consolidations that did not go well, newest first, up to the last that did."""
    found: list[Row] = []
    for row in connection.execute(
        "SELECT id, outcome, reason, ended FROM sessions INDEXED BY sessions_consolidate "
        "WHERE agent = ? AND trigger = 'consolidate' AND state = 'ended' AND mode = 'commit' ORDER BY id DESC LIMIT ?",
        (agent, most),
    ):
        if row["outcome"] in GOOD:
            break
        if row["outcome"] != "cancelled":
            found.append(dict(row))
    return found


def is_live(connection: sqlite3.Connection, agent: str) -> bool:
    """Whether a consolidation of the agent waits or runs."""
    row = connection.execute(
        "SELECT 1 FROM sessions INDEXED BY sessions_live WHERE state != 'ended' AND agent = ? AND trigger = ?",
        (agent, CONSOLIDATE),
    ).fetchone()
    return row is not None
