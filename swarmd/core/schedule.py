"""The kinds of schedule and their slots, the moments when each is due; not what becomes of a slot."""

import hashlib
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import assert_never
from zoneinfo import ZoneInfo

from swarmd.core.cron import Cron, CronError, parse_cron
from swarmd.core.durations import MAX_SECONDS, format_duration, parse_duration
from swarmd.core.zones import ZoneError, instant_of, parse_zone, show_instant

__all__ = [
    "AtSchedule",
    "ChosenSchedule",
    "CronSchedule",
    "EverySchedule",
    "Schedule",
    "ScheduleError",
    "ZoneError",
    "at_schedule",
    "count_between",
    "cron_schedule",
    "describe",
    "every_schedule",
    "jitter_of",
    "last_slot",
    "next_slot",
    "parse_at",
    "parse_zone",
    "show_instant",
    "slots_between",
]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = timedelta(seconds=1)
_AT = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2})?(?P<offset>Z|[+-][0-9]{2}:[0-9]{2})?"
)
# By now the tz database has only the rules that hold for ever, so what does not come after this never comes.
_RULES_ARE_SETTLED = datetime(2038, 1, 1, tzinfo=UTC)


class ScheduleError(ValueError):
    """A time or an interval that no schedule can have; the sentence says what to write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CronSchedule:
    """Due as Debian's cron would run it in the zone; `text` and `zone_name` as the operator wrote them."""

    text: str
    cron: Cron
    zone_name: str
    zone: ZoneInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class EverySchedule:
    """Due at each whole multiple of `seconds` since 1970-01-01T00:00Z, so a restart does not move it."""

    seconds: float

    def __post_init__(self) -> None:
        """Refuse what would be due always or never."""
        if not (1 <= self.seconds <= MAX_SECONDS and float(self.seconds).is_integer()):
            raise ScheduleError("every: write whole seconds, from 1s to ten years")


@dataclass(frozen=True, slots=True, kw_only=True)
class AtSchedule:
    """Due once, at `instant` (UTC); `text` as the operator wrote it."""

    text: str
    instant: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenSchedule:
    """Due once, at `instant` (UTC): what an adaptive schedule has come to. Which comes after it is chosen then."""

    instant: datetime


Schedule = CronSchedule | EverySchedule | AtSchedule | ChosenSchedule


def cron_schedule(text: str, zone_name: str) -> CronSchedule:
    """Read a cron text for a zone; refuses one whose only hour the clocks of that zone always leave out."""
    cron, zone = parse_cron(text), parse_zone(zone_name)
    cron.next_after(_RULES_ARE_SETTLED, zone)
    return CronSchedule(text=text, cron=cron, zone_name=zone_name, zone=zone)


def every_schedule(text: str) -> EverySchedule:
    """Read an interval such as `15m`."""
    return EverySchedule(seconds=parse_duration(text))


def at_schedule(text: str, zone: ZoneInfo) -> AtSchedule:
    """Read a moment such as `2026-12-24T18:00`, by the clocks of the zone."""
    return AtSchedule(text=text, instant=parse_at(text, zone))


def parse_at(text: str, zone: ZoneInfo) -> datetime:
    """The instant (UTC) of a local time in the zone, or of a time with an offset (`+01:00`, `Z`).

    As with a fixed time of cron: a time that comes twice is the first of the two, and a time that the clocks
    leave out is the first moment after the gap.
    """
    found = _AT.fullmatch(text)
    if found is None:
        raise ScheduleError(f"{text[:60]!r} is no date and time; write 2026-12-24T18:00 or add an offset")
    try:
        moment = datetime.fromisoformat(text)
        return moment.astimezone(UTC) if found["offset"] else instant_of(moment, zone)
    except (ValueError, OverflowError) as error:
        raise ScheduleError(f"{text!r} is no date and time: {error}") from error


def next_slot(schedule: Schedule, after: datetime) -> datetime | None:
    """The first slot (UTC) strictly after `after`, or None where none is left."""
    match schedule:
        case CronSchedule():
            try:
                return schedule.cron.next_after(after, schedule.zone)
            except CronError:  # the end of the calendar, or of a rule that no year brings back
                return None
        case EverySchedule():
            try:
                return EPOCH + (_every(schedule, after) + 1) * timedelta(seconds=schedule.seconds)
            except OverflowError:
                return None
        case AtSchedule() | ChosenSchedule():
            return schedule.instant if after < schedule.instant else None
        case _:  # pragma: no cover - mypy proves that there is no other kind
            assert_never(schedule)


def count_between(schedule: Schedule, after: datetime, until: datetime) -> int:
    """How many slots lie in (after, until]; a year of minutes is counted, not walked through."""
    if until <= after:
        return 0
    match schedule:
        case CronSchedule():
            return schedule.cron.count_between(after, until, schedule.zone)
        case EverySchedule():
            return _every(schedule, until) - _every(schedule, after)
        case AtSchedule() | ChosenSchedule():
            return int(after < schedule.instant <= until)
        case _:  # pragma: no cover - mypy proves that there is no other kind
            assert_never(schedule)


def last_slot(schedule: Schedule, after: datetime, until: datetime) -> datetime | None:
    """The newest slot in (after, until], found by halving the span rather than by going through the slots."""
    found = _next_within(schedule, after, until)
    if found is None:
        return None
    # Slots lie on whole seconds: `low` seconds after the found one another may follow, `high` after it none.
    low, high = 0, (until - found) // _SECOND + 1
    while low < high:
        middle = (low + high) // 2
        later = _next_within(schedule, found + middle * _SECOND, until)
        if later is None:
            high = middle
        else:
            low, high, found = 0, (until - later) // _SECOND + 1, later
    return found


def slots_between(schedule: Schedule, after: datetime, until: datetime, limit: int) -> list[datetime]:
    """The slots in (after, until], oldest first, the first `limit` of them."""
    slots: list[datetime] = []
    slot = _next_within(schedule, after, until)
    while slot is not None and len(slots) < limit:
        slots.append(slot)
        slot = _next_within(schedule, slot, until)
    return slots


def jitter_of(agent: str, jitter_seconds: float) -> float:
    """How long after its slot this agent starts, in [0, jitter_seconds), to the millisecond.

    By the agent's name alone: the same each time, on each host and after each restart, so that a job an hour
    keeps an hour between its starts while agents that share a slot are spread.
    """
    digest = hashlib.sha256(agent.encode()).digest()
    share = int.from_bytes(digest[:6]) / 2**48
    return int(share * jitter_seconds * 1000) / 1000


def describe(schedule: Schedule, zone: ZoneInfo) -> str:
    """The schedule in one line; `zone` is the one in force, in which a single moment is shown."""
    match schedule:
        case CronSchedule():
            return f"{schedule.text} ({schedule.zone_name})"
        case EverySchedule():
            return f"every {format_duration(schedule.seconds)}"
        case AtSchedule():
            return f"at {show_instant(schedule.instant, zone)}"
        case ChosenSchedule():
            return f"adaptive: at {show_instant(schedule.instant, zone)}"
        case _:  # pragma: no cover - mypy proves that there is no other kind
            assert_never(schedule)


def _every(schedule: EverySchedule, moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(seconds=schedule.seconds)


def _next_within(schedule: Schedule, after: datetime, until: datetime) -> datetime | None:
    slot = next_slot(schedule, after)
    return slot if slot is not None and slot <= until else None
