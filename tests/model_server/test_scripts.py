"""Who gets which answer, what a test sees of the requests, and servers used without asyncio."""

import asyncio
import contextlib
import json
import re
import socket
import threading
import urllib.error
import urllib.request

import anthropic
import pytest

from tests.model_server import answers as say
from tests.model_server.client import Talk
from tests.model_server.scripts import turns
from tests.model_server.server import ModelServer


def words(message):
    return "".join(block.text for block in message.content if block.type == "text")


def post(server, body, path="/v1/messages"):
    headers = {"anthropic-version": "2026-10-21", "x-api-key": "k"}
    request = urllib.request.Request(server.url + path, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=5) as response:
        return response.headers, json.load(response)


def test_a_test_without_asyncio_uses_it_as_well():
    with ModelServer(["one"]) as server:
        headers, body = post(
            server, {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
        )
    assert body["content"] == [{"type": "text", "text": "one"}]
    assert headers["request-id"].startswith("req_")
    assert server.messages[0].body["model"] == "m"
    assert server.messages[0].headers["x-api-key"] == "k"
    assert (server.messages[0].text, server.messages[0].status, server.messages[0].gone) == ("hi", 200, False)


def test_what_is_no_json_or_no_known_path_is_refused():
    with ModelServer() as server:
        for path, body, status in (("/v1/messages", [], 400), ("/v1/nothing", {}, 404)):
            with pytest.raises(urllib.error.HTTPError) as caught:
                post(server, body, path)
            assert caught.value.code == status
            caught.value.close()


async def test_a_list_is_used_up_and_then_it_is_ok():
    async with ModelServer(["one", say.text("two"), "three"]) as server, Talk(server) as talk:
        assert [words(await talk.ask()) for _ in range(2)] == ["one", "two"]
        assert server.left == 1
        assert [words(await talk.ask()) for _ in range(3)] == ["three", "ok", "ok"]


async def test_one_answer_is_for_ever():
    async with ModelServer("again") as server, Talk(server) as talk:
        assert [words(await talk.ask()) for _ in range(3)] == ["again"] * 3


async def test_a_function_sees_the_request():
    async def slowly(body):
        await asyncio.sleep(0)
        return f"{len(body['messages'])}"

    for script in (slowly, lambda body: say.text(f"{len(body['messages'])}")):
        async with ModelServer(script) as server, Talk(server) as talk:
            assert words(await talk.ask()) == "1"


async def test_what_a_script_raises_is_raised_again_at_the_end():
    def script(body):
        assert body["model"] == "another", "not the one that was expected"

    server = ModelServer(script).start()
    async with Talk(server) as talk:
        with pytest.raises(anthropic.InternalServerError, match="the script failed"):
            await talk.ask()
    with pytest.raises(AssertionError, match="not the one"):
        server.__exit__(None, None, None)


async def test_scripts_are_found_by_model_then_by_system_text_then_by_the_first_message():
    scripts = {"model-b": ["b"], "You are polybreak": ["p"], "session 7": ["seven"]}
    async with ModelServer("anyone", scripts=scripts) as server, Talk(server) as talk:
        assert words(await talk.ask(model="model-b", system="You are polybreak.")) == "b"
        system = [{"type": "text", "text": "Hello."}, {"type": "text", "text": "You are polybreak."}]
        assert words(await talk.ask([{"role": "user", "content": "session 7"}], system=system)) == "p"
        assert words(await talk.ask([{"role": "user", "content": "this is session 7"}])) == "seven"
        assert words(await talk.ask()) == "anyone"
        assert server.messages[1].system == "Hello.\nYou are polybreak."


async def test_each_conversation_plays_its_turns_from_the_start():
    script = turns(say.tools(say.call("a")), "done")
    async with ModelServer(script) as server, Talk(server) as one, Talk(server) as other:
        assert (await one.step()).stop_reason == "tool_use"
        assert (await other.ask()).stop_reason == "tool_use"
        assert (await other.step()).stop_reason == "tool_use"
        for talk in (one, other):
            assert words(await talk.step()) == "done"


async def test_two_hundred_sessions_at_once():
    """Without the SDK, which takes ten times the server's time. All first requests are open together."""
    gate = say.Gate()
    first = say.tools(say.call("a", text="x" * 2000), say.call("b")).behind(gate)
    async with ModelServer(turns(first, say.tools(say.call("c")), "done")) as server:
        playing = [asyncio.create_task(_three(server)) for _ in range(200)]
        await asyncio.to_thread(server.wait, 200)
        gate.open()
        stops = await asyncio.gather(*playing)
        assert stops == [["tool_use", "tool_use", "end_turn"]] * 200
        assert server.complaints == []
        assert (len(server.messages), server.most_open) == (600, 200)


async def _three(server):
    """A conversation of three requests on one connection, not streamed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(server.url.rpartition(":")[2]))
    body = {
        "model": "m",
        "max_tokens": 9999,
        "system": "x" * 20_000,
        "messages": [{"role": "user", "content": "go"}],
    }
    stops = []
    for _ in range(3):
        data = json.dumps(body).encode()
        head = f"POST /v1/messages HTTP/1.1\r\nanthropic-version: 2026-10-21\r\ncontent-length: {len(data)}\r\n\r\n"
        writer.write(head.encode() + data)
        length = re.search(rb"content-length: (\d+)", await reader.readuntil(b"\r\n\r\n"))
        said = json.loads(await reader.readexactly(int(length[1])))
        stops.append(said["stop_reason"])
        calls = [block["id"] for block in said["content"] if block["type"] == "tool_use"]
        results = [{"type": "tool_result", "tool_use_id": call} for call in calls]
        body["messages"] += [
            {"role": "assistant", "content": said["content"]},
            {"role": "user", "content": results},
        ]
    writer.close()
    return stops


async def test_a_server_that_was_away_comes_back_at_its_place_and_knows_what_was():
    async with ModelServer(["one", "two"]) as server, Talk(server) as talk:
        await talk.ask()
        server.stop()
        with pytest.raises(anthropic.APIConnectionError):
            await talk.ask()
        server.start()
        assert words(await talk.ask()) == "two"
        assert len(server.messages) == 2


async def test_the_sdks_own_loop_goes_on_without_threads():
    @anthropic.beta_async_tool
    async def ctx_get(key: str) -> str:
        """Reads a key."""
        return f"{key} is set"

    script = turns(say.tools(say.call("ctx_get", key="a"), say.call("ctx_get", key="b")), "done")
    async with ModelServer(script) as server, Talk(server) as talk:
        runner = talk.client.beta.messages.tool_runner(**talk.fixed, messages=talk.messages, tools=[ctx_get])
        assert words(await runner.until_done()) == "done"
        assert [result["content"] for result in server.messages[-1].results] == ["a is set", "b is set"]
        assert server.complaints == ["thread: not supported here"]
        assert [request.status for request in server.messages] == [400, 200, 200]


def test_a_server_leaves_no_thread_behind():
    before = threading.active_count()
    with ModelServer():
        assert threading.active_count() == before + 1
    assert threading.active_count() == before


def test_connections_that_never_ask_and_half_a_request_do_not_hold_the_end_up():
    with ModelServer() as server:
        port = int(server.url.rpartition(":")[2])
        clients = [socket.create_connection(("127.0.0.1", port), timeout=5) for _ in range(20)]
        for client in clients[::2]:
            client.sendall(b"POST /v1/messages HTTP/1.1\r\ncontent-length: 9\r\n\r\n{")
    for client in clients:
        with client, contextlib.suppress(ConnectionResetError):
            assert client.recv(1) == b""
