"""`next_after` and `count_between` against Debian cron's main loop, played minute by minute."""

import functools
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from hypothesis import given, settings
from hypothesis import strategies as st

from swarmd.core.cron import parse_cron

MINUTE = timedelta(minutes=1)
RANGES = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))


def fires(text: str, zone: ZoneInfo, after: datetime, until: datetime) -> list[datetime]:
    """The whole minutes in (after, until] at which the loop of cron.c runs the job; numbers only, no names."""
    words = text.split()
    wild = words[0].startswith("*") or words[1].startswith("*")
    return [at for at in _loop(words, zone, after, until, wild=wild) if at > after]


def _loop(
    words: list[str], zone: ZoneInfo, after: datetime, until: datetime, *, wild: bool
) -> Iterator[datetime]:
    now = after.replace(second=0, microsecond=0) - timedelta(hours=30)  # early enough to meet the last change
    virtual = _wall(now, zone)
    while now + MINUTE <= until:
        now += MINUTE
        running = _wall(now, zone)
        behind = (running - virtual) // MINUTE
        if behind == 1:
            run, virtual = _matches(words, running), running
        elif 5 < behind <= 180:
            run = _matches(words, running) if wild else _any_up_to(words, virtual, running)
            virtual = running
        elif -180 < behind <= 0:
            run = wild and _matches(words, running)
        else:
            run, virtual = _matches(words, running), running
        if run:
            yield now


def _any_up_to(words: list[str], virtual: datetime, running: datetime) -> bool:
    found = False
    while virtual < running:
        virtual += MINUTE
        found = found or _matches(words, virtual)
    return found


def _wall(now: datetime, zone: ZoneInfo) -> datetime:
    return now.astimezone(zone).replace(tzinfo=None, fold=0)


def _matches(words: list[str], wall: datetime) -> bool:
    weekday = wall.isoweekday()
    minute, hour, day, month = (
        _holds(words[at], value, *RANGES[at])
        for at, value in enumerate((wall.minute, wall.hour, wall.day, wall.month))
    )
    in_week = any(_holds(words[4], value, *RANGES[4]) for value in {weekday, weekday % 7})
    star = words[2].startswith("*") or words[4].startswith("*")
    return minute and hour and month and ((day and in_week) if star else (day or in_week))


@functools.cache
def _holds(word: str, value: int, low: int, high: int) -> bool:
    for item in word.split(","):
        span, _, step = item.partition("/")
        first, _, last = span.partition("-")
        begin, end = (low, high) if span == "*" else (int(first), int(last or first))
        if begin <= value <= end and (value - begin) % int(step or 1) == 0:
            return True
    return False


CHANGES = [
    ("Europe/Berlin", "2026-03-29T01:00"),
    ("Europe/Berlin", "2026-10-25T01:00"),
    ("America/New_York", "2026-03-08T07:00"),
    ("America/New_York", "2026-11-01T06:00"),
    ("Australia/Lord_Howe", "2026-04-04T15:00"),
    ("Australia/Lord_Howe", "2026-10-03T15:30"),
    ("Pacific/Chatham", "2026-04-04T14:00"),
    ("Pacific/Chatham", "2026-09-26T14:00"),
    ("Antarctica/Troll", "2026-03-29T01:00"),
    ("Antarctica/Troll", "2026-10-25T01:00"),
    ("America/Santiago", "2024-09-08T04:00"),
    ("America/Santiago", "2024-04-07T03:00"),
    ("Africa/Cairo", "2024-04-25T22:00"),
    ("Africa/Cairo", "2024-10-31T21:00"),
    ("America/Havana", "2024-03-10T05:00"),
    ("Asia/Beirut", "2024-03-30T22:00"),
    ("America/Sao_Paulo", "2018-11-04T03:00"),
    ("America/Sao_Paulo", "2019-02-17T02:00"),
    ("America/Nuuk", "2024-03-31T01:00"),  # 23:00 to midnight is left out
    ("America/Nuuk", "2023-10-29T01:00"),  # no change: the hour was kept for good
    ("America/St_Johns", "2006-10-29T02:31"),  # at 00:01 back to 23:01 of the day before
    ("America/St_Johns", "2006-04-02T03:31"),
    ("America/Caracas", "2016-05-01T07:00"),  # half an hour, for good
    ("Asia/Pyongyang", "2015-08-14T15:00"),
    ("Asia/Pyongyang", "2018-05-04T15:00"),
    ("Europe/Dublin", "2026-10-25T01:00"),
    ("Africa/Casablanca", "2024-03-10T02:00"),
    ("Antarctica/Casey", "2020-10-03T16:01"),  # three hours forward
    ("Antarctica/Casey", "2021-03-13T13:00"),  # three hours back
    ("Pacific/Apia", "2011-12-30T10:00"),  # a whole day
    ("Asia/Kolkata", "2026-11-30T00:00"),
]


def spans(low, high):
    value = st.integers(low, high)
    pair = st.tuples(value, value).map(sorted)
    item = st.one_of(
        value.map(str),
        pair.map(lambda p: f"{p[0]}-{p[1]}"),
        st.tuples(pair, st.integers(1, 9)).map(lambda p: f"{p[0][0]}-{p[0][1]}/{p[1]}"),
    )
    return st.lists(item, min_size=1, max_size=3).map(",".join)


def columns(low, high, steps):
    stepped = st.sampled_from(steps).map("*/{}".format)
    star = st.one_of(st.just("*"), stepped, spans(low, high).map("*,{}".format))
    return st.one_of(star, spans(low, high))


# Hours near midnight and the small hours, where clocks change, come more often than others.
HOURS = st.one_of(
    columns(0, 23, [1, 2, 3, 5]), spans(0, 4), st.sampled_from(["23", "22-23", "0", "1", "2", "3"])
)
DAYS = st.one_of(st.just("*"), columns(1, 31, [1, 2, 5, 10]))
WEEKDAYS = st.one_of(st.just("*"), columns(0, 7, [1, 2, 3]))


@settings(max_examples=100, deadline=None)
@given(
    minute=columns(0, 59, [1, 7, 15, 30, 45]),
    hour=HOURS,
    day=DAYS,
    weekday=WEEKDAYS,
    change=st.sampled_from(CHANGES),
    before=st.integers(-5 * 3600, 30 * 3600),
)
def test_around_any_change_of_the_clocks_it_runs_when_cron_would(minute, hour, day, weekday, change, before):
    text, zone = f"{minute} {hour} {day} * {weekday}", ZoneInfo(change[0])
    start = datetime.fromisoformat(change[1]).replace(tzinfo=UTC) - timedelta(seconds=before)
    until = start + timedelta(hours=60)
    expected = fires(text, zone, start, until)
    cron, found, at = parse_cron(text), [], start
    while (at := cron.next_after(at, zone)) <= until:
        found.append(at)
    assert found == expected
    assert cron.count_between(start, until, zone) == len(expected)
