"""`swarmd mcp` as a client has it: a process that speaks MCP over its standard files, for one session and no other."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters

from swarmd.core.tools import TOOLS
from tests.daemon.processes import Place, await_
from tests.mcp.kit import bad, called, good, sentence

WAITS = """import json, os, time
names = [n for n in os.environ if n.startswith("SWARMD_") or n in ("PATH", "HOME", "LANG")]
with open("{root}/env.part", "w") as file:
    json.dump({{n: os.environ[n] for n in names}}, file)
os.rename("{root}/env.part", "{root}/{name}.env")
while not os.path.exists("{root}/{name}.over"):
    time.sleep(0.02)
"""
PIPES = """import subprocess, os
with open("{root}/{name}.in", "rb") as lines, open("{root}/{name}.out", "wb") as out, open("{root}/{name}.err", "wb") as err:
    status = subprocess.run(["swarmd", "mcp"], stdin=lines, stdout=out, stderr=err).returncode
open("{root}/{name}.status", "w").write(str(status))
"""
BEGIN = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}},
}


class Sessions:
    """Sessions of a real daemon that wait for the test, each known by its environment."""

    def __init__(self, place: Place) -> None:
        self.place = place

    def agent(self, name: str, script: str = WAITS, **more: str) -> None:
        self.place.agent(name, script.format(root=self.place.root, name=name), **more)

    @contextmanager
    def running(self, name: str) -> Iterator[dict[str, str]]:
        """Its environment; at the end the session has ended well."""
        running = self.place.start("run", name, "--json")
        file = self.place.root / f"{name}.env"
        try:
            await_(lambda: file.exists() or running.poll() is not None, lambda: f"{name} does not run")
            yield json.loads(file.read_text())
        finally:
            (self.place.root / f"{name}.over").touch()
            out, err = running.communicate(timeout=40)
            file.unlink(missing_ok=True)
            (self.place.root / f"{name}.over").unlink()
        assert running.returncode == 0, out + err


@pytest.fixture
def sessions(place: Place) -> Iterator[Sessions]:
    found = Sessions(place)
    found.agent("studio")
    found.agent("game", more='parent = "studio"\n')
    text = (place.agents / "game.toml").read_text().replace('parent = "studio"\n', "")
    (place.agents / "game.toml").write_text('parent = "studio"\n' + text)
    with place.serving():
        yield found


@asynccontextmanager
async def model(env: dict[str, str], *args: str, mode: str = "auto") -> Any:
    server = StdioServerParameters(
        command=sys.executable, args=["-m", "swarmd", "mcp", *args], env=env, cwd="/"
    )
    async with Client(server, mode=mode, cache=None) as found:
        yield found


def spoken(env: dict[str, str], *messages: Any, args: tuple[str, ...] = ()) -> tuple[list[Any], str, int]:
    """What comes back for these lines, what stands on standard error, and the exit status."""
    lines = b"".join(m if isinstance(m, bytes) else json.dumps(m).encode() + b"\n" for m in messages)
    ran = subprocess.run([sys.executable, "-m", "swarmd", "mcp", *args], input=lines, capture_output=True, env=env,
                         timeout=60, check=False)  # fmt: skip
    return [json.loads(line) for line in ran.stdout.splitlines()], ran.stderr.decode(), ran.returncode


NOWHERE = {"SWARMD_TOKEN": "t", "SWARMD_SOCKET": "/nowhere/at/all", "PATH": os.environ["PATH"]}


# -- a session's tools --------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_tools_are_those_of_the_table_and_of_the_endpoint(mode):
    async with model(NOWHERE, mode=mode) as found:
        listed = (await found.list_tools()).tools
        assert found.session.initialize_result.protocol_version == "2025-11-25"
        assert "saved all at once when the session ends well" in found.session.initialize_result.instructions
    assert [(t.name, t.input_schema, t.description) for t in listed] == [
        (t.name, t.schema, t.description) for t in TOOLS.values()
    ]


async def test_a_session_does_its_work_and_the_store_has_it_afterwards(sessions):
    place = sessions.place
    asked = json.loads(place.swarmd("handoff", "send", "--to", "studio", "--text", "polish", "--json").stdout)
    with sessions.running("studio") as env:
        async with model(env) as found:
            assert good(await found.call_tool("ctx_set", {"key": "state", "value": "grün"}))["staged"] is True
            good(await found.call_tool("memory_append", {"file": "MEMORY.md", "text": "- learnt\n"}))
            good(await found.call_tool("handoff_complete", {"id": asked["id"], "reply": "done"}))
            good(await found.call_tool("handoff_send", {"to": "game", "text": "go on"}))
            assert good(await found.call_tool("checkpoint"))["checkpoint"] == 1
            assert bad(
                await found.call_tool("ctx_set", {"key": "k", "value": "v", "colour": "red"})
            ).startswith("ctx_set: no argument is named 'colour'")
            assert bad(await found.call_tool("pause", {"agent": "game"})) == "there is no tool 'pause'"
        async with model({**env, "SWARMD_TOKEN": "wrong"}) as found:
            assert "SWARMD_TOKEN is wrong or has expired" in bad(await found.call_tool("ctx_list"))
    assert place.swarmd("ctx", "get", "studio", "state").stdout == "grün"
    assert place.swarmd("memory", "show", "studio").stdout == "- learnt\n"
    shown = json.loads(place.swarmd("session", "show", "studio", "--json").stdout)
    assert (shown["outcome"], len(shown["refusals"])) == ("committed", 1)
    async with model(env) as found:
        assert "the session has ended" in bad(await found.call_tool("ctx_list"))
    assert json.loads(place.swarmd("verify", "--json").stdout)["ok"]


async def test_every_tool_of_both_transports_is_known_to_the_desk(sessions):
    with sessions.running("studio") as env:
        async with model(env) as found:
            for name in TOOLS:
                said = sentence(await found.call_tool(name, {}))
                assert "there is no call" not in said, (name, said)
                assert "no argument is named" not in said, (name, said)


async def test_fifty_calls_at_a_time_are_done_in_the_order_in_which_they_were_made(sessions):
    with sessions.running("studio") as env:
        calls = [called("memory_append", {"file": "MEMORY.md", "text": f"{n}\n"}, id=n) for n in range(1, 51)]
        answers, err, status = await asyncio.to_thread(spoken, env, BEGIN, *calls)
    assert (err, status) == ("", 0)
    assert [a["id"] for a in answers] == list(range(51))
    assert sessions.place.swarmd("memory", "show", "studio").stdout.split() == [str(n) for n in range(1, 51)]


def test_in_a_session_with_walls_and_without_a_network(place):
    """What an HTTP client could not reach, a bridge can: it speaks over the session's socket."""
    sessions = Sessions(place)
    sessions.agent("studio", PIPES)
    file = place.agents / "studio.toml"
    walls = (
        f'[sandbox]\nnetwork = false\nwrite = ["{place.root}"]\n'
        if _has_landlock()
        else '[sandbox]\nlevel = "none"\n'
    )
    file.write_text(file.read_text().replace('[sandbox]\nlevel = "none"\n', walls))
    if _has_landlock():
        work = place.root / "work"
        work.mkdir()
        file.write_text(file.read_text().replace(str(place.root) + '"]\n', str(work) + '"]\n'))
        script = place.root / "studio.py"
        for kind in ("out", "err", "status"):
            script.write_text(
                script.read_text().replace(f"{place.root}/studio.{kind}", f"{work}/studio.{kind}")
            )
    else:
        work = place.root
    lines = [BEGIN, called("ctx_set", {"key": "k", "value": "v"})]
    (place.root / "studio.in").write_text("".join(json.dumps(line) + "\n" for line in lines))
    ran = place.swarmd("run", "studio", check=False)
    assert ran.returncode == 0, ran.stderr + place.swarmd("session", "log", "studio").stdout
    answers = [json.loads(line) for line in (work / "studio.out").read_text().splitlines()]
    assert answers[1]["result"]["isError"] is False, answers
    assert ((work / "studio.status").read_text(), (work / "studio.err").read_text()) == ("0", "")
    assert place.swarmd("ctx", "get", "studio", "k").stdout == "v"


