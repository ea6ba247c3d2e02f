"""The operator's socket: who is let in, and whatever else comes there."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ctypes
import json
import os
import socket
import stat
import subprocess
import sys
import textwrap
import time

import pytest

from swarmd.daemon import operators, peers
from swarmd.daemon.peers import Peer, descends
from swarmd.daemon.process import be_subreaper
from swarmd.service.operator import SocketClient
from tests.daemon.kit import until

ASKS = """
import json, socket, sys
peer = socket.socket(socket.AF_UNIX)
peer.connect(sys.argv[1])
peer.sendall(json.dumps({"secret": sys.argv[2], "call": "status", "args": {}}).encode() + b"\\n")
answer = peer.makefile().readline()
open(sys.argv[3] + ".part", "w").write(answer)
import os
os.rename(sys.argv[3] + ".part", sys.argv[3])
"""
FORKED_TWICE = "import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        time.sleep(0.2)\n{asks}\n    os._exit(0)\ntime.sleep(1.5)\n"


def socket_of(swarm):
    return swarm.places.runtime / "operator.sock"


def secret_of(swarm) -> str:
    return (swarm.places.state / "operator.key").read_text().strip()


@pytest.fixture
def as_stranger(monkeypatch):
    """The test is the daemon's own process, whose descendants are refused: here it counts as an operator's."""
    monkeypatch.setattr(peers, "descends", lambda pid, ancestor: False)


async def speak(swarm, data: bytes, *, seconds: float = 10.0) -> dict:
    reader, writer = await asyncio.open_unix_connection(str(socket_of(swarm)), limit=2**26)
    try:
        writer.write(data)
        with contextlib.suppress(ConnectionError):
            await writer.drain()
        return json.loads(await asyncio.wait_for(reader.readline(), seconds))
    finally:
        writer.close()


def question(swarm, call: str = "status", secret: str | None = None, **more) -> bytes:
    message = {"secret": secret_of(swarm) if secret is None else secret, "call": call, "args": {}, **more}
    return json.dumps(message).encode() + b"\n"


async def test_an_operator_is_answered_and_the_socket_is_for_owner_and_group_only(swarm, as_stranger):
    async with swarm.up():
        assert stat.S_IMODE(socket_of(swarm).stat().st_mode) == 0o660
        answer = await speak(swarm, question(swarm))
        assert answer["value"]["daemon"]["pid"] == os.getpid()
    assert not socket_of(swarm).exists()


@pytest.mark.parametrize("secret", ["", "wrong", "é", "\ud800", "0" * 64])
async def test_a_wrong_secret_is_refused(swarm, as_stranger, secret):
    async with swarm.up():
        answer = await speak(swarm, question(swarm, secret=secret))
        assert answer["kind"] == "refused"
        assert "operator's key is wrong" in answer["error"]


@pytest.mark.parametrize(
    "line",
    [
        b"\n", b"no json\n", b"[]\n", b"{}\n", b'{"call": 1, "args": {}}\n', b'{"call": "status"}\n', b"\xff\xfe\n",
        b"[" * 100_000 + b"\n", b'{"a":' * 50_000 + b"\n", b"1" * 5000 + b"\n", b'{"call":"status","args":{},"as":7}\n',
    ],
)  # fmt: skip
async def test_what_is_no_question_is_bad_input(swarm, as_stranger, line):
    async with swarm.up():
        assert (await speak(swarm, line))["kind"] == "bad_input"


async def test_a_line_without_end_is_cut_off(swarm, as_stranger):
    async with swarm.up():
        answer = await speak(swarm, b"x" * (operators.LINE_BYTES + 100_000))
        assert answer["kind"] == "bad_input"
        assert "bytes" in answer["error"]


async def test_a_whole_memory_folder_fits_into_one_question(swarm, as_stranger):
    swarm.agent("a")
    data = [os.urandom(900_000) for _ in range(18)]
    files = [{"path": f"{n}.md", "base64": base64.b64encode(one).decode()} for n, one in enumerate(data)]
    async with swarm.up():
        asked = question(swarm, "memory_import", args={"agent": "a", "files": files})
        answer = await speak(swarm, asked, seconds=60)
        assert [item["what"] for item in answer["value"]["items"]] == ["new"] * 18
        found = await speak(swarm, question(swarm, "memory_export", args={"agent": "a"}), seconds=60)
        rows = {row["path"]: base64.b64decode(row["base64"]) for row in found["value"]["items"]}
        assert rows == {f"{n}.md": one for n, one in enumerate(data)}


async def test_as_names_an_agent_that_is_in_force_and_takes_away_what_operators_may(swarm, as_stranger):
    swarm.agent("top")
    swarm.agent("low", parent="top")
    async with swarm.up():
        assert (await speak(swarm, question(swarm, **{"as": "nobody"})))["kind"] == "not_found"
        up = question(swarm, "handoff_send", args={"to": "top", "text": "x"}, **{"as": "low"})
        assert (await speak(swarm, up))["kind"] == "refused"
        assert (await speak(swarm, question(swarm, "pause", args={"agent": "all"}, **{"as": "top"})))[
            "kind"
        ] == "refused"
        down = question(swarm, "handoff_send", args={"to": "low", "text": "x"}, **{"as": "top"})
        assert (await speak(swarm, down))["value"]["sender"] == "top"


async def test_a_fault_of_one_question_is_answered_and_logged_and_the_next_one_works(
    swarm, as_stranger, monkeypatch
):
    async with swarm.up() as daemon:
        monkeypatch.setattr(daemon.operators, "_call", lambda *_: {}["gone"])
        answer = await speak(swarm, question(swarm))
        assert answer["kind"] == "failed"
        assert "fault of its own" in answer["error"]
        monkeypatch.setattr(daemon.operators, "_call", lambda *_: "fine")
        assert (await speak(swarm, question(swarm)))["value"] == "fine"


async def test_two_hundred_at_once_are_all_answered(swarm, as_stranger):
    swarm.agent("a")
    async with swarm.up():
        answers = await asyncio.gather(
            *(speak(swarm, question(swarm, "agent_list"), seconds=60) for _ in range(200))
        )
        assert all("value" in answer for answer in answers)


async def test_one_that_never_reads_and_ones_that_never_speak_hold_nobody_up(swarm, as_stranger, monkeypatch):
    monkeypatch.setattr(operators, "ASK_SECONDS", 0.5)
    async with swarm.up() as daemon:
        monkeypatch.setattr(daemon.operators, "_call", lambda *_: "x" * 10_000_000)
        deaf = socket.socket(socket.AF_UNIX)
        deaf.connect(str(socket_of(swarm)))
        deaf.sendall(question(swarm))
        silent = [socket.socket(socket.AF_UNIX) for _ in range(100)]
        for one in silent:
            one.connect(str(socket_of(swarm)))
        monkeypatch.setattr(daemon.operators, "_call", lambda *_: "fine")
        began = time.monotonic()
        assert (await speak(swarm, question(swarm)))["value"] in ("fine", "x" * 10_000_000)
        assert time.monotonic() - began < 3
        await asyncio.sleep(1.5)
        assert daemon.operators._peers == set()
        for one in (deaf, *silent):
            one.close()


@pytest.fixture
def subreaper():
    """As the daemon's process is one: who loses its parent becomes its child."""
    be_subreaper()
    yield
    ctypes.CDLL(None).prctl(36, 0, 0, 0, 0)
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


