from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swarmd.core.schedule import at_schedule, count_between, cron_schedule, every_schedule, jitter_of
from swarmd.core.slots import clock_jump, due, overlapping

MONDAY = datetime(2026, 11, 30, tzinfo=UTC)
DAY = 86_400.0


def at(clock, day=MONDAY):
    """A time of day, as `07:59` or `07:59:30`."""
    hour, minute, *second = (int(part) for part in clock.split(":"))
    return day + timedelta(hours=hour, minutes=minute, seconds=second[0] if second else 0)


def look(schedule, handled_until, now, **changes):
    settings = {
        "agent": "watcher",
        "jitter_seconds": 0.0,
        "catch_up": "none",
        "catch_up_max_age_seconds": DAY,
        "grace_seconds": 30.0,
        "blocked": None,
    }
    return due(schedule, handled_until, now, **(settings | changes))


def brief(decisions):
    return [(row.decision, f"{row.slot:%H:%M}", f"{row.last:%H:%M}", row.count) for row in decisions.rows]


MINUTELY = cron_schedule("* * * * *", "UTC")
DAILY = cron_schedule("0 8 * * *", "UTC")


def test_a_slot_that_comes_while_the_daemon_is_awake_starts():
    found = look(DAILY, at("07:59:59"), at("08:00:00"))
    (row,) = found.rows
    assert (row.agent, row.slot, row.decision, row.trigger, row.attempt_start) == (
        "watcher",
        at("08:00"),
        "started",
        "cron",
        at("08:00"),
    )
    assert found.handled_until == at("08:00:00")


def test_one_second_late_is_still_on_time():
    assert brief(look(MINUTELY, at("08:00:30"), at("08:01:01"))) == [("started", "08:01", "08:01", 1)]
    assert brief(look(MINUTELY, at("08:00:30"), at("08:01:30"))) == [("started", "08:01", "08:01", 1)]
    assert brief(look(MINUTELY, at("08:00:30"), at("08:01:31"))) == [("missed", "08:01", "08:01", 1)]


def test_nothing_is_due_between_two_slots():
    found = look(DAILY, at("08:00:00"), at("08:00:01"))
    assert found.rows == ()
    assert found.handled_until == at("08:00:01")


def test_the_jitter_moves_the_start_and_not_the_slot():
    (row,) = look(DAILY, at("07:59:59"), at("08:00:00"), jitter_seconds=120.0).rows
    assert row.slot == at("08:00")
    assert row.attempt_start == at("08:00") + timedelta(seconds=jitter_of("watcher", 120.0))


def test_a_slot_is_settled_once_also_when_the_clock_is_set_back():
    first = look(DAILY, at("07:59:59"), at("08:00:01"))
    assert len(first.rows) == 1
    again = look(DAILY, first.handled_until, at("07:30"))
    assert again.rows == ()
    assert again.handled_until == first.handled_until
    assert look(DAILY, again.handled_until, at("08:00:02")).rows == ()


@pytest.mark.parametrize("now", ["08:01", "13:00"])
def test_a_slot_missed_while_the_daemon_was_down_is_recorded_and_by_policy_caught_up(now):
    told = {"grace_seconds": 0.0, "missed_because": "the daemon was down from 07:59"}
    (skipped,) = look(DAILY, at("07:59"), at(now), **told).rows
    assert (skipped.decision, skipped.slot, skipped.attempt_start) == ("missed", at("08:00"), None)
    assert skipped.reason == "missed: the daemon was down from 07:59"
    (once,) = look(DAILY, at("07:59"), at(now), catch_up="last", **told).rows
    assert (once.decision, once.slot, once.trigger, once.attempt_start) == (
        "started",
        at("08:00"),
        "catch_up",
        at(now),
    )
    assert once.reason.startswith("missed: the daemon was down from 07:59; caught up")


