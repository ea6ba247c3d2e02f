"""Every fault that a script can ask for, and what the real SDK makes of it."""

import asyncio
import time

import anthropic
import httpx2
import pytest

from tests.model_server import answers as say
from tests.model_server.client import Talk
from tests.model_server.server import ModelServer


async def raised(answer, expected, **how):
    """What the SDK raises on this answer."""
    async with ModelServer(answer) as server, Talk(server, **how) as talk:
        with pytest.raises(expected) as caught:
            await talk.ask()
        assert len(server.messages) == 1
    return caught.value


@pytest.mark.parametrize(
    ("status", "error", "type"),
    [
        (400, anthropic.BadRequestError, "invalid_request_error"),
        (401, anthropic.AuthenticationError, "authentication_error"),
        (403, anthropic.PermissionDeniedError, "permission_error"),
        (404, anthropic.NotFoundError, "not_found_error"),
        (413, anthropic.ContentTooLargeError, "request_too_large"),
        (429, anthropic.RateLimitError, "rate_limit_error"),
        (500, anthropic.InternalServerError, "api_error"),
        (529, anthropic.OverloadedError, "overloaded_error"),
    ],
)
async def test_an_http_error_has_its_class_type_and_request_id(status, error, type):
    found = await raised(say.error(status), error)
    assert (found.status_code, found.type) == (status, type)
    assert found.request_id.startswith("req_")
    assert found.body["request_id"] == found.request_id


async def test_prompt_too_long_names_both_numbers():
    found = await raised(say.too_long(205_472, 200_000), anthropic.BadRequestError)
    assert found.api_message == "prompt is too long: 205472 tokens > 200000 maximum"


async def test_a_spend_limit_has_a_code_and_a_class_of_its_own():
    found = await raised(say.spend_limit(retry_after=86_400 * 12), anthropic.RateLimitError)
    assert type(found).__name__ == "EnforcedSpendLimitReachedError"
    assert found.error_code == "enforced_spend_limit_reached"
    assert found.response.headers["retry-after"] == "1036800"
    assert found.response.headers["x-should-retry"] == "false"


async def test_a_server_can_say_that_a_request_is_not_to_be_repeated():
    script = [say.error(529, should_retry=False), say.text()]
    async with ModelServer(script) as server, Talk(server) as talk:
        with pytest.raises(anthropic.OverloadedError):
            await talk.client.with_options(max_retries=2).messages.create(
                **talk.fixed, messages=talk.messages
            )
        assert len(server.messages) == 1


async def test_retry_after_is_obeyed_and_then_it_goes_well():
    script = [say.error(429, retry_after=0.05), say.error(529, retry_after=0.05), say.text("well")]
    async with ModelServer(script) as server, Talk(server) as talk:
        patient = talk.client.with_options(max_retries=2)
        message = await patient.messages.create(**talk.fixed, messages=talk.messages)
        assert message.content[0].text == "well"
        first, second, _ = (request.at for request in server.messages)
        assert second - first >= 0.05


@pytest.mark.parametrize("deltas", [0, 3])
async def test_an_error_inside_a_stream_has_status_200(deltas):
    answer = say.text("one two three").failing("overloaded_error", deltas=deltas)
    async with ModelServer(answer) as server, Talk(server) as talk:
        heard = []
        with pytest.raises(anthropic.APIStatusError) as caught:
            async with talk.client.messages.stream(**talk.fixed, messages=talk.messages) as stream:
                heard = [words async for words in stream.text_stream if heard.append(words) is None]
    assert (caught.value.status_code, caught.value.type) == (200, "overloaded_error")
    assert type(caught.value) is anthropic.APIStatusError
    assert len(heard) == deltas


@pytest.mark.parametrize("events", [0, 1, 4, 99])
async def test_a_stream_cut_anywhere_is_no_error_of_the_sdks_own(events):
    found = await raised(say.text("one two three").closing(events=events), httpx2.RemoteProtocolError)
    assert not isinstance(found, anthropic.AnthropicError)


async def test_a_stream_reset_in_its_middle():
    await raised(
        say.text("one two three").resetting(deltas=1), (httpx2.ReadError, httpx2.RemoteProtocolError)
    )


@pytest.mark.parametrize("answer", [say.closed(), say.reset()])
async def test_a_connection_that_ends_without_an_answer(answer):
    found = await raised(answer, anthropic.APIConnectionError)
    assert not isinstance(found, anthropic.APITimeoutError)


