"""What goes wrong between us and the model: each fault has its outcome, in time, and none is taken for a success."""

from __future__ import annotations

import asyncio
import json
import time

import pytest

from swarmd.runners.model.shared import SharedModels
from tests.model_server import answers as say
from tests.model_server.answers import Gate
from tests.model_server.checks import Model
from tests.model_server.server import ModelServer
from tests.runners.model.talking import SmallDesk, converse

ORPHAN = (
    b"event: content_block_delta\n"
    b'data: {"type": "content_block_delta", "index": 99, "delta": {"type": "text_delta", "text": "x"}}\n\n'
)
AGAIN = [
    ("overloaded at once", say.text("no").failing()),
    ("overloaded after three pieces", say.text("never seen").failing(deltas=3)),
    ("529", say.error(529)),
    ("429", say.error(429, retry_after=0.01)),
    ("500", say.error(500)),
    ("a stream cut in the middle", say.text("never seen").closing(deltas=2)),
    ("a stream that does not say that it ends", say.text("never seen").without("message_stop")),
    ("a reset", say.reset()),
    ("closed before the headers", say.closed()),
    ("a page instead of the API", say.html()),
    ("an empty object", say.empty_object()),
    ("a line that is no JSON", say.bad_json_line()),
    ("a packed answer", say.text("never seen").with_headers({"content-encoding": "gzip"})),
    ("a block without a beginning", say.text("never seen").saying(ORPHAN, deltas=1)),
    (
        "a number that JSON has not",
        say.text("never seen").saying(b'event: message_delta\ndata: {"delta": NaN}\n\n', deltas=1),
    ),
]


@pytest.mark.parametrize("fault", [fault for _, fault in AGAIN], ids=[name for name, _ in AGAIN])
async def test_what_may_be_gone_next_time_is_asked_again_and_leaves_nothing_behind(fault, desk, soon):
    with ModelServer([fault, fault, "good"]) as server:
        done = await converse(server, desk)
        assert server.complaints == []
    assert (done.outcome, done.text) == ("success", "good")
    assert [event["attempt"] for event in desk.of("retry")] == [1, 2]
    assert [event["text"] for event in desk.of("text")] == ["good"]
    bodies = [request.body["messages"] for request in server.messages]
    assert bodies[0] == bodies[1] == bodies[2]


@pytest.mark.parametrize("fault", [fault for _, fault in AGAIN], ids=[name for name, _ in AGAIN])
async def test_what_does_not_go_away_ends_as_unavailable_with_how_often_it_was_tried(
    fault, desk, soon, monkeypatch
):
    monkeypatch.setattr("swarmd.runners.model.breaker.FIRST_SECONDS", 0.001)
    with ModelServer(fault) as server:
        done = await converse(server, desk)
    assert done.outcome == "unavailable"
    assert "(tried 6 times)" in done.reason
    assert len(server.messages) == 6


@pytest.mark.parametrize(
    ("fault", "outcome", "reason"),
    [
        (say.error(401), "failed", "the credential was not accepted (401): invalid x-api-key"),
        (say.error(403), "failed", "the credential was not accepted (403)"),
        (
            say.error(404, "model: claude-9"),
            "failed",
            "there is no such model or address (404): model: claude-9",
        ),
        (
            say.error(400, "messages.0: bad"),
            "failed",
            "the API did not take the request (400): messages.0: bad",
        ),
        (say.error(413), "failed", "the request is too large (413)"),
        (say.too_long(), "failed", "205472 tokens, and the model takes 200000"),
        (say.spend_limit(), "unavailable", "the allowance is used up (429): Your organization has reached"),
        (say.error(529, should_retry=False), "unavailable", "overloaded (529)"),
        (say.error(400, "Your credit balance is too low"), "unavailable", "the allowance is used up (400)"),
        (
            say.error(429, "You have reached your spend limit"),
            "unavailable",
            "the allowance is used up (429)",
        ),
        (say.error(429, retry_after=302_539), "unavailable", "to be asked again in 302539 seconds"),
    ],
)
async def test_what_asking_again_does_not_cure_ends_at_once(fault, outcome, reason, desk):
    begun = time.monotonic()
    with ModelServer(fault) as server:
        done = await converse(server, desk)
    assert (done.outcome, len(server.messages)) == (outcome, 1)
    assert reason in done.reason
    assert "tried" not in done.reason
    assert time.monotonic() - begun < 20


