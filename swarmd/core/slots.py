"""What becomes of each slot that is due, as values; nothing here starts, stores or looks at a clock."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, assert_never

from swarmd.core.durations import format_duration
from swarmd.core.schedule import (
    AtSchedule,
    ChosenSchedule,
    CronSchedule,
    EverySchedule,
    Schedule,
    count_between,
    jitter_of,
    last_slot,
    next_slot,
)

Decision = Literal["started", "skipped", "missed", "coalesced", "deferred"]
Trigger = Literal["cron", "every", "at", "adaptive", "catch_up"]
CatchUp = Literal["none", "last", "all"]
Overlap = Literal["skip", "queue", "cancel_running"]
Action = Literal["start", "skip", "queue", "coalesce", "cancel_and_start"]
Jump = Literal["steady", "forward", "far_forward", "back"]

MAX_CATCH_UP = 100
FAR_SECONDS = 86_400.0
HOLD_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotDecision:
    """One row: a slot, or a run of `count` slots from `slot` to `last` that met the same fate.

    Slots are named by their unjittered instant. A `started` row is one slot, and has the trigger of its
    session and `attempt_start`, before which the session does not start; other rows have neither.
    """

    agent: str
    slot: datetime
    last: datetime
    count: int
    decision: Decision
    reason: str
    trigger: Trigger | None = None
    attempt_start: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Decisions:
    """All rows of one look, oldest first, and the instant up to which slots are now settled."""

    rows: tuple[SlotDecision, ...]
    handled_until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlapDecision:
    """What a slot that is to start does: `action` for the scheduler, `decision` and `reason` for its row."""

    action: Action
    decision: Decision
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockJump:
    """How the wall clock moved against the steady one; `hold_seconds` says for how long to start nothing."""

    kind: Jump
    seconds: float
    hold_seconds: float
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """One call of `due`: slots in (handled_until, awake] were missed, those in (awake, now] are on time."""

    agent: str
    schedule: Schedule
    handled_until: datetime
    awake: datetime
    now: datetime
    missed: str

    def run(self, after: datetime, until: datetime, decision: Decision, reason: str) -> list[SlotDecision]:
        """All slots in (after, until] as one row, or none."""
        first = next_slot(self.schedule, after)
        last = last_slot(self.schedule, after, until)
        if first is None or last is None:
            return []
        row = SlotDecision(
            agent=self.agent,
            slot=first,
            last=last,
            count=count_between(self.schedule, after, until),
            decision=decision,
            reason=reason,
        )
        return [row]

    def on_time(self, jitter: float) -> list[SlotDecision]:
        """The newest slot that is on time, and before it the row of those that come with it."""
        newest = last_slot(self.schedule, self.awake, self.now)
        if newest is None:
            return []
        reason = f"with the slot of {_shown(newest)}: both were due at once"
        older = self.run(self.awake, _just_before(newest), "coalesced", reason)
        start = newest + timedelta(seconds=jitter)
        return [*older, self._started(newest, _trigger(self.schedule), start, "on time")]

    def past(self, catch_up: CatchUp, max_age: float, current: list[SlotDecision]) -> list[SlotDecision]:
        """The rows of the missed slots; `current` are those of the slots that are on time."""
        if catch_up == "none":
            return self.run(self.handled_until, self.awake, "missed", self.missed)
        oldest = _just_before(self.now - timedelta(seconds=max_age))
        oldest = min(max(self.handled_until, oldest), self.awake)
        too_old = f"{self.missed}; older than catch_up_max_age {format_duration(max_age)}"
        stale = self.run(self.handled_until, oldest, "missed", too_old)
        if catch_up == "all":
            return [*stale, *self._all(oldest)]
        if current:
            reason = f"{self.missed}; with the slot of {_shown(current[-1].slot)}, which is on time"
            return [*stale, *self.run(oldest, self.awake, "coalesced", reason)]
        return [*stale, *self._last(oldest)]

    def _last(self, oldest: datetime) -> list[SlotDecision]:
        newest = last_slot(self.schedule, oldest, self.awake)
        if newest is None:
            return []
        reason = f"{self.missed}; with the slot of {_shown(newest)}, which is caught up"
        older = self.run(oldest, _just_before(newest), "coalesced", reason)
        with_them = f", with {older[0].count} older" if older else ""
        reason = f"{self.missed}; caught up{with_them} (catch_up = last)"
        return [*older, self._started(newest, "catch_up", self.now, reason)]

    def _all(self, oldest: datetime) -> list[SlotDecision]:
        starts: list[SlotDecision] = []
        until = self.awake
        while len(starts) < MAX_CATCH_UP:
            newest = last_slot(self.schedule, oldest, until)
            if newest is None:
                break
            reason = f"{self.missed}; caught up (catch_up = all)"
            starts.append(self._started(newest, "catch_up", self.now, reason))
            until = _just_before(newest)
        too_many = f"{self.missed}; catch_up = all starts {MAX_CATCH_UP} at most"
        return [*self.run(oldest, until, "missed", too_many), *reversed(starts)]

    def _started(self, slot: datetime, trigger: Trigger, start: datetime, reason: str) -> SlotDecision:
        return SlotDecision(
            agent=self.agent,
            slot=slot,
            last=slot,
            count=1,
            decision="started",
            reason=reason,
            trigger=trigger,
            attempt_start=start,
        )


def due(
    schedule: Schedule,
    handled_until: datetime,
    now: datetime,
    *,
    agent: str,
    jitter_seconds: float,
    catch_up: CatchUp,
    catch_up_max_age_seconds: float,
    grace_seconds: float,
    blocked: str | None,
    missed_because: str = "the daemon was not awake",
) -> Decisions:
    """Settle every slot in (handled_until, now]; a clock set back settles nothing, and so no slot comes twice.

    `blocked` (paused, disabled): all are skipped for that reason, and never caught up. A slot up to
    `grace_seconds` old is on time and starts after its jitter; of several on time the newest starts, the
    others are coalesced into it, for an agent has one session at a time. Older ones were missed; the caller
    says why in `missed_because`, and gives a grace of 0 for its first look after a start.

    Of the missed, `catch_up` starts none; the `last` within the maximal age, older ones coalesced into it
    (all into the slot that is on time, where there is one); or `all` within that age, the newest 100.
    """
    if now <= handled_until:
        return Decisions(rows=(), handled_until=handled_until)
    awake = max(handled_until, _just_before(now - timedelta(seconds=grace_seconds)))
    look = _Look(
        agent=agent,
        schedule=schedule,
        handled_until=handled_until,
        awake=awake,
        now=now,
        missed=f"missed: {missed_because}",
    )
    if blocked is not None:
        rows = look.run(handled_until, now, "skipped", blocked)
    else:
        current = look.on_time(jitter_of(agent, jitter_seconds))
        rows = [*look.past(catch_up, catch_up_max_age_seconds, current), *current]
    return Decisions(rows=tuple(rows), handled_until=now)


def overlapping(overlap: Overlap, running_session: int | None, *, queued: bool) -> OverlapDecision:
    """What a slot that is to start does while a session of its agent runs, or one waits for a free place.

    `skip`: it is skipped. `queue`: it waits, and further ones are coalesced into the one that waits.
    `cancel_running`: the running session is cancelled and it starts; one that only waits takes it in.
    """
    if running_session is None and not queued:
        return OverlapDecision(action="start", decision="started", reason="no session of the agent runs")
    busy = "a session of the agent waits" if running_session is None else f"session {running_session} runs"
    if overlap == "skip":
        return OverlapDecision(action="skip", decision="skipped", reason=f"{busy} (overlap = skip)")
    if queued or running_session is None:
        reason = f"{busy}, and one slot is queued already (overlap = {overlap})"
        return OverlapDecision(action="coalesce", decision="coalesced", reason=reason)
    if overlap == "queue":
        reason = f"until session {running_session} has ended (overlap = queue)"
        return OverlapDecision(action="queue", decision="deferred", reason=reason)
    reason = f"session {running_session} is cancelled for it (overlap = cancel_running)"
    return OverlapDecision(action="cancel_and_start", decision="started", reason=reason)


def clock_jump(
    last_tick_wall: datetime,
    last_tick_monotonic: float,
    wall: datetime,
    monotonic: float,
    *,
    tolerance_seconds: float = 2.0,
) -> ClockJump:
    """Compare two ticks: what the wall clock made of the time against what the steady clock did.

    The steady clock of Linux stands still while the host sleeps, so waking up looks like a clock set forward.
    A wall clock more than a day ahead of the last tick may well be wrong, whatever the steady clock says:
    nothing starts for a minute, in which it can be set right.
    """
    passed = (wall - last_tick_wall).total_seconds()
    ahead = passed - (monotonic - last_tick_monotonic)
    if passed > FAR_SECONDS:
        reason = f"the clock is {format_duration(passed)} ahead of the last tick"
        return ClockJump(kind="far_forward", seconds=ahead, hold_seconds=HOLD_SECONDS, reason=reason)
    if ahead > tolerance_seconds:
        reason = f"the host was asleep or the clock was set forward by {format_duration(ahead)}"
        return ClockJump(kind="forward", seconds=ahead, hold_seconds=0.0, reason=reason)
    if ahead < -tolerance_seconds:
        reason = f"the clock was set back by {format_duration(-ahead)}"
        return ClockJump(kind="back", seconds=ahead, hold_seconds=0.0, reason=reason)
    return ClockJump(kind="steady", seconds=ahead, hold_seconds=0.0, reason="the clock is steady")


def _trigger(schedule: Schedule) -> Trigger:
    match schedule:
        case CronSchedule():
            return "cron"
        case EverySchedule():
            return "every"
        case AtSchedule():
            return "at"
        case ChosenSchedule():
            return "adaptive"
        case _:  # pragma: no cover - mypy proves that there is no other kind
            assert_never(schedule)


def _just_before(moment: datetime) -> datetime:
    """Where a span begins that is to hold `moment`: spans here leave their beginning out."""
    return moment - datetime.resolution


def _shown(slot: datetime) -> str:
    return slot.isoformat(timespec="seconds").replace("+00:00", "Z")
