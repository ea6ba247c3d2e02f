import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarmd.core.cron import CronError, parse_cron

DATA = Path(__file__).parent.parent / "data"
NOON = datetime(2026, 11, 25, 12, tzinfo=UTC)


def rows(name):
    return [line.split("\t") for line in (DATA / name).read_text(encoding="utf-8").splitlines()]


def following(text, zone_name, start, count=5):
    """The next `count` fires as local times with offset; `start` likewise."""
    cron, zone, at, found = parse_cron(text), ZoneInfo(zone_name), datetime.fromisoformat(start), []
    for _ in range(count):
        at = cron.next_after(at, zone)
        found.append(at.astimezone(zone).isoformat())
    return found


@pytest.mark.parametrize(("text", "zone", "start", "expected"), rows("cron_cases.tsv"))
def test_the_next_five_are_those_of_debian_cron(text, zone, start, expected):
    assert following(text, zone, start) == expected.split(",")


@pytest.mark.parametrize(("text", "zone", "start", "expected"), rows("cron_cases.tsv"))
def test_counting_finds_as_many_as_walking(text, zone, start, expected):
    first, *_, last = (datetime.fromisoformat(at) for at in expected.split(","))
    cron, begin = parse_cron(text), datetime.fromisoformat(start)
    assert cron.count_between(begin, last, ZoneInfo(zone)) == 5
    assert cron.count_between(first, last, ZoneInfo(zone)) == 4
    assert cron.count_between(begin, last - timedelta(microseconds=1), ZoneInfo(zone)) == 4


@pytest.mark.parametrize(("text", "words"), rows("cron_bad.tsv"))
def test_what_is_not_cron_is_refused_with_the_fix(text, words):
    with pytest.raises(CronError) as caught:
        parse_cron(text)
    assert words in str(caught.value)
    assert 0 <= caught.value.column <= len(text)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\n0 10 * * *", "\x0b", "\x00", "\u2028", "\x85"])
def test_a_schedule_of_two_lines_is_refused(end):
    with pytest.raises(CronError, match="one line"):
        parse_cron(f"0 9 * * *{end}")


def test_a_schedule_too_long_to_be_meant_is_refused():
    with pytest.raises(CronError, match="1200 characters"):
        parse_cron("9" * 1200)


def test_an_error_knows_its_field_and_place():
    with pytest.raises(CronError) as caught:
        parse_cron("0 9,25 * * *")
    assert caught.value.field == "hour"
    assert caught.value.reason == "25 is out of range; the highest is 23"
    assert caught.value.pointed == "0 9,25 * * *\n    ^"


def test_backward_fixes_are_themselves_taken():
    for fixed in (
        "0 22-23,0-6 * * *",
        "0 0 * * 5-7,1-2",
        "0 0 * * 6-7",
        "0 1,4,22 * * *",
        "0 0 1 11-12,1-2 *",
    ):
        assert parse_cron(fixed).text == fixed


@pytest.mark.parametrize("weekday", ["0", "7", "SUN", "sun", "7-7"])
def test_zero_seven_and_sun_are_all_sunday(weekday):
    expected = ["2026-11-29T09:00:00+00:00", "2026-12-06T09:00:00+00:00", "2026-12-13T09:00:00+00:00"]
    assert following(f"0 9 * * {weekday}", "UTC", "2026-11-29T00:00+00:00", 3) == expected


def test_one_to_five_is_monday_to_friday():
    days = following("0 9 * * 1-5", "UTC", "2026-11-28T00:00+00:00", 6)
    assert [day[:10] for day in days] == [
        "2026-11-30",
        "2026-12-01",
        "2026-12-02",
        "2026-12-03",
        "2026-12-04",
        "2026-12-07",
    ]


def test_seven_stands_in_a_list_beside_monday():
    assert following("15 10,12 * * 1,7", "UTC", "2026-11-25T12:00+00:00", 4) == [
        "2026-11-29T10:15:00+00:00",
        "2026-11-29T12:15:00+00:00",
        "2026-11-30T10:15:00+00:00",
        "2026-11-30T12:15:00+00:00",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("30 2 * * *", ["2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"]),
        ("15,45 2 * * *", ["2026-03-29T03:00:00+02:00", "2026-03-30T02:15:00+02:00"]),
        ("*/30 2 * * *", ["2026-03-30T02:00:00+02:00", "2026-03-30T02:30:00+02:00"]),
    ],
)
def test_a_missing_hour_runs_fixed_jobs_once_and_wildcards_never(text, expected):
    assert following(text, "Europe/Berlin", "2026-03-28T12:00+01:00", 2) == expected


def test_no_monday_is_lost_after_the_clocks_change_on_sunday():
    days = following("0 0 * * 1-5", "America/Chicago", "2026-03-06T12:00-06:00", 3)
    assert days == ["2026-03-09T00:00:00-05:00", "2026-03-10T00:00:00-05:00", "2026-03-11T00:00:00-05:00"]