async def test_nobody_there_is_unavailable(desk, soon):
    with ModelServer() as server:
        pass
    done = await converse(server, desk)
    assert done.outcome == "unavailable"
    assert "the model's API cannot be reached" in done.reason


async def test_a_hanging_server_ends_with_the_sessions_time(desk):
    with ModelServer(say.hang()) as server:
        done = await converse(server, desk, seconds=0.5)
    assert (done.outcome, done.reason) == ("timed_out", "timed out after 0.5 seconds")


@pytest.mark.parametrize("fault", [say.text("x").pinging(), say.text("x").pinging(deltas=2)])
async def test_pings_are_no_progress(fault, desk, soon):
    shared = SharedModels(stall_seconds=0.3)
    with ModelServer([fault, "there"]) as server:
        done = await converse(server, desk, shared=shared)
        await shared.close()
    assert (done.outcome, done.text) == ("success", "there")
    assert desk.of("retry")[0]["reason"] == "no word came for 0.3 seconds"


async def test_a_slow_stream_that_goes_on_is_not_cut(desk):
    shared = SharedModels(stall_seconds=0.5)
    with ModelServer([say.text("a b c d e f g h").split(8).slow(between=0.1)]) as server:
        done = await converse(server, desk, shared=shared)
        await shared.close()
    assert (done.outcome, done.text) == ("success", "a b c d e f g h")


async def test_a_line_of_megabytes_is_read(desk):
    with ModelServer([say.giant(3)], models={"big": Model(output=2_000_000)}) as server:
        done = await converse(server, desk, model="big", max_tokens=1_000_000)
    assert (done.outcome, len(done.text)) == ("success", 3_000_000)


async def test_where_a_model_fails_the_next_one_is_asked_for_the_rest_of_the_session(desk, soon):
    with ModelServer(scripts={
        "first": [say.thinking("mine alone") + say.tools(say.call("ctx_list")), *[say.error(529)] * 6],
        "second": [say.tools(say.call("ctx_set", key="a", value="1")), "done"],
    }) as server:  # fmt: skip
        done = await converse(server, desk, model="first", fallback_models=["second"])
        assert server.complaints == []
    assert (done.outcome, done.text) == ("success", "done")
    assert [request.body["model"] for request in server.messages] == ["first"] * 7 + ["second"] * 2
    assert set(done.by_model) == {"first", "second"}
    assert "from here on second is asked" in desk.of("warning")[-1]["text"]


async def test_a_model_that_there_is_not_gives_way_to_the_next(desk):
    with ModelServer(scripts={"gone": say.error(404), "here": "ok"}) as server:
        assert (await converse(server, desk, model="gone", fallback_models=["here"])).outcome == "success"


# -- the wall that all share --------------------------------------------------------------------------------


async def test_a_hundred_agents_do_not_all_probe_the_same_wall(soon):
    shared, gate = SharedModels(), Gate()
    with ModelServer([say.error(401).behind(gate)] + [say.error(401)] * 200) as server:
        first = asyncio.ensure_future(converse(server, shared=shared))
        await asyncio.to_thread(server.wait, 1)
        gate.open()
        assert (await first).outcome == "failed"
        many = await asyncio.gather(*(converse(server, shared=shared, session=n) for n in range(2, 102)))
        await shared.close()
    assert {done.outcome for done in many} == {"failed"}
    assert all("others have just been told so" in done.reason for done in many)
    assert len(server.messages) == 1


