"""The desk's socket: who may speak, what a hostile line does, and the memory calls that it answers itself."""

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from swarmd import wire_client
from swarmd.core.memory import FIRST_FILE_BYTES
from swarmd.core.wire import MemoryTree
from swarmd.errors import BadInput, Failed, NotFound, Refused
from swarmd.runners.memory_copy import materialize
from swarmd.runners.memory_desk import MemoryDesk
from swarmd.runners.socket import CONNECTIONS, LINE_BYTES, DeskSocket
from tests.runners.machines import TOKEN, RecordingDesk, text_of

MEMORY = {"MEMORY.md": b"# Notes\n", "policies/a.md": b"rule\n", "bytes": b"\xff\xfe"}


@pytest.fixture
async def served(runtime_dir):
    """A socket of a running session, with its desk and its memory copy."""
    base = MemoryTree.of(MEMORY)
    folder = runtime_dir / "memory"
    materialize(str(folder), base, ["policies/**"])
    desk = RecordingDesk()
    memory = MemoryDesk(
        owner="polybreak",
        folder=str(folder),
        base=base,
        read_only=("policies/**",),
        desk=desk,
        revisions={
            path: {"rev": 7, "at": "2026-11-30T09:00:00Z", "by": "operator:ada"}
            for path in ("bytes", "MEMORY.md")
        },
    )
    path = str(runtime_dir / "desk.sock")
    server = DeskSocket(path, token=TOKEN, memory=memory)
    await server.open()
    yield path, desk, folder, server
    await server.close()
    assert gone(path)


def gone(path: str) -> bool:
    return not Path(path).exists()


async def call(path: str, name: str, token: str = TOKEN, **args):
    return await asyncio.to_thread(wire_client.call, path, token, name, args)


async def raw(path: str, data: bytes) -> list[dict]:
    """What comes back for these bytes until the other side ends."""
    reader, writer = await asyncio.open_unix_connection(path, limit=64 << 20)
    with contextlib.suppress(ConnectionError):
        writer.write(data)
        writer.write_eof()
        await writer.drain()
    replies = []
    with contextlib.suppress(TimeoutError, ConnectionError):
        while line := await asyncio.wait_for(reader.readline(), 5):
            replies.append(json.loads(line))
    writer.close()
    return replies


def line(**changes) -> bytes:
    return (
        json.dumps({"id": "1", "token": TOKEN, "call": "ctx_get", "args": {"key": "k"}} | changes).encode()
        + b"\n"
    )


async def test_a_call_goes_to_the_desk_and_its_value_comes_back(served):
    path, desk, _folder, _server = served
    assert await call(path, "ctx_set", key="a", value="b") == {
        "called": "ctx_set",
        "args": {"key": "a", "value": "b"},
    }
    assert [(message.call, dict(message.args)) for message in desk.calls] == [
        ("ctx_set", {"key": "a", "value": "b"})
    ]
    assert oct(os.stat(path).st_mode & 0o777) == "0o600"


@pytest.mark.parametrize("token", ["", TOKEN[:-1], TOKEN + "x", TOKEN.upper(), " " + TOKEN, "\udce9" * 8])
async def test_a_forged_token_is_refused(served, token):
    path, desk, folder, _server = served
    for name, args in (("ctx_set", {}), ("memory_write", {"file": "x", "text": "x"}), ("checkpoint", {})):
        with pytest.raises(Refused, match="SWARMD_TOKEN is wrong"):
            await call(path, name, token, **args)
    assert (desk.calls, desk.checkpoints) == ([], [])
    assert not (folder / "x").exists()


@pytest.mark.parametrize("token", [None, 1, [TOKEN], {"token": TOKEN}, True])
async def test_a_token_of_another_kind_is_refused(served, token):
    assert [reply["kind"] for reply in await raw(served[0], line(token=token))] == ["refused"]


