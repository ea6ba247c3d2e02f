"""What still waited when a daemon ended: sessions of slots that are late by now start where their agents catch up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from swarmd.core.durations import format_duration
from swarmd.core.instants import from_text, maybe_instant
from swarmd.core.schedule import last_slot
from swarmd.daemon.clock import GRACE_SECONDS
from swarmd.daemon.logs import log
from swarmd.service.rows import schedule_of
from swarmd.store import sessions, slots
from swarmd.store.connections import Connection

if TYPE_CHECKING:
    from swarmd.core.agent import Agent
    from swarmd.core.tree import Tree
    from swarmd.store.windows import Row

WAITED = "missed: it still waited when the daemon stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Late:
    """A session that waited for too long, and what becomes of its slot: `started` (it is caught up), or not."""

    session: int
    decision: str
    reason: str


def late_ones(rows: Iterable[Row], tree: Tree, handled: Mapping[str, str], now: datetime) -> list[Late]:
    """Of the sessions that wait, those of slots that are late. Retries, and what a person asked for, are not judged.
    `handled`: until when the agents' slots have rows.
    """
    found = []
    for row in rows:
        agent = tree.agent(row["agent"])
        if agent is None or row["slot"] is None or row["trigger"] in ("manual", "retry"):
            continue
        slot = from_text(row["slot"])
        start = max(slot, maybe_instant(row["not_before"]) or slot)
        # One that was caught up already is late by nature: it may only become too old.
        if row["trigger"] == "catch_up" or now - start > timedelta(seconds=GRACE_SECONDS):
            decision, reason = _judged(
                agent, slot, max(slot, maybe_instant(handled.get(agent.name)) or slot), now
            )
            found.append(Late(session=row["id"], decision=decision, reason=reason))
    return found


def _judged(agent: Agent, slot: datetime, handled: datetime, now: datetime) -> tuple[str, str]:
    when = agent.when
    if when.catch_up == "none":
        return "missed", WAITED
    if now - slot > timedelta(seconds=when.catch_up_max_age_seconds):
        return (
            "missed",
            f"{WAITED}; older than catch_up_max_age {format_duration(when.catch_up_max_age_seconds)}",
        )
    schedule = schedule_of(agent)
    newer = last_slot(schedule, handled, now) if schedule is not None and when.catch_up == "last" else None
    if newer is not None:
        return "coalesced", f"{WAITED}; with the slot of {newer:%Y-%m-%dT%H:%M:%SZ}, which is newer"
    return "started", f"{WAITED}; caught up (catch_up = {when.catch_up})"


def settle(connection: Connection, late: Iterable[Late], now: datetime) -> None:
    """Write it down: before anything starts."""
    for one in late:
        if one.decision == "started":
            slots.caught_up(connection, one.session, one.reason)
        else:
            sessions.end(connection, one.session, outcome="cancelled", reason=one.reason, now=now)
            slots.redecide(connection, one.session, one.decision, one.reason)


def tell(late: Iterable[Late]) -> None:
    """Say it in the log."""
    for one in late:
        log.info("its slot is %s: %s", one.decision, one.reason.removeprefix("missed: "),
                 extra={"session": one.session})  # fmt: skip