async def test_a_stream_without_message_stop_ends_without_any_error():
    script = [
        say.text("one two").without("message_stop"),
        say.text("one two").without("message_delta", "message_stop"),
    ]
    async with ModelServer(script) as server, Talk(server) as talk:
        assert (await talk.ask()).stop_reason == "end_turn"
        message = await talk.ask()
    assert (message.content[0].text, message.stop_reason) == ("one two", None)


async def test_no_answer_at_all_runs_into_the_timeout():
    await raised(say.hang(), anthropic.APITimeoutError, timeout=0.2)


async def test_a_stream_that_stops_coming_runs_into_the_timeout_of_a_read():
    await raised(say.text("one two three").hanging(deltas=2), httpx2.ReadTimeout, timeout=0.2)


@pytest.mark.parametrize(
    "answer", [say.text().pinging(every=0.02), say.text("x" * 40).split(40).slow(between=0.02)]
)
async def test_pings_and_drips_hold_the_timeout_off(answer):
    async with ModelServer(answer) as server, Talk(server, timeout=0.2) as talk:
        asking = asyncio.create_task(talk.ask())
        await asyncio.to_thread(server.wait, 1)
        await asyncio.sleep(0.3)
        assert not asking.done()
        asking.cancel()
        await asyncio.to_thread(server.until_idle)
        assert server.messages[0].gone
        with pytest.raises(asyncio.CancelledError):
            await asking


async def test_a_delay_comes_before_the_headers():
    async with ModelServer(say.text().slow(before=0.1)) as server, Talk(server) as talk:
        await talk.ask()
        assert time.monotonic() - server.messages[0].at >= 0.1


async def test_html_in_place_of_a_stream_is_a_bare_assertion_error():
    await raised(say.html(), AssertionError)


async def test_html_in_place_of_a_document_is_a_string():
    async with ModelServer(say.html()) as server, Talk(server) as talk:
        message = await talk.client.messages.create(**talk.fixed, messages=talk.messages)
    assert isinstance(message, str)


async def test_an_empty_object_in_place_of_an_answer():
    await raised(say.empty_object(), AssertionError)
    async with ModelServer(say.empty_object()) as server, Talk(server) as talk:
        message = await talk.client.messages.create(**talk.fixed, messages=talk.messages)
    assert message.content is None


async def test_a_gateways_html_error_has_neither_type_nor_code():
    found = await raised(say.html(status=502), anthropic.InternalServerError)
    assert (found.status_code, found.type, found.error_code) == (502, None, None)


async def test_a_line_that_is_no_json():
    await raised(say.bad_json_line(), ValueError)


async def test_a_giant_line_arrives():
    async with ModelServer(say.giant(3)) as server, Talk(server, max_tokens=1_000_000) as talk:
        assert len((await talk.ask()).content[0].text) == 3_000_000


async def test_a_document_that_is_not_streamed_breaks_in_its_middle():
    async with ModelServer(say.text("x" * 1000).closing(events=1)) as server, Talk(server) as talk:
        with pytest.raises(anthropic.APIConnectionError):
            await talk.client.messages.create(**talk.fixed, messages=talk.messages)


async def test_the_server_stops_at_once_whatever_is_open():
    script = say.text().hanging(deltas=1)
    async with ModelServer(script) as server:
        talks = [Talk(server) for _ in range(20)]
        asking = [asyncio.create_task(talk.ask()) for talk in talks]
        await asyncio.to_thread(server.wait, 20)
        started = time.monotonic()
    assert time.monotonic() - started < 1
    ends = await asyncio.gather(*asking, return_exceptions=True)
    assert all(isinstance(end, (httpx2.HTTPError, anthropic.APIConnectionError)) for end in ends)
    for talk in talks:
        await talk.client.close()


async def test_a_gate_holds_answers_until_it_is_opened():
    gate = say.Gate()
    async with ModelServer(say.text("late").behind(gate)) as server, Talk(server) as talk:
        asking = asyncio.create_task(talk.ask())
        await asyncio.to_thread(server.wait, 1)
        assert (server.open, asking.done()) == (1, False)
        gate.open()
        assert (await asking).content[0].text == "late"


async def test_a_client_that_leaves_at_a_gate_is_seen():
    async with ModelServer(say.text().behind(say.Gate())) as server, Talk(server) as talk:
        asking = asyncio.create_task(talk.ask())
        await asyncio.to_thread(server.wait, 1)
        asking.cancel()
        await asyncio.to_thread(server.until_idle)
        assert server.messages[0].gone
        with pytest.raises(asyncio.CancelledError):
            await asking
