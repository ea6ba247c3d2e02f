"""`swarmd mcp --operator`: an operator's own assistant reads everything, acts with --write only, and is recorded."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import asynccontextmanager
from typing import Any

import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters

from swarmd.cli.client import READS as CLI_READS
from swarmd.core.acts import ACTS
from swarmd.core.operator_tools import ACTING, READING
from swarmd.core.tools import TOOLS
from swarmd.service import operating
from swarmd.service.caller import this_operator
from swarmd.service.reading import OPERATORS_ONLY, READS
from tests.mcp.kit import bad, good, sentence

NAME = this_operator().name
WRITES = """import subprocess
subprocess.run(["swarmd", "ctx", "set", "part", "done"], check=True)
subprocess.run(["swarmd", "memory", "append", "MEMORY.md", "a line\\n"], check=True)
subprocess.run(["swarmd", "report", "all well"], check=True)
"""
FAILS = 'import subprocess\nsubprocess.run(["swarmd", "ctx", "set", "part", "left"], check=True)\nraise SystemExit(1)\n'
SLEEPS = "import time\ntime.sleep(600)\n"


@asynccontextmanager
async def assistant(place: Any, *args: str) -> Any:
    arguments = ["-m", "swarmd", "mcp", "--operator", *args, *place.places]
    server = StdioServerParameters(
        command=sys.executable, args=arguments, env=place.environment(), cwd=str(place.root)
    )
    async with Client(server, cache=None) as found:
        yield found


@pytest.fixture
def swarm(place):
    place.agent("house", WRITES)
    place.agent("studio", FAILS)
    place.agent("slow", SLEEPS)
    for name in ("studio", "slow"):
        file = place.agents / f"{name}.toml"
        file.write_text('parent = "house"\n' + file.read_text())
    return place


# -- the table ----------------------------------------------------------------------------------------------


def test_every_read_and_every_act_of_an_operator_is_a_tool():
    assert set(READING) == set(READS) == CLI_READS
    # But for the yes to what was held: that is a person's.
    assert set(ACTING) == {*ACTS, *operating.ACTS} - {"approval_approve"}


@pytest.mark.parametrize("tool", [*READING.values(), *ACTING.values()], ids=lambda tool: tool.name)
def test_a_tool_says_what_it_does_and_what_it_takes(tool):
    assert tool.reads == (tool.name in READS)
    assert tool.description.endswith(".")
    assert " you" not in f" {tool.description}", "an operator is no agent"
    schema = tool.schema
    assert set(schema["required"]) <= set(schema["properties"])
    assert all(one["description"] for one in schema["properties"].values())
    if tool.name in TOOLS and tool.name not in ("why", "agent_show"):
        assert {arg.name for arg in TOOLS[tool.name].args} <= {arg.name for arg in tool.args}


async def test_an_assistant_may_deny_and_never_approve(swarm):
    swarm.agent("asks", WRITES, more='[authority]\napproval = ["part"]\n')
    swarm.swarmd("run", "asks")
    async with assistant(swarm, "--write") as model:
        assert (
            bad(await model.call_tool("approval_approve", {"id": 1})) == "there is no tool 'approval_approve'"
        )
        assert good(await model.call_tool("approval_deny", {"id": 1, "reason": "no"}))["state"] == "denied"


async def test_without_write_there_is_nothing_to_act_with(swarm):
    swarm.swarmd("reload")
    before = swarm.rows("SELECT * FROM audit")
    async with assistant(swarm) as model:
        assert [tool.name for tool in (await model.list_tools()).tools] == list(READING)
        for name in ACTING:
            assert bad(await model.call_tool(name, {"agent": "house"})) == f"there is no tool {name!r}"
    assert swarm.rows("SELECT * FROM audit") == before
    async with assistant(swarm, "--write") as model:
        listed = (await model.list_tools()).tools
    assert [tool.name for tool in listed] == [*READING, *ACTING]
    assert all(tool.input_schema == {**READING, **ACTING}[tool.name].schema for tool in listed)


# -- reading ------------------------------------------------------------------------------------------------

FULL = {
    "agent": "house", "session": "house", "at": "house", "key": "part", "file": "MEMORY.md", "rev": 1, "other": 1, "n": 5, "id": 1,
    "since": "2020-01-01T00:00:00+00:00", "until": "2099-01-01T00:00:00Z", "to": "house", "from": "operator", "status": "open",
    "outcome": "committed", "trigger": "manual", "name": "tidy", "by": "day", "text": "done", "kind": "key", "time": "2026-01-01T00:00:00Z",
    "subject": "alice",
    "all": True,
}  # fmt: skip
OTHERWISE = {
    "prompt": {"at": "2026-12-24T18:00:00+01:00"},
    "report_list": {"from": "house"},
    "skill_show": {"file": "SKILL.md"},
}


@pytest.mark.parametrize("daemon", [False, True])
async def test_every_read_with_every_argument(swarm, daemon):
    swarm.swarmd("run", "house")
    swarm.agent("asks", WRITES, more='[authority]\napproval = ["part"]\n')
    swarm.swarmd("run", "asks")
    swarm.swarmd("handoff", "send", "--to", "house", "--text", "do it")
    skill = "---\nname: tidy\ndescription: How to tidy up.\n---\nSweep.\n"
    swarm.swarmd("memory", "write", "house", "skills/tidy/SKILL.md", "--", skill)

    async def ask_all() -> None:
        async with assistant(swarm) as model:
            for tool in READING.values():
                least = {arg.name: FULL[arg.name] for arg in tool.args if arg.required}
                most = {arg.name: FULL[arg.name] for arg in tool.args} | OTHERWISE.get(tool.name, {})
                for args in (least, most):
                    good(await model.call_tool(tool.name, args))
            assert (
                good(await model.call_tool("ctx_get", {"agent": "house", "key": "part"}))["value"] == "done"
            )
            assert good(await model.call_tool("memory_show", {"agent": "house"}))["text"] == "a line\n"
            assert good(await model.call_tool("status"))["daemon"]["running"] is daemon

    if daemon:
        with swarm.serving():
            await ask_all()
    else:
        await ask_all()


async def test_what_is_wrong_is_said_in_a_sentence(swarm):
    swarm.swarmd("reload")
    async with assistant(swarm) as model:
        for name, args, words in [
            ("ctx_list", {}, "agent is missing"),
            ("ctx_list", {"agent": "nobody"}, "no agent is named 'nobody'"),
            ("ctx_list", {"agent": "house", "colour": "red"}, "ctx_list: no argument is named 'colour'; it takes agent"),
            ("status", {"x": 1}, "status: no argument is named 'x'; it takes none"),
            ("handoff_show", {"id": "seven"}, "a whole number above 0 is expected"),
            ("session_list", {"since": "yesterday"}, "is no time; write it as 2026-12-24T18:00+01:00"),
            ("session_show", {"session": 7}, ""),
            ("agent_show", {"agent": ["house"]}, ""),
            ("log", {"n": True}, "a whole number"),
            ("prompt", {"agent": "house", "file_text": "x"}, "no argument is named 'file_text'"),
        ]:  # fmt: skip
            found = bad(await model.call_tool(name, args))
            assert words in found, (name, found)
            assert "internal error" not in found, (name, found)


async def test_with_the_authority_of_an_agent(swarm):
    swarm.swarmd("ctx", "set", "house", "k", "v")
    swarm.swarmd("ctx", "set", "studio", "k", "below")
    async with assistant(swarm, "--as", "studio", "--write") as model:
        names = {tool.name: tool for tool in (await model.list_tools()).tools}
        assert set(names) == {*READING, *ACTS} - OPERATORS_ONLY - {"handoff_requeue"}
        assert (
            "required" not in names["ctx_list"].input_schema
            or names["ctx_list"].input_schema["required"] == []
        )
        assert good(await model.call_tool("ctx_get", {"key": "k"}))["value"] == "below"
        assert "studio" in bad(await model.call_tool("ctx_list", {"agent": "house"}))
        assert (
            good(await model.call_tool("ctx_set", {"key": "mine", "value": "1"}))["by"]
            == f"operator:{NAME} as studio"
        )
        assert "below" in bad(await model.call_tool("handoff_send", {"to": "house", "text": "up"}))
        for name in ("pause", "status", "handoff_requeue"):
            assert bad(await model.call_tool(name, {"agent": "studio"})) == f"there is no tool {name!r}"


# -- acting -------------------------------------------------------------------------------------------------


async def test_an_assistant_acts_and_every_act_bears_the_operators_name(swarm):
    with swarm.serving():
        async with assistant(swarm, "--write") as model:
            assert (
                good(await model.call_tool("ctx_set", {"agent": "house", "key": "k", "value": "v"}))["by"]
                == f"operator:{NAME}"
            )
            sent = good(await model.call_tool("handoff_send", {"to": "studio", "text": "do it"}))
            assert sent["sender"] == "operator"
            assert good(await model.call_tool("handoff_cancel", {"id": sent["id"]}))["status"] == "cancelled"
            assert good(await model.call_tool("handoff_requeue", {"id": sent["id"]}))["status"] == "open"
            assert (
                good(await model.call_tool("pause", {"agent": "studio", "reason": "wait"}))["paused"] is True
            )
            assert "is paused at studio" in bad(await model.call_tool("run", {"agent": "studio"}))
            assert good(await model.call_tool("resume", {"agent": "studio"}))["paused"] is False

            assert good(await model.call_tool("run", {"agent": "house"}))["outcome"] == "committed"
            assert (
                good(await model.call_tool("run", {"agent": "house", "mode": "dry_run"}))["outcome"]
                == "dry_run"
            )
            failed = good(await model.call_tool("run", {"agent": "studio", "text": "more"}))
            assert (failed["outcome"], failed["draft"]) == ("failed", "open")
            good(await model.call_tool("session_apply", {"session": str(failed["id"])}))
            assert (
                good(await model.call_tool("ctx_get", {"agent": "studio", "key": "part"}))["value"] == "left"
            )
            reverted = good(await model.call_tool("session_revert", {"sessions": [str(failed["id"])]}))
            assert len(reverted["undone"]) == 1
            failed = good(await model.call_tool("run", {"agent": "studio"}))
            good(await model.call_tool("session_discard", {"session": str(failed["id"])}))

            write = {"agent": "house", "file": "MEMORY.md", "text": "mine\n"}
            head = good(await model.call_tool("memory_write", write))
            good(await model.call_tool("memory_append", {**write, "text": "more\n"}))
            merged = good(
                await model.call_tool("memory_write", {**write, "text": "MINE\n", "base": head["rev"]})
            )
            assert merged["rev"] > head["rev"]
            good(
                await model.call_tool(
                    "memory_restore", {"agent": "house", "file": "MEMORY.md", "rev": head["rev"]}
                )
            )
            assert good(await model.call_tool("memory_show", {"agent": "house"}))["text"] == "mine\n"
            good(await model.call_tool("memory_delete", {"agent": "house", "file": "MEMORY.md"}))

            items = good(await model.call_tool("attention"))["items"]
            acked = good(await model.call_tool("attention_ack", {"id": items[0]["id"]}))
            assert acked["acked"] is True
            (swarm.agents / "house2.toml").write_text((swarm.agents / "house.toml").read_text())
            assert good(await model.call_tool("reload", {}))["added"] in (["house2"], [])
            (swarm.agents / "house2.toml").unlink()
            while [
                row for row in good(await model.call_tool("agent_list"))["items"] if row["name"] == "house2"
            ]:
                good(
                    await model.call_tool("reload", {})
                )  # a file that is gone may be in the middle of a save
            assert good(await model.call_tool("forget", {"name": "house2"}))["forgotten"] is True
            assert "still has its file" in bad(
                await model.call_tool("rename", {"old": "house", "new": "slow"})
            )
            assert "no open conflict 9" in bad(
                await model.call_tool("memory_take", {"agent": "house", "conflict": 9, "side": "ours"})
            )
            acts = [
                row for row in good(await model.call_tool("log", {"n": 100}))["items"] if row["kind"] == "act"
            ]
        assert json.loads(swarm.swarmd("verify", "--json").stdout)["ok"]
    wanted = {"ctx_set", "handoff_send", "handoff_cancel", "handoff_requeue", "pause", "resume", "session_apply", "session_revert",
              "session_discard", "memory_write", "memory_append", "memory_restore", "memory_delete", "attention_ack", "forget"}  # fmt: skip
    by = {row["what"]: row["by"] for row in acts if row["by"] != "system"}
    assert wanted <= set(by)
    assert {who.partition(" as ")[0] for who in by.values()} == {f"operator:{NAME}"}


async def test_a_run_that_takes_long_keeps_nothing_else_waiting(swarm):
    with swarm.serving():
        async with assistant(swarm, "--write") as model:
            running = asyncio.ensure_future(model.call_tool("run", {"agent": "slow"}))
            await asyncio.to_thread(swarm.running, 1)
            shown = good(await model.call_tool("session_cancel", {"session": "slow"}))
            assert shown["outcome"] == "cancelled"
            assert good(await running)["outcome"] == "cancelled"


async def test_an_assistant_that_leaves_ends_no_session(swarm):
    with swarm.serving():
        async with assistant(swarm, "--write") as model:
            running = asyncio.ensure_future(model.call_tool("run", {"agent": "slow"}))
            await asyncio.to_thread(swarm.running, 1)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        assert swarm.sessions()[0]["state"] == "running"
        swarm.swarmd("session", "cancel", "slow")


async def test_without_a_daemon_acts_are_done_and_nothing_is_run(swarm):
    swarm.swarmd("reload")
    async with assistant(swarm, "--write") as model:
        good(await model.call_tool("ctx_set", {"agent": "house", "key": "k", "value": "v"}))
        assert bad(await model.call_tool("run", {"agent": "house"})) == (
            "no daemon runs, which a run from here needs: start it with `swarmd serve`"
        )
        assert (
            good(await model.call_tool("run", {"agent": "house", "mode": "dry_run"}))["outcome"] == "dry_run"
        )
        # The state is free between two calls.
        swarm.swarmd("ctx", "set", "house", "k", "w")
        assert (
            sentence(await model.call_tool("ctx_get", {"agent": "house", "key": "k"})).find('"value":"w"') > 0
        )
    assert swarm.sessions() == []
