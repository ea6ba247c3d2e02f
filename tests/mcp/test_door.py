"""Who may speak at the endpoint and who is turned away; what strangers and fools may send it."""

from __future__ import annotations

import asyncio
import json
import logging

import pytest

from swarmd.runners import mcp_door
from tests.mcp.kit import answer, called, client, posted, request, said, tree, up

# -- who may speak ------------------------------------------------------------------------------------------


@pytest.fixture
async def session(swarm, stage):
    tree(swarm)
    async with up(swarm), stage.session("studio") as open_session:
        yield open_session


@pytest.mark.parametrize("header", [
    None, "", "Bearer", "Bearer ", "Bearer x", "Basic {token}", "{token}", "Bearer {token}x", "Bearer \xff\xfe", "Bearer {half}",
])  # fmt: skip
async def test_without_the_sessions_token_nobody_speaks(session, header):
    given = header and header.format(token=session.token, half=session.token[:20])
    got = await posted(session, called("ctx_list"), Authorization=given)
    assert got.status == 401
    assert got.headers["www-authenticate"] == "Bearer"
    assert got.error == mcp_door.UNKNOWN_TOKEN


async def test_the_sdks_client_is_told_that_its_token_is_wrong(session):
    with pytest.raises(ExceptionGroup) as caught:
        async with client(session, token="wrong") as model:
            await model.list_tools()
    assert "the token is not that of a running session" in repr(caught.value) + repr(caught.value.exceptions)


@pytest.mark.parametrize("host", [None, "evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "127.0.0.1:{port}.evil.example",
                                  "0.0.0.0:{port}", "[::1]:{port}", "127.0.0.1:{port}@evil"])  # fmt: skip
async def test_a_page_that_has_rebound_its_name_is_turned_away(session, host):
    got = await posted(session, called("ctx_list"), Host=host and host.format(port=session.port))
    assert got.status in (400, 421)


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://127.0.0.1:{port}", "http://127.0.0.1:{port}.evil", "http://127.0.0.1"])  # fmt: skip
async def test_a_page_of_another_origin_is_turned_away(session, origin):
    got = await posted(session, called("ctx_list"), Origin=origin.format(port=session.port))
    assert (got.status, got.error) == (403, "no web page may speak here")


async def test_who_means_this_endpoint_is_let_in(session):
    for headers in ({"Host": f"localhost:{session.port}"}, {"Origin": f"http://127.0.0.1:{session.port}"}):
        assert (await posted(session, called("ctx_list"), **headers)).status == 200


async def test_only_post_and_only_one_path(session):
    for method in ("GET", "DELETE", "OPTIONS", "PUT"):
        got = await posted(session, b"", method=method)
        assert (got.status, got.headers["allow"]) == (405, "POST")
    assert (await posted(session, called("ctx_list"), path="/")).status == 404
    assert (
        await posted(session, called("ctx_list"), path="/.well-known/oauth-protected-resource")
    ).status == 404


async def test_two_tokens_in_one_request_are_none(session):
    head = f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{session.port}\r\nAuthorization: Bearer x\r\n"
    got = await said(
        session.port, f"{head}Authorization: Bearer {session.token}\r\nContent-Length: 0\r\n\r\n".encode()
    )
    assert got.status == 400


async def test_the_token_of_one_session_does_nothing_for_another_and_dies_with_its_own(swarm, stage):
    tree(swarm, "game")
    async with up(swarm):
        async with stage.session("game") as game:
            async with stage.session("studio") as studio:
                _, writer = await asyncio.open_connection("127.0.0.1", studio.port)
                assert (await posted(game, called("ctx_set", {"key": "k", "value": "v"}))).status == 200
            late = await posted(studio, called("ctx_set", {"key": "late", "value": "v"}))
            assert (late.status, late.error) == (401, mcp_door.UNKNOWN_TOKEN)
            assert (await posted(game, called("ctx_list"))).status == 200
            writer.close()
        assert swarm.call("ctx_list", agent="studio")["items"] == []
        assert [row["key"] for row in swarm.call("ctx_list", agent="game")["items"]] == ["k"]
        async with stage.session("studio") as second:
            assert second.token != studio.token
            assert (await posted(studio, called("ctx_list"))).status == 401


async def test_after_the_daemon_nobody_answers(swarm, stage):
    tree(swarm)
    async with up(swarm):
        async with stage.session("studio") as session:
            pass
        assert (await posted(session, called("ctx_list"))).status == 401
    with pytest.raises(ConnectionRefusedError):
        await posted(session, called("ctx_list"))


# -- what strangers and fools may send ----------------------------------------------------------------------