async def test_what_descends_from_the_daemon_is_refused_however_it_forked(swarm, tmp_path, subreaper):
    script = tmp_path / "asks.py"
    async with swarm.up():
        for number, text in enumerate((ASKS, FORKED_TWICE.format(asks=textwrap.indent(ASKS, " " * 8)))):
            answer = tmp_path / f"answer{number}"
            script.write_text(text)
            child = await asyncio.create_subprocess_exec(
                sys.executable, str(script), str(socket_of(swarm)), secret_of(swarm), str(answer)
            )
            if number == 0:
                await child.wait()
            await until(answer.exists)
            refused = json.loads(answer.read_text())
            assert refused["kind"] == "refused"
            assert "belongs to a session" in refused["error"]
            await child.wait()


def test_one_that_cannot_be_looked_at_any_more_counts_as_a_sessions():
    child = subprocess.Popen(["true"])
    child.wait()
    assert descends(child.pid, 1)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        peer = Peer.of(ours)
        assert peer.pid == os.getpid()
        assert peer.is_of_a_session(os.getpid())
        assert not peer.is_of_a_session(2**22 + 1)
        peer.close()


def test_a_number_that_another_process_has_by_now_is_not_believed():
    listener = socket.socket(socket.AF_UNIX)
    path = f"\0swarmd-test-{os.getpid()}"
    listener.bind(path)
    listener.listen()
    child = subprocess.Popen(
        [sys.executable, "-c", f"import socket; socket.socket(socket.AF_UNIX).connect({path!r})"]
    )
    connection, _ = listener.accept()
    child.wait()
    with listener, connection:
        peer = Peer.of(connection)
        assert peer.pid == child.pid
        assert peer.is_of_a_session(2**22 + 1), "it is gone: its number may be anybody's"
        peer.close()


