"""When a cron schedule is due, as Debian's cron decides it, in UTC instants; it neither waits nor runs."""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from swarmd.core.crontext import CronError, read_field, split_fields
from swarmd.core.zones import first_change, offset_at

__all__ = ["Cron", "CronError", "parse_cron"]

_MINUTE = timedelta(minutes=1)
_WEEK = timedelta(weeks=1)
# The calendar repeats after 400 years (20,871 weeks), and so do the rules of the zones: what has not come by
# then never comes. A stretch has a week, or less where the clocks change, which they do a few times a year.
_CYCLE_STRETCHES = 20_871 + 400 * 8
_FIRST_YEAR, _LAST_YEAR = 2, 9998  # a year from where datetime ends: no offset leads over the edge

# Debian's cron.c takes a change as one of daylight saving while the wall clock, looked at each minute, has
# moved by more than -180 and at most 180 minutes; that minute makes it 3 hours back and not quite 3 forward.
_FORWARD = timedelta(hours=3) - _MINUTE
_BACK = timedelta(hours=-3)

_LONGEST = {2: 29, 4: 30, 6: 30, 9: 30, 11: 30}  # the months that never have 31 days


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stretch:
    """A span of time without a change of offset, in wall time: `begin` counts, `end` does not.

    What falls into [`made_up_from`, `begin`) was left out by the clocks and is made up for at `begin`.
    """

    made_up_from: datetime
    begin: datetime
    end: datetime
    offset: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Cron:
    """A schedule in Debian cron's reading (crontab(5), cron(8); entry.c and cron.c where these are silent).

    Days: where neither day field begins with `*`, one of the two is enough (`either_day`); else both must
    match. It is the first character that counts: `*/10` and `*,1` begin with `*`, `1-31` does not.

    Changes of the clocks: where neither minute nor hour begins with `*`, the job has a fixed time. What a gap
    leaves out runs once, right after the gap; what comes twice runs the first time only, also for one who
    starts to look in between. Every other job goes by the clock on the wall alone: nothing for a gap, both
    times in an overlap. A change of three hours or more is a correction: all jobs go by the new time.

    Weekdays count from Sunday, 0.
    """

    text: str
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    either_day: bool
    fixed_time: bool

    def next_after(self, instant: datetime, zone: ZoneInfo) -> datetime:
        """The first instant (UTC) strictly after `instant` at which the schedule is due in the zone.

        Raises CronError where there is none: a job that goes by the wall clock and names only an hour that
        its zone always leaves out, or the end of the calendar.
        """
        for stretch in self._stretches(instant, zone):
            wall = self._first(stretch.made_up_from, stretch.end)
            if wall is not None:
                return (max(wall, stretch.begin) - stretch.offset).replace(tzinfo=UTC)
        raise CronError(f"no moment of it comes in {zone.key}", text=self.text)

    def count_between(self, after: datetime, until: datetime, zone: ZoneInfo) -> int:
        """How many instants of it lie in (after, until], counted by days rather than one by one."""
        if until.year > _LAST_YEAR:
            raise CronError(f"only the years {_FIRST_YEAR} to {_LAST_YEAR} are looked at", text=self.text)
        last = until.astimezone(UTC).replace(tzinfo=None)
        total = 0
        for stretch in self._stretches(after, zone):
            end = min(stretch.end, last + stretch.offset + datetime.resolution)
            if stretch.begin < end:
                total += self._count(stretch.begin, end)
                made_up = self._first(stretch.made_up_from, stretch.begin) is not None
                total += made_up and self._first(stretch.begin, stretch.begin + _MINUTE) is None
            if end < stretch.end:
                break
        return total

    def _stretches(self, after: datetime, zone: ZoneInfo) -> Iterator[_Stretch]:
        if after.tzinfo is None:
            raise ValueError("the instant has no zone; give it in UTC")
        if not _FIRST_YEAR <= after.year <= _LAST_YEAR:
            raise CronError(f"only the years {_FIRST_YEAR} to {_LAST_YEAR} are looked at", text=self.text)
        here = after.astimezone(UTC).replace(tzinfo=None, microsecond=0)
        offset = offset_at(zone, here)
        begin = _next_minute(here + offset)
        if self.fixed_time:
            begin = _ahead_until(zone, here) or begin
        made_up_from = begin
        for _ in range(_CYCLE_STRETCHES):
            if here.year > _LAST_YEAR:
                return
            change = first_change(zone, here, here + _WEEK)
            stop = change or here + _WEEK
            yield _Stretch(made_up_from=made_up_from, begin=begin, end=stop + offset, offset=offset)
            old, offset, here = offset, offset_at(zone, stop), stop
            made_up_from = begin = _whole_minute(stop + offset)
            if change and self.fixed_time and _is_daylight_saving(offset - old):
                made_up_from = _whole_minute(stop + old)
                begin = max(made_up_from, begin)

    def _first(self, begin: datetime, end: datetime) -> datetime | None:
        """The first wall time in [begin, end) that the fields match."""
        for day in self._days(begin, end):
            since = begin.time() if day == begin.date() else time.min
            at = self._time_from(since)
            if at is not None:
                found = datetime.combine(day, at)
                return found if found < end else None
        return None

    def _count(self, begin: datetime, end: datetime) -> int:
        """How many wall times in [begin, end) the fields match."""
        whole = len(self.hours) * len(self.minutes)
        total = 0
        for day in self._days(begin, end):
            total += whole
            if day == begin.date():
                total -= self._times_before(begin.time())
            if day == end.date():
                total -= whole - self._times_before(end.time())
        return total

    def _days(self, begin: datetime, end: datetime) -> Iterator[date]:
        for ordinal in range(begin.toordinal(), end.toordinal() + 1):
            day = date.fromordinal(ordinal)
            if day.month in self.months:
                in_month = day.day in self.days
                in_week = ordinal % 7 in self.weekdays  # day 1 of the calendar is a Monday
                if (in_month or in_week) if self.either_day else (in_month and in_week):
                    yield day

    def _time_from(self, since: time) -> time | None:
        hour_at = bisect_left(self.hours, since.hour)
        if hour_at < len(self.hours) and self.hours[hour_at] == since.hour:
            minute_at = bisect_left(self.minutes, since.minute)
            if minute_at < len(self.minutes):
                return time(since.hour, self.minutes[minute_at])
            hour_at += 1
        return time(self.hours[hour_at], self.minutes[0]) if hour_at < len(self.hours) else None

    def _times_before(self, until: time) -> int:
        hour_at = bisect_left(self.hours, until.hour)
        before = hour_at * len(self.minutes)
        if hour_at < len(self.hours) and self.hours[hour_at] == until.hour:
            begun = bool(
                until.second or until.microsecond
            )  # then the minute of `until` itself lies before it
            before += bisect_left(self.minutes, until.minute + begun)
        return before