async def test_a_body_may_have_its_bytes_and_not_one_more(session):
    text = "x" * (1024 * 1024)
    got = await posted(session, called("memory_write", {"file": "big.md", "text": text}))
    assert json.loads(got.body)["result"]["structuredContent"]["bytes"] == len(text)
    filler = b" " * (mcp_door.BODY_BYTES - len(json.dumps(called("ctx_list"))))
    assert (await posted(session, json.dumps(called("ctx_list")).encode() + filler)).status == 200
    got = await posted(session, json.dumps(called("ctx_list")).encode() + filler + b" ")
    assert (got.status, got.error) == (413, f"a request may have {mcp_door.BODY_BYTES} bytes")


async def test_a_body_without_end_is_refused(session):
    head = f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{session.port}\r\nAuthorization: Bearer {session.token}\r\nContent-Type: application/json\r\n"
    reader, writer = await asyncio.open_connection("127.0.0.1", session.port)
    writer.write(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
    piece = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    for _ in range(mcp_door.DRAINED_BYTES // 0x10000 + 2):
        writer.write(piece)
        await writer.drain()
    assert (await answer(reader)).status == 413
    writer.close()


async def test_a_body_that_does_not_come_is_not_waited_for(session, monkeypatch):
    monkeypatch.setattr(mcp_door, "BODY_SECONDS", 0.1)
    got = await posted(session, b"{}", Content_Length="100")
    assert got.status == 408


async def test_large_bodies_wait_for_their_turn_and_all_are_answered(session):
    text = "y" * 300_000
    calls = [posted(session, called("memory_write", {"file": f"f{n}.md", "text": text})) for n in range(12)]
    assert {got.status for got in await asyncio.gather(*calls)} == {200}


@pytest.mark.parametrize("body", [
    b"", b"junk", b"7", b"null", b"[]", b"{}", b'"x"', b"[" * 100_000, b'{"a":' * 50_000, b"\xff\xfe", b'{"jsonrpc":"2.0"}',
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call"}', b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":7}}',
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ctx_list","arguments":[]}}',
    b'{"jsonrpc":"2.0","id":1,"method":"nope"}', b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]',
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ctx_set","arguments":{"key":"k","value":"\\ud800"}}}',
], ids=lambda body: body[:60].decode("latin-1"))  # fmt: skip
async def test_what_is_no_call_does_no_harm_and_makes_no_noise(session, body, caplog):
    with caplog.at_level(logging.DEBUG, "swarmd"):
        got = await posted(session, body)
    assert got.status in (200, 400)
    assert b"Traceback" not in got.body
    assert b'File "' not in got.body
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
    assert (await posted(session, called("ctx_list"))).status == 200


@pytest.mark.parametrize("data", [b"\r\n\r\n\r\n", b"\x16\x03\x01\x02", b"GET / HTTP/9.9\r\n\r\n", b"GET " + b"a" * 100_000, b"POST /mcp HTTP/1.1\r\n\r\n"])  # fmt: skip
async def test_what_is_no_http_is_turned_away_without_noise(session, data, caplog, capfd):
    got = await said(session.port, data)
    assert got.status in (400, 421)
    assert caplog.records == []
    assert capfd.readouterr().err == ""


async def test_strangers_cannot_keep_a_session_out(session, monkeypatch):
    monkeypatch.setattr(mcp_door, "STRANGERS", 20)
    crowd = [await asyncio.open_connection("127.0.0.1", session.port) for _ in range(100)]
    assert (await posted(session, called("ctx_list"))).status == 200
    await asyncio.sleep(0.05)
    gone = [reader for reader, _ in crowd if reader.exception() is not None or reader.at_eof()]
    assert 75 <= len(gone) <= 85
    for _, writer in crowd:
        writer.close()


async def test_a_stranger_is_sent_away_soon_and_a_session_may_think(session, monkeypatch):
    monkeypatch.setattr(mcp_door, "STRANGER_SECONDS", 0.1)
    reader, writer = await asyncio.open_connection("127.0.0.1", session.port)
    stranger, other = await asyncio.open_connection("127.0.0.1", session.port)
    writer.write(request(session, called("ctx_list")))
    assert (await answer(reader)).status == 200
    await asyncio.sleep(0.3)
    with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
        await stranger.readexactly(1)
    writer.write(request(session, called("ctx_list")))
    assert (await answer(reader)).status == 200
    writer.close()
    other.close()


async def test_a_session_has_so_many_connections_and_no_more(session, monkeypatch):
    monkeypatch.setattr(mcp_door, "CONNECTIONS", 3)
    held = []
    for wanted in (200, 200, 200, 503):
        reader, writer = await asyncio.open_connection("127.0.0.1", session.port)
        writer.write(request(session, called("ctx_list")))
        assert (await answer(reader)).status == wanted
        held.append(writer)
    held[0].close()
    await asyncio.sleep(0.05)
    assert (await posted(session, called("ctx_list"))).status == 200
    for writer in held:
        writer.close()