async def test_while_the_api_asks_to_wait_one_tries_and_the_others_follow():
    shared, desks = SharedModels(), [SmallDesk() for _ in range(20)]
    with ModelServer([say.error(429, retry_after=0.3)] + ["ok"] * 40) as server:
        first = asyncio.ensure_future(converse(server, desks[0], shared=shared))
        await asyncio.to_thread(server.wait, 1)
        await asyncio.sleep(0.1)
        rest = [asyncio.ensure_future(converse(server, desk, shared=shared)) for desk in desks[1:]]
        done = await asyncio.gather(first, *rest)
        await shared.close()
    assert {one.outcome for one in done} == {"success"}
    assert len(server.messages) == 21
    times = sorted(request.at for request in server.messages)
    assert times[1] - times[0] >= 0.25, "nobody asks while the wall stands"


async def test_another_key_has_another_wall(desk):
    shared = SharedModels()
    with ModelServer(key="sk-right") as server:
        assert (await converse(server, desk, shared=shared, key="sk-wrong")).outcome == "failed"
        assert (await converse(server, desk, shared=shared, key="sk-right")).outcome == "success"
        await shared.close()


# -- what stands behind the end, and what was paid for nothing ----------------------------------------------


def events(*lines: dict) -> bytes:
    return b"".join(f"event: {line['type']}\ndata: {json.dumps(line)}\n\n".encode() for line in lines)


WHOLE = events(
    {"type": "message_start", "message": {"model": "m", "usage": {"input_tokens": 7, "output_tokens": 1}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "all"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}},
    {"type": "message_stop"},
)


async def test_what_comes_behind_the_end_of_an_answer_is_not_waited_for_and_not_looked_at(desk):
    error = events({"type": "error", "error": {"type": "overloaded_error", "message": "late"}})
    with ModelServer([say.plain(WHOLE + error, "text/event-stream")]) as server:
        done = await converse(server, desk)
    assert (done.outcome, done.text, len(server.messages)) == ("success", "all", 1)
    with ModelServer([say.text("all").pinging(events=8)]) as server:
        begun = time.monotonic()
        done = await converse(server, desk, seconds=10)
    assert (done.outcome, done.text) == ("success", "all")
    assert time.monotonic() - begun < 9


async def test_answers_that_broke_off_are_counted_as_far_as_they_told(desk, soon):
    cut = say.text("never seen").closing(deltas=2).costs(input=1000, cache_read=0, cache_creation=0)
    with ModelServer(
        [cut, cut, say.text("good").costs(input=1000, output=5, cache_read=0, cache_creation=0)]
    ) as server:
        done = await converse(server, desk)
    assert done.by_model["claude-sonnet-5-5"].tokens_in == 3000
    assert [event["tokens_in"] for event in desk.of("usage")] == [1000] * 3
    with ModelServer(
        say.text("never whole").pinging(deltas=2).costs(input=1000, cache_read=0, cache_creation=0)
    ) as server:
        done = await converse(server, desk, seconds=0.5)
    assert (done.outcome, done.by_model["claude-sonnet-5-5"].tokens_in) == ("timed_out", 1000)


async def test_halves_of_characters_are_replaced_and_hurt_nobody(desk):
    half = WHOLE.replace(b'"all"', b'"a\\ud800b"')
    with ModelServer([say.plain(half, "text/event-stream")]) as server:
        done = await converse(server, desk)
    assert (done.outcome, done.text) == ("success", "a?b")


@pytest.mark.parametrize("arguments", ['{"value": NaN}', '{"value": 1e400}', '{"value": -Infinity}'])
async def test_arguments_that_json_has_not_are_refused_and_the_session_goes_on(desk, arguments):
    with ModelServer([say.tools(say.call_json("ctx_set", arguments)), "ok"]) as server:
        done = await converse(server, desk)
        assert server.complaints == []
    assert done.outcome == "success"
    assert desk.of("tool_result")[0]["error"]


async def test_calls_that_are_cut_again_and_again_end_the_session_whatever_the_answer_says(desk):
    with ModelServer(say.tools(say.call_json("ctx_set", '{"key": "a'))) as server:
        done = await converse(server, desk)
    assert (done.outcome, len(server.messages)) == ("failed", 4)
    assert done.reason == "calls whose arguments were cut off or are no JSON object, 4 times in a row"
