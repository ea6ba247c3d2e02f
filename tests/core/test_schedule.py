from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swarmd.core.cron import CronError
from swarmd.core.schedule import (
    AtSchedule,
    EverySchedule,
    ScheduleError,
    ZoneError,
    at_schedule,
    count_between,
    cron_schedule,
    describe,
    every_schedule,
    jitter_of,
    last_slot,
    next_slot,
    parse_at,
    parse_zone,
    show_instant,
    slots_between,
)

BERLIN = ZoneInfo("Europe/Berlin")
NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
CHRISTMAS_EVE = at_schedule("2026-12-24T18:00", BERLIN)


def test_an_interval_is_counted_from_1970_and_not_from_the_start():
    quarter = every_schedule("15m")
    assert next_slot(quarter, NOON + timedelta(minutes=7)) == NOON + timedelta(minutes=15)
    assert next_slot(quarter, NOON) == NOON + timedelta(minutes=15)
    ninety = every_schedule("1h30m")
    slot = next_slot(ninety, NOON)
    assert slot is not None
    assert slot.timestamp() % 5400 == 0


@pytest.mark.parametrize("seconds", [0, 0.5, 1.5, -60, float("nan"), float("inf"), 1e12])
def test_an_interval_of_nothing_or_of_parts_is_refused(seconds):
    with pytest.raises(ScheduleError, match="whole seconds"):
        EverySchedule(seconds=seconds)


def test_no_interval_runs_past_the_end_of_the_calendar():
    assert next_slot(every_schedule("10d"), datetime(9999, 12, 31, tzinfo=UTC)) is None


def test_a_moment_is_due_once():
    assert next_slot(CHRISTMAS_EVE, NOON) == datetime(2026, 12, 24, 17, tzinfo=UTC)
    assert next_slot(CHRISTMAS_EVE, datetime(2026, 12, 24, 17, tzinfo=UTC)) is None
    assert count_between(CHRISTMAS_EVE, NOON, NOON + timedelta(days=60)) == 1
    assert count_between(CHRISTMAS_EVE, NOON, NOON + timedelta(days=2)) == 0


def test_a_cron_that_has_no_time_left_has_no_next_slot():
    assert next_slot(cron_schedule("0 0 1 7 *", "UTC"), datetime(9998, 12, 31, tzinfo=UTC)) is None


def test_a_cron_whose_only_hour_its_zone_leaves_out_is_refused_when_it_is_read():
    with pytest.raises(CronError, match="no moment of it comes in America/New_York"):
        cron_schedule("*/30 2 8-14 3 */7", "America/New_York")
    assert cron_schedule("*/30 2 8-14 3 */7", "Europe/Berlin").zone_name == "Europe/Berlin"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-12-24T18:00", "2026-12-24T18:00:00+01:00"),
        ("2026-12-24 18:00:30", "2026-12-24T18:00:30+01:00"),
        ("2026-12-24T18:00Z", "2026-12-24T19:00:00+01:00"),
        ("2026-12-24T18:00-05:00", "2026-12-25T00:00:00+01:00"),
        ("2026-03-29T02:30", "2026-03-29T03:00:00+02:00"),  # left out: the first moment after the gap
        ("2026-10-25T02:30", "2026-10-25T02:30:00+02:00"),  # comes twice: the first
    ],
)
def test_a_time_without_offset_is_read_by_the_clocks_of_the_zone(text, expected):
    assert parse_at(text, BERLIN).astimezone(BERLIN).isoformat() == expected
    assert parse_at(text, BERLIN).tzinfo is UTC


def test_a_time_left_out_by_half_an_hour_or_at_midnight_is_the_moment_after():
    assert parse_at("2026-10-04T02:10", ZoneInfo("Australia/Lord_Howe")) == datetime(
        2026, 10, 3, 15, 30, tzinfo=UTC
    )
    assert parse_at("2018-11-04T00:30", ZoneInfo("America/Sao_Paulo")) == datetime(2018, 11, 4, 3, tzinfo=UTC)
    assert parse_at("2011-12-30T12:00", ZoneInfo("Pacific/Apia")) == datetime(2011, 12, 30, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "tomorrow",
        "2026-12-24",
        "18:00",
        "2026-13-24T18:00",
        "2026-02-29T18:00",
        "2026-12-24T25:00",
        "2026-12-24T18:00+25:00",
        "2026-12-24T18",
        "20261224T1800",
        "2026-12-24T18:00:00.5",
        "2026-12-24T18:00 Europe/Berlin",
        "0001-01-01T00:00",
        "0001-01-01T00:00+05:00",
        "٢026-12-24T18:00",
        "2026-12-24T18:00\n",
    ],
)
def test_what_is_no_date_and_time_is_refused(text):
    with pytest.raises(ScheduleError, match="is no date and time"):
        parse_at(text, ZoneInfo("Asia/Tokyo"))