def test_without_the_kernels_handle_a_process_that_began_after_the_connection_is_not_its_peer():
    assert peers._opened(os.getpid(), 0.0) is None
    handle = peers._opened(os.getpid(), 1e12)
    assert handle is not None
    os.close(handle)
    assert peers._opened(2**22 + 1, 1e12) is None


def test_a_process_in_the_control_group_of_a_session_is_a_sessions(tmp_path, monkeypatch):
    texts = {
        5: "0::/system.slice/swarmd.service/session-12\n",
        6: "0::/user.slice/session-3.scope\n",
        7: "0::/system.slice/x\n",
    }

    class Proc(type(tmp_path)):
        def read_text(self, *args, **kwargs):
            return texts[int(self.parts[2])]

    monkeypatch.setattr(peers, "Path", Proc)
    group = "/sys/fs/cgroup/system.slice/swarmd.service"
    assert [peers._in_session_group(pid, group) for pid in (5, 6, 7)] == [True, False, False]


async def test_the_group_is_let_in_by_its_own_copy_of_the_key(swarm, as_stranger, monkeypatch):
    monkeypatch.setattr(operators, "operators_group", os.getgid)
    async with swarm.up():
        copy = swarm.places.runtime / "operator.key"
        assert copy.read_text().strip() == secret_of(swarm)
        assert stat.S_IMODE(copy.stat().st_mode) == 0o640
        assert stat.S_IMODE(swarm.places.runtime.stat().st_mode) == 0o750
        client = SocketClient(path=socket_of(swarm), secret=copy.read_text().strip())
        assert (await asyncio.to_thread(client.call, "status", {}))["daemon"]
    assert not copy.exists()


async def test_a_user_who_is_no_operator_is_refused_with_the_right_key_too(swarm, as_stranger, monkeypatch):
    monkeypatch.setattr(operators, "is_operator", lambda uid, owner: False)
    async with swarm.up():
        answer = await speak(swarm, question(swarm))
        assert answer["kind"] == "refused"
        assert "no operator" in answer["error"]


def test_root_the_owner_and_members_of_the_group_are_operators(monkeypatch):
    monkeypatch.setattr(peers, "_group", lambda: None)
    assert peers.is_operator(0, 1000)
    assert peers.is_operator(1000, 1000)
    assert not peers.is_operator(1001, 1000)
    monkeypatch.setattr(peers, "_group", os.getgid)
    assert peers.is_operator(os.getuid(), 2**20)
    assert not peers.is_operator(2**30, 1000)
