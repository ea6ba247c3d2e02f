"""What follows from a session's outcome: retries, the failure streak, the exit status. Pure rules."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from swarmd.core.agent import Limits

OUTCOMES = (
    "committed", "no_change", "refused", "failed", "unavailable", "timed_out", "cancelled", "lost", "dry_run",
)  # fmt: skip
"""Every outcome a session can end with."""

COMPACT, CONSOLIDATE = "compact", "consolidate"
UPKEEP = frozenset({COMPACT, CONSOLIDATE})
"""Triggers of sessions that look after an agent's memory. They are no work of the agent's: nothing is retried or paused
for them, and what is told of its last session is told of the last other one.
"""
TRIGGERS = (
    "cron", "every", "at", "adaptive", "handoff", "reply", "report", "after", "path", "manual", "retry", "catch_up",
    CONSOLIDATE,
)  # fmt: skip
"""What may start a session that has a prompt of its own."""
GOOD = frozenset({"committed", "no_change", "dry_run"})
RETRIED = frozenset({"failed", "timed_out", "unavailable", "lost"})
COUNTED = frozenset({"failed", "timed_out", "refused"})
"""Outcomes that count for pause_after_failures. Not `unavailable` (the outside's fault), `lost` (ours), `cancelled`."""


def is_asked_for(trigger: str, by: str) -> bool:
    """Whether an operator has asked for this very session, and waits for it."""
    return trigger == "manual" or (trigger in UPKEEP and by.startswith("operator:"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """Another attempt, not before that moment."""

    attempt: int
    not_before: datetime


def retry_of(
    *, agent: str, session: int, outcome: str, attempt: int, checkpoints: int, limits: Limits, now: datetime
) -> Retry | None:
    """The next attempt, or None: only for what may go better, only `retries` times, never after a checkpoint
    (what it wrote stays, and would be written twice).
    """
    if outcome not in RETRIED or attempt > limits.retries or checkpoints:
        return None
    delay = limits.retry_delay_seconds * 2 ** (attempt - 1)
    spread = int.from_bytes(hashlib.sha256(f"{agent}#{session}".encode()).digest()[:4], "big") / 2**32
    # A fifth more at most, by hash: a hundred agents that fell together do not come back together.
    return Retry(attempt=attempt + 1, not_before=now + timedelta(seconds=delay * (1 + 0.2 * spread)))


def exit_status(outcome: str | None) -> int:
    """The exit status of `swarmd run` for this outcome."""
    return 0 if outcome in GOOD else 1