async def test_a_session_without_a_token_accepts_nobody(runtime_dir):
    desk = RecordingDesk()
    memory = MemoryDesk(owner="a", folder="/nowhere", base=MemoryTree(), read_only=(), desk=desk)
    server = DeskSocket(str(runtime_dir / "s"), token="", memory=memory)
    await server.open()
    assert [reply["kind"] for reply in await raw(str(runtime_dir / "s"), line(token=""))] == ["refused"]
    await server.close()


HOSTILE = {
    "not JSON": b"hello\n",
    "empty line": b"\n",
    "half a line": line()[:-10],
    "not UTF-8": b'{"id": "caf\xe9"}\n',
    "NaN": line().replace(b'"1"', b"NaN"),
    "a huge number": b'{"id": ' + b"9" * 10_000 + b"}\n",
    "deep lists": b"[" * 500_000 + b"\n",
    "deep objects": b'{"a":' * 300_000 + b"\n",
    "deep arguments": line().replace(b'"k"', b"[" * 100_000 + b"]" * 100_000),
    "a list": b"[]\n",
    "a text": b'"hello"\n',
    "no id": line(id=None),
    "a long id": line(id="x" * 101),
    "no call": line(call=None),
    "arguments that are a list": line(args=[]),
    "NUL": b"\0\n",
    "an HTTP request": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
}


@pytest.mark.parametrize("name", HOSTILE)
async def test_a_hostile_line_gets_a_sentence_and_the_socket_lives(served, name):
    path, desk, _folder, _server = served
    replies = await raw(path, HOSTILE[name])
    assert [reply["kind"] for reply in replies] in (["bad_input"], ["refused"], [])
    assert replies or name == "half a line"
    assert desk.calls == []
    await call(path, "ctx_get", key="k")


async def test_a_line_without_end_costs_little(served):
    path = served[0]

    def flood() -> tuple[int, bytes]:
        sent = 0
        with socket.socket(socket.AF_UNIX) as it:
            it.settimeout(5)
            it.connect(path)
            try:
                while sent < 1_000_000_000:
                    sent += it.send(b"x" * 1_000_000)
            except (ConnectionError, TimeoutError):
                pass
            return sent, it.recv(1000)

    results = await asyncio.gather(*(asyncio.to_thread(flood) for _ in range(5)))
    for sent, reply in results:
        assert sent < LINE_BYTES + 2_000_000
        assert b"a request may have 2097152 bytes" in reply
    await call(path, "ctx_get", key="k")


async def test_fifty_connections_at_once(served):
    path, desk, _folder, _server = served

    async def one(number: int) -> None:
        reader, writer = await asyncio.open_unix_connection(path)
        for turn in range(20):
            writer.write(line(id=f"{number}.{turn}", args={"n": number, "turn": turn}))
            reply = json.loads(await reader.readline())
            assert reply["value"]["args"] == {"n": number, "turn": turn}
        writer.close()

    await asyncio.gather(*(one(number) for number in range(50)))
    assert len(desk.calls) == 1000


async def test_more_connections_than_allowed_are_told(served):
    path = served[0]
    held = [await asyncio.open_unix_connection(path) for _ in range(CONNECTIONS)]
    assert [reply["kind"] for reply in await raw(path, line())] == ["busy"]
    for _reader, writer in held:
        writer.close()
    await asyncio.sleep(0.05)
    await call(path, "ctx_get", key="k")


async def test_several_requests_may_stand_on_one_connection_at_once(served):
    replies = await raw(served[0], b"".join(line(id=str(n), args={"n": n}) for n in range(200)))
    assert [reply["value"]["args"]["n"] for reply in replies] == list(range(200))


async def test_large_lines_wait_for_their_turn_and_all_come_through(served):
    text = "x" * 1_000_000
    values = await asyncio.gather(*(call(served[0], "ctx_set", value=text) for _ in range(20)))
    assert all(value["args"]["value"] == text for value in values)


def copied(file, size, rev=None, at=None, by=None):
    """The document of a file of the copy, as it is for one in the store."""
    return {"agent": "polybreak", "path": file, "file": file, "rev": rev, "at": at, "by": by, "bytes": size,
            "conflicts": 0}  # fmt: skip


