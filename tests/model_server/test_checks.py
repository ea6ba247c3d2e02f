"""Requests that the real API refuses are refused, with the sentence that names the mistake; good ones are not."""

import anthropic
import pytest

from tests.model_server import answers as say
from tests.model_server.checks import Model
from tests.model_server.client import Talk
from tests.model_server.sent import signature_of
from tests.model_server.server import ModelServer

USER = {"role": "user", "content": "hello"}
MARK = {"type": "ephemeral"}


def assistant(*content):
    return {"role": "assistant", "content": list(content)}


def user(*content):
    return {"role": "user", "content": list(content)}


def use(id="toolu_1", **fields):
    return {"type": "tool_use", "id": id, "name": "a", "input": {}, **fields}


def result(id="toolu_1", **fields):
    return {"type": "tool_result", "tool_use_id": id, "content": "done", **fields}


def words(text="so", **fields):
    return {"type": "text", "text": text, **fields}


def tool(name="a", **fields):
    return {"name": name, "input_schema": {"type": "object"}, **fields}


async def refusal_of(messages=(USER,), **fields):
    """The sentence with which these are refused; None if they are not."""
    async with ModelServer() as server, Talk(server) as talk:
        given = {**talk.fixed, "messages": list(messages), "extra_body": fields}
        try:
            await talk.client.messages.create(**given)
        except anthropic.BadRequestError as wrong:
            sentence = wrong.api_message
        else:
            sentence = None
        assert server.complaints == ([sentence] if sentence is not None else [])
    return sentence


@pytest.mark.parametrize(
    ("messages", "sentence"),
    [
        ([], "messages: at least one message is required"),
        ([assistant(words()), USER], 'messages: first message must use the "user" role'),
        ([user()], "messages.0: all messages must have non-empty content"),
        ([{"role": "user", "content": ""}], "messages.0: all messages must have non-empty content"),
        ([{"role": "tool", "content": "x"}], "messages.0.role: Input should be 'user' or 'assistant'"),
        ([{**USER, "name": "ada"}], "messages.0.name: Extra inputs are not permitted"),
        ([user(words(""))], "messages: text content blocks must be non-empty"),
        ([user(words(" \n"))], "messages: text content blocks must contain non-whitespace text"),
        ([user({"type": "hologram"})], "messages.0.content.0: Input tag 'hologram' found"),
        ([user(words(parsed_output=None))], "messages.0.content.0.text.parsed_output: Extra inputs are not"),
        ([user(use())], "messages.0.content.0: `tool_use` blocks can only be in `assistant` messages"),
        ([USER, assistant(words())], "This model does not support assistant message prefill"),
        (
            [USER, assistant(use("a b")), user(result("a b"))],
            "messages.1.content.0.tool_use.id: String should match",
        ),
        (
            [USER, assistant(use(input="{}")), user(result())],
            "messages.1.content.0.tool_use.input: Input should be",
        ),
    ],
)
async def test_messages_of_the_wrong_shape(messages, sentence):
    assert (await refusal_of(messages)).startswith(sentence)


@pytest.mark.parametrize(
    ("messages", "sentence"),
    [
        (
            [USER, assistant(use()), USER],
            "messages.1: `tool_use` ids were found without `tool_result` blocks",
        ),
        ([USER, assistant(use())], "messages.1: `tool_use` ids were found without `tool_result` blocks"),
        (
            [USER, assistant(use(), use("toolu_2")), user(result())],
            "messages.1: `tool_use` ids were found without",
        ),
        ([USER, assistant(use()), user(words(), result())], "messages.1: `tool_use` ids were found without"),
        (
            [user(result())],
            "messages.0.content.0: unexpected `tool_use_id` found in `tool_result` blocks: toolu_1",
        ),
        ([USER, assistant(words()), user(result())], "messages.2.content.0: unexpected `tool_use_id` found"),
        (
            [USER, assistant(use()), user(result(), result())],
            "messages.2.content.1: each tool_use must have a single",
        ),
        (
            [USER, assistant(use()), user(result()), assistant(use()), user(result())],
            "messages: `tool_use` ids must be unique",
        ),
        (
            [USER, assistant(use()), user(result(content="", is_error=True))],
            "messages.2.content.0.tool_result: content",
        ),
        (
            [
                USER,
                assistant({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}),
                USER,
            ],
            "messages.1: `web_search` tool use with id `s` was found without a corresponding `web_search_tool_result`",
        ),
    ],
)
async def test_calls_and_results_that_do_not_fit(messages, sentence):
    assert (await refusal_of(messages)).startswith(sentence)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"temperature": 0.5}, "temperature: Extra inputs are not permitted"),
        ({"top_p": 0.5}, "top_p: Extra inputs are not permitted"),
        ({"max_tokens": None}, "max_tokens: Field required"),
        ({"max_tokens": -1}, "max_tokens: Input should be greater than or equal to 0"),
        ({"max_tokens": "9"}, "max_tokens: Input should be a valid integer"),
        ({"color": "red"}, "color: Extra inputs are not permitted"),
        ({"thread": {"type": "create"}}, None),
        ({"system": [words("")]}, "system: text content blocks must be non-empty"),
        ({"tools": [tool(), tool()]}, "tools: Tool names must be unique."),
        ({"tools": [tool("a.b")]}, "tools.0.custom.name: String should match pattern"),
        ({"tools": [tool("x" * 129)]}, "tools.0.custom.name: String should match pattern"),
        ({"tools": [{"name": "a"}]}, "tools.0.custom.input_schema: Field required"),
        ({"tools": [tool(input_schema={})]}, "tools.0.custom.input_schema.type: Input should be 'object'"),
        (
            {"tool_choice": {"type": "tool", "name": "b"}, "tools": [tool()]},
            "Tool 'b' not found in provided tools",
        ),
        ({"tool_choice": {"type": "any"}}, "tool_choice: may only be specified while providing tools"),
        (
            {"thinking": {"type": "enabled", "budget_tokens": 10}},
            "thinking.enabled.budget_tokens: Input should be",
        ),
        ({"thinking": {"type": "enabled", "budget_tokens": 10_000}}, "`max_tokens` must be greater than"),
        (
            {"thinking": {"type": "adaptive"}, "tools": [tool()], "tool_choice": {"type": "any"}},
            "Thinking may not be enabled when tool_choice forces tool use.",
        ),
        (
            {"tools": [tool(f"a{n}", cache_control=MARK) for n in range(5)]},
            "A maximum of 4 blocks with cache_control",
        ),
        (
            {
                "tools": [tool(cache_control={"type": "ephemeral"})],
                "cache_control": {"type": "ephemeral", "ttl": "1h"},
            },
            "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block.",
        ),
        ({"cache_control": {"type": "forever"}}, "cache_control: Input should be"),
    ],
)
async def test_fields_and_tools_that_are_wrong(fields, sentence):
    if sentence is None:
        async with ModelServer() as server, Talk(server) as talk:
            with pytest.raises(anthropic.BadRequestError) as caught:
                await talk.client.messages.create(**talk.fixed, messages=[USER], extra_body=fields)
        assert caught.value.error_code == "thread_unsupported_request"
    else:
        assert (await refusal_of(**fields)).startswith(sentence)