def test_a_weekday_rescues_a_day_that_never_comes():
    days = following("0 0 31 2 1", "UTC", "2026-11-30T00:00+00:00", 3)
    assert [day[:10] for day in days] == ["2027-02-01", "2027-02-08", "2027-02-15"]


def test_leap_days_are_found_over_a_century_without_one():
    cron, utc, at = parse_cron("0 0 29 2 *"), ZoneInfo("UTC"), datetime(2090, 1, 1, tzinfo=UTC)
    found = []
    for _ in range(3):
        at = cron.next_after(at, utc)
        found.append(at.year)
    assert found == [2092, 2096, 2104]


def test_a_step_starts_anew_with_the_month():
    days = following("0 0 */5 * *", "UTC", "2026-02-20T00:00+00:00")
    assert [day[:10] for day in days] == [
        "2026-02-21",
        "2026-02-26",
        "2026-03-01",
        "2026-03-06",
        "2026-03-11",
    ]


@pytest.mark.parametrize(
    "text", ["*/60 * * * *", "0 */24 * * *", "0 0 */31 * *", "0 0 1 */12 *", "0 0 * * */7"]
)
def test_a_step_as_wide_as_the_field_is_taken(text):
    assert parse_cron(text).next_after(NOON, ZoneInfo("UTC")) > NOON


def test_a_job_only_in_an_hour_that_its_zone_leaves_out_never_comes():
    # The second Sunday of March, both day fields to match: the very day on which New York has no 02:30.
    cron = parse_cron("*/30 2 */1 3 */7")
    assert cron.next_after(NOON, ZoneInfo("America/New_York"))
    never = parse_cron("*/30 2 8-14 3 */7")
    with pytest.raises(CronError, match="no moment of it comes in America/New_York"):
        never.next_after(NOON, ZoneInfo("America/New_York"))
    assert never.next_after(NOON, ZoneInfo("UTC")) == datetime(2027, 3, 14, 2, tzinfo=UTC)


def test_a_day_that_a_zone_left_out_altogether_is_a_correction_and_is_not_made_up():
    # Samoa crossed the date line: after Thursday 29 December 2011 came Saturday.
    start = "2011-12-29T12:00-10:00"
    assert following("30 12 * * *", "Pacific/Apia", start, 2) == [
        "2011-12-29T12:30:00-10:00",
        "2011-12-31T12:30:00+14:00",
    ]
    assert following("0 0 30 12 *", "Pacific/Apia", start, 1) == ["2012-12-30T00:00:00+14:00"]


def test_an_offset_with_seconds_still_gives_whole_minutes_of_wall_time():
    assert following("0 9 * * *", "Africa/Monrovia", "1971-06-01T12:00+00:00", 1) == [
        "1971-06-02T09:00:00-00:44:30"
    ]


def test_the_answer_counts_from_the_instant_not_from_how_it_is_written():
    cron, berlin = parse_cron("*/20 * * * *"), ZoneInfo("Europe/Berlin")
    second_pass = datetime(2026, 10, 25, 2, 15, tzinfo=berlin, fold=1)
    expected = datetime(2026, 10, 25, 1, 20, tzinfo=UTC)
    assert cron.next_after(second_pass, berlin) == expected
    assert cron.next_after(second_pass.astimezone(UTC), berlin) == expected


def test_an_instant_without_zone_or_at_the_edge_of_the_calendar_is_refused():
    cron, utc = parse_cron("@hourly"), ZoneInfo("UTC")
    with pytest.raises(ValueError, match="no zone"):
        cron.next_after(datetime(2026, 1, 1), utc)  # noqa: DTZ001 - that is the point
    for year in (1, 9999):
        with pytest.raises(CronError, match="years 2 to 9998"):
            cron.next_after(datetime(year, 6, 1, tzinfo=UTC), utc)
    with pytest.raises(CronError, match="years 2 to 9998"):
        cron.count_between(NOON, datetime(9999, 6, 1, tzinfo=UTC), utc)
    with pytest.raises(CronError, match="no moment"):
        parse_cron("0 0 1 7 *").next_after(datetime(9998, 12, 1, tzinfo=UTC), ZoneInfo("Etc/GMT+12"))


def test_a_year_of_minutes_is_counted_at_once():
    cron, berlin, began = parse_cron("* * * * *"), ZoneInfo("Europe/Berlin"), time.perf_counter()
    year = cron.count_between(datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC), berlin)
    assert year == 365 * 24 * 60
    assert time.perf_counter() - began < 0.1


@given(st.text(alphabet="0123456789*/-, @abcsunmo#?\n", max_size=30))
def test_any_text_is_read_or_refused_in_one_line(text):
    try:
        parse_cron(text)
    except CronError as error:
        assert "\n" not in str(error)  # noqa: PT017 - most texts do not raise
