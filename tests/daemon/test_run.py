"""`swarmd run`: now, whatever the schedule says; one session an agent; with a daemon and without."""

from __future__ import annotations

import asyncio
import json
import signal
import time

import pytest

from swarmd.errors import Busy, Refused
from tests.daemon.kit import MONDAY, until
from tests.daemon.processes import KEEPS, SLEEPER, STUBBORN, await_


async def test_it_runs_at_once_whatever_the_schedule_says(swarm):
    swarm.agent("disk", "0 3 * * *")
    swarm.agent("off", more="enabled = false\n")
    async with swarm.up():
        done = await swarm.ask("run", agent="disk")
        assert (done["outcome"], done["trigger"], done["by"]) == ("no_change", "manual", "operator:tester")
        assert (await swarm.ask("run", agent="off"))["outcome"] == "no_change"


async def test_one_of_twenty_runs_and_the_others_are_told_that_it_is_busy(swarm):
    swarm.agent("disk")
    swarm.stage.hold()
    async with swarm.up():
        asked = [asyncio.ensure_future(swarm.ask("run", agent="disk")) for _ in range(20)]
        await until(lambda: sum(one.done() for one in asked) == 19)
        swarm.stage.release()
        answers = await asyncio.gather(*asked, return_exceptions=True)
        assert sum(isinstance(answer, Busy) for answer in answers) == 19
        assert swarm.outcomes() == ["no_change"]


async def test_it_is_busy_while_a_session_waits_for_a_place_and_not_while_one_waits_for_its_time(swarm):
    swarm.settings(max_sessions=1)
    swarm.agent("first", "0 * * * *")
    swarm.agent("second", "0 * * * *")
    swarm.agent("later", 'cron = "0 * * * *"\njitter = "50m"\n')
    swarm.stage.hold()
    async with swarm.up():
        await swarm.at("11:00:00")
        for name in ("first", "second"):
            with pytest.raises(Busy):
                await swarm.ask("run", agent=name)
        now = asyncio.ensure_future(swarm.ask("run", agent="later"))
        swarm.stage.release()
        assert (await now)["trigger"] == "manual"


async def test_a_run_just_before_the_minute_is_the_one_session_and_the_slot_is_recorded(swarm):
    swarm.agent("disk", "0 * * * *")
    swarm.clock.set(MONDAY.replace(minute=59, second=59, microsecond=950_000))
    swarm.stage.hold()
    async with swarm.up():
        run = asyncio.ensure_future(swarm.ask("run", agent="disk"))
        await until(lambda: swarm.stage.now == 1)
        await swarm.at("11:00:00")
        swarm.stage.release()
        await run
        await swarm.rest()
        assert swarm.outcomes() == ["no_change"]
        assert swarm.slots() == [("11:00", "skipped", 1)]
        assert swarm.reasons("disk") == ["session 1 runs (overlap = skip)"]


async def test_where_it_is_paused_it_needs_force(swarm):
    swarm.agent("disk")
    async with swarm.up():
        await swarm.ask("pause", agent="all")
        with pytest.raises(Refused, match="--force"):
            await swarm.ask("run", agent="disk")
        assert (await swarm.ask("run", agent="disk", force=True))["outcome"] == "no_change"


async def test_a_text_is_an_operators_handoff_and_the_sessions_cause(swarm):
    swarm.agent("disk")
    async with swarm.up():
        done = await swarm.ask("run", agent="disk", text="look at /var")
        handoff = swarm.call("handoff_list")["items"][0]
        assert (handoff["sender"], handoff["receiver"], handoff["text"]) == (
            "operator",
            "disk",
            "look at /var",
        )
        assert swarm.sessions()[0]["cause_handoff"] == handoff["id"]
        assert "look at /var" in swarm.stage.played[0].user
        assert done["outcome"] == "no_change"


async def test_no_commit_runs_for_real_and_saves_nothing(swarm):
    swarm.agent("disk", part="set_key")
    async with swarm.up():
        done = await swarm.ask("run", agent="disk", mode="no_commit", text="try it")
        assert done["outcome"] == "dry_run"
        assert done["changes"][0]["act"] == "ctx_set"
        assert "try it" in swarm.stage.played[0].user
        assert swarm.call("ctx_list", agent="disk")["items"] == []
        assert swarm.call("handoff_list")["items"] == []


async def test_a_file_is_the_definition_of_that_session_only(swarm):
    swarm.agent("disk")
    async with swarm.up():
        text = 'system_prompt = "You are another."\nrunner = { kind = "play", part = "set_key" }\n'
        assert (await swarm.ask("run", agent="disk", file_text=text))["outcome"] == "committed"
        assert "You are another." in swarm.stage.played[0].system
        assert (await swarm.ask("run", agent="disk"))["outcome"] == "no_change"


