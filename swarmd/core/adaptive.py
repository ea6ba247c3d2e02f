"""Schedules that follow the work: from what became of the last session and what is pending, the next moment and why.

The *step* is how long an agent waits from the end of one session to the next: it starts at `min`, is halved by a
session that saved something, doubled by one that had nothing to save, and stays between `min` and `max`. While work is
pending `min` alone is waited. A session that went wrong leaves the step as it is, and no work brings the next one
forward then: retries have rules of their own. No model is asked, and nothing here looks at a clock.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from swarmd.core.agent import Adaptive
from swarmd.core.counts import counted
from swarmd.core.durations import format_duration
from swarmd.core.sessions import GOOD

UPKEEP = ("compact", "consolidate")
"""Triggers of sessions that tend the memory: they say nothing about the work."""

_SECOND = timedelta(seconds=1)
_NOTHING = frozenset({"", "0", "false", "no", "none", "null", "[]", "{}", '""', "''"})
_NEUTRAL = frozenset({"cancelled", "dry_run"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What is pending: how many handoffs are open (those that wait for an answer are not), which keys say so."""

    handoffs: int = 0
    keys: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether there is any."""
        return bool(self.handoffs or self.keys)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A session that has ended, and counts."""

    id: int
    outcome: str
    ended: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How far an agent has come: what was counted, and the moment that was chosen by it."""

    step_seconds: float
    base: datetime
    """From when the wait is counted."""
    counted: datetime
    """When the last session that is in it had ended; before there was one, when the schedule came into force."""
    session: int | None = None
    outcome: str | None = None
    times: int = 0
    """How many sessions in a row had this outcome."""
    next: datetime
    reason: str = ""


def says_work(value: str | None) -> bool:
    """Whether a key with this value says that work is pending: it is set, and not to a word for nothing."""
    return value is not None and "".join(value.split()).casefold() not in _NOTHING


def begun(rule: Adaptive, since: datetime) -> Pace:
    """Before its first session: the schedule came into force then."""
    return Pace(step_seconds=rule.min_seconds, base=since, counted=since, next=since)


def after(rule: Adaptive, pace: Pace, session: Ended) -> Pace:
    """The pace with one more session in it."""
    step = pace.step_seconds
    if session.outcome == "committed":
        step /= 2
    elif session.outcome == "no_change":
        step *= 2
    same = session.outcome == pace.outcome
    neutral = session.outcome in _NEUTRAL
    return replace(
        pace, step_seconds=within(rule, step), base=max(pace.base, session.ended), counted=session.ended,
        session=session.id, outcome=pace.outcome if neutral else session.outcome,
        times=pace.times if neutral else pace.times + 1 if same else 1,
    )  # fmt: skip


def after_all(rule: Adaptive, pace: Pace, sessions: Iterable[Ended]) -> Pace:
    """The pace with these sessions in it, in the order in which they ended."""
    for session in sorted(sessions, key=lambda session: (session.ended, session.id)):
        pace = after(rule, pace, session)
    return pace


def passed_over(pace: Pace, now: datetime) -> Pace:
    """Its slot started nothing (it was missed, skipped): the wait begins anew."""
    return replace(pace, base=max(pace.base, now))


def chosen(rule: Adaptive, pace: Pace, work: Work, *, now: datetime, handled: datetime) -> Pace:
    """The pace with its next moment, a whole second that is not past, and the reason. `handled`: up to when its slots
    are settled; the next one comes after it, also where a clock was set back since.
    """
    step = within(rule, pace.step_seconds)
    wait = rule.min_seconds if work and not _failing(pace) else step
    base = min(pace.base, now)
    wanted = base + timedelta(seconds=wait)
    moment = _whole(max(wanted, now))
    if moment <= handled:
        moment = _whole(handled + timedelta(microseconds=1))
    reason = _reason(rule, pace, work, wait, late=wanted < now)
    return replace(pace, step_seconds=step, base=base, next=moment, reason=reason)


def within(rule: Adaptive, step: float) -> float:
    """The step within the rule's bounds, whatever they were before."""
    return min(max(step, rule.min_seconds), rule.max_seconds)


def _failing(pace: Pace) -> bool:
    return pace.outcome is not None and pace.outcome not in GOOD


def _whole(moment: datetime) -> datetime:
    """The next whole second, or this one."""
    floor = moment.replace(microsecond=0)
    return floor if floor == moment else floor + _SECOND


def _reason(rule: Adaptive, pace: Pace, work: Work, wait: float, *, late: bool) -> str:
    failing = _failing(pace)
    why = _pending(work) if work and not failing else _last(pace)
    where = f"{format_duration(wait)} after {_from(pace)}"
    past = ", which is past" if late else ""
    rest = ""
    if failing and work:
        rest = f"; {_pending(work)}, which does not bring it forward until a session ends well"
    elif not work and wait > rule.min_seconds and not failing:
        keys = "".join(f" or key {key} is set" for key in rule.work)
        rest = f"; sooner when a handoff comes{keys}"
    return f"{why}: {where}{past}{rest}"


def _pending(work: Work) -> str:
    handoffs = counted(work.handoffs, "open handoff") if work.handoffs else ""
    keys = f"key {', '.join(work.keys)} is set" if work.keys else ""
    return ", ".join(part for part in (handoffs, keys) if part)


def _last(pace: Pace) -> str:
    if pace.outcome is None:
        return "no session yet"
    return pace.outcome if pace.times == 1 else f"{pace.outcome} {pace.times} times"


def _from(pace: Pace) -> str:
    if pace.base > pace.counted:
        return "its last slot, which started nothing"
    return "the schedule came into force" if pace.session is None else f"session {pace.session}"