@pytest.mark.parametrize(
    ("messages", "fields"),
    [
        ([USER, USER, assistant(words()), USER], {}),
        ([USER, assistant(use(), use("toolu_2")), user(result("toolu_2"), result(), words())], {}),
        ([USER, assistant(use()), user(result(content=[words()], is_error=True))], {"tools": [tool()]}),
        ([USER, assistant(use()), user(result(content=None))], {"system": [words(cache_control=MARK)]}),
        (
            [
                USER,
                assistant({"type": "thinking", "thinking": "hm", "signature": signature_of("hm")}, words()),
                USER,
            ],
            {},
        ),
        (
            [USER],
            {
                "tools": [tool(), {"type": "memory_20250818", "name": "memory"}],
                "tool_choice": {"type": "any"},
            },
        ),
        (
            [USER],
            {
                "thinking": {"type": "adaptive"},
                "output_config": {"effort": "low"},
                "metadata": {"user_id": "u"},
            },
        ),
    ],
)
async def test_what_is_right_is_taken(messages, fields):
    assert await refusal_of(messages, **fields) is None


async def test_an_older_version_still_takes_a_temperature():
    async with ModelServer() as server, Talk(server) as talk:
        old = talk.client.with_options(default_headers={"anthropic-version": "2023-06-01"})
        await old.messages.create(**talk.fixed, messages=[USER], extra_body={"temperature": 0.5})
        assert server.complaints == []


async def test_a_changed_thought_is_refused():
    async with ModelServer([say.thinking("hm") + say.tools(say.call("a"))]) as server, Talk(server) as talk:
        message = await talk.step()
        message.content[0].thinking = "ha"
        with pytest.raises(anthropic.BadRequestError, match="Invalid `signature` in `thinking` block"):
            await talk.ask()


async def test_a_thought_left_out_before_its_calls_is_refused():
    for thought in (say.thinking("hm"), say.redacted()):
        async with ModelServer([thought + say.tools(say.call("a"))]) as server, Talk(server) as talk:
            message = await talk.step()
            del message.content[0]
            with pytest.raises(
                anthropic.BadRequestError, match="in the latest assistant message cannot be modified"
            ):
                await talk.ask()


async def test_a_paused_turn_may_be_the_last_word_only_as_it_was():
    script = [say.text("so far", stop="pause_turn")]
    async with ModelServer(script) as server, Talk(server) as talk:
        message = await talk.step()
        await talk.ask()
        message.content[0].text = "so good"
        with pytest.raises(anthropic.BadRequestError, match="must end with a user message"):
            await talk.ask()


async def test_only_known_models_and_their_limits():
    models = {"model-a": Model(window=30, output=100), "old": Model(lifecycle="retired")}
    async with ModelServer(models=models) as server, Talk(server, max_tokens=100) as talk:
        await talk.ask()
        for name in ("model-b", "old"):
            with pytest.raises(anthropic.NotFoundError, match=f"model: {name}"):
                await talk.ask(model=name)
        with pytest.raises(anthropic.BadRequestError, match="max_tokens: 101 > 100, which is the maximum"):
            await talk.ask(max_tokens=101)
        with pytest.raises(anthropic.BadRequestError, match="prompt is too long: 34 tokens > 30 maximum"):
            await talk.ask([{"role": "user", "content": "x" * 100}])


async def test_a_key_is_asked_for_only_if_there_is_one():
    async with ModelServer(key="right") as server:
        async with Talk(server, key="right") as talk:
            await talk.ask()
        async with Talk(server, key="wrong") as talk:
            with pytest.raises(anthropic.AuthenticationError, match="invalid x-api-key"):
                await talk.ask()
            await talk.ask(extra_headers={"x-api-key": "right"})


async def test_checks_can_be_turned_off():
    async with ModelServer(checks=False) as server, Talk(server) as talk:
        await talk.ask([assistant(use())])
        assert server.complaints == []
