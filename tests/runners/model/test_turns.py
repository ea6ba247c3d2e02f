"""Turns of the conversation: calls and their results, every stop reason, and what is never taken for a success."""

from __future__ import annotations

import pytest

from tests.model_server import answers as say
from tests.model_server.server import ModelServer
from tests.runners.model.talking import SYSTEM, converse


def results(request):
    """The tool results of the newest message of a request, by what they say."""
    return [
        (block["content"], block.get("is_error", False))
        for block in request.body["messages"][-1]["content"]
        if block["type"] == "tool_result"
    ]


async def test_calls_are_carried_out_in_order_and_answered(desk):
    with ModelServer([
        say.tools(say.call("ctx_set", key="a", value="1"), say.call("ctx_set", key="a", value="2"),
                  say.call("handoff_send", to="above", text="do it"), text="on it"),
        "all done",
    ]) as server:  # fmt: skip
        done = await converse(server, desk)
        assert server.complaints == []
    assert (done.outcome, done.text) == ("success", "all done")
    assert desk.keys == {"a": "2"}
    assert results(server.messages[1]) == [
        ('{"staged":true}', False), ('{"staged":true}', False), ("above is not below studio", True),
    ]  # fmt: skip
    assert [e["kind"] for e in desk.events] == [
        "started", "usage", "text", "tool_call", "tool_call", "tool_call", "tool_result", "tool_result", "tool_result",
        "usage", "text", "result",
    ]  # fmt: skip
    assert desk.of("tool_call")[0]["input"] == {"key": "a", "value": "1"}
    assert desk.of("tool_call")[0]["id"] == desk.of("tool_result")[0]["id"]
    assert desk.of("result") == [
        {"kind": "result", "outcome": "success", "reason": "", "text": "all done", "stop": "end_turn"}
    ]


async def test_a_tool_that_there_is_not_and_odd_arguments_are_told_to_the_model(desk):
    with ModelServer([
        say.tools(say.call("rm_rf", path="/"), say.call("memory", command="burn"), say.call("bash", command="id")),
        "ok",
    ]) as server:  # fmt: skip
        assert (await converse(server, desk)).outcome == "success"
    told = results(server.messages[1])
    assert all(error for _, error in told)
    assert "there is no tool 'rm_rf'; there are: ctx_set" in told[0][0]
    assert "command is one of view, create" in told[1][0]
    assert "there is no tool 'bash'" in told[2][0], (
        "bash is not among the tools unless the agent's file says so"
    )


async def test_the_tools_are_those_that_the_file_names(desk):
    with ModelServer() as server:
        await converse(server, desk, tools=["ctx_set", "report"])
        await converse(server, desk, tools=["memory", "files", "bash"])
    names = [[tool["name"] for tool in request.body["tools"]] for request in server.messages]
    assert names == [
        ["ctx_set", "report"],
        ["memory", "file_read", "file_write", "file_edit", "file_find", "file_search", "bash"],
    ]


async def test_a_refusal_by_the_model_is_a_failure_of_that_name(desk):
    with ModelServer([say.refusal("I will not", category="cyber")]) as server:
        done = await converse(server, desk)
    assert (done.outcome, done.reason) == ("failed", "refusal: cyber")


async def test_an_empty_answer_is_no_success_but_one_after_acts_is(desk):
    with ModelServer([say.blocks()]) as server:
        done = await converse(server, desk)
    assert (done.outcome, done.reason) == ("failed", "the model answered nothing")
    with ModelServer([say.tools(say.call("ctx_set", key="a", value="1")), say.blocks()]) as server:
        assert (await converse(server, desk)).outcome == "success"


async def test_unknown_blocks_go_back_unchanged_and_an_unknown_stop_ends_with_a_warning(desk):
    strange = {"type": "hologram", "beam": [1, {"x": None}]}
    with ModelServer([
        say.blocks(strange, {"type": "text", "text": "look"}) + say.tools(say.call("ctx_set", key="a", value="1")),
        say.blocks({"type": "hologram"}, {"type": "text", "text": "ok"}, stop="brand_new_reason"),
    ]) as server:  # fmt: skip
        done = await converse(server, desk)
        assert server.complaints == []
    assert (done.outcome, done.text) == ("success", "ok")
    assert server.messages[1].body["messages"][1]["content"][0] == strange
    warnings = [event["text"] for event in desk.of("warning")]
    assert any("'hologram'" in text for text in warnings)
    assert any("'brand_new_reason'" in text for text in warnings)