def parse_cron(text: str) -> Cron:
    """Read five fields or a macro; CronError for all that is not cron, and for what could never come.

    Stricter than Debian's cron, which takes `22-6` and `0 0 31 2 *` and never runs them, and `*5` as `*`.
    """
    words = split_fields(text)
    minutes, hours, days, months, weekdays = (read_field(word) for word in words)
    minute_star, hour_star, day_star, _, weekday_star = (word.word.startswith("*") for word in words)
    either_day = not (day_star or weekday_star)
    if not either_day:
        _refuse_never(text, words[2].column, days, months)
    return Cron(
        text=text,
        minutes=tuple(sorted(minutes)),
        hours=tuple(sorted(hours)),
        days=days,
        months=months,
        weekdays=weekdays,
        either_day=either_day,
        fixed_time=not (minute_star or hour_star),
    )


def _refuse_never(text: str, column: int, days: frozenset[int], months: frozenset[int]) -> None:
    longest = max(_LONGEST.get(month, 31) for month in months)
    if min(days) > longest:
        which = f"month {min(months)}" if len(months) == 1 else "any of its months"
        reason = f"it can never come: there is no day {min(days)} in {which}, {longest} is the last"
        raise CronError(reason, text=text, field="day-of-month", column=column)


def _ahead_until(zone: ZoneInfo, here: datetime) -> datetime | None:
    """In the second pass of an overlap, the wall time up to which fixed times have run already."""
    change = first_change(zone, here + _BACK, here)
    if change is not None:
        old, new = offset_at(zone, here + _BACK), offset_at(zone, change)
        if here + new < change + old and new < old and _is_daylight_saving(new - old):
            return _whole_minute(change + old)
    return None


def _is_daylight_saving(moved: timedelta) -> bool:
    return _BACK <= moved <= _FORWARD


def _whole_minute(wall: datetime) -> datetime:
    """`wall`, or the next whole minute: offsets before 1972 had seconds."""
    return wall if not (wall.second or wall.microsecond) else _next_minute(wall)


def _next_minute(wall: datetime) -> datetime:
    return wall.replace(second=0, microsecond=0) + _MINUTE