def _has_landlock() -> bool:
    from swarmd.runners import landlock

    return landlock.abi() >= landlock.ABI_TCP


# -- who it speaks for --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("env", "words", "status"), [
    ({"SWARMD_TOKEN": ""}, "SWARMD_TOKEN is missing or empty", 3),
    ({"SWARMD_SESSION": "7"}, "SWARMD_TOKEN is missing or empty", 3),
    ({"SWARMD_TOKEN": "t"}, "SWARMD_SOCKET is missing or empty", 3),
    ({"SWARMD_TOKEN": "t", "SWARMD_SOCKET": ""}, "SWARMD_SOCKET is missing or empty", 3),
    ({}, "speaks for the session that it is started in, and this is none", 2),
    ({"SWARMD_SOCKET": "/s"}, "speaks for the session that it is started in, and this is none", 2),
])  # fmt: skip
def test_without_a_session_it_does_not_start_and_is_never_the_operators(env, words, status, place):
    place.swarmd("reload")
    answers, err, ended = spoken({**place.environment(), "SWARMD_STATE": str(place.state), **env}, BEGIN)
    assert (answers, ended) == ([], status)
    assert words in err


@pytest.mark.parametrize("args", [("--operator",), ("--operator", "--write"), ("--as", "other")])
def test_inside_a_session_no_option_makes_it_anything_else(args):
    answers, err, status = spoken({**NOWHERE, "SWARMD_AGENT": "studio"}, BEGIN, args=args)
    assert (answers, status) == ([], 3)
    assert "session" in err