async def test_memory_is_written_in_the_working_copy(served):
    path, desk, folder, _server = served
    assert await call(path, "memory_write", file="people/ann.md", text="é\n") == {
        **copied("people/ann.md", 3),
        "staged": True,
    }
    assert await call(path, "memory_append", file="MEMORY.md", text="more") == {
        **copied("MEMORY.md", 13),
        "staged": True,
    }
    assert (folder / "MEMORY.md").read_text() == "# Notes\nmore\n"
    handed_out = {"rev": 7, "at": "2026-11-30T09:00:00Z", "by": "operator:ada"}
    assert await call(path, "memory_show", file="MEMORY.md") == {
        **copied("MEMORY.md", 13),
        "text": "# Notes\nmore\n",
        "base64": None,
    }
    assert await call(path, "memory_show", file="bytes") == {
        **copied("bytes", 2, **handed_out),
        "text": "\ufffd\ufffd",
        "base64": "//4=",
    }
    assert (await call(path, "memory_list"))["items"] == [
        {**copied("MEMORY.md", 13), "first_line": "# Notes"},
        {**copied("bytes", 2, **handed_out), "first_line": "\ufffd\ufffd"},
        {**copied("people/ann.md", 3), "first_line": "é"},
        {**copied("policies/a.md", 5), "first_line": "rule"},
    ]
    assert await call(path, "memory_show", file="MEMORY.md", rev=3) == {
        "called": "memory_show",
        "args": {"file": "MEMORY.md", "rev": 3},
    }
    desk.calls.clear()
    assert await call(path, "memory_delete", file="people/ann.md") == {
        **copied("people/ann.md", 0),
        "staged": True,
    }
    with pytest.raises(NotFound):
        await call(path, "memory_show", file="people/ann.md")
    assert desk.calls == []


@pytest.mark.parametrize(
    ("file", "sentence"),
    [
        ("../x", "start with a dot"),
        ("/etc/passwd", "may not start or end with '/'"),
        ("policies/a.md", "policies/a.md is read-only for polybreak"),
        ("policies/new.md", "policies/new.md is read-only for polybreak"),
        ("memory.md", "always a file of this very name"),
        ("MEMORY.md/x", "always a file of this very name"),
        ("x\0y", "control characters"),
        ("caf\udce9", "must be UTF-8"),
    ],
)
async def test_memory_that_may_not_be_written_is_refused_at_once(served, file, sentence):
    path, desk, folder, _server = served
    before = sorted(str(place) for place in folder.rglob("*"))
    for name in ("memory_write", "memory_append"):
        with pytest.raises(Refused, match=sentence):
            await call(path, name, file=file, text="x")
    assert sorted(str(place) for place in folder.rglob("*")) == before
    assert {kind for kind, _detail in desk.events} == {"refused"}


async def test_memory_limits_are_refused_with_the_number(served):
    path = served[0]
    await call(path, "memory_write", file="MEMORY.md", text="x" * FIRST_FILE_BYTES)
    with pytest.raises(
        Refused,
        match="has 1,048,576 bytes and may have 1,048,576; with this it would have 1,048,579: cut at least 3 bytes",
    ):
        await call(path, "memory_append", file="MEMORY.md", text="y")
    for number in range(14):
        await call(path, "memory_write", file=f"n{number}", text="x" * FIRST_FILE_BYTES)
    with pytest.raises(Refused, match="the folder has 15,728,647 bytes and may have 16,777,216"):
        await call(path, "memory_write", file="n14", text="x" * FIRST_FILE_BYTES)


@pytest.mark.parametrize(
    "args", [{}, {"file": "x"}, {"file": "x", "text": 1}, {"file": "x", "text": "", "more": ""}]
)
async def test_wrong_arguments_are_named(served, args):
    with pytest.raises(BadInput, match="memory_write takes file, text, as text"):
        await call(served[0], "memory_write", **args)


