"""From a moment to slots' rows: which agents are due, what becomes of each slot, all in one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from swarmd.core.agent import Agent
from swarmd.core.instants import from_text
from swarmd.core.schedule import Schedule
from swarmd.core.slots import SlotDecision, due, overlapping
from swarmd.core.tree import Tree
from swarmd.service.rows import held_by, schedule_of
from swarmd.store import queries
from swarmd.store.database import Connection, Row
from swarmd.store.slots import Claim

GRACE_SECONDS = 30.0
"""A slot that is older when it is looked at was missed: the daemon was not awake at its time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Busy:
    """What an agent's sessions are like at the moment of decision."""

    running: int | None = None
    waiting: bool = False


def key_of(agent: Agent) -> str | None:
    """The key of the agent's schedule: agents of one expression and zone share it."""
    when = agent.when
    if when.cron is not None:
        return f"cron {when.timezone} {when.cron}"
    if when.every_seconds is not None:
        return f"every {when.every_seconds:g}"
    return f"at {when.timezone} {when.at}" if when.at is not None else None


def schedules(tree: Tree) -> tuple[dict[str, Schedule], dict[str, list[str]]]:
    """The distinct schedules of the tree by key, and the agents of each."""
    by_key: dict[str, Schedule] = {}
    members: dict[str, list[str]] = {}
    for name, agent in tree.agents.items():
        key = key_of(agent)
        if key is None:
            continue
        if key not in by_key:
            schedule = schedule_of(agent)
            if schedule is None:
                continue
            by_key[key] = schedule
        members.setdefault(key, []).append(name)
    return by_key, members


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """The claims of one look, and the sessions that are to be cancelled for them."""

    claims: list[Claim]
    cancel: list[int]


def decide(
    connection: Connection,
    tree: Tree,
    names: Iterable[str],
    now: datetime,
    busy: Mapping[str, Busy],
    *,
    awake_since: datetime | None,
    missed_because: str,
) -> Decided:
    """What becomes of every slot of these agents up to `now`. `awake_since`: slots before it were missed."""
    pauses = queries.pauses(connection)
    handled = {name: row["handled_until"] for name, row in queries.agent_rows(connection).items()}
    claims: list[Claim] = []
    cancel: list[int] = []
    cache: dict[str, Schedule | None] = {}
    for name in names:
        agent = tree.agent(name)
        if agent is None or handled.get(name) is None:
            continue
        key = key_of(agent) or ""
        if key not in cache:
            cache[key] = schedule_of(agent)
        schedule = cache[key]
        if schedule is None:
            continue
        grace = (
            GRACE_SECONDS
            if awake_since is None
            else min(GRACE_SECONDS, max(0.0, (now - awake_since).total_seconds()))
        )
        decisions = due(
            schedule, from_text(handled[name]), now, agent=name, jitter_seconds=agent.when.jitter_seconds,
            catch_up=agent.when.catch_up, catch_up_max_age_seconds=agent.when.catch_up_max_age_seconds,
            grace_seconds=grace, blocked=_blocked(agent, held_by(name, tree.above(name), pauses), pauses),
            missed_because=missed_because,
        )  # fmt: skip
        _claims(agent, decisions.rows, busy.get(name, Busy()), claims, cancel)
    return Decided(claims=claims, cancel=cancel)


def _blocked(agent: Agent, held: list[str], pauses: Mapping[str, queries.Row]) -> str | None:
    if not agent.enabled:
        return "disabled: its file says enabled = false"
    if held:
        reason = pauses[held[0]]["reason"]
        return f"paused at {held[0]} by {pauses[held[0]]['by']}" + (f": {reason}" if reason else "")
    return None


def _claims(
    agent: Agent, rows: Iterable[SlotDecision], busy: Busy, claims: list[Claim], cancel: list[int]
) -> None:
    waiting = busy.waiting
    started = busy.running
    for row in rows:
        if row.decision != "started":
            claims.append(_claim(row, row.decision, row.reason))
            continue
        if row.trigger == "catch_up":
            # Caught-up slots wait for one another: each is a session of its own, one after the other.
            claims.append(_claim(row, "started", row.reason))
            continue
        verdict = overlapping(agent.when.overlap, started, queued=waiting)
        claims.append(
            _claim(row, verdict.decision, verdict.reason if verdict.action != "start" else row.reason)
        )
        waiting = waiting or verdict.decision in ("started", "deferred")
        if verdict.action == "cancel_and_start" and started is not None:
            cancel.append(started)


def _claim(row: SlotDecision, decision: str, reason: str) -> Claim:
    return Claim(agent=row.agent, slot=row.slot, last=row.last, count=row.count, decision=decision, reason=reason,
                 trigger=row.trigger or "cron", not_before=row.attempt_start,
                 note=reason if row.trigger == "catch_up" else "")  # fmt: skip
