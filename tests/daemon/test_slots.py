"""What becomes of due moments: on time, missed, skipped, overlapping, over restarts and under clocks that jump."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.daemon.kit import MONDAY, until

FIVE = [f"{minute} 11 * * 1-5" for minute in (0, 5, 10, 15, 20)]


async def test_a_slot_on_time_starts_its_session(swarm):
    swarm.agent("disk", "0 * * * *")
    async with swarm.up():
        await swarm.at("11:00:00")
        assert swarm.slots() == [("11:00", "started", 1)]
        assert swarm.outcomes() == ["no_change"]
        assert swarm.sessions()[0]["trigger"] == "cron"
        await swarm.at("11:00:30")
        await swarm.daemon.minute()
        assert len(swarm.sessions()) == 1


async def test_the_scheduler_itself_fires_when_the_moment_comes(swarm):
    # On the machine's own clock: what is tested is that the library's timer reaches the claim at all.
    from swarmd.daemon.clock import RealClock

    swarm.clock = RealClock()
    swarm.agent("disk", 'every = "1s"')
    async with swarm.up():
        await until(lambda: len(swarm.slots()) >= 2)
        started = [row for row in swarm._rows("SELECT * FROM slots") if row["decision"] == "started"]
        late = [
            (datetime.fromisoformat(row["at"]) - datetime.fromisoformat(row["slot"])).total_seconds()
            for row in started
        ]
        assert started
        assert max(late) < 0.9


@pytest.mark.parametrize(
    ("catch_up", "max_age", "first", "sessions"),
    [
        ("none", "1d", ("11:00", "missed", 1), 0),
        ("last", "1h", ("11:00", "missed", 1), 0),
        ("last", "1d", ("11:00", "started", 1), 5),
        ("all", "1d", ("11:00", "started", 1), 5),
        ("all", "1h", ("11:00", "missed", 1), 0),
    ],
)
async def test_slots_of_the_time_it_was_down_are_caught_up_as_their_agents_say(
    swarm, catch_up, max_age, first, sessions
):
    for number, text in enumerate(FIVE):
        swarm.agent(
            f"market{number}", f'cron = "{text}"\ncatch_up = "{catch_up}"\ncatch_up_max_age = "{max_age}"\n'
        )
    swarm.clock.set(MONDAY.replace(hour=10, minute=50))
    async with swarm.up():
        await swarm.at("10:55")
        assert swarm.slots() == []
    swarm.clock.go_to(MONDAY.replace(hour=22, minute=10))
    async with swarm.up():
        await swarm.rest()
        assert swarm.slots("market0") == [first]
        assert len(swarm.sessions()) == sessions
        assert len(swarm.slots()) == 5
        assert all("the daemon was down" in swarm.reasons(f"market{n}")[0] for n in range(5))
        if sessions:
            assert {row["trigger"] for row in swarm.sessions()} == {"catch_up"}
            assert "caught up" in swarm.sessions()[0]["note"]


async def test_a_year_of_missed_minutes_is_one_row(swarm):
    swarm.agent("disk", "* * * * *")
    async with swarm.up():
        pass
    swarm.clock.pass_(365 * 86_400 + 5)
    async with swarm.up():
        assert swarm.slots() == [("10:31", "missed", 365 * 1440)]


async def test_of_many_missed_the_newest_is_caught_up_and_counts_the_others(swarm):
    swarm.agent("disk", 'cron = "*/10 * * * *"\ncatch_up = "last"\n')
    async with swarm.up():
        pass
    swarm.clock.go_to(MONDAY.replace(hour=11, minute=35))
    async with swarm.up():
        await swarm.rest()
        assert swarm.slots() == [("10:40", "coalesced", 5), ("11:30", "started", 1)]
        assert "with 5 older" in swarm.sessions()[0]["note"]


async def test_catching_up_all_starts_at_most_a_hundred_one_after_the_other(swarm):
    swarm.agent("disk", 'cron = "* * * * *"\ncatch_up = "all"\ncatch_up_max_age = "10d"\n')
    async with swarm.up():
        pass
    swarm.clock.pass_(86_405)
    async with swarm.up():
        await swarm.rest()
        assert swarm.outcomes() == ["no_change"] * 100
        assert swarm.stage.most == 1
        assert sum(count for _slot, _decision, count in swarm.slots()) == 1440


async def test_a_slot_missed_while_the_daemon_was_busy_is_not_said_to_be_missed_while_it_was_down(swarm):
    swarm.agent("disk", "0 * * * *")
    async with swarm.up():
        await swarm.at("11:02")
        assert swarm.slots() == [("11:00", "missed", 1)]
        assert "could not look in time" in swarm.reasons("disk")[0]


async def test_ten_restarts_in_a_row_lose_no_slot_and_run_none_twice(swarm):
    swarm.agent("disk", 'cron = "* * * * *"\ncatch_up = "all"\n')
    for _ in range(10):
        async with swarm.up(killed=True):
            swarm.clock.pass_(90)
            await swarm.tick()
    async with swarm.up():
        await swarm.rest()
        minutes = [row["slot"] for row in swarm.sessions()]
        assert len(minutes) == len(set(minutes)) == 15
        assert set(swarm.outcomes()) == {"no_change"}


async def test_sessions_that_waited_when_it_was_killed_start_once_after_it(swarm):
    swarm.settings(max_sessions=2)
    for number in range(6):
        swarm.agent(f"a{number}", "0 * * * *")
    swarm.stage.hold()
    async with swarm.up(killed=True):
        await swarm.at("11:00")
        assert sorted(swarm.outcomes()) == ["queued"] * 4 + ["running"] * 2
    swarm.stage.release()
    for _ in range(2):
        async with swarm.up():
            await swarm.rest()
            assert sorted(swarm.outcomes()) == ["lost"] * 2 + ["no_change"] * 4
            assert swarm.stage.most == 2


async def test_a_restart_inside_the_second_pass_of_a_repeated_hour_runs_each_instant_once(swarm):
    # Berlin, 2091-10-28: 03:00 summer time becomes 02:00 at 01:00 UTC.
    swarm.clock.set(datetime(2091, 10, 28, 0, 20, tzinfo=UTC))
    (swarm.places.agents / "half.toml").write_text(
        'system_prompt = "x"\nrunner = { kind = "play" }\n[schedule]\ncron = "30 2 * * *"\ntimezone = "Europe/Berlin"\n'
    )
    async with swarm.up():
        await swarm.at("00:30")
        assert swarm.outcomes() == ["no_change"]
    swarm.clock.go_to(datetime(2091, 10, 28, 1, 20, tzinfo=UTC))
    async with swarm.up():
        await swarm.at("01:30")
        await swarm.at("02:30")
        assert [row["slot"][:16] for row in swarm.sessions()] == ["2091-10-28T00:30"]


# -- clocks that are set


async def test_a_clock_set_back_an_hour_repeats_nothing(swarm):
    swarm.agent("disk", "*/10 * * * *")
    async with swarm.up():
        for minute in (40, 50):
            await swarm.at(f"10:{minute}")
        swarm.clock.set(MONDAY.replace(hour=9, minute=50))
        await swarm.tick()
        assert swarm.attention() == ["clock-behind"]
        for text in ("10:00", "10:30", "10:40", "10:50"):
            await swarm.at(text)
        assert [slot for slot, _, _ in swarm.slots()] == ["10:40", "10:50"]
        await swarm.at("11:00")
        await swarm.daemon.minute()
        assert swarm.slots()[-1] == ("11:00", "started", 1)
        assert swarm.attention() == []


async def test_a_clock_set_forward_an_hour_misses_that_hour_and_goes_on(swarm):
    swarm.agent("disk", "*/10 * * * *")
    async with swarm.up():
        await swarm.at("10:40")
        swarm.clock.set(MONDAY.replace(hour=11, minute=45))
        await swarm.tick()
        await swarm.at("11:50")
        assert swarm.slots() == [("10:40", "started", 1), ("10:50", "missed", 6), ("11:50", "started", 1)]
        assert "clock was set forward by" in swarm.reasons("disk")[1]


async def test_after_a_clock_was_ahead_and_set_right_slots_are_on_time_again(swarm):
    swarm.agent("disk", "*/10 * * * *")
    swarm.agent("late", "55 * * * *")
    async with swarm.up():
        swarm.clock.set(MONDAY.replace(hour=11, minute=31))
        await swarm.tick()
        swarm.clock.set(MONDAY.replace(hour=10, minute=32))
        await swarm.tick()
        swarm.agent("new", "50 * * * *")
        await swarm.daemon.reload(force=True)
        await swarm.at("10:50:00")
        assert swarm.slots("new") == [("10:50", "started", 1)]


async def test_a_clock_three_days_ahead_starts_nothing_for_a_minute_and_is_believed_then(swarm):
    swarm.agent("disk", 'cron = "0 * * * *"\ncatch_up = "last"\ncatch_up_max_age = "9d"\n')
    async with swarm.up():
        swarm.clock.set(MONDAY + timedelta(days=3))
        await swarm.tick()
        assert swarm.attention() == ["clock-jump"]
        for _ in range(5):
            swarm.clock.pass_(10)
            await swarm.tick()
            await swarm.daemon.minute()
        with pytest.raises(Exception, match="nothing starts at present"):
            await swarm.ask("run", agent="disk")
        assert swarm.sessions() == []
        assert swarm.slots() == []
        swarm.clock.pass_(10)
        await swarm.tick()
        assert swarm.outcomes() == ["no_change"]
        assert swarm.slots()[0][1] == "coalesced"
        assert swarm.slots()[-1] == ("10:00", "started", 1)


async def test_a_clock_three_days_ahead_that_is_set_right_within_the_minute_has_done_nothing(swarm):
    swarm.agent("disk", 'cron = "*/10 * * * *"\ncatch_up = "last"\n')
    async with swarm.up():
        swarm.clock.set(MONDAY + timedelta(days=3))
        # Whoever looks first must notice: also a timer that fires before the tick.
        await swarm.daemon.claim(["disk"])
        assert swarm.slots() == []
        swarm.clock.pass_(20)
        await swarm.tick()
        swarm.clock.set(MONDAY + timedelta(seconds=20))
        await swarm.tick()
        assert swarm.attention() == []
        await swarm.at("10:40")
        assert swarm.slots() == [("10:40", "started", 1)]


async def test_a_clock_that_starts_decades_behind_runs_nothing_and_goes_on_when_it_is_set(swarm):
    swarm.agent("disk", "*/10 * * * *")
    async with swarm.up():
        await swarm.at("10:40")
    swarm.clock.set(datetime(2060, 1, 1, 0, 0, 5, tzinfo=UTC))
    async with swarm.up():
        assert swarm.attention() == ["clock-behind"]
        await swarm.at("00:10")
        assert len(swarm.slots()) == 1
        swarm.clock.set(MONDAY.replace(minute=55))
        await swarm.tick()
        swarm.clock.pass_(61)
        await swarm.tick()
        await swarm.at("11:00")
        await swarm.daemon.minute()
        assert swarm.slots() == [("10:40", "started", 1), ("10:50", "missed", 1), ("11:00", "started", 1)]
        assert swarm.attention() == ["clock-jump"]


# -- paused, disabled, overlapping


async def test_paused_and_disabled_agents_skip_with_the_reason_and_never_catch_up(swarm):
    swarm.agent("top")
    swarm.agent("held", 'cron = "*/10 * * * *"\ncatch_up = "all"\n', parent="top")
    swarm.agent("off", 'cron = "*/10 * * * *"\ncatch_up = "all"\n', more="enabled = false\n")
    async with swarm.up():
        await swarm.ask("pause", agent="top", reason="a holiday")
        await swarm.at("10:40")
    swarm.clock.go_to(MONDAY.replace(hour=11, minute=5))
    async with swarm.up():
        await swarm.rest()
        assert swarm.slots("held") == [("10:40", "skipped", 1), ("10:50", "skipped", 2)]
        assert "paused at top by operator:tester: a holiday" in swarm.reasons("held")[0]
        assert swarm.slots("off") == [("10:40", "skipped", 1), ("10:50", "skipped", 2)]
        assert "enabled = false" in swarm.reasons("off")[0]
        await swarm.ask("resume", agent="top")
        await swarm.at("11:10")
        assert swarm.slots("held")[-1] == ("11:10", "started", 1)
        assert len(swarm.sessions()) == 1


async def test_a_session_that_waits_is_dropped_when_its_agent_is_paused(swarm):
    swarm.settings(max_sessions=1)
    for name in ("a", "b"):
        swarm.agent(name, "0 * * * *")
    swarm.stage.hold()
    async with swarm.up():
        await swarm.at("11:00")
        await swarm.ask("pause", agent="b")
        swarm.stage.release()
        await swarm.rest()
        assert swarm.outcomes("b") == ["cancelled"]
        assert swarm.slots("b") == [("11:00", "skipped", 1)]
        assert swarm.reasons("b") == ["paused at b before it started"]


@pytest.mark.parametrize(
    ("overlap", "slots", "outcomes"),
    [
        ("skip", ["started", "skipped", "skipped", "started"], ["no_change", "no_change"]),
        ("queue", ["started", "started", "coalesced", "started"], ["no_change"] * 3),
        (
            "cancel_running",
            ["started", "started", "started", "started"],
            ["cancelled", "cancelled", "no_change", "no_change"],
        ),
    ],
)
async def test_a_slot_that_meets_a_running_session(swarm, overlap, slots, outcomes):
    swarm.agent("slow", f'cron = "* * * * *"\noverlap = "{overlap}"\n')
    swarm.stage.hold()
    async with swarm.up():
        for minute in (31, 32, 33):
            await swarm.at(f"10:{minute}")
        assert swarm.stage.most == 1
        swarm.stage.release()
        await swarm.rest()
        await swarm.at("10:34")
        assert [decision for _, decision, _ in swarm.slots()] == slots
        assert swarm.outcomes() == outcomes
        if overlap == "skip":
            assert swarm.reasons("slow")[1] == f"session {swarm.sessions()[0]['id']} runs (overlap = skip)"


async def test_jitter_delays_the_start_and_not_the_slot(swarm):
    for number in range(20):
        swarm.agent(f"a{number}", 'cron = "0 * * * *"\njitter = "10m"\n')
    async with swarm.up():
        await swarm.at("11:00:00")
        assert {slot for slot, _, _ in swarm.slots()} == {"11:00"}
        early = len(swarm.stage.played)
        assert early < 5
        for minute in range(1, 11):
            await swarm.at(f"11:{minute:02}")
        assert len(swarm.stage.played) == 20
        assert sorted(swarm.outcomes()) == ["no_change"] * 20


async def test_not_before_holds_over_a_restart(swarm):
    swarm.agent("late", 'cron = "0 * * * *"\njitter = "50m"\n')
    async with swarm.up():
        await swarm.at("11:00:00")
        row = swarm.sessions()[0]
    async with swarm.up():
        assert swarm.stage.played == []
        await swarm.at_moment(datetime.fromisoformat(row["not_before"]) - timedelta(seconds=1))
        assert swarm.stage.played == []
        await swarm.at_moment(datetime.fromisoformat(row["not_before"]) + timedelta(seconds=1))
        assert swarm.outcomes() == ["no_change"]


# -- many


async def test_a_hundred_agents_a_minute_ten_at_once_all_run_or_are_recorded(swarm):
    swarm.settings(max_sessions=10)
    for number in range(100):
        swarm.agent(f"a{number:02}", "* * * * *")
    swarm.stage.hold()
    async with swarm.up():
        await swarm.at("10:31")
        assert swarm.stage.most == 10
        assert swarm.daemon.starter.waiting == 90
        assert swarm.call("status")["running"] == {"queued": 90, "running": 10}
        await swarm.at("10:32")
        swarm.stage.release()
        await swarm.rest()
        assert len(swarm.sessions()) == 100
        assert set(swarm.outcomes()) == {"no_change"}
        assert swarm.stage.most == 10
        assert sorted(decision for _, decision, _ in swarm.slots()) == ["skipped"] * 100 + ["started"] * 100


@pytest.mark.parametrize("count", [300, pytest.param(1000, marks=pytest.mark.slow)])
async def test_all_at_minute_0_start_in_order_and_never_more_than_the_cap_also_after_a_restart(swarm, count):
    names = [f"a{number:03}" for number in range(count)]
    swarm.stage.seconds = 0.005
    for name in names:
        swarm.agent(name, 'cron = "0 * * * *"\ncatch_up = "last"\n')
    swarm.stage.hold()
    async with swarm.up():
        await swarm.at("11:00")
        assert swarm.stage.most == 8
        swarm.stage.release()
        await swarm.rest()
        order = swarm.stage.agents()
        assert sorted(order) == names
        assert [row["agent"] for row in swarm.sessions()] == names
        # Slots are given in order; only who has one, and still makes a prompt, can be passed.
        assert max(sum(other < name for other in order[place:]) for place, name in enumerate(order)) < 8
        assert swarm.stage.most == 8
    swarm.stage.played.clear()
    swarm.stage.hold()
    swarm.clock.go_to(MONDAY.replace(hour=12, minute=20))
    async with swarm.up():
        await swarm.rest()
        swarm.stage.release()
        await swarm.rest()
        assert sorted(swarm.stage.agents()) == names
        assert swarm.stage.most == 8
        assert set(swarm.outcomes()) == {"no_change"}