async def test_runs_wait_their_turn_at_the_cap_and_whoever_waits_for_one_is_told_when_the_daemon_stops(swarm):
    swarm.settings(max_sessions=2)
    for number in range(4):
        swarm.agent(f"a{number}")
    swarm.stage.hold()
    async with swarm.up():
        runs = [asyncio.ensure_future(swarm.ask("run", agent=f"a{number}")) for number in range(4)]
        await until(lambda: swarm.daemon.starter.waiting == 2)
    ended = await asyncio.gather(*runs)
    assert {(row["outcome"], row["reason"]) for row in ended} == {("cancelled", "daemon stopped")}


async def test_so_many_runs_wait_that_other_calls_keep_their_threads(swarm, monkeypatch):
    monkeypatch.setattr("swarmd.daemon.remote.RUNS_AT_ONCE", 3)
    for number in range(4):
        swarm.agent(f"a{number}")
    swarm.stage.hold()
    async with swarm.up():
        runs = [asyncio.ensure_future(swarm.ask("run", agent=f"a{number}")) for number in range(3)]
        await until(lambda: swarm.stage.now == 3)
        with pytest.raises(Busy, match="wait for their end already"):
            await swarm.ask("run", agent="a3")
        swarm.stage.release()
        await asyncio.gather(*runs)


# -- without a daemon, and through the command


def test_without_a_daemon_it_starts_nothing_but_what_was_asked_for(place):
    place.agent("disk", "print('done')\n")
    place.agent("other", SLEEPER, 'every = "1s"')
    done = place.swarmd("--json", "run", "disk")
    assert json.loads(done.stdout)["outcome"] == "no_change"
    assert {row["agent"] for row in place.sessions()} == {"disk"}
    assert place.rows("SELECT * FROM slots") == []


def test_without_a_daemon_queued_sessions_of_others_stay_queued(place):
    place.settings(max_sessions=1, drain_timeout="0s")
    place.agent("a", SLEEPER, 'every = "1s"')
    place.agent("b", SLEEPER, 'every = "1s"')
    place.agent("disk", "")
    with place.serving():
        await_(lambda: any(row["state"] == "queued" for row in place.sessions()), lambda: "nobody waits")
        place.running(1)
    waiting = [row["id"] for row in place.sessions() if row["state"] == "queued"]
    place.swarmd("run", "disk")
    assert waiting
    assert [row["id"] for row in place.sessions() if row["state"] == "queued"] == waiting


def test_without_a_daemon_a_session_finds_what_was_said_and_done_before_it(place):
    """Only `swarmd run` drives this swarm: nobody else ever puts anything into the search index."""
    place.agent(
        "ann",
        "import subprocess, sys\n"
        "print('zebra said')\n"
        "subprocess.run(['swarmd', 'ctx', 'set', 'animal', 'zebra kept'], check=True)\n"
        f"found = subprocess.run(['swarmd', '--json', 'memory', 'search', 'zebra'], stdout=open({str(place.root / 'found')!r}, 'w'))\n"
        "sys.exit(found.returncode)\n",
    )
    place.swarmd("run", "ann")
    place.swarmd("run", "ann")
    found = json.loads((place.root / "found").read_text())
    first = {item["kind"] for item in found["items"] if item["session"] == 1}
    assert first >= {"output", "key"}
    assert found["indexed_until"] is not None


def test_interrupted_it_ends_its_session_and_keeps_the_draft(place):
    ready = place.root / "ready"
    place.agent("keeps", KEEPS.format(ready=ready))
    run = place.start("--json", "run", "keeps")
    await_(ready.exists, lambda: "it does not run")
    run.send_signal(signal.SIGINT)
    out, err = run.communicate(timeout=30)
    assert run.returncode == 1
    assert "Traceback" not in err
    assert json.loads(out)["outcome"] == "cancelled"
    assert json.loads(out)["draft"] == "open"
    assert place.programs() == []


def test_with_a_daemon_twenty_commands_make_one_session(place):
    place.agent("disk", "import time\ntime.sleep(8)\n")
    with place.serving():
        runs = [place.start("run", "disk") for _ in range(8)]
        said = [(run.communicate(timeout=60)[1], run.returncode) for run in runs]
        assert sorted(status for _, status in said) == [0] + [6] * 7, said
        assert len(place.sessions()) == 1


def test_a_command_that_waits_is_answered_when_the_daemon_stops(place):
    place.agent("stubborn", STUBBORN)
    with place.serving() as served:
        run = place.start("--json", "run", "stubborn")
        place.running(1)
        time.sleep(0.2)
        served.signal(signal.SIGTERM)
        assert served.ended() == 0
        out, _ = run.communicate(timeout=30)
        assert run.returncode == 1
        assert json.loads(out)["reason"] == "daemon stopped"
