"""When memory is put in order: after quiet or by cron, once, across restarts and pauses, and never in the way of work."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta

import pytest

from swarmd.core.wire import MemoryTree, Result
from tests.daemon.kit import MONDAY, until
from tests.daemon.test_models import KEY, model_agent
from tests.model_server import answers as say
from tests.model_server.server import ModelServer

ONCE = "0 11 * * *"
AFTER = '[consolidate]\nafter = "30m"\n'
NOTHING = "nothing was started"


@pytest.fixture
def swarm(swarm):
    """Sessions that do nothing; a consolidation writes a line, or ends as `swarm.how` says."""
    swarm.how = "success"

    async def plays(request, desk):
        if request.trigger != "consolidate":
            return Result(outcome="success", exit=0, memory=request.memory)
        files = {**request.memory.as_files(), "MEMORY.md": f"in order {request.session}\n".encode()}
        return Result(
            outcome=swarm.how, reason="" if swarm.how == "success" else "no idea", memory=MemoryTree.of(files)
        )

    swarm.stage.parts["plays"] = plays
    return swarm


def consolidations(swarm, agent=None):
    """Each as when it was queued and how it ended."""
    found = [row for row in swarm.sessions(agent) if row["trigger"] == "consolidate"]
    return [(row["queued"][11:16], row["outcome"] or row["state"]) for row in found]


async def wait_until_ended(swarm):
    await until(lambda: not swarm.daemon.starter.running and not swarm.daemon.starter.waiting)


# -- after quiet --------------------------------------------------------------------------------------------


async def test_it_comes_once_when_the_agent_has_been_quiet_for_so_long(swarm):
    swarm.agent("a", ONCE, part="plays", more=AFTER)
    async with swarm.up():
        await swarm.at("10:59")
        assert consolidations(swarm) == [], "there is nothing to look at yet"
        await swarm.at("11:00")
        await swarm.at("11:29:50")
        assert consolidations(swarm) == []
        await swarm.at("11:30:01")
        assert consolidations(swarm) == [("11:30", "committed")]
        assert swarm.sessions()[-1]["by"] == "system"
        assert swarm.sessions()[-1]["note"] == "after 30m without a session"
        await swarm.at("23:00")
        assert len(consolidations(swarm)) == 1, "nothing new, nothing to do"
        assert swarm.slots("a") == [("11:00", "started", 1)], "it is no slot"


async def test_each_session_of_the_agent_begins_the_quiet_anew(swarm):
    swarm.agent("a", "*/20 11-12 * * *", part="plays", more=AFTER)
    async with swarm.up():
        for moment in ("11:00", "11:20", "11:40", "12:00", "12:20", "12:40"):
            await swarm.at(moment)
            assert consolidations(swarm) == []
        await swarm.at("13:09:59")
        assert consolidations(swarm) == []
        await swarm.at("13:10:01")
        assert consolidations(swarm) == [("13:10", "committed")]


async def test_an_agent_that_runs_is_not_quiet(swarm):
    swarm.agent("a", ONCE, part="plays", more=AFTER)
    async with swarm.up():
        await swarm.at("11:00")
        swarm.stage.hold()
        running = asyncio.ensure_future(swarm.ask("run", agent="a"))
        await until(lambda: swarm.daemon.starter.running)
        await swarm.at("12:00")
        assert consolidations(swarm) == []
        swarm.stage.release()
        await running
        await swarm.at("12:29:59")
        assert consolidations(swarm) == []
        await swarm.at("12:30:01")
        assert consolidations(swarm) == [("12:30", "committed")]


async def test_one_that_was_due_while_the_daemon_was_down_comes_once_at_its_start(swarm):
    swarm.agent("a", ONCE, part="plays", more=AFTER)
    async with swarm.up():
        await swarm.at("11:00")
    swarm.clock.go_to(MONDAY.replace(hour=15))
    async with swarm.up():
        await swarm.tick()
        assert consolidations(swarm) == [("15:30", "committed")]
    async with swarm.up():
        await swarm.tick()
        assert len(consolidations(swarm)) == 1


async def test_one_that_waited_when_the_daemon_was_killed_is_started_and_not_queued_again(swarm):
    swarm.settings(max_sessions=1)
    swarm.agent("a", ONCE, part="plays", more=AFTER)
    swarm.agent("b", "15 11 * * *", part="plays")
    async with swarm.up(killed=True):
        await swarm.at("11:00")
        swarm.stage.hold()
        await swarm.at("11:15")
        await swarm.at("11:30:01")
        assert consolidations(swarm) == [("11:30", "queued")]
    swarm.stage.release()
    async with swarm.up():
        await swarm.tick()
        assert consolidations(swarm) == [("11:30", "committed")]


async def test_one_that_was_lost_with_the_daemon_comes_again_after_more_quiet(swarm):
    swarm.agent("a", ONCE, part="plays", more=AFTER)
    async with swarm.up(killed=True):
        await swarm.at("11:00")
        swarm.stage.hold()
        await swarm.at("11:30:01")
        assert consolidations(swarm) == [("11:30", "running")]
    swarm.stage.release()
    async with swarm.up():
        await swarm.tick()
        assert consolidations(swarm) == [("11:30", "lost")]
        await swarm.at("12:31")
        assert consolidations(swarm) == [("11:30", "lost"), ("12:31", "committed")]


# -- paused, disabled, removed ------------------------------------------------------------------------------


async def test_a_paused_agent_is_left_alone_until_it_is_resumed(swarm):
    swarm.agent("top", part="plays")
    swarm.agent("a", ONCE, parent="top", part="plays", more=AFTER)
    async with swarm.up():
        await swarm.at("11:00")
        await swarm.ask("pause", agent="top")
        await swarm.at("11:31")
        await swarm.at("14:00")
        assert consolidations(swarm) == []
        await swarm.ask("resume", agent="top")
        await swarm.at("14:02")
        assert consolidations(swarm) == [("14:02", "committed")]


async def test_a_disabled_agent_and_one_that_never_asked_have_none(swarm):
    swarm.agent("off", part="plays", more="enabled = false\n" + AFTER)
    swarm.agent("plain", part="plays")
    async with swarm.up():
        for name in ("off", "plain"):
            await swarm.ask("run", agent=name)
        await swarm.at("23:00")
        assert consolidations(swarm) == []


async def test_a_file_that_begins_to_ask_for_it_is_heard_at_once(swarm):
    swarm.agent("a", ONCE, part="plays")
    async with swarm.up():
        await swarm.at("11:00")
        await swarm.at("13:00")
        swarm.agent("a", ONCE, part="plays", more=AFTER)
        await swarm.daemon.reload(force=True)
        await swarm.at("13:01")
        assert consolidations(swarm) == [("13:01", "committed")]


# -- by cron ------------------------------------------------------------------------------------------------

NIGHTLY = '[consolidate]\ncron = "0 3 * * *"\n'


async def test_by_cron_it_comes_at_its_moments_and_costs_nothing_where_nothing_is_new(swarm):
    swarm.agent("a", part="plays", more=NIGHTLY)
    async with swarm.up():
        await swarm.ask("run", agent="a")
        await swarm.at("23:59")
        assert consolidations(swarm) == []
        tuesday = MONDAY + timedelta(days=1)
        await swarm.at_moment(tuesday.replace(hour=3, minute=0, second=1))
        assert consolidations(swarm) == [("03:00", "committed")]
        await swarm.at_moment(tuesday.replace(hour=3, minute=0, second=2))
        assert len(consolidations(swarm)) == 1
        await swarm.at_moment(tuesday.replace(hour=3, minute=0, second=1) + timedelta(days=1))
        assert consolidations(swarm) == [("03:00", "committed"), ("03:00", "no_change")]
        assert [request.trigger for request in swarm.stage.played] == ["manual", "consolidate"]


async def test_by_cron_what_was_missed_while_the_daemon_was_down_comes_once(swarm):
    swarm.agent("a", part="plays", more=NIGHTLY)
    async with swarm.up():
        await swarm.ask("run", agent="a")
    swarm.clock.pass_(5 * 86400)
    async with swarm.up():
        await swarm.tick()
        assert consolidations(swarm) == [("10:30", "committed")]
        await swarm.at("23:00")
        assert len(consolidations(swarm)) == 1


async def test_by_cron_with_nothing_new_a_row_says_so_and_no_runner_is_asked(swarm):
    swarm.agent("a", part="plays", more=NIGHTLY)
    async with swarm.up():
        await swarm.at_moment((MONDAY + timedelta(days=1)).replace(hour=3, minute=1))
        (row,) = swarm.sessions("a")
        assert (row["outcome"], row["started"]) == ("no_change", None)
        assert NOTHING in row["reason"]
        assert swarm.stage.played == []
        shown = swarm.call("why", agent="a")
        assert NOTHING in shown["sessions"][0]["reason"]


# -- failures -----------------------------------------------------------------------------------------------


async def test_failures_wait_longer_each_time_are_told_after_three_and_are_none_of_the_agents(swarm):
    swarm.agent("a", ONCE, part="plays", more="[limits]\npause_after_failures = 2\nretries = 5\n" + AFTER)
    swarm.how = "failed"
    async with swarm.up():
        await swarm.at("11:00")
        await swarm.at("11:30:01")
        await swarm.at("12:29")
        assert consolidations(swarm) == [("11:30", "failed")], "no retry"
        await swarm.at("12:31")
        await swarm.at("14:30")
        assert "consolidation:a" not in swarm.attention()
        await swarm.at("14:32")
        assert consolidations(swarm) == [("11:30", "failed"), ("12:31", "failed"), ("14:32", "failed")]
        assert swarm.attention() == ["consolidation:a"]
        item = swarm.call("attention")["items"][0]
        assert "3 in a row" in item["text"]
        assert "no idea" in item["text"]
        assert "(3 did not go well)" in swarm.call("why", agent="a")["consolidation"]["reason"]
        assert swarm.call("agent_show", agent="a")["last_outcome"] == "no_change"
        assert not swarm.call("agent_show", agent="a")["paused"]
        swarm.how = "success"
        await swarm.at("18:33")
        assert consolidations(swarm)[-1] == ("18:33", "committed")
        assert swarm.attention() == []


# -- beside the agent's own work ----------------------------------------------------------------------------


@pytest.mark.parametrize("overlap", ["skip", "queue"])
async def test_a_slot_that_comes_meanwhile_waits_for_its_end_and_is_not_lost(swarm, overlap):
    swarm.agent("a", f'cron = "0 11,12 * * *"\noverlap = "{overlap}"\n', part="plays", more=AFTER)
    async with swarm.up():
        await swarm.at("11:00")
        swarm.stage.hold()
        await swarm.at("11:30:01")
        await swarm.at("12:00")
        assert swarm.slots("a")[-1] == ("12:00", "deferred", 1)
        assert "which looks after its memory" in swarm.reasons("a")[-1]
        swarm.stage.release()
        await wait_until_ended(swarm)
        assert swarm.slots("a")[-1] == ("12:00", "started", 1)
        assert swarm.outcomes("a") == ["no_change", "committed", "no_change"]


async def test_a_slot_may_cancel_it_where_the_agents_file_says_so(swarm):
    swarm.agent("a", 'cron = "0 11,12 * * *"\noverlap = "cancel_running"\n', part="plays", more=AFTER)
    async with swarm.up():
        await swarm.at("11:00")
        swarm.stage.hold()
        await swarm.at("11:30:01")
        await swarm.at("12:00")
        swarm.stage.release()
        await wait_until_ended(swarm)
        assert swarm.outcomes("a") == ["no_change", "cancelled", "no_change"]


async def test_one_that_only_waits_for_a_place_is_in_no_slots_way(swarm):
    swarm.settings(max_sessions=1)
    swarm.agent("a", "0 11,12 * * *", part="plays", more=AFTER)
    swarm.agent("b", "15 11 * * *", part="plays")
    async with swarm.up():
        await swarm.at("11:00")
        swarm.stage.hold()
        await swarm.at("11:15")
        await swarm.at("11:30:01")
        await swarm.at("12:00")
        assert swarm.slots("a")[-1] == ("12:00", "started", 1)
        swarm.stage.release()
        await wait_until_ended(swarm)
        assert set(swarm.outcomes("a")) == {"no_change", "committed"}
        assert len(swarm.outcomes("a")) == 3


async def test_why_tells_when_it_comes_next(swarm):
    swarm.agent("a", ONCE, part="plays", more=AFTER)
    swarm.agent("plain", part="plays")
    async with swarm.up():
        told = swarm.call("why", agent="a")["consolidation"]
        assert told == {"next": None, "reason": "when there has been a session since the last one"}
        await swarm.at("11:00")
        told = swarm.call("why", agent="a")["consolidation"]
        assert told["next"].startswith("2091-01-01T11:30:00")
        assert told["reason"] == "after 30m without a session"
        assert swarm.call("why", agent="plain")["consolidation"] is None


async def test_an_operator_can_have_it_done_now_also_where_no_file_asks_for_it(swarm):
    swarm.agent("a", part="plays")
    async with swarm.up():
        await swarm.ask("run", agent="a")
        await swarm.ask("pause", agent="a")
        document = await swarm.ask("run", agent="a", trigger="consolidate", force=True)
        assert (document["outcome"], document["trigger"], document["by"]) == (
            "committed", "consolidate", "operator:tester",
        )  # fmt: skip
        assert (swarm.places.state / "memory/a/MEMORY.md").read_text() == f"in order {document['id']}\n"
        document = await swarm.ask("run", agent="a", trigger="consolidate", force=True)
        assert document["outcome"] == "no_change"
        assert NOTHING in document["reason"]


async def test_what_an_operator_waited_for_is_not_done_by_the_next_daemon(swarm):
    swarm.settings(max_sessions=1)
    swarm.agent("a", part="plays")
    swarm.agent("b", part="plays")
    async with swarm.up(killed=True):
        await swarm.ask("run", agent="a")
        swarm.stage.hold()
        other = asyncio.ensure_future(swarm.ask("run", agent="b"))
        await until(lambda: swarm.daemon.starter.running)
        asked = asyncio.ensure_future(swarm.ask("run", agent="a", trigger="consolidate"))
        await until(lambda: swarm.daemon.starter.waiting)
    for waiting in (other, asked):
        waiting.cancel()
    swarm.stage.release()
    async with swarm.up():
        await swarm.tick()
        assert consolidations(swarm) == [(MONDAY.strftime("%H:%M"), "cancelled")]


# -- with a model -------------------------------------------------------------------------------------------


def test_a_model_of_its_own_reads_what_was_said_and_rewrites_the_memory_by_its_tool_alone(place):
    notes = "# Deploys\n- the key is in the safe (session 1, 2026-11-30)\n"

    def works(body):
        if len(body["messages"]) > 1:
            return say.text("Deployed. The key was in the safe.")
        return say.tools(
            say.call("memory", command="create", path="/memories/MEMORY.md", file_text="- key?\n- key??\n"),
            say.call("ctx_set", key="deployed", value="yes"),
        )

    def tidies(body):
        if len(body["messages"]) > 1:
            return say.text("in order")
        return say.tools(
            say.call(
                "memory",
                command="str_replace",
                path="/memories/MEMORY.md",
                old_str="- key?\n- key??\n",
                new_str=notes,
            )
        )

    # The prompt of each says whose it is; the second is a consolidation's.
    with ModelServer(scripts={"You put the memory": tidies, "You are the agent lead": works}) as server:
        model_agent(place, server, "lead", runner='tools = ["acts", "memory", "bash"]\n[consolidate]\n'
                    'model = "claude-haiku-4-5"\ntokens_per_session = 100_000')  # fmt: skip
        with place.serving(ANTHROPIC_API_KEY=KEY):
            ran = place.swarmd("--json", "run", "lead", check=False)
            assert json.loads(ran.stdout)["outcome"] == "committed", ran.stdout
            ran = place.swarmd("--json", "memory", "consolidate", "lead", check=False)
            session = json.loads(ran.stdout)
            assert session["outcome"] == "committed", session
            assert place.swarmd("memory", "show", "lead").stdout == notes
            assert session["usage"][0]["model"].startswith("claude-haiku-4-5")
            assert session["tokens_out"] > 0
            assert place.swarmd("memory", "consolidate", "lead").returncode == 0
        assert server.complaints == []
        asked = server.messages[-2].body
    assert asked["model"] == "claude-haiku-4-5"
    assert {tool["name"] for tool in asked["tools"]} == {"memory", "session_list", "session_show", "fail"}
    said = asked["messages"][0]["content"]
    text = "".join(part["text"] for part in said)
    assert "said: Deployed. The key was in the safe." in text
    assert "called ctx_set" in text
    assert "- key?\n- key??" in text