def test_a_late_restart_catches_up_only_within_the_age_that_is_allowed():
    market = cron_schedule("0,5,10,15,20 11 * * 1-5", "UTC")
    hour = look(market, at("10:55"), at("22:10"), catch_up="last", catch_up_max_age_seconds=3600.0)
    assert brief(hour) == [("missed", "11:00", "11:20", 5)]
    assert hour.rows[0].reason.endswith("older than catch_up_max_age 1h")
    day = look(market, at("10:55"), at("22:10"), catch_up="last")
    assert brief(day) == [("coalesced", "11:00", "11:15", 4), ("started", "11:20", "11:20", 1)]
    assert "with 4 older" in day.rows[1].reason
    assert "2026-11-30T11:20:00Z" in day.rows[0].reason


def test_too_old_and_caught_up_slots_are_told_apart():
    hourly = cron_schedule("@hourly", "UTC")
    found = look(hourly, at("00:30"), at("10:30"), catch_up="last", catch_up_max_age_seconds=3.5 * 3600)
    assert brief(found) == [
        ("missed", "01:00", "06:00", 6),
        ("coalesced", "07:00", "09:00", 3),
        ("started", "10:00", "10:00", 1),
    ]


def test_a_slot_exactly_as_old_as_allowed_is_caught_up():
    found = look(DAILY, at("07:59"), at("09:00"), catch_up="last", catch_up_max_age_seconds=3600.0)
    assert brief(found) == [("started", "08:00", "08:00", 1)]


def test_all_starts_each_missed_slot_in_order_and_a_hundred_at_most():
    few = look(MINUTELY, at("08:00"), at("08:03:45"), catch_up="all")
    assert brief(few) == [
        ("started", "08:01", "08:01", 1),
        ("started", "08:02", "08:02", 1),
        ("started", "08:03", "08:03", 1),
    ]
    assert {row.trigger for row in few.rows} == {"catch_up"}
    many = look(MINUTELY, at("08:00"), at("12:00"), catch_up="all", grace_seconds=0.0)
    assert brief(many)[:2] == [("missed", "08:01", "10:19", 139), ("started", "10:20", "10:20", 1)]
    assert len(many.rows) == 1 + 100 + 1
    assert (many.rows[-1].slot, many.rows[-1].trigger) == (at("12:00"), "cron")
    assert "at most" in many.rows[0].reason


def test_a_slot_on_time_takes_in_the_missed_ones_of_last():
    found = look(MINUTELY, at("08:00"), at("09:00"), catch_up="last")
    assert brief(found) == [("coalesced", "08:01", "08:59", 59), ("started", "09:00", "09:00", 1)]
    assert found.rows[1].trigger == "cron"
    assert "2026-11-30T09:00:00Z, which is on time" in found.rows[0].reason


def test_several_slots_on_time_become_one_session_and_none_goes_unrecorded():
    found = look(every_schedule("1s"), at("08:00:00"), at("08:00:05"))
    assert [(row.decision, row.count) for row in found.rows] == [("coalesced", 4), ("started", 1)]
    assert found.rows[1].trigger == "every"


def test_a_blocked_agent_skips_everything_and_nothing_of_it_is_caught_up():
    found = look(MINUTELY, at("08:00"), at("09:00"), catch_up="all", blocked="paused by operator:ann")
    assert brief(found) == [("skipped", "08:01", "09:00", 60)]
    assert found.rows[0].reason == "paused by operator:ann"
    assert look(MINUTELY, found.handled_until, at("09:00:10"), catch_up="all").rows == ()


def test_a_single_moment_is_started_or_missed_like_any_other():
    once = at_schedule("2026-11-30T08:00", ZoneInfo("UTC"))
    assert look(once, at("07:59"), at("08:00:02")).rows[0].trigger == "at"
    assert brief(look(once, at("07:59"), at("09:00"))) == [("missed", "08:00", "08:00", 1)]
    assert look(once, at("08:00"), at("09:00")).rows == ()


def test_a_year_of_missed_minutes_is_one_row():
    (row,) = look(MINUTELY, MONDAY - timedelta(days=365), MONDAY + timedelta(seconds=40)).rows
    assert (row.decision, row.count) == ("missed", 365 * 24 * 60)
    assert (row.slot, row.last) == (MONDAY - timedelta(days=365) + timedelta(minutes=1), MONDAY)


