"""Tokens, the prompt cache, counting and the models' list."""

import anthropic
import pytest

from tests.model_server import answers as say
from tests.model_server.checks import Model
from tests.model_server.client import Talk
from tests.model_server.server import ModelServer

MARK = {"type": "ephemeral"}
LONG = "You keep Polybreak moving. " * 100


def counts(message):
    usage = message.usage
    return usage.cache_read_input_tokens, usage.cache_creation_input_tokens, usage.input_tokens


async def test_tokens_are_about_a_quarter_of_the_bytes_tools_and_system_included():
    async with ModelServer() as server, Talk(server) as talk:
        bare = (await talk.ask()).usage.input_tokens
        tools = [{"name": "a", "description": "x" * 400, "input_schema": {"type": "object"}}]
        more = (await talk.ask(system="x" * 400, tools=tools)).usage.input_tokens
        assert (
            await talk.client.messages.count_tokens(model="m", messages=talk.messages)
        ).input_tokens == bare
    assert 5 < bare < 20
    assert 200 < more - bare < 260


async def test_a_growing_conversation_reads_what_it_wrote():
    script = [say.tools(say.call("a"))] * 3
    async with ModelServer(script) as server, Talk(server, system=LONG, cache_control=MARK) as talk:
        first, second, third = [counts(await talk.step()) for _ in range(3)]
    assert first[0] == 0
    assert second[0] == first[1]
    assert third[0] == second[0] + second[1]
    assert first[2] == second[2] == third[2] == 0
    assert 0 < second[1] < 100


async def test_a_changed_system_text_reads_nothing_but_the_tools():
    tools = [{"name": "a", "description": LONG, "input_schema": {"type": "object"}, "cache_control": MARK}]
    system = [{"type": "text", "text": LONG, "cache_control": MARK}]
    async with ModelServer() as server, Talk(server, tools=tools) as talk:
        written = counts(await talk.ask(system=system))[1]
        assert counts(await talk.ask(system=system))[0] == written
        read, again, _ = counts(await talk.ask(system=[{**system[0], "text": "Now: " + LONG}]))
        assert 0 < read < written
        assert again > 0


async def test_the_cache_is_each_models_own_and_can_be_forgotten():
    async with ModelServer() as server, Talk(server, cache_control=MARK) as talk:
        await talk.ask()
        assert counts(await talk.ask(model="other"))[0] == 0
        assert counts(await talk.ask())[0] > 0
        server.forget_cache()
        assert counts(await talk.ask())[0] == 0


async def test_no_breakpoint_no_cache_and_nothing_below_the_minimum():
    async with ModelServer(cache_minimum=1024) as server, Talk(server) as talk:
        await talk.ask(system=LONG)
        assert counts(await talk.ask(system=LONG))[:2] == (0, 0)
        assert counts(await talk.ask(cache_control=MARK))[:2] == (0, 0)
        assert counts(await talk.ask(cache_control=MARK, system=LONG * 2))[1] > 1024


async def test_a_breakpoint_finds_only_what_was_kept_within_twenty_blocks_before_it():
    def message(blocks):
        texts = [{"type": "text", "text": f"{n}"} for n in range(blocks)]
        return [{"role": "user", "content": texts}]

    async with ModelServer() as server, Talk(server, cache_control=MARK) as talk:
        await talk.ask(message(5))
        assert counts(await talk.ask(message(24)))[0] > 0
        assert counts(await talk.ask(message(44)))[0] == 0


async def test_what_is_written_is_told_by_time_to_live():
    hour = {"type": "ephemeral", "ttl": "1h"}
    system = [{"type": "text", "text": LONG, "cache_control": hour}]
    async with ModelServer() as server, Talk(server, system=system, cache_control=MARK) as talk:
        written = (await talk.ask()).usage.cache_creation
    assert written.ephemeral_1h_input_tokens > 500
    assert 0 < written.ephemeral_5m_input_tokens < 50


async def test_usage_is_what_the_script_says_as_far_as_it_says_something():
    script = say.text("x" * 1000).costs(input=1_000_000, output=7, cache_read=3, cache_creation=4)
    async with ModelServer(script) as server, Talk(server) as talk:
        message = await talk.ask()
    assert (*counts(message), message.usage.output_tokens) == (3, 4, 1_000_000, 7)
    async with ModelServer(say.text("four").costs(input=5)) as server, Talk(server) as talk:
        message = await talk.ask()
    assert (message.usage.input_tokens, message.usage.output_tokens) == (5, 1)


@pytest.mark.parametrize("count", [1234, lambda body: len(body["messages"]) * 1234])
async def test_a_count_can_be_scripted(count):
    async with ModelServer(count=count) as server, Talk(server) as talk:
        counted = await talk.client.messages.count_tokens(model="m", messages=talk.messages)
    assert counted.input_tokens == 1234


async def test_models_have_windows():
    async with ModelServer() as server, Talk(server) as talk:
        model = await talk.client.models.retrieve("claude-anything")
        assert (model.max_input_tokens, model.max_tokens, model.lifecycle) == (200_000, 64_000, "active")
        assert len([model async for model in talk.client.models.list()]) == 3
    models = {
        "a": Model(window=1_000_000),
        "b": Model(lifecycle="deprecated", retires_at="2027-01-01T00:00:00Z"),
    }
    async with ModelServer(models=models) as server, Talk(server) as talk:
        assert [model.id async for model in talk.client.models.list()] == ["a", "b"]
        assert (await talk.client.models.retrieve("a")).max_input_tokens == 1_000_000
        assert (await talk.client.models.retrieve("b")).retires_at.year == 2027
        with pytest.raises(anthropic.NotFoundError):
            await talk.client.models.retrieve("c")


async def test_any_path_can_have_a_script_of_its_own():
    paths = {"/v1/messages/count_tokens": say.error(500), "/v1/models/m": [say.error(529), say.plain("{}")]}
    async with ModelServer(paths=paths) as server, Talk(server) as talk:
        with pytest.raises(anthropic.InternalServerError):
            await talk.client.messages.count_tokens(model="m", messages=talk.messages)
        with pytest.raises(anthropic.OverloadedError):
            await talk.client.models.retrieve("m")
        assert (await talk.client.models.retrieve("m")).max_input_tokens is None
        assert [request.path for request in server.requests] == [*paths, "/v1/models/m"]