async def test_the_memory_of_another_is_the_desks_business(served):
    path, desk, _folder, _server = served
    await call(path, "memory_show", agent="voidrunner", file="MEMORY.md")
    assert [message.call for message in desk.calls] == ["memory_show"]
    assert (await call(path, "memory_show", agent="polybreak", file="MEMORY.md"))["text"] == "# Notes\n"


async def test_a_repeated_append_happens_once(served):
    path, _desk, folder, _server = served
    request = line(id="same", call="memory_append", args={"file": "MEMORY.md", "text": "once"})
    first = await raw(path, request)
    assert await raw(path, request * 2) == first * 2
    assert (folder / "MEMORY.md").read_text() == "# Notes\nonce\n"


async def test_a_checkpoint_takes_the_copy_as_it_is(served):
    path, desk, folder, _server = served
    (folder / "MEMORY.md").write_text("edited\n")
    (folder / "link").symlink_to("/etc/passwd")
    assert await call(path, "checkpoint") == {"checkpoint": 1}
    [(message, tree, problems)] = desk.checkpoints
    assert message.call == "checkpoint"
    assert tree.read("MEMORY.md") == b"edited\n"
    assert problems == ("link is a symbolic link; a memory folder holds regular files only",)


async def test_a_call_that_is_being_judged_ends_before_the_socket_is_gone(served):
    path, desk, _folder, server = served
    go = asyncio.Event()
    original = desk.call

    async def slow(message):
        await go.wait()
        return await original(message)

    desk.call = slow
    calling = asyncio.ensure_future(call(path, "ctx_set", key="a"))
    await asyncio.sleep(0.1)
    closing = asyncio.ensure_future(server.close())
    await asyncio.sleep(0.1)
    assert gone(path)
    go.set()
    await closing
    assert [message.call for message in desk.calls] == ["ctx_set"]
    await asyncio.gather(calling, return_exceptions=True)


async def test_the_client_says_that_the_session_has_ended(runtime_dir):
    path = str(runtime_dir / "desk.sock")
    with pytest.raises(Refused, match="the session has ended: there is no socket"):
        wire_client.call(path, TOKEN, "ctx_get", {})
    with socket.socket(socket.AF_UNIX) as it:
        it.bind(path)
    with pytest.raises(Refused, match="the session has ended: swarmd no longer listens"):
        wire_client.call(path, TOKEN, "ctx_get", {})
    with pytest.raises(BadInput, match="cannot be used"):
        wire_client.call("x" * 200, TOKEN, "ctx_get", {})


async def test_the_client_is_told_of_a_desk_that_does_not_answer(runtime_dir):
    path = str(runtime_dir / "desk.sock")
    with socket.socket(socket.AF_UNIX) as it:
        it.bind(path)
        it.listen()
        with pytest.raises(Failed, match=r"has not answered for 0\.2 seconds"):
            wire_client.call(path, TOKEN, "ctx_get", {}, timeout_seconds=0.2)


def test_the_client_imports_little():
    code = "import sys, swarmd.wire_client; print(sorted(set(sys.modules) & {'asyncio', 'pydantic', 'click', 'ssl'}))"
    environment = {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True
    )
    assert done.stdout == "[]\n"


async def test_a_session_speaks_at_its_desk(machine):
    code = """
import os, sys
sys.path[:0] = eval(sys.argv[1])
from swarmd import wire_client
def call(name, **args): return wire_client.call(os.environ["SWARMD_SOCKET"], os.environ["SWARMD_TOKEN"], name, args)
print(call("ctx_set", key="k", value="v")["called"])
call("memory_append", file="MEMORY.md", text="by the desk")
print(call("checkpoint"))
"""
    result = await machine.run(machine.python(code), repr(sys.path))
    assert text_of(result) == "ctx_set\n{'checkpoint': 1}\n", result.stderr
    assert result.memory.read("MEMORY.md") == b"# Notes\nby the desk\n"
    assert machine.desk.checkpoints[0][1].read("MEMORY.md") == b"# Notes\nby the desk\n"
