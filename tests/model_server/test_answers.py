"""What the model can say reaches the real SDK as the real API would send it."""

import json

import pytest

from tests.model_server import answers as say
from tests.model_server.client import Talk
from tests.model_server.server import ModelServer


async def said(*script, **fields):
    """The one message that the script leads to, streamed; and the same not streamed."""
    async with ModelServer(list(script) * 2) as server, Talk(server, **fields) as talk:
        streamed = await talk.ask()
        whole = await talk.client.messages.create(**talk.fixed, messages=talk.messages)
        assert server.complaints == []
    return streamed, whole


async def test_a_text_comes_in_deltas_and_whole():
    streamed, whole = await said(say.text("one two three"))
    for message in (streamed, whole):
        assert [block.text for block in message.content] == ["one two three"]
        assert message.stop_reason == "end_turn"
        assert message.model == "model-a"
    assert streamed.id != whole.id
    assert streamed.usage == whole.usage


async def test_a_stream_has_the_events_of_the_api_in_order():
    async with ModelServer(say.text("one two three").split(3)) as server, Talk(server) as talk:
        asked = talk.client.messages.create(**talk.fixed, messages=talk.messages, stream=True)
        events = [event async for event in await asked]
    assert [event.type for event in events] == [
        "message_start",
        "content_block_start",
        *["content_block_delta"] * 3,
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    assert events[0].message.stop_reason is None
    assert events[0].message.content == []
    assert events[-2].delta.stop_reason == "end_turn"


async def test_parallel_tool_calls_have_ids_of_their_own():
    for message in await said(
        say.tools(say.call("ctx_set", key="a"), say.call("ctx_set", {"from": "b"}), text="let me")
    ):
        words, first, second = message.content
        assert words.text == "let me"
        assert (first.name, first.input, second.input) == ("ctx_set", {"key": "a"}, {"from": "b"})
        assert first.id != second.id
        assert message.stop_reason == "tool_use"


async def test_a_loop_over_tools_thoughts_and_a_pause_is_accepted():
    script = [
        say.thinking("hm") + say.tools(say.call("a")),
        say.redacted() + say.tools(say.call("b"), say.call("c")),
        say.pause("news"),
        say.found({"type": "web_search_result", "url": "u", "title": "t", "encrypted_content": "x"})
        + say.text("read"),
    ]
    async with ModelServer(script) as server, Talk(server, thinking={"type": "adaptive"}) as talk:
        stops = [(await talk.step()).stop_reason for _ in script]
        assert stops == ["tool_use", "tool_use", "pause_turn", "end_turn"]
        assert server.complaints == []
        assert [block["content"] for block in server.messages[2].results] == ["done", "done"]
        assert server.left == 0


async def test_a_thought_has_a_signature_and_can_be_omitted():
    for message in await said(say.thinking("hm") + say.text()):
        assert (message.content[0].thinking, len(message.content[0].signature)) == ("hm", 44)
    for message in await said(
        say.thinking("hm") + say.text(), thinking={"type": "adaptive", "display": "omitted"}
    ):
        assert (message.content[0].thinking, len(message.content[0].signature)) == ("", 44)


async def test_what_nobody_knows_is_sent_and_taken_back():
    script = [
        say.blocks({"type": "hologram", "depth": 3}, {"type": "text", "text": "ok"}, stop="brand_new_reason")
    ]
    async with ModelServer(script) as server, Talk(server) as talk:
        message = await talk.step()
        assert message.stop_reason == "brand_new_reason"
        assert [block.type for block in message.content] == ["hologram", "text"]
        assert message.content[0].text is None  # the SDK makes a text block of it
        talk.messages.append({"role": "user", "content": "go on"})
        await talk.ask()
        assert server.messages[1].body["messages"][1]["content"][0] == {"type": "hologram", "depth": 3}


async def test_a_refusal_has_details():
    for message in await said(say.refusal("I will", category="bio", explanation="no")):
        assert message.stop_reason == "refusal"
        assert (message.stop_details.category, message.stop_details.explanation) == ("bio", "no")
    for message in await said(say.refusal()):
        assert message.content == []


@pytest.mark.parametrize("stop", ["max_tokens", "model_context_window_exceeded", "stop_sequence", None])
async def test_any_stop_reason(stop):
    for message in await said(say.text("so", stop=stop)):
        assert message.stop_reason == stop


async def test_a_server_tool_call_and_its_result_share_an_id_and_are_counted():
    for message in await said(say.search("x") + say.found() + say.text("y")):
        call_block, result, _ = message.content
        assert result.tool_use_id == call_block.id
        assert message.usage.server_tool_use.web_search_requests == 1


async def test_a_tool_call_cut_in_its_middle_has_whatever_the_sdk_makes_of_it():
    cut = say.tools(say.call("memory_write", text="# Notes\n- keep")).cut(chars=23)
    async with ModelServer(cut) as server, Talk(server) as talk:
        asked = talk.client.messages.create(**talk.fixed, messages=talk.messages, stream=True)
        deltas = [event.delta async for event in await asked if event.type == "content_block_delta"]
        assert "".join(delta.partial_json for delta in deltas) == '{"text": "# Notes\\n- ke'
        message = await talk.ask()
    assert message.stop_reason == "max_tokens"
    assert message.content[0].input == {}


async def test_an_answer_longer_than_max_tokens_is_cut_there():
    for message in await said(say.text("x" * 1000), max_tokens=10):
        assert message.content[0].text == "x" * 40
        assert message.stop_reason == "max_tokens"
        assert message.usage.output_tokens == 10


async def test_no_output_at_all_warms_the_cache():
    async with (
        ModelServer() as server,
        Talk(server, max_tokens=0, cache_control={"type": "ephemeral"}) as talk,
    ):
        message = await talk.ask()
    assert (message.content, message.stop_reason, message.usage.output_tokens) == ([], "max_tokens", 0)
    assert message.usage.cache_creation_input_tokens > 0


async def test_a_tool_call_whose_input_is_no_json():
    async with ModelServer(say.tools(say.call_json("a", '{"x": nope}'))) as server, Talk(server) as talk:
        with pytest.raises(ValueError, match="Unable to parse tool parameter JSON"):
            await talk.ask()


async def test_the_same_answer_played_twice_has_other_ids():
    answer = say.tools(say.call("a"))
    async with ModelServer([answer, answer]) as server, Talk(server) as talk:
        first, second = await talk.step(), await talk.step()
    assert first.content[0].id != second.content[0].id
    assert json.loads(server.messages[1].raw)["messages"][1]["content"][0]["id"] == first.content[0].id