@pytest.mark.parametrize(
    "name", ["UTC", "Europe/Berlin", "America/Argentina/Ushuaia", "Etc/GMT+12", "EST5EDT", "GMT0"]
)
def test_a_zone_is_named_as_in_the_tz_database(name):
    assert parse_zone(name).key == name


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("", "the time zone is empty"),
        (" ", "the time zone is empty"),
        ("europe/berlin", "did you mean Europe/Berlin?"),
        ("Europe/Berln", "did you mean Europe/Berlin?"),
        ("Berlin", "did you mean Europe/Berlin?"),
        ("Europe/Tokyo", "did you mean Asia/Tokyo?"),
        ("America/New York", "did you mean America/New_York?"),
        ("utc", "did you mean UTC?"),
        ("Europe", "no time zone is named 'Europe'"),
        ("../etc/passwd", "no time zone is named"),
        ("/etc/localtime", "no time zone is named"),
        ("Europe/../Europe/Berlin", "no time zone is named"),
        ("Europe/Berlin\n", "no time zone is named"),
        ("Europe/Berlin\x00", "no time zone is named"),
        ("right/Europe/Berlin", "did you mean Europe/Berlin?"),
        ("posix/Europe/Berlin", "did you mean Europe/Berlin?"),
        ("localtime", "no time zone is named"),
        ("Factory", "no time zone is named"),
        ("zone.tab", "no time zone is named"),
        ("tzdata.zi", "no time zone is named"),
        ("+02:00", "no time zone is named"),
        ("Xqzw", "write a name such as Europe/Berlin or UTC"),
        ("x" * 10_000, "no time zone is named"),
    ],
)
def test_what_is_no_zone_is_refused_with_the_likely_one(name, words):
    with pytest.raises(ZoneError, match=r"zone") as caught:
        parse_zone(name)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 200


def test_the_same_text_follows_the_zone_in_force():
    auckland = cron_schedule("0 13 * * *", "Pacific/Auckland")
    slot = next_slot(auckland, NOON)
    assert slot == datetime(2026, 12, 1, 0, tzinfo=UTC)
    assert show_instant(slot, auckland.zone) == "Tue 2026-12-01 13:00:00+13:00 Pacific/Auckland"
    assert describe(auckland, BERLIN) == "0 13 * * * (Pacific/Auckland)"


def test_a_schedule_is_described_with_its_zone():
    assert describe(every_schedule("PT90M"), BERLIN) == "every 1h30m"
    assert describe(CHRISTMAS_EVE, BERLIN) == "at Thu 2026-12-24 18:00:00+01:00 Europe/Berlin"


def test_the_jitter_of_an_agent_is_always_the_same_and_agents_differ():
    spread = {jitter_of(f"agent-{number}", 120) for number in range(100)}
    assert len(spread) == 100
    assert all(0 <= jitter < 120 for jitter in spread)
    assert min(spread) < 20
    assert max(spread) > 100
    assert jitter_of("polybreak", 120) == jitter_of("polybreak", 120) == 20.419
    assert jitter_of("polybreak", 0) == 0


def test_a_list_of_slots_leaves_out_its_beginning_holds_its_end_and_is_bounded():
    hourly = cron_schedule("@hourly", "UTC")
    assert slots_between(hourly, NOON, NOON + 3 * HOUR, 10) == [NOON + HOUR, NOON + 2 * HOUR, NOON + 3 * HOUR]
    assert slots_between(hourly, NOON, NOON + 3 * HOUR, 2) == [NOON + HOUR, NOON + 2 * HOUR]
    assert slots_between(hourly, NOON, NOON, 10) == []


def test_nothing_lies_between_a_moment_and_an_earlier_one():
    for schedule in (cron_schedule("* * * * *", "UTC"), every_schedule("1s"), CHRISTMAS_EVE):
        assert count_between(schedule, NOON, NOON - HOUR) == 0
        assert last_slot(schedule, NOON, NOON - HOUR) is None


def test_the_last_of_a_year_of_minutes_is_found():
    minutely = cron_schedule("* * * * *", "Europe/Berlin")
    until = NOON + timedelta(days=365, seconds=30)
    assert last_slot(minutely, NOON, until) == NOON + timedelta(days=365)
    assert count_between(minutely, NOON, until) == 365 * 24 * 60


SCHEDULES = [
    cron_schedule("*/7 * * * *", "Europe/Berlin"),
    cron_schedule("30 2 * * *", "Europe/Berlin"),
    cron_schedule("15,45 1-3 * * *", "Australia/Lord_Howe"),
    cron_schedule("0 0 * * 0", "America/Santiago"),
    every_schedule("1h"),
    every_schedule("7m13s"),
    AtSchedule(text="2026-10-25T02:30", instant=parse_at("2026-10-25T02:30", BERLIN)),
]


@settings(deadline=None)
@given(
    schedule=st.sampled_from(SCHEDULES),
    begin=st.datetimes(datetime(2026, 3, 20), datetime(2026, 11, 1), timezones=st.just(UTC)),  # noqa: DTZ001
    hours=st.floats(0, 72),
)
def test_counting_and_finding_the_last_agree_with_going_through_the_slots(schedule, begin, hours):
    until = begin + timedelta(hours=hours)
    slots = slots_between(schedule, begin, until, 10_000)
    assert count_between(schedule, begin, until) == len(slots)
    assert last_slot(schedule, begin, until) == (slots[-1] if slots else None)
    assert slots == sorted(set(slots))
