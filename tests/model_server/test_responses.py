"""The Responses API: the same answers, as the Codex client reads them."""

import json
import urllib.error
import urllib.request

import pytest

from tests.model_server import answers as say
from tests.model_server.responses_api import in_namespace
from tests.model_server.scripts import turns
from tests.model_server.server import ModelServer

USER = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "session 7"}]}


def ask(server, *items, stream=True, key="k"):
    """The events of a stream, or the document."""
    body = {"model": "m", "instructions": "You keep on.", "input": [USER, *items], "stream": stream}
    headers = {"authorization": f"Bearer {key}"}
    request = urllib.request.Request(server.url + "/v1/responses", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=5) as response:
        if not stream:
            return json.load(response)
        lines = [line.decode() for line in response if line.startswith(b"data: ")]
    return [json.loads(line.removeprefix("data: ")) for line in lines]


def refused(server, *items, **how):
    """The status, headers and message of a refusal."""
    with pytest.raises(urllib.error.HTTPError) as caught:
        ask(server, *items, **how)
    with caught.value as error:
        return error.code, error.headers, json.load(error)["error"]["message"]


def test_a_text_is_streamed_from_created_to_completed():
    with ModelServer(say.text("one two three").split(3).costs(input=9, output=2, cache_read=4)) as server:
        events = ask(server)
        whole = ask(server, stream=False)
    assert [event["type"].removeprefix("response.") for event in events] == [
        "created",
        "output_item.added",
        "content_part.added",
        *["output_text.delta"] * 3,
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]
    assert [event["sequence_number"] for event in events] == list(range(10))
    assert events[-2]["item"]["content"][0]["text"] == "one two three"
    for response in (events[-1]["response"], whole):
        assert response["output"][0]["content"][0]["text"] == "one two three"
        assert response["usage"]["input_tokens_details"] == {"cached_tokens": 4}
        assert response["usage"]["total_tokens"] == 11


def test_calls_are_answered_with_outputs_turn_by_turn():
    with ModelServer(
        turns(say.thinking("hm") + say.tools(say.call("a", x=1), say.call("b")), "done")
    ) as server:
        items = [event["item"] for event in ask(server) if event["type"] == "response.output_item.done"]
        thought, first, second = items
        assert thought["type"] == "reasoning"
        assert (first["name"], json.loads(first["arguments"])) == ("a", {"x": 1})
        outputs = [
            {"type": "function_call_output", "call_id": item["call_id"], "output": "ok"}
            for item in (first, second)
        ]
        assert ask(server, *items, *outputs)[-1]["response"]["output"][0]["content"][0]["text"] == "done"
        assert refused(server, *items, outputs[0])[2].startswith("No tool output found for function call")
    assert [result["output"] for result in server.responses[1].results] == ["ok", "ok"]
    assert server.responses[0].system == "You keep on."
    assert server.responses[0].text == "session 7"


def test_an_output_without_a_call_and_a_wrong_key_are_refused():
    with ModelServer(key="right") as server:
        output = {"type": "function_call_output", "call_id": "x", "output": "ok"}
        assert refused(server, output, key="right")[::2] == (
            400,
            "No tool call found for function call output with call_id x.",
        )
        assert refused(server, key="wrong")[0] == 401


def test_an_answer_that_is_cut_is_incomplete():
    with ModelServer(say.text("x" * 100).cut(10)) as server:
        last = ask(server)[-1]
    assert last["type"] == "response.incomplete"
    assert last["response"]["incomplete_details"] == {"reason": "max_output_tokens"}
    assert last["response"]["output"][0]["content"][0]["text"] == "x" * 10


def test_faults_are_the_same_on_this_wire():
    with ModelServer([say.text("one two").failing(deltas=1), say.error(429, retry_after=3)]) as server:
        last = ask(server)[-1]
        assert last["type"] == "response.failed"
        assert last["response"]["error"] == {"code": "server_is_overloaded", "message": "Overloaded"}
        status, headers, _ = refused(server)
        assert (status, headers["retry-after"]) == (429, "3")


def test_scripts_are_found_by_a_marker_here_too_and_calls_can_have_a_namespace():
    spaced = in_namespace(say.tools(say.call("ctx_set")), "mcp__swarmd")
    with ModelServer(scripts={"session 7": [spaced], "You keep": ["by instructions"]}) as server:
        assert ask(server)[-1]["response"]["output"][0]["content"][0]["text"] == "by instructions"
    with ModelServer(scripts={"session 7": [spaced]}) as server:
        assert ask(server)[-1]["response"]["output"][0]["namespace"] == "mcp__swarmd"