def test_write_goes_with_operator(tmp_path):
    _, err, status = spoken(NOWHERE, BEGIN, args=("--write",))
    assert status == 2
    assert "--write goes with --operator" in err


# -- the protocol -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("asked", "given"), [
    ("2024-11-05", "2024-11-05"), ("2025-03-26", "2025-03-26"), ("2025-06-18", "2025-06-18"), ("2025-11-25", "2025-11-25"),
    ("2026-07-28", "2025-11-25"), ("1999-01-01", "2025-11-25"), (None, "2025-11-25"), (7, "2025-11-25"), ([], "2025-11-25"),
])  # fmt: skip
def test_the_clients_version_where_it_is_known_else_the_newest(asked, given):
    params = {} if asked is None else {"protocolVersion": asked}
    answers, _, _ = spoken(NOWHERE, {"jsonrpc": "2.0", "id": "a", "method": "initialize", "params": params})
    assert answers[0]["id"] == "a"
    assert answers[0]["result"]["protocolVersion"] == given
    assert answers[0]["result"]["serverInfo"]["name"] == "swarmd"


JUNK = [
    (b"\n \n", None), (b"junk\n", -32700), (b"\xff\xfe\n", -32700), (b'{"jsonrpc":"2.0","id":NaN,"method":"ping"}\n', -32700),
    (b"[" * 100_000 + b"\n", -32700), (b"7\n", -32600), (b"[]\n", -32600), (b"null\n", -32600), (b'{"id":1,"method":"ping"}\n', -32600),
    (b'{"jsonrpc":"2.0","id":true,"method":"ping"}\n', -32600), (b'{"jsonrpc":"2.0","id":null,"method":"ping"}\n', -32600),
    (b'{"jsonrpc":"2.0","id":1,"method":7}\n', -32600), (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}\n', -32600),
    (b'{"jsonrpc":"2.0","id":1,"method":"resources/list"}\n', -32601), (b'{"jsonrpc":"2.0","id":1,"method":"server/discover"}\n', -32601),
    (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}\n', -32602),
    (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"why","arguments":[1]}}\n', -32602),
    (b'{"jsonrpc":"2.0","id":1,"result":{}}\n', None), (b'{"jsonrpc":"2.0","method":"notifications/nonsense"}\n', None),
    (b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":[]}}\n', None),
    (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]\n', -32600), (b"x" * (17 * 2**20) + b"\n", -32600),
]  # fmt: skip


