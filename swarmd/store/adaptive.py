"""Adaptive schedules as rows: the moment that was chosen for each agent, and what it is chosen by."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from swarmd.core.adaptive import UPKEEP, Ended, Pace, Work, after_all, begun, chosen, passed_over, says_work
from swarmd.core.agent import Adaptive
from swarmd.core.instants import from_text, to_text
from swarmd.store import queries
from swarmd.store.rows import UNSETTLED

LOOKED_BACK = 20
"""So many of an agent's sessions may end from one look to the next."""

_UPKEEP = ", ".join(f"'{trigger}'" for trigger in UPKEEP)


def paces(connection: sqlite3.Connection, names: Sequence[str] | None = None) -> dict[str, Pace]:
    """What was chosen for these agents (None: for all)."""
    if names is None:
        rows = connection.execute("SELECT * FROM adaptive ORDER BY agent")
    else:
        rows = connection.execute(
            "SELECT a.* FROM json_each(?) j JOIN adaptive a ON a.agent = j.value", (json.dumps(list(names)),)
        )
    return {row["agent"]: _pace(row) for row in rows}


def _pace(row: sqlite3.Row) -> Pace:
    return Pace(
        step_seconds=row["step_seconds"], base=from_text(row["base"]), counted=from_text(row["counted"]),
        session=row["session"], outcome=row["outcome"], times=row["times"], next=from_text(row["next"]),
        reason=row["reason"],
    )  # fmt: skip


def put(connection: sqlite3.Connection, agent: str, found: Pace, now: datetime) -> None:
    """Keep what was chosen for the agent."""
    connection.execute(
        "INSERT OR REPLACE INTO adaptive (agent, next, step_seconds, chosen, reason, base, counted, session, outcome, "
        "times) VALUES (?,?,?,?,?,?,?,?,?,?)",
        (agent, to_text(found.next), found.step_seconds, to_text(now), found.reason, to_text(found.base),
         to_text(found.counted), found.session, found.outcome, found.times),
    )  # fmt: skip


def drop(connection: sqlite3.Connection, agent: str) -> None:
    """Forget what was chosen: the schedule is another, or none."""
    connection.execute("DELETE FROM adaptive WHERE agent = ?", (agent,))


def ended_since(connection: sqlite3.Connection, agent: str, found: Pace) -> list[Ended]:
    """The agent's sessions that count and are not in the pace yet."""
    last = found.session or 0
    rows = connection.execute(
        "SELECT id, outcome, ended FROM (SELECT id, outcome, ended, state, mode, started, trigger FROM sessions "
        f"WHERE agent = ? ORDER BY id DESC LIMIT {LOOKED_BACK}) "
        "WHERE state = 'ended' AND mode = 'commit' AND started IS NOT NULL "
        f"AND trigger NOT IN ({_UPKEEP}) AND (ended, id) > (?, ?)",
        (agent, to_text(found.counted), last),
    )
    return [Ended(id=row["id"], outcome=row["outcome"], ended=from_text(row["ended"])) for row in rows]


def with_sessions(connection: sqlite3.Connection) -> frozenset[str]:
    """Agents of which a session that counts runs or waits."""
    rows = connection.execute(
        "SELECT DISTINCT agent FROM sessions INDEXED BY sessions_live WHERE state != 'ended' AND mode = 'commit' "
        f"AND trigger NOT IN ({_UPKEEP})"
    )
    return frozenset(row["agent"] for row in rows)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which agents are asked for, and which of their keys: as the queries take it, made once."""

    names: str
    keys: str

    @classmethod
    def of(cls, wanted: Mapping[str, Iterable[str]]) -> Wanted:
        """Of agents by name, each with its keys."""
        pairs = [[agent, key] for agent, keys in wanted.items() for key in keys]
        return cls(json.dumps(list(wanted)), json.dumps(pairs))


def work(connection: sqlite3.Connection, wanted: Wanted) -> dict[str, Work]:
    """What is pending for these agents; who has nothing pending is not in it."""
    handoffs = {
        row["agent"]: row["n"]
        for row in connection.execute(
            "SELECT j.value AS agent, count(*) AS n FROM json_each(?) j CROSS JOIN handoffs INDEXED BY handoffs_work "
            f"WHERE receiver = j.value AND {UNSETTLED} AND status != 'waiting' GROUP BY j.value",
            (wanted.names,),
        )
    }
    keys: dict[str, list[str]] = {}
    for row in connection.execute(
        "SELECT k.agent, k.key, k.value FROM json_each(?) j CROSS JOIN keys k WHERE "
        "k.agent = json_extract(j.value, '$[0]') AND k.key = json_extract(j.value, '$[1]')",
        (wanted.keys,),
    ):
        if says_work(row["value"]):
            keys.setdefault(row["agent"], []).append(row["key"])
    return {
        name: Work(handoffs=handoffs.get(name, 0), keys=tuple(keys.get(name, ())))
        for name in handoffs.keys() | keys.keys()
    }


def moved(
    connection: sqlite3.Connection, rules: Mapping[str, Adaptive], pending: Mapping[str, Work], now: datetime
) -> dict[str, Pace]:
    """Who of these has another moment, or another reason, than the rows say; `pending` as `work` tells it."""
    names = list(rules)
    handled = queries.handled_until(connection, names)
    known, live = paces(connection, names), with_sessions(connection)
    found: dict[str, Pace] = {}
    for name, rule in rules.items():
        until, before = handled.get(name), known.get(name)
        if until is None:
            continue
        state = _State(before=before, work=pending.get(name, Work()), handled=from_text(until), now=now)
        pace = _next(connection, name, rule, state, busy=name in live)
        if pace is not None and pace != before:
            found[name] = pace
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _State:
    """What an agent's next moment is chosen by, beside its sessions."""

    before: Pace | None
    work: Work
    handled: datetime
    now: datetime


def _next(
    connection: sqlite3.Connection, name: str, rule: Adaptive, state: _State, *, busy: bool
) -> Pace | None:
    """The agent's pace as it should be; None where it stays as it is."""
    before, handled, now = state.before, state.handled, state.now
    pace = before or begun(rule, handled)
    used_up = before is not None and before.next <= handled
    if before is not None and not used_up and before.next <= now:
        return None  # it is due: the slot gets its row first
    sessions = ended_since(connection, name, pace)
    if sessions:
        pace = after_all(rule, pace, sessions)
    elif used_up and busy:
        return None  # the session that it started has not ended
    elif used_up:
        pace = passed_over(pace, now)
    return chosen(rule, pace, state.work, now=now, handled=handled)


def as_it_is(connection: sqlite3.Connection, rules: Mapping[str, Adaptive], now: datetime) -> dict[str, Pace]:
    """The paces of these as the daemon's next look, which may be a second away, will choose them; without those for
    whom no moment was ever chosen.
    """
    known = paces(connection, list(rules))
    if not known:
        return {}
    pending = work(connection, Wanted.of({name: rules[name].work for name in known}))
    return {**known, **moved(connection, {name: rules[name] for name in known}, pending, now)}


def version(connection: sqlite3.Connection) -> Any:
    """A number that is another one when anybody else has committed since it was asked for here."""
    return connection.execute("PRAGMA data_version").fetchone()[0]
