"""A session over MCP: every tool, what a model is told, what the store has afterwards; and the endpoint's own life."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time

import pytest

from swarmd.core.tools import TOOLS
from swarmd.core.wire import Reply
from swarmd.errors import Failed
from swarmd.runners import mcp_endpoint
from swarmd.runners.mcp_endpoint import McpEndpoint
from tests.daemon.kit import until
from tests.mcp.kit import Bare, bad, called, client, good, posted, tree, up

MODES = ["auto", "legacy"]


# -- tools --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
async def test_the_tools_are_those_of_the_table_with_their_schemas(swarm, stage, mode):
    tree(swarm)
    async with up(swarm), stage.session("studio") as session, client(session, mode) as model:
        listed = (await model.list_tools()).tools
    assert [tool.name for tool in listed] == list(TOOLS)
    for tool in listed:
        assert tool.input_schema == TOOLS[tool.name].schema
        assert tool.description == TOOLS[tool.name].description
        assert tool.annotations.read_only_hint is TOOLS[tool.name].reads


@pytest.mark.parametrize("mode", MODES)
async def test_a_session_does_its_work_and_the_store_has_it_afterwards(swarm, stage, mode):
    tree(swarm, "game")
    async with up(swarm):
        asked = await swarm.ask("handoff_send", to="studio", text="polish it")
        async with stage.session("studio") as session, client(session, mode) as model:
            assert good(await model.call_tool("ctx_set", {"key": "state", "value": "grün"}))["staged"] is True
            assert good(await model.call_tool("ctx_get", {"key": "state"}))["value"] == "grün"
            good(await model.call_tool("memory_append", {"file": "MEMORY.md", "text": "- learnt\n"}))
            good(await model.call_tool("handoff_complete", {"id": asked["id"], "reply": "done"}))
            sent = good(await model.call_tool("handoff_send", {"to": "game", "text": "go on"}))
            assert swarm.call("ctx_list", agent="studio")["items"] == []
        assert swarm.call("ctx_get", agent="studio", key="state")["value"] == "grün"
        assert swarm.call("memory_show", agent="studio")["text"] == "- learnt\n"
        assert swarm.call("handoff_show", id=asked["id"])["status"] == "completed"
        assert swarm.call("handoff_show", id=sent["id"])["by"].startswith("studio#")
        assert swarm.outcomes("studio") == ["committed"]
        assert swarm.call("verify")["ok"]


ARGS = {
    "ctx_set": {"key": "k", "value": "v"}, "ctx_unset": {"key": "k"}, "ctx_get": {"key": "k"},
    "handoff_send": {"to": "game", "text": "x"}, "handoff_ack": {"id": 1}, "handoff_complete": {"id": 1, "reply": "r"},
    "handoff_decline": {"id": 2, "reply": "no"}, "handoff_ask": {"id": 3, "text": "which?"},
    "handoff_answer": {"id": 4, "text": "that"}, "handoff_cancel": {"id": 5}, "handoff_change": {"id": 5, "priority": "low"},
    "handoff_show": {"id": 1}, "memory_write": {"file": "a.md", "text": "a"}, "memory_append": {"file": "a.md", "text": "b"},
    "memory_delete": {"file": "a.md"}, "report": {"text": "all well"}, "session_show": {"session": "studio"},
    "fail": {"reason": "enough"}, "memory_show": {"file": "a.md"}, "skill_show": {"name": "tidy"},
    "memory_search": {"text": "work", "kind": "handoff", "n": 3}, "session_search": {"text": "work"},
}  # fmt: skip
ORDER = ["memory_write", "ctx_set", "handoff_send", *[name for name in TOOLS if name not in ("memory_write", "ctx_set", "fail",
         "handoff_send", "memory_delete", "ctx_unset", "handoff_cancel")], "handoff_cancel", "memory_delete", "ctx_unset", "fail"]  # fmt: skip
REFUSED = {"handoff_answer", "draft_show", "draft_apply", "draft_discard"}


async def test_every_tool_called_once(swarm, stage):
    """Three handoffs to it, one that it has sent; no draft to take up, and nothing was asked of it."""
    tree(swarm, "game")
    assert sorted(ORDER) == sorted(TOOLS)
    async with up(swarm):
        for _ in range(3):
            await swarm.ask("handoff_send", to="studio", text="do it")
        skill = "---\nname: tidy\ndescription: How to tidy up.\n---\nSweep.\n"
        await swarm.ask("memory_write", agent="studio", file="skills/tidy/SKILL.md", text=skill)
        async with stage.session("studio") as session, client(session) as model:
            ids = {}
            for name in ORDER:
                args = dict(ARGS.get(name, {}))
                if args.get("id") in (4, 5):
                    args["id"] = ids["sent"]
                result = await model.call_tool(name, args)
                if name in REFUSED:
                    assert len(bad(result)) > 10, name
                else:
                    document = good(result)
                    if name == "handoff_send":
                        ids["sent"] = document["id"]
        [row] = swarm.sessions("studio")
        assert (row["outcome"], row["reason"], row["checkpoints"]) == ("failed", "enough", 1)
        assert [row["text"] for row in swarm.call("report_list")["items"]] == ["all well"]


async def test_a_refusal_is_a_sentence_and_nothing_else(swarm, stage):
    tree(swarm, "game")
    async with up(swarm), stage.session("game") as session, client(session) as model:
        said_no = bad(await model.call_tool("handoff_send", {"to": "studio", "text": "up"}))
        assert said_no.endswith("below game")
        assert "\n" not in said_no
        for name, args, words in [
            ("ctx_set", {"key": "k"}, "ctx_set: value is missing: the value"),
            ("ctx_set", {"key": "k", "value": "v", "colour": "red"}, "no argument is named 'colour'"),
            ("ctx_set", {"key": "k", "value": 7}, "ctx_set: value: text is expected, not int"),
            ("handoff_ack", {"id": "1"}, "handoff_ack: id: a whole number above 0 is expected, not '1'"),
            ("handoff_ack", {"id": 99}, "99"),
            ("memory_write", {"file": "../x", "text": ""}, "../x"),
            ("memory_write", {"file": "a"}, "memory_write takes file, text, as text"),
            ("ctx_list", {"agent": "studio"}, "studio"),
            ("pause", {"agent": "game"}, "there is no tool 'pause'"),
            ("session_log", {"session": "game"}, "there is no tool 'session_log'"),
            ("handoff_requeue", {"id": 1}, "there is no tool 'handoff_requeue'"),
        ]:
            found = bad(await model.call_tool(name, args))
            assert words in found, (name, found)
            assert "Traceback" not in found
            assert "pydantic" not in found


async def test_fifty_calls_at_a_time_are_each_answered_and_all_saved(swarm, stage):
    tree(swarm)
    async with up(swarm):
        async with stage.session("studio") as session, client(session) as model:
            results = await asyncio.gather(*(
                model.call_tool("ctx_set", {"key": f"k{n}", "value": str(n)}) for n in range(50)
            ))  # fmt: skip
            assert [good(result)["value"] for result in results] == [str(n) for n in range(50)]
        assert len(swarm.call("ctx_list", agent="studio")["items"]) == 50


async def test_sessions_at_a_time_speak_for_their_own_agents(swarm, stage):
    names = [f"a{n}" for n in range(7)]
    tree(swarm, *names)
    async with up(swarm):

        async def work(name: str) -> None:
            async with stage.session(name) as session, client(session) as model:
                for n in range(5):
                    good(await model.call_tool("ctx_set", {"key": "mine", "value": f"{name}-{n}"}))

        await asyncio.gather(*map(work, names))
        assert {n: swarm.call("ctx_get", agent=n, key="mine")["value"] for n in names} == {
            n: f"{n}-4" for n in names
        }
        assert len({session.url for session in stage.open.values()}) == 1


async def test_a_checkpoint_stays_whatever_comes_after(swarm, stage):
    tree(swarm)
    async with up(swarm):
        async with stage.session("studio") as session, client(session) as model:
            good(await model.call_tool("ctx_set", {"key": "a", "value": "1"}))
            good(await model.call_tool("memory_write", {"file": "MEMORY.md", "text": "kept\n"}))
            assert good(await model.call_tool("checkpoint"))["checkpoint"] == 1
            good(await model.call_tool("ctx_set", {"key": "b", "value": "2"}))
            good(await model.call_tool("fail", {"reason": "no"}))
        assert [row["key"] for row in swarm.call("ctx_list", agent="studio")["items"]] == ["a"]
        assert swarm.call("memory_show", agent="studio")["text"] == "kept\n"


async def test_a_client_that_hangs_up_in_a_call_does_not_leave_half_of_it(swarm, stage):
    tree(swarm)
    async with up(swarm):
        async with stage.session("studio") as session:
            for n in range(20):
                call = called("memory_append", {"file": "MEMORY.md", "text": f"{n}\n"})
                asking = asyncio.ensure_future(posted(session, call))
                await asyncio.sleep(0.002 * (n % 5))
                asking.cancel()
                await asyncio.gather(asking, return_exceptions=True)
            last = await posted(session, called("memory_show", {"file": "MEMORY.md"}))
            assert last.status == 200
        lines = swarm.call("memory_show", agent="studio")["text"].splitlines()
        assert lines == sorted(lines, key=int)
        assert len(set(lines)) == len(lines)


# -- the daemon's side --------------------------------------------------------------------------------------


class _Desk:
    """Answers, when it may."""

    def __init__(self) -> None:
        self.may = asyncio.Event()
        self.asked = 0

    async def answer(self, message) -> Reply:
        self.asked += 1
        await self.may.wait()
        if message.call == "why":
            raise KeyError("a fault of the daemon")
        return Reply(value={"done": message.call})


@pytest.fixture
async def endpoint():
    found = McpEndpoint()
    yield found
    await found.close()


async def test_who_dismisses_may_wait_for_the_last_calls(endpoint):
    desk = _Desk()
    url = await endpoint.admit("t", desk)
    session = Bare(url, "t")
    call = asyncio.ensure_future(posted(session, called("ctx_list")))
    await until(lambda: desk.asked)
    over = endpoint.dismiss("t")
    assert (await posted(session, called("ctx_list"))).status == 401
    assert not over.done()
    desk.may.set()
    await over
    assert json.loads((await call).body)["result"]["structuredContent"] == {"done": "ctx_list"}
    await endpoint.dismiss("t")
    await endpoint.dismiss("never admitted")


async def test_a_fault_of_the_daemon_is_told_in_its_log_and_not_to_the_model(endpoint, caplog):
    desk = _Desk()
    desk.may.set()
    url = await endpoint.admit("t", desk)
    session = Bare(url, "t")
    got = json.loads((await posted(session, called("why"))).body)["result"]
    assert got["isError"] is True
    assert (
        got["content"][0]["text"]
        == "the daemon met a fault of its own (KeyError('a fault of the daemon')); its log has more"
    )
    assert [record.getMessage() for record in caplog.records if record.name == "swarmd"] == [
        "a call of why over MCP could not be answered"
    ]


async def test_first_sessions_at_once_share_one_endpoint_and_a_cancelled_one_harms_no_other(endpoint):
    admitted = [asyncio.ensure_future(endpoint.admit(f"t{n}", _Desk())) for n in range(10)]
    await asyncio.sleep(0)
    admitted[0].cancel()
    urls = await asyncio.gather(*admitted, return_exceptions=True)
    assert isinstance(urls[0], asyncio.CancelledError)
    assert len(set(urls[1:])) == 1


async def test_after_its_end_nobody_is_admitted(endpoint):
    await endpoint.close()
    with pytest.raises(Failed, match="the daemon stops"):
        await endpoint.admit("t", _Desk())


async def test_what_cannot_be_served_fails_the_session_and_is_tried_again(endpoint, monkeypatch):
    def no_module(name):
        raise ImportError("no module named mcp")

    with monkeypatch.context() as patch:
        patch.setattr(mcp_endpoint, "import_module", no_module)
        with pytest.raises(Failed, match="MCP cannot be served: no module named mcp"):
            await endpoint.admit("t", _Desk())
    assert (await endpoint.admit("t", _Desk())).startswith("http://127.0.0.1:")


def test_a_daemon_that_needs_no_mcp_does_not_import_it():
    program = "import sys, swarmd.daemon.main; print([n for n in ('mcp', 'uvicorn', 'starlette', 'anyio') if n in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"


def test_the_first_session_does_not_stop_the_loop():
    program = """
import asyncio, time
from swarmd.runners.mcp_endpoint import McpEndpoint
async def main():
    endpoint, worst, over = McpEndpoint(), 0.0, asyncio.Event()
    async def watch():
        nonlocal worst
        while not over.is_set():
            at = time.monotonic()
            await asyncio.sleep(0.005)
            worst = max(worst, time.monotonic() - at)
    watching = asyncio.ensure_future(watch())
    await endpoint.admit('t', None)
    over.set()
    await watching
    await endpoint.close()
    print(worst)
asyncio.run(main())
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert float(ran.stdout) < 0.3, "it is half a second and more where it is imported on the loop"


async def test_a_hundred_sessions_at_a_time(endpoint):
    desks = [_Desk() for _ in range(100)]
    for n, desk in enumerate(desks):
        desk.may.set()
        url = await endpoint.admit(f"t{n}", desk)
    sessions = [Bare(url, f"t{n}") for n in range(100)]
    began = time.monotonic()
    found = await asyncio.gather(*(posted(s, called("ctx_list")) for s in sessions for _ in range(5)))
    assert {got.status for got in found} == {200}
    assert [desk.asked for desk in desks] == [5] * 100
    assert time.monotonic() - began < 20