def test_junk_is_answered_as_such_and_what_follows_as_ever():
    pings = [{"jsonrpc": "2.0", "id": f"p{n}", "method": "ping"} for n in range(len(JUNK))]
    lines = [each for pair in zip([line for line, _ in JUNK], pings, strict=True) for each in pair]
    answers, err, status = spoken(NOWHERE, BEGIN, *lines)
    assert (err, status) == ("", 0)
    found: list[int | None] = []
    for one in answers[1:]:
        if "error" in one:
            found.append(one["error"]["code"])
            assert len(one["error"]["message"]) > 10
        else:
            assert one["result"] == {}
            if len(found) < int(one["id"][1:]) + 1:
                found.append(None)
    assert found == [code for _, code in JUNK]


def test_batches_where_the_version_has_them():
    begin = {**BEGIN, "params": {"protocolVersion": "2025-03-26"}}
    batch = [
        {"jsonrpc": "2.0", "id": 1, "method": "ping"}, called("ctx_list", id=2), {"jsonrpc": "2.0", "method": "notifications/initialized"}, 7,
    ]  # fmt: skip
    answers, _, _ = spoken(NOWHERE, begin, batch, [{"jsonrpc": "2.0", "method": "notifications/initialized"}])
    assert len(answers) == 2
    assert sorted((str(a["id"]), "error" in a) for a in answers[1]) == [
        ("1", False),
        ("2", False),
        ("None", True),
    ]


def test_a_text_that_no_utf8_can_hold_is_answered_too():
    line = b'{"jsonrpc":"2.0","id":"\\ud800","method":"tools/call","params":{"name":"\\ud800"}}\n'
    answers, _, status = spoken(NOWHERE, line)
    assert status == 0
    assert answers[0]["id"] == "\ud800"
    assert answers[0]["result"]["isError"] is True


def test_a_cancelled_call_is_not_answered(sessions):
    with sessions.running("studio") as env:
        calls = [called("ctx_set", {"key": "k", "value": str(n)}, id=n) for n in range(1, 200)]
        cancels = [
            {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": n}}
            for n in range(100, 200)
        ]
        answers, _, status = spoken(
            env, BEGIN, *calls, *cancels, {"jsonrpc": "2.0", "id": 999, "method": "ping"}
        )
        assert status == 0
    ids = {a["id"] for a in answers}
    assert set(range(1, 50)) <= ids
    assert 999 in ids
    assert len(ids) < 200


def test_it_starts_fast_and_stays_small():
    best, size = 9.0, 0
    for _ in range(5):
        began = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, "-m", "swarmd", "mcp"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=NOWHERE,
        )
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(
                json.dumps(BEGIN).encode() + b"\n" + b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}\n'
            )
            process.stdin.flush()
            process.stdout.readline()
            process.stdout.readline()
            best = min(best, time.perf_counter() - began)
            status = Path(f"/proc/{process.pid}/status").read_text()
            size = int(status.partition("VmRSS:")[2].split()[0])
        finally:
            process.stdin.close()
            process.stdout.close()
            assert process.wait(10) == 0
    assert best < 0.5, "some 70 ms on a machine that does nothing else"
    assert size < 30_000, "some 15 MB; the SDK would take 70"


def test_it_imports_nothing_heavy():
    program = """
import io, os, sys
from swarmd.cli.main import main
status = main(["mcp"])
heavy = ("mcp", "asyncio", "pydantic", "sqlite3", "swarmd.store", "swarmd.service", "anyio", "concurrent.futures")
print([name for name in heavy if name in sys.modules], status, file=sys.stderr)
"""
    ran = subprocess.run(
        [sys.executable, "-c", program], input=b"", capture_output=True, env=NOWHERE, check=True
    )
    assert ran.stderr == b"[] 0\n"