@settings(deadline=None)
@given(
    schedule=st.sampled_from(
        [
            MINUTELY,
            DAILY,
            cron_schedule("*/20 2 * * *", "Europe/Berlin"),
            every_schedule("7m"),
            every_schedule("1s"),
        ]
    ),
    ticks=st.lists(st.floats(-3600, 20_000), min_size=1, max_size=8),
    catch_up=st.sampled_from(["none", "last", "all"]),
    grace=st.sampled_from([0.0, 1.0, 60.0, 7200.0]),
    max_age=st.sampled_from([0.0, 60.0, 3600.0, DAY]),
    blocked=st.sampled_from([None, None, "paused"]),
)
def test_whatever_the_clock_does_each_slot_is_settled_once(
    schedule, ticks, catch_up, grace, max_age, blocked
):
    begin = handled = now = MONDAY
    rows = []
    for tick in ticks:
        now += timedelta(seconds=tick)
        found = look(
            schedule,
            handled,
            now,
            catch_up=catch_up,
            grace_seconds=grace,
            catch_up_max_age_seconds=max_age,
            blocked=blocked,
        )
        assert found.handled_until == max(handled, now)
        assert sum(row.trigger == "catch_up" for row in found.rows) <= 100
        handled = found.handled_until
        rows.extend(found.rows)
    assert sum(row.count for row in rows) == count_between(schedule, begin, handled)
    assert all(earlier.last < later.slot for earlier, later in pairwise(rows))
    assert all(row.count == count_between(schedule, row.slot, row.last) + 1 for row in rows)
    assert all((row.decision == "started") == (row.attempt_start is not None) for row in rows)


def test_a_slot_starts_when_no_session_runs():
    assert overlapping("skip", None, queued=False).action == "start"


def test_skip_names_the_session_in_the_way():
    decision = overlapping("skip", 41, queued=False)
    assert (decision.action, decision.decision) == ("skip", "skipped")
    assert decision.reason == "session 41 runs (overlap = skip)"
    assert overlapping("skip", None, queued=True).reason == "a session of the agent waits (overlap = skip)"


def test_queue_keeps_one_and_coalesces_the_rest():
    assert overlapping("queue", 41, queued=False).decision == "deferred"
    assert overlapping("queue", 41, queued=False).reason.startswith("until session 41 has ended")
    assert overlapping("queue", 41, queued=True).action == "coalesce"
    assert overlapping("queue", None, queued=True).decision == "coalesced"


def test_cancel_running_cancels_what_runs_and_joins_what_only_waits():
    decision = overlapping("cancel_running", 41, queued=False)
    assert (decision.action, decision.decision) == ("cancel_and_start", "started")
    assert "session 41" in decision.reason
    assert overlapping("cancel_running", 41, queued=True).action == "coalesce"
    assert overlapping("cancel_running", None, queued=True).action == "coalesce"


@pytest.mark.parametrize(
    ("wall", "steady", "kind", "hold"),
    [
        (1.0, 1.0, "steady", 0.0),
        (40.0, 40.0, "steady", 0.0),
        (2.5, 1.0, "steady", 0.0),
        (3600.0, 1.0, "forward", 0.0),
        (-3600.0, 1.0, "back", 0.0),
        (0.0, 30.0, "back", 0.0),
        (DAY, 1.0, "forward", 0.0),
        (DAY + 1, 1.0, "far_forward", 60.0),
        (DAY + 1, DAY + 1, "far_forward", 60.0),
    ],
)
def test_a_jump_of_the_clock_is_told_from_time_that_passed(wall, steady, kind, hold):
    jump = clock_jump(MONDAY, 1000.0, MONDAY + timedelta(seconds=wall), 1000.0 + steady)
    assert (jump.kind, jump.hold_seconds) == (kind, hold)
    assert jump.reason


def test_a_jump_is_told_with_its_size():
    assert (
        clock_jump(MONDAY, 0, at("02:00"), 0).reason
        == "the host was asleep or the clock was set forward by 2h"
    )
    assert clock_jump(at("02:00"), 0, MONDAY, 0).reason == "the clock was set back by 2h"
