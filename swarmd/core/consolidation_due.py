"""When an agent's memory is to be put in order: by cron, or when it has been quiet for a while. Pure rules."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from swarmd.core.agent import Consolidate
from swarmd.core.durations import format_duration
from swarmd.core.schedule import cron_schedule, next_slot

LONGEST_WAIT = timedelta(days=1)
"""How long failures may put off the next one, where `after` is not longer itself."""
TOLD_FAILURES = 3
"""So many failures in a row are told to a person."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What an agent's sessions say of its next consolidation."""

    since: datetime
    """Since when its definition is in force."""
    pending: int | None = None
    """The oldest session that none has been given yet."""
    last_ended: datetime | None = None
    """When its last other session ended."""
    attempted: datetime | None = None
    """When its last consolidation ended, or was queued where it has not."""
    failures: int = 0
    """How many consolidations in a row did not go well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """When the next one is due; `at` None: not before something happens, which `reason` says."""

    at: datetime | None
    reason: str


def due(table: Consolidate, zone: str, facts: Facts) -> Due:
    """When the agent's memory is to be consolidated next. `after`: when it has been quiet for so long, and there is
    something new; after failures the wait is twice as long each time.
    """
    if table.after_seconds is not None:
        return _after(timedelta(seconds=table.after_seconds), facts)
    if table.cron is None:
        return Due(at=None, reason="never by itself: its file has neither cron nor after in [consolidate]")
    handled = max(facts.since, facts.attempted or facts.since)
    return Due(at=next_slot(cron_schedule(table.cron, zone), handled), reason=f"by its cron {table.cron}")


def _after(quiet: timedelta, facts: Facts) -> Due:
    if facts.pending is None or facts.last_ended is None:
        return Due(at=None, reason="when there has been a session since the last one")
    wait = min(quiet * 2 ** min(facts.failures, 20), max(quiet, LONGEST_WAIT))
    start = max(facts.last_ended, facts.attempted or facts.last_ended)
    reason = f"after {format_duration(wait.total_seconds())} without a session"
    if facts.failures:
        reason += f" ({facts.failures} did not go well)"
    return Due(at=start + wait, reason=reason)
