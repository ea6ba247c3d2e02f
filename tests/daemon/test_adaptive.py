"""Adaptive schedules in a daemon on a fake clock: each rule, restarts, clocks that are set, pauses, many agents."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from swarmd.core.instants import from_text
from swarmd.core.wire import Message
from tests.daemon import kit

SCHEDULE = 'adaptive = { min = "10m", max = "2h", work = ["backlog"] }\n'


@pytest.fixture
def adaptive(swarm):
    swarm.agent("a", SCHEDULE)
    return swarm


def next_of(swarm, agent="a"):
    found = swarm.call("why", agent=agent)["next_fire"]
    return None if found is None else found[11:19]


def why(swarm, agent="a"):
    return swarm.call("why", agent=agent)["next_reason"]


def triggers(swarm, agent="a"):
    return [row["trigger"] for row in swarm.sessions(agent)]


async def later(swarm, **by):
    swarm.clock.pass_(timedelta(**by).total_seconds())
    await swarm.tick()
    await swarm.tick()


async def test_it_starts_first_after_the_least_wait_and_ever_later_while_nothing_changes(adaptive):
    async with adaptive.up():
        assert (next_of(adaptive), why(adaptive)) == (
            "10:40:00", "no session yet: 10m after the schedule came into force",
        )  # fmt: skip
        await adaptive.at("10:39:59")
        assert adaptive.sessions() == []
        await adaptive.at("10:40")
        assert (next_of(adaptive), why(adaptive)) == (
            "11:00:01", "no_change: 20m after session 1; sooner when a handoff comes or key backlog is set",
        )  # fmt: skip
        await adaptive.at("11:00:01")
        assert next_of(adaptive) == "11:40:02"
        await adaptive.at("11:40:02")
        assert next_of(adaptive) == "13:00:03"
        await adaptive.at("13:00:03")
        assert why(adaptive).startswith("no_change 4 times: 2h after session 4")
        assert triggers(adaptive) == ["adaptive"] * 4
        assert [row[1] for row in adaptive.slots()] == ["started"] * 4
        assert adaptive.reasons("a")[1] == (
            "on time: no_change: 20m after session 1; sooner when a handoff comes or key backlog is set"
        )


async def test_sessions_that_save_something_keep_it_at_its_least_wait(swarm):
    swarm.agent("a", SCHEDULE, part="set_key")
    async with swarm.up():
        for minute in ("10:40", "10:50:01", "11:00:02"):
            await swarm.at(minute)
        assert swarm.outcomes("a") == ["committed"] * 3
        assert next_of(swarm) == "11:10:03"
        assert why(swarm) == "committed 3 times: 10m after session 3"


@pytest.mark.parametrize("how", ["handoff", "key", "another session"])
async def test_work_that_comes_during_a_long_wait_brings_it_forward(adaptive, how):
    adaptive.agent("boss")
    adaptive.agent("a", SCHEDULE, parent="boss")

    async def sends(request, desk):
        args = {"to": "a", "text": "do it"}
        assert (await desk.call(Message(id="1", call="handoff_send", args=args))).error is None
        return await kit.play.succeed(request, desk)

    async with adaptive.up():
        adaptive.stage.parts["succeed"] = kit.play.succeed
        await adaptive.at("10:40")
        await adaptive.at("11:00:01")
        assert next_of(adaptive) == "11:40:02"
        await adaptive.at("11:05")
        if how == "handoff":
            await adaptive.ask("handoff_send", to="a", text="do it")
        elif how == "key":
            await adaptive.ask("ctx_set", agent="a", key="backlog", value="3 tickets")
        else:
            adaptive.stage.parts["succeed"] = sends
            await adaptive.ask("run", agent="boss")
            adaptive.stage.parts["succeed"] = kit.play.succeed
        await adaptive.tick()
        assert next_of(adaptive) == "11:10:02"
        pending = "key backlog is set" if how == "key" else "1 open handoff"
        assert why(adaptive) == f"{pending}: 10m after session 2"
        await adaptive.at("11:10:02")
        assert adaptive.outcomes("a") == ["no_change"] * 3


async def test_what_is_told_is_the_state_as_it_is_before_the_daemon_has_looked_at_it(adaptive):
    def told():
        agent, (fire,) = adaptive.call("agent_list")["items"][0], adaptive.call("next", agent="a")["fires"]
        assert (agent["next"], agent["next_reason"]) == (fire["start"], fire["reason"])
        assert fire["reason"] == why(adaptive)
        assert fire["start"][11:19] == next_of(adaptive)
        assert fire["reason"] in adaptive.call("prompt", agent="a")["user"]
        return next_of(adaptive), why(adaptive)

    async with adaptive.up():
        await adaptive.at("10:40")
        await adaptive.at("11:00:01")
        await adaptive.at("11:05")
        long = told()
        await adaptive.ask("ctx_set", agent="a", key="backlog", value="3 tickets")
        expected = ("11:10:02", "key backlog is set: 10m after session 2")
        assert told() == expected
        await adaptive.tick()
        assert told() == expected
        await adaptive.ask("ctx_set", agent="a", key="backlog", value="0")
        assert told() == long


async def test_work_that_comes_late_is_done_at_once_and_work_that_goes_leaves_the_long_wait(adaptive):
    async with adaptive.up():
        for minute in ("10:40", "11:00:01", "11:40:02"):
            await adaptive.at(minute)
        assert next_of(adaptive) == "13:00:03"
        await adaptive.at("11:41")
        await adaptive.ask("ctx_set", agent="a", key="backlog", value="1")
        await adaptive.tick()
        assert next_of(adaptive) == "11:50:03"
        await adaptive.ask("ctx_set", agent="a", key="backlog", value="[]")
        await adaptive.tick()
        assert next_of(adaptive) == "13:00:03"
        await adaptive.at("12:30")
        await adaptive.ask("ctx_set", agent="a", key="backlog", value="1")
        await adaptive.tick()
        await adaptive.at("12:30:01")
        await adaptive.at("12:30:02")
        assert len(adaptive.sessions("a")) == 4
        assert adaptive.sessions("a")[-1]["note"].endswith("after session 3, which is past")


async def test_another_agents_key_or_a_handoff_that_waits_for_an_answer_is_no_work(adaptive):
    adaptive.agent("b")
    async with adaptive.up():
        await adaptive.at("10:40")
        before = next_of(adaptive)
        await adaptive.ask("ctx_set", agent="b", key="backlog", value="1")
        await adaptive.ask("ctx_set", agent="a", key="other", value="1")
        sent = await adaptive.ask("handoff_send", to="a", text="do it")
        await adaptive.ask("handoff_ask", id=sent["id"], text="which?")
        await adaptive.tick()
        assert next_of(adaptive) == before


async def test_after_a_failure_the_wait_stays_and_retries_go_their_own_way(swarm):
    swarm.agent("a", SCHEDULE, part="fail", more='[limits]\nretries = 1\nretry_delay = "1m"\n')
    async with swarm.up():
        await swarm.ask("ctx_set", agent="a", key="backlog", value="1")
        await swarm.at("10:40")
        assert next_of(swarm) == "10:50:01"
        assert "does not bring it forward until a session ends well" in why(swarm)
        await swarm.at("10:43")
        assert triggers(swarm) == ["adaptive", "retry"]
        assert next_of(swarm) == "10:53:01", "the retry was the last session"


async def test_a_session_that_a_person_starts_counts_as_the_last_one(adaptive):
    async with adaptive.up():
        await adaptive.at("10:35")
        await adaptive.ask("run", agent="a")
        await adaptive.rest()
        assert next_of(adaptive) == "10:55:01"
        await adaptive.ask("run", agent="a", mode="no_commit")
        await adaptive.rest()
        assert next_of(adaptive) == "10:55:01", "one that saves nothing does not"


async def test_while_its_session_runs_nothing_is_chosen(adaptive):
    async with adaptive.up():
        adaptive.stage.hold()
        await adaptive.at("10:40")
        for minute in ("10:50", "12:00"):
            await adaptive.at(minute)
        assert next_of(adaptive) is None
        assert why(adaptive) == "its next moment is chosen when the session of this one has ended"
        assert adaptive.call("next", agent="a")["fires"] == []
        assert len(adaptive.slots()) == 1
        adaptive.stage.release()
        await adaptive.rest()
        await adaptive.tick()
        assert next_of(adaptive) == "12:20:01"


async def test_a_slot_that_finds_a_session_running_is_skipped_and_the_end_decides(adaptive):
    async with adaptive.up():
        await adaptive.at("10:35")
        adaptive.stage.hold()
        run = adaptive.daemon.spawn(adaptive.ask("run", agent="a"))
        await kit.until(lambda: adaptive.stage.played)
        adaptive.clock.go_to(adaptive.clock.wall.replace(minute=40, second=0, microsecond=1000))
        await adaptive.daemon.tick()
        await kit.until(adaptive.slots)
        assert adaptive.slots() == [("10:40", "skipped", 1)]
        adaptive.stage.release()
        await run
        await adaptive.rest()
        assert next_of(adaptive) == "11:00:01"


# -- pause, disabled, definitions -------------------------------------------------------------------------------------


async def test_a_paused_agent_skips_its_slots_and_goes_on_when_it_is_resumed(adaptive):
    async with adaptive.up():
        await adaptive.ask("pause", agent="a", reason="holiday")
        await adaptive.at("10:40")
        await adaptive.at("10:50:01")
        assert [row[1] for row in adaptive.slots()] == ["skipped"] * 2
        assert why(adaptive).startswith("paused at a by")
        await adaptive.ask("resume", agent="a")
        await adaptive.tick()
        assert next_of(adaptive) == "11:00:02"
        assert why(adaptive) == "no session yet: 10m after its last slot, which started nothing"
        await adaptive.at("11:00:02")
        assert adaptive.outcomes("a") == ["no_change"]


async def test_a_disabled_one_starts_nothing(swarm):
    swarm.agent("a", SCHEDULE, more="enabled = false\n")
    async with swarm.up():
        await swarm.at("10:40")
        await swarm.at("10:50:01")
        assert swarm.sessions() == []
        assert [row[1] for row in swarm.slots()] == ["skipped"] * 2
        assert swarm.call("next", agent="a")["fires"] == []


async def test_a_changed_schedule_starts_afresh_and_another_change_does_not(adaptive):
    async with adaptive.up():
        await adaptive.at("10:40")
        assert next_of(adaptive) == "11:00:01"
        adaptive.agent("a", SCHEDULE, more='description = "another"\n')
        await adaptive.ask("reload")
        assert next_of(adaptive) == "11:00:01"
        adaptive.agent("a", SCHEDULE.replace("10m", "5m"))
        await adaptive.at("10:45")
        await adaptive.ask("reload")
        assert (next_of(adaptive), why(adaptive)) == (
            "10:50:01",
            "no session yet: 5m after the schedule came into force",
        )
        adaptive.agent("a", "*/10 * * * *")
        await adaptive.ask("reload")
        assert adaptive._rows("SELECT * FROM adaptive") == []
        await adaptive.at("10:50")
        assert triggers(adaptive) == ["adaptive", "cron"]


async def test_jitter_and_overlap_mean_what_they_always_mean(swarm):
    swarm.agent("a", SCHEDULE + 'jitter = "5m"\n')
    async with swarm.up():
        start = swarm.call("why", agent="a")["next_fire"]
        assert "10:40:00" < start[11:19] < "10:45:00"
        await swarm.at("10:40")
        assert swarm.outcomes("a") == ["queued"]
        await swarm.at_moment(from_text(start) + timedelta(milliseconds=10))
        assert swarm.outcomes("a") == ["no_change"]
        assert swarm.slots() == [("10:40", "started", 1)]


# -- restarts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("killed", [False, True])
async def test_a_restart_neither_fires_twice_nor_forgets(adaptive, killed):
    async with adaptive.up(killed=killed):
        await adaptive.at("10:40")
        row = adaptive._rows("SELECT * FROM adaptive")
    async with adaptive.up():
        assert adaptive._rows("SELECT * FROM adaptive") == row
        await adaptive.tick()
        assert len(adaptive.sessions()) == 1
        await adaptive.at("11:00:01")
        assert len(adaptive.sessions()) == 2
        assert next_of(adaptive) == "11:40:02"


@pytest.mark.parametrize(
    ("catch_up", "decisions"), [("none", ["started", "missed"]), ("last", ["started", "started"])]
)
async def test_a_moment_that_passed_while_the_daemon_was_down_follows_catch_up(swarm, catch_up, decisions):
    swarm.agent("a", SCHEDULE + f'catch_up = "{catch_up}"\n')
    async with swarm.up():
        await swarm.at("10:40")
    swarm.clock.pass_(5 * 3600)
    async with swarm.up():
        await swarm.rest()
        assert [row[1] for row in swarm.slots()] == decisions
        assert "missed: the daemon was down" in swarm.reasons("a")[-1]
        if catch_up == "none":
            assert why(swarm).startswith("no_change: 20m after its last slot, which started nothing")
            assert next_of(swarm) == "16:00:01"
        else:
            assert triggers(swarm) == ["adaptive", "catch_up"]
            assert next_of(swarm) == "16:20:01"


async def test_a_session_that_was_lost_with_the_daemon_is_the_last_one(adaptive):
    async with adaptive.up(killed=True):
        adaptive.stage.hold()
        await adaptive.at("10:40")
    adaptive.stage.release()
    adaptive.clock.pass_(60)
    async with adaptive.up():
        assert adaptive.outcomes("a") == ["lost"]
        assert (next_of(adaptive), why(adaptive)) == ("10:51:01", "lost: 10m after session 1")


async def test_what_ended_and_was_not_counted_before_a_kill_is_counted_at_the_start(adaptive):
    async with adaptive.up():
        await adaptive.at("10:40")
        adaptive.daemon.store.writer.do(lambda c: c.execute("DELETE FROM adaptive"))
    async with adaptive.up():
        assert why(adaptive).startswith("no_change: 20m after session 1")


async def test_a_slot_that_started_nothing_before_a_kill_is_followed_by_another(adaptive):
    async with adaptive.up():
        await adaptive.ask("pause", agent="a")
        await adaptive.at("10:40")
        back = "UPDATE adaptive SET next = '2091-01-01T10:40:00.000000Z'"
        adaptive.daemon.store.writer.do(lambda c: c.execute(back))  # as if it had died before it chose
    adaptive.clock.pass_(60)
    async with adaptive.up():
        await adaptive.ask("resume", agent="a")
        await adaptive.tick()
        assert next_of(adaptive) == "10:51:01"
        assert len(adaptive.slots()) == 1


async def test_without_a_daemon_that_schedules_nothing_is_chosen(adaptive):
    async with adaptive.up(scheduling=False):
        await adaptive.ask("run", agent="a")
        assert adaptive._rows("SELECT * FROM adaptive") == []
        assert why(adaptive) == "its first moment is not chosen yet: the daemon does so when it runs"
    async with adaptive.up():
        assert why(adaptive).startswith("no_change: 20m after session 1")


# -- clocks -----------------------------------------------------------------------------------------------------------


async def test_a_clock_that_is_set_back_does_not_repeat_a_slot_nor_stretch_the_wait(adaptive):
    async with adaptive.up():
        await adaptive.at("10:40")
        adaptive.clock.set(adaptive.clock.wall - timedelta(minutes=5))
        await adaptive.tick()
        await adaptive.tick()
        assert len(adaptive.sessions()) == 1
        assert next_of(adaptive) == "10:55:01"


async def test_after_a_sleep_its_moment_was_missed_and_it_goes_on_from_now(adaptive):
    async with adaptive.up():
        await adaptive.at("10:40")
        adaptive.clock.set(adaptive.clock.wall + timedelta(hours=3))
        await adaptive.tick()
        await adaptive.tick()
        assert [row[1] for row in adaptive.slots()] == ["started", "missed"]
        assert "the host was asleep" in adaptive.reasons("a")[-1]
        assert next_of(adaptive) == "14:00:01"


# -- looking ----------------------------------------------------------------------------------------------------------


async def test_every_look_tells_the_same(adaptive):
    async with adaptive.up():
        await adaptive.at("10:40")
        (agent,) = adaptive.call("agent_list")["items"]
        assert (agent["schedule"], agent["next"][11:19]) == ("adaptive 10m..2h", "11:00:01")
        said = "no_change: 20m after session 1; sooner when a handoff comes or key backlog is set"
        assert agent["next_reason"] == adaptive.call("agent_show", agent="a")["next_reason"] == said
        (fire,) = adaptive.call("next", agent="a", n=5)["fires"]
        assert (fire["slot"][11:19], fire["reason"]) == ("11:00:01", said)
        assert adaptive.call("status")["next_adaptive"]["reason"] == said
        await adaptive.ask("pause", agent="a")
        assert adaptive.call("status")["next_adaptive"] is None
        await adaptive.ask("resume", agent="a")
        printed = adaptive.call("prompt", agent="a", at="2091-01-01T11:00:01.001+00:00")
        await adaptive.at("11:00:01")
        assert said in printed["user"]
        assert "trigger adaptive: your schedule came due, which follows the work" in printed["user"]
        assert adaptive.stage.played[-1].user == printed["user"]


async def test_a_renamed_agent_takes_its_pace_along_and_a_forgotten_one_leaves_none(adaptive):
    async with adaptive.up():
        await adaptive.at("10:40")
        (adaptive.places.agents / "a.toml").unlink()
        adaptive.agent("b", SCHEDULE)
        await adaptive.ask("reload", allow_empty=True)
        adaptive.clock.pass_(11)
        await adaptive.ask("reload")
        await adaptive.ask("rename", old="a", new="b")
        await adaptive.ask("reload")
        await adaptive.daemon.minute()
        await adaptive.rest()
        assert why(adaptive, "b").startswith("no_change: 20m after session 1")
        (adaptive.places.agents / "b.toml").unlink()
        adaptive.agent("c")
        await adaptive.ask("reload", allow_empty=True)
        adaptive.clock.pass_(11)
        await adaptive.ask("reload")
        await asyncio.to_thread(adaptive.daemon.service.call, kit.OPERATOR, "forget", {"name": "b"})
        assert adaptive._rows("SELECT * FROM adaptive") == []


# -- many -------------------------------------------------------------------------------------------------------------


async def test_a_thousand_cost_little_while_nothing_happens(swarm):
    for number in range(1000):
        swarm.agent(f"a{number:03}", SCHEDULE)
    swarm.settings(max_sessions=4)
    async with swarm.up():
        await swarm.tick()
        assert len(swarm._rows("SELECT * FROM adaptive")) == 1000
        assert len(swarm.daemon.scheduler.keys()) == 0
        asked: list[str] = []
        swarm.daemon.reader.set_trace_callback(asked.append)
        for _ in range(100):
            await swarm.daemon.adapting.tick()
        assert set(asked) == {"PRAGMA data_version"}
        asked.clear()
        await swarm.ask("ctx_set", agent="a000", key="other", value="1")
        await swarm.daemon.adapting.tick()
        assert len([sql for sql in asked if "json_each" in sql]) == 2
        assert len(asked) < 10, "a commit that concerns nobody costs two reads for all"
        swarm.daemon.reader.set_trace_callback(None)
        await swarm.ask("ctx_set", agent="a007", key="backlog", value="1")
        await swarm.tick()
        assert why(swarm, "a007") == "key backlog is set: 10m after the schedule came into force"


async def test_the_scheduler_itself_fires_at_the_chosen_moment(swarm):
    # On the machine's own clock: what is tested is that the library's timer is told of each new moment.
    from swarmd.daemon.clock import RealClock

    swarm.clock = RealClock()
    swarm.agent("a", 'adaptive = { min = "1s", max = "1s" }')
    async with swarm.up():
        await kit.until(lambda: len(swarm.slots()) >= 2)
        rows = swarm._rows("SELECT slot, at FROM slots WHERE decision = 'started'")
        assert rows
        assert max((from_text(row["at"]) - from_text(row["slot"])).total_seconds() for row in rows) < 0.9