async def test_calls_of_an_answer_that_ended_for_an_unknown_reason_are_not_made(desk):
    with ModelServer([say.tools(say.call("ctx_set", key="a", value="1"), stop="brand_new_reason")]) as server:
        done = await converse(server, desk)
    assert done.outcome == "failed"
    assert desk.keys == {}


async def test_a_stop_for_a_tool_that_names_none_is_a_failure(desk):
    with ModelServer([say.text("hm", stop="tool_use")]) as server:
        done = await converse(server, desk)
    assert (done.outcome, done.reason) == ("failed", "the model stopped for a tool and named none")


async def test_a_paused_turn_goes_back_as_it_came_and_is_continued(desk):
    with ModelServer([say.pause(), say.found() + say.text("found it")]) as server:
        done = await converse(server, desk)
        assert server.complaints == []
    assert (done.outcome, done.text) == ("success", "found it")
    assert server.messages[1].body["messages"][-1]["role"] == "assistant"


async def test_endless_pauses_and_endless_tool_use_end_at_max_turns(desk):
    with ModelServer(say.pause()) as server:
        done = await converse(server, desk, max_turns=7)
    assert (done.outcome, done.reason) == (
        "failed",
        "max_turns: the model answered 7 times and had not finished",
    )
    assert len(server.messages) == 7
    with ModelServer(say.tools(say.call("ctx_list"))) as server:
        assert "max_turns" in (await converse(server, desk, max_turns=3)).reason


@pytest.mark.parametrize("stop", ["max_tokens", "tool_use"])
async def test_a_call_that_was_cut_off_is_not_made_and_the_model_is_told(desk, stop):
    whole = say.call("ctx_set", key="a", value="1")
    broken = say.call_json("memory_write", '{"file": "MEMORY.md", "text": "# Notes\\n- ke')
    with ModelServer([say.tools(whole, broken, stop=stop), "better now"]) as server:
        done = await converse(server, desk)
        assert server.complaints == []
    assert done.outcome == "success"
    assert [call for call, _ in desk.calls] == ["ctx_set"], "the whole one was made, the broken one was not"
    (_, (text, error)) = results(server.messages[1])
    assert error
    assert "memory_write was not called: its arguments were cut off" in text


async def test_answers_that_are_cut_again_and_again_end_the_session(desk):
    with ModelServer(say.text("x" * 400).cut(100)) as server:
        done = await converse(server, desk, max_tokens=100)
        assert server.complaints == []
    assert done.outcome == "failed"
    assert done.reason == "max_tokens: the answer was cut off at 100 tokens, 4 times in a row"
    assert len(server.messages) == 4


async def test_a_cut_answer_is_gone_on_with(desk):
    with ModelServer([say.text("x" * 400).cut(100), "the rest"]) as server:
        done = await converse(server, desk)
    assert (done.outcome, done.text) == ("success", "the rest")
    assert "cut off" in server.messages[1].body["messages"][-1]["content"][0]["text"]


async def test_a_long_answer_works_since_all_is_streamed(desk):
    with ModelServer([say.text("word " * 60_000)]) as server:
        done = await converse(server, desk, max_tokens=64_000)
    assert done.outcome == "success"
    assert server.messages[0].body["stream"] is True
    assert server.messages[0].body["max_tokens"] == 64_000


async def test_thoughts_go_back_with_their_signatures(desk):
    with ModelServer([
        say.thinking("let me see") + say.redacted() + say.tools(say.call("ctx_list")), "done",
    ]) as server:  # fmt: skip
        done = await converse(server, desk, thinking="adaptive", effort="high")
        assert server.complaints == []
    assert done.outcome == "success"
    assert desk.of("thinking")[0]["text"] == "let me see"
    assert server.messages[0].body["thinking"] == {"type": "adaptive"}
    assert server.messages[0].body["output_config"] == {"effort": "high"}


async def test_fail_ends_the_session_there(desk):
    with ModelServer([say.tools(say.call("fail", reason="no data")), "never asked"]) as server:
        assert (await converse(server, desk)).outcome == "success", "the desk has it that it failed"
    assert len(server.messages) == 1
    assert desk.calls == [("fail", {"reason": "no data"})]


async def test_neither_temperature_nor_threads_are_sent(desk):
    with ModelServer([say.tools(say.call("ctx_list")), "ok"]) as server:
        await converse(server, desk)
    for request in server.messages:
        assert not {"temperature", "top_p", "top_k", "thread", "previous_message_id"} & request.body.keys()
        assert request.body["system"][0]["text"] == SYSTEM
        assert "beta" not in " ".join(request.headers).lower()
