"""A real session at a real daemon, open over MCP for as long as a test wants it; and the SDK's own client."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

from swarmd.core.wire import Desk, Request, Result
from swarmd.runners.memory_copy import materialize, read_memory
from swarmd.runners.memory_desk import MemoryDesk
from tests.daemon.kit import Swarm


@dataclass
class Open:
    """A session that speaks over MCP, until `end`."""

    agent: str
    token: str = ""
    url: str = ""
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    over: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def port(self) -> int:
        return port_of(self.url)


class Stage:
    """The part `mcp` of the runner `play`: what a runner of a client does, without the client."""

    def __init__(self, swarm: Swarm, root: Path) -> None:
        self.swarm = swarm
        self.root = root
        self.open: dict[str, Open] = {}
        swarm.stage.parts["mcp"] = self.play

    async def play(self, request: Request, desk: Desk) -> Result:
        session = self.open[request.agent]
        endpoint = self.swarm.daemon.host.mcp
        folder = self.root / f"memory-{request.session}"
        await asyncio.to_thread(materialize, str(folder), request.memory, request.read_only)
        memory = MemoryDesk(owner=request.owner, folder=str(folder), base=request.memory,
                            read_only=request.read_only, desk=desk)  # fmt: skip
        session.url = await endpoint.admit(request.token, memory)
        session.token = request.token
        session.begun.set()
        await session.over.wait()
        await endpoint.dismiss(request.token)
        tree, problems = await asyncio.to_thread(read_memory, str(folder), request.memory, request.read_only)
        return Result(outcome="success", exit=0, memory=tree, memory_problems=problems)

    @asynccontextmanager
    async def session(self, agent: str) -> AsyncIterator[Open]:
        """A session of the agent, from its start to its commit."""
        session = self.open[agent] = Open(agent)
        running = asyncio.ensure_future(self.swarm.ask("run", agent=agent))
        begun = asyncio.ensure_future(session.begun.wait())
        await asyncio.wait({running, begun}, return_when=asyncio.FIRST_COMPLETED)
        assert begun.done(), running.result()
        try:
            yield session
        finally:
            session.over.set()
            await running


def up(swarm: Swarm) -> Any:
    """A daemon that starts only what it is asked to."""
    return swarm.up(scheduling=False)


def tree(swarm: Swarm, *names: str, more: str = "") -> None:
    """`studio` over the others, each with the part `mcp`."""
    swarm.agent("studio", part="mcp", more=more)
    for name in names:
        swarm.agent(name, parent="studio", part="mcp")


@asynccontextmanager
async def client(session: Open, mode: str = "auto", token: str | None = None) -> AsyncIterator[Client]:
    """The SDK's client at that session."""
    headers = {"Authorization": f"Bearer {session.token if token is None else token}"}
    async with (
        create_mcp_http_client(headers=headers) as http,
        Client(streamable_http_client(session.url, http_client=http), mode=mode, cache=None) as found,
    ):
        yield found


def sentence(result: Any) -> str:
    """What the model is told."""
    assert len(result.content) == 1
    return str(result.content[0].text)


def good(result: Any) -> Any:
    """The document of a call that went well."""
    assert not result.is_error, sentence(result)
    document = json.loads(sentence(result))
    assert result.structured_content == document
    return document


def bad(result: Any) -> str:
    """The sentence of one that did not."""
    assert result.is_error, sentence(result)
    assert result.structured_content is None
    return sentence(result)


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def error(self) -> str:
        return str(json.loads(self.body)["error"]["message"])


HEADERS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}


def called(name: str, arguments: Any = None, id: Any = 1) -> dict[str, Any]:
    return {
        "jsonrpc": "2.0",
        "id": id,
        "method": "tools/call",
        "params": {"name": name, "arguments": arguments or {}},
    }


async def posted(
    session: Any, body: Any, *, method: str = "POST", path: str = "/mcp", **headers: str | None
) -> Answer:
    """One request, byte for byte; `Host="evil"` and the like change what a good client would send."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    given: dict[str, str | None] = {"Host": f"127.0.0.1:{session.port}", "Authorization": f"Bearer {session.token}", **HEADERS,
             "Content-Length": str(len(data)), **{k.replace("_", "-"): v for k, v in headers.items()}}  # fmt: skip
    head = f"{method} {path} HTTP/1.1\r\n" + "".join(
        f"{k}: {v}\r\n" for k, v in given.items() if v is not None
    )
    return await said(session.port, head.encode() + b"\r\n" + data)


async def said(port: int, data: bytes) -> Answer:
    """What comes back for these bytes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(data)
        return await answer(reader)
    finally:
        writer.close()


async def answer(reader: asyncio.StreamReader) -> Answer:
    head = (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 30)).decode()
    first, *lines = head.strip().split("\r\n")
    headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Answer(int(first.split()[1]), headers, body)


@dataclass
class Bare:
    """An endpoint's URL and a token, with no session behind it."""

    url: str
    token: str

    @property
    def port(self) -> int:
        return port_of(self.url)


def port_of(url: str) -> int:
    return int(url.split(":")[2].partition("/")[0])


def request(session: Any, body: Any) -> bytes:
    """A good request, byte for byte."""
    data = json.dumps(body).encode()
    given = {"Host": f"127.0.0.1:{session.port}", "Authorization": f"Bearer {session.token}", **HEADERS,
             "Content-Length": str(len(data))}  # fmt: skip
    return (
        b"POST /mcp HTTP/1.1\r\n"
        + "".join(f"{k}: {v}\r\n" for k, v in given.items()).encode()
        + b"\r\n"
        + data
    )
