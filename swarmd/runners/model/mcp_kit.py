"""Tools of the MCP servers that an agent's file names: programs under the session's sandbox, or servers at an address.

Their tools are named `SERVER__TOOL`. A server that is not there when the session begins fails it: an agent that works
without its tools does harm, and says that all went well.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
from collections.abc import AsyncIterator, Mapping
from typing import Any

import anyio
import httpx2
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp.types import CallToolResult, TextContent, jsonrpc_message_adapter

from swarmd.core.text import one_line
from swarmd.runners.model.answers import JSON
from swarmd.runners.model.loop import Called
from swarmd.runners.model.programs import Programs
from swarmd.runners.process import run_process

START_SECONDS, CALL_SECONDS = 15.0, 300.0
FOREVER = 10 * 365 * 86400.0
LINE_BYTES = 8 * 1024 * 1024
NAME_CHARACTERS = 128


class Unreachable(Exception):
    """A server that cannot be used; the text names it."""


class McpKit:
    """The tools of one server, while `open` lasts."""

    def __init__(self, name: str, client: Client, definitions: list[JSON], names: Mapping[str, str]) -> None:
        self._name = name
        self._client = client
        self._definitions = definitions
        self._names = names

    @property
    def definitions(self) -> list[JSON]:
        """As the Messages API takes them."""
        return self._definitions

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Called:
        """Pass a call on to the server."""
        try:
            found = await self._client.call_tool(
                self._names[name], dict(arguments), read_timeout_seconds=CALL_SECONDS
            )
        except (MCPError, OSError, TimeoutError, httpx2.HTTPError, anyio.ClosedResourceError) as error:
            return Called(text=f"{name}: {one_line(str(error))[:500] or type(error).__name__}", error=True)
        return Called(text=_text(found), error=bool(found.is_error))


@contextlib.asynccontextmanager
async def open_server(
    name: str, server: Mapping[str, Any], programs: Programs, key: str | None
) -> AsyncIterator[McpKit]:
    """The kit of a server: `server` as in the agent's file, `key` its credential. Raises Unreachable."""
    transport = _address(server["url"], key) if server.get("url") else _program(server, programs)
    async with contextlib.AsyncExitStack() as stack:
        try:
            async with asyncio.timeout(START_SECONDS):
                client = await stack.enter_async_context(Client(transport))
                tools = await _tools(client)
        except (Exception, BaseExceptionGroup) as error:  # a server is a stranger: it may fail in any way
            raise Unreachable(f"MCP server {name}: {_why(error)}") from error
        names = {_shown_name(name, tool.name): tool.name for tool in tools}
        definitions = [
            {"name": shown, "description": (tool.description or "")[:4000], "input_schema": tool.input_schema}
            for tool in sorted(tools, key=lambda tool: tool.name)
            for shown in (_shown_name(name, tool.name),)
        ]
        yield McpKit(name, client, definitions, names)


async def _tools(client: Client) -> list[Any]:
    found, cursor = [], None
    while True:
        page = await client.list_tools(cursor=cursor)
        found += page.tools
        cursor = page.next_cursor
        if cursor is None:
            return found


def _shown_name(server: str, tool: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "_", f"{server}__{tool}")[:NAME_CHARACTERS]


@contextlib.asynccontextmanager
async def _address(url: str, key: str | None) -> AsyncIterator[Any]:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    async with (
        httpx2.AsyncClient(
            headers=headers, timeout=httpx2.Timeout(CALL_SECONDS, connect=START_SECONDS)
        ) as http,
        streamable_http_client(url, http_client=http) as streams,
    ):
        yield streams


@contextlib.asynccontextmanager
async def _program(server: Mapping[str, Any], programs: Programs) -> AsyncIterator[Any]:
    """A program that speaks on its standard input and output, for as long as this lasts."""
    ours, theirs = socket.socketpair()
    start = programs.start(server["command"], channel=theirs.fileno(), env=server.get("env") or {})
    running = asyncio.ensure_future(run_process(start, timeout_seconds=FOREVER))
    await asyncio.sleep(0)  # it is started before our copy of its end is closed
    theirs.close()
    try:
        reader, writer = await asyncio.open_unix_connection(sock=ours, limit=LINE_BYTES)
        try:
            async with _lines(reader, writer) as streams:
                yield streams
        finally:
            writer.transport.abort()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
    finally:
        ours.close()
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running


@contextlib.asynccontextmanager
async def _lines(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> AsyncIterator[Any]:
    """The SDK's streams over lines of JSON."""
    to_us, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, from_us = anyio.create_memory_object_stream[SessionMessage](0)

    async def read() -> None:
        async with to_us:
            while line := await _line(reader):
                try:
                    message: SessionMessage | Exception = SessionMessage(
                        jsonrpc_message_adapter.validate_json(line, by_name=False)
                    )
                except ValueError as error:
                    message = error
                try:
                    await to_us.send(message)
                except (anyio.ClosedResourceError, anyio.BrokenResourceError):
                    return

    async def write() -> None:
        async with from_us:
            async for item in from_us:
                writer.write(item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
                with contextlib.suppress(OSError):
                    await writer.drain()

    async with anyio.create_task_group() as group:
        group.start_soon(read)
        group.start_soon(write)
        try:
            yield incoming, outgoing
        finally:
            group.cancel_scope.cancel()
            incoming.close()
            outgoing.close()


async def _line(reader: asyncio.StreamReader) -> bytes:
    """The next line; nothing where there are no more, or where one is too long to be meant."""
    try:
        return await reader.readline()
    except (ValueError, OSError):
        return b""


def _text(found: CallToolResult) -> str:
    parts = [
        part.text if isinstance(part, TextContent) else f"[{part.type}: it cannot be shown here]"
        for part in found.content
    ]
    return "\n".join(parts) or "(nothing)"


def _why(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    if isinstance(error, TimeoutError):
        return f"it did not answer within {START_SECONDS:g} seconds"
    return one_line(str(error))[:500] or type(error).__name__
