"""What sessions have used: tokens and money by model, sums of them, and how providers have counted their prompts."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence

from swarmd.core.calibration import LOOKED_AT, Correction, Pair, correction
from swarmd.core.wire import Usage
from swarmd.store.windows import Row, Window

UNKNOWN_MODEL = ""
_FIGURES = ("tokens_in", "tokens_out", "cache_read", "cache_write", "usd")


def keep(connection: sqlite3.Connection, session: int, whole: Usage, by_model: Mapping[str, Usage]) -> Usage:
    """Keep what a session has used, in the transaction that ends it; returns the session's totals.

    A runner that gives either only the whole or only its parts is understood; one that gives nothing leaves no row.
    """
    parts = {name: usage for name, usage in by_model.items() if not _is_unknown(usage)}
    if not parts and not _is_unknown(whole):
        parts = {UNKNOWN_MODEL: whole}
    connection.executemany(
        "INSERT INTO usage (session, model, tokens_in, tokens_out, cache_read, cache_write, usd, priced_by) "
        "VALUES (?,?,?,?,?,?,?,?)",
        [(session, name, *figures(usage), usage.priced_by) for name, usage in sorted(parts.items())],
    )
    if _is_unknown(whole) and parts:
        first, *others = parts.values()
        return sum(others, start=first)
    return whole


def figures(usage: Usage) -> tuple[float | None, ...]:
    """The usage as columns, in the order of the tables."""
    return tuple(getattr(usage, name) for name in _FIGURES)


def _is_unknown(usage: Usage) -> bool:
    return all(figure is None for figure in figures(usage))


def of_session(connection: sqlite3.Connection, session: int) -> list[Row]:
    """What a session has used, a row a model."""
    rows = connection.execute("SELECT * FROM usage WHERE session = ? ORDER BY model", (session,))
    return [{**dict(row), "model": row["model"] or None} for row in rows]


# -- sums -------------------------------------------------------------------------------------------------------------

# Each figure with the number of sessions that do not tell it: a sum of what is known is no more than a least.
_SUMS = ", ".join(f"sum({name}) AS {name}" for name in _FIGURES)
_OF_SESSIONS = (
    f"count(*) AS sessions, {_SUMS}, count(*) FILTER (WHERE tokens_in IS NULL OR tokens_out IS NULL) AS untold, "
    "count(*) FILTER (WHERE usd IS NULL) AS unpriced FROM sessions INDEXED BY sessions_ended"
)
_GROUPS: Mapping[str, str] = {"agent": "agent", "day": "substr(ended, 1, 10)"}


def sums(
    connection: sqlite3.Connection, window: Window, by: str | None, agents: Sequence[str] | None = None
) -> list[Row]:
    """What the sessions that ended in the window (of these agents; None: of all) have used together, a row for each
    agent, model or day (UTC), or one for all. Those that never started are none.
    """
    where, values = ["state = 'ended'", "started IS NOT NULL"], list[object]()
    for sql, bound in (("ended >= ?", window.since), ("ended < ?", window.until)):
        if bound is not None:
            where.append(sql)
            values.append(bound)
    if agents is not None:
        where.append(f"agent IN ({','.join('?' * len(agents))})")
        values.extend(agents)
    clause = " AND ".join(where)
    if by == "model":
        sql = _by_model(clause)
    elif by is None:
        sql = f"SELECT {_OF_SESSIONS} WHERE {clause}"
    else:
        sql = f"SELECT {_GROUPS[by]} AS {by}, {_OF_SESSIONS} WHERE {clause} GROUP BY 1 ORDER BY 1"
    return [dict(row) for row in connection.execute(sql, values)]


def _by_model(clause: str) -> str:
    """A session of several models counts for each of them; one that told of none stands under no model."""
    sums = ", ".join(f"sum(u.{name}) AS {name}" for name in _FIGURES)
    return (
        f"SELECT nullif(u.model, '') AS model, count(*) AS sessions, {sums}, "
        "count(*) FILTER (WHERE u.tokens_in IS NULL OR u.tokens_out IS NULL) AS untold, "
        "count(*) FILTER (WHERE u.usd IS NULL) AS unpriced "
        f"FROM (SELECT id FROM sessions INDEXED BY sessions_ended WHERE {clause}) s "
        "LEFT JOIN usage u ON u.session = s.id GROUP BY 1 ORDER BY 1"
    )


# -- how prompts were counted -----------------------------------------------------------------------------------------


def learn(connection: sqlite3.Connection, agent: str, measured: str, session: int, pair: Pair) -> None:
    """Keep how a session's first request was counted; only the last few of an agent and runner matter."""
    connection.execute(
        "INSERT OR REPLACE INTO counted (agent, measured, session, ours, tools, theirs) VALUES (?,?,?,?,?,?)",
        (agent, measured, session, pair.ours, pair.tools, pair.theirs),
    )
    connection.execute(
        "DELETE FROM counted WHERE agent = ?1 AND measured = ?2 AND session NOT IN "
        "(SELECT session FROM counted WHERE agent = ?1 AND measured = ?2 ORDER BY session DESC LIMIT ?3)",
        (agent, measured, LOOKED_AT),
    )


def learnt(connection: sqlite3.Connection, agent: str, measured: str) -> Correction:
    """The correction of our token counts for this agent and runner."""
    rows = connection.execute(
        "SELECT ours, tools, theirs FROM counted WHERE agent = ? AND measured = ? ORDER BY session DESC",
        (agent, measured),
    )
    return correction([Pair(ours=row["ours"], tools=row["tools"], theirs=row["theirs"]) for row in rows])
