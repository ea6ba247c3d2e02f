"""Rows of the store as the documents of INTERFACE section 9: sessions, slots, agents, reports."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from swarmd.core.instants import maybe_text
from swarmd.store.windows import Row

if TYPE_CHECKING:
    from swarmd.core.adaptive import Pace
    from swarmd.core.agent import Agent
    from swarmd.core.schedule import Schedule

JSON = Any


def session_doc(row: Row, changes: Sequence[Row]) -> dict[str, JSON]:
    """A session with what became of each of its acts."""
    prompt = json.loads(row["prompt"]) if row["prompt"] else None
    return {
        "id": row["id"], "agent": row["agent"], "attempt": row["attempt"], "trigger": row["trigger"],
        "slot": row["slot"], "state": row["state"], "outcome": row["outcome"], "reason": row["reason"],
        "queued": row["queued"], "started": row["started"], "ended": row["ended"], "by": row["by"], "exit": row["exit"],
        "draft": None if row["draft"] == "none" else row["draft"],
        "changes": [
            {"act": c["act"], "target": c["target"], "before": c["before"], "after": c["after"],
             "verdict": c["verdict"], "reason": c["reason"]}
            for c in changes if c["verdict"] not in ("refused", "superseded") or c["effect"] is not None
        ],
        "refusals": [_note(c) for c in changes if c["verdict"] == "refused"],
        "superseded": [_note(c) for c in changes if c["verdict"] == "superseded"],
        **{name: row[name] for name in ("tokens_in", "tokens_out", "cache_read", "cache_write", "usd")},
        "mode": row["mode"], "checkpoints": row["checkpoints"], "note": row["note"],
        "definition": row["definition"], "prompt_hash": row["prompt_hash"], "prompt": prompt,
        "subject": row["subject"],
        "quarantined": json.loads(row["quarantined"]) if row["quarantined"] else None,
    }  # fmt: skip


def withheld(row: Row) -> Row:
    """A session's row as those see it who may not know what it was about: that it ran and how it ended, and no words
    of it.
    """
    return {**row, "subject": None, "reason": "about a subject: withheld", "note": ""}


def _note(change: Row) -> dict[str, JSON]:
    return {"act": change["act"], "target": change["target"], "reason": change["reason"]}


def slot_doc(row: Row) -> dict[str, JSON]:
    """A slot, or a run of slots."""
    names = ("agent", "slot", "last", "count", "decision", "reason", "session", "at")
    return {name: row[name] for name in names}


def report_doc(row: Row) -> dict[str, JSON]:
    """A report."""
    return {name: row[name] for name in ("id", "agent", "parent", "text", "at", "session", "by")}


def schedule_of(agent: Agent) -> Schedule | None:
    """The agent's schedule as core.schedule has it; None for one that never is due by itself."""
    # Imported here and below: most reads show no schedule, and cron is dear to load.
    from swarmd.core.schedule import at_schedule, cron_schedule, every_schedule
    from swarmd.core.zones import parse_zone

    when = agent.when
    if when.cron is not None:
        return cron_schedule(when.cron, when.timezone)
    if when.every_seconds is not None:
        return every_schedule(f"{when.every_seconds:g}s")
    if when.at is not None:
        return at_schedule(when.at, parse_zone(when.timezone))
    return None


def next_slot_of(agent: Agent, now: datetime, pace: Pace | None) -> datetime | None:
    """The agent's next slot. `pace`: of an adaptive schedule, of which no more than that one is known; None while the
    session runs on whose end it depends.
    """
    from swarmd.core.schedule import next_slot

    if agent.when.adaptive is not None:
        return pace.next if pace is not None and pace.next > now else None
    schedule = schedule_of(agent)
    return None if schedule is None else next_slot(schedule, now)


def next_start(agent: Agent, now: datetime, pace: Pace | None = None) -> datetime | None:
    """When the agent's next slot starts a session, jitter included."""
    from swarmd.core.schedule import jitter_of

    slot = next_slot_of(agent, now, pace)
    return (
        None if slot is None else slot + timedelta(seconds=jitter_of(agent.name, agent.when.jitter_seconds))
    )


def next_words(agent: Agent, now: datetime, pace: Pace | None) -> str | None:
    """Of an adaptive schedule: why its next moment is that one; None for the others, which say it themselves."""
    if agent.when.adaptive is None:
        return None
    if pace is None:
        return "its first moment is not chosen yet: the daemon does so when it runs"
    return (
        pace.reason if pace.next > now else "its next moment is chosen when the session of this one has ended"
    )


def schedule_text(agent: Agent) -> str | None:
    """The schedule in one line, or None."""
    if agent.when.cron is not None or agent.when.adaptive is not None:
        return agent.when.text
    from swarmd.core.schedule import describe
    from swarmd.core.zones import parse_zone

    schedule = schedule_of(agent)
    return None if schedule is None else describe(schedule, parse_zone(agent.when.timezone))


def held_by(name: str, above: Sequence[str], pauses: Mapping[str, Row]) -> list[str]:
    """The points at which a pause is set that holds this agent, nearest first."""
    return [point for point in (name, *above, "all") if point in pauses]


def agent_doc(
    agent: Agent, *, held: Sequence[str], pauses: Mapping[str, Row], problem: str | None, running: int | None,
    last: Row | None, open_handoffs: int, now: datetime, pace: Pace | None = None,
) -> dict[str, JSON]:  # fmt: skip
    """An agent in force and how it fares."""
    starts = not held and agent.enabled
    return {
        "name": agent.name, "parent": agent.parent, "enabled": agent.enabled, "paused": bool(held), "problem": problem,
        "schedule": schedule_text(agent), "timezone": agent.when.timezone,
        "next": maybe_text(next_start(agent, now, pace) if starts else None), "running": running,
        "next_reason": next_words(agent, now, pace) if starts else None,
        "last_session": last["id"] if last is not None else None,
        "last_outcome": last["outcome"] if last is not None else None,
        "last_ended": last["ended"] if last is not None else None, "open_handoffs": open_handoffs,
        "description": agent.description, "runner": agent.runner_kind,
        "held_by": list(held), "paused_reason": pauses[held[0]]["reason"] if held else None,
    }  # fmt: skip
