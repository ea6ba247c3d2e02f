"""The HTTP side of the MCP endpoint: uvicorn's protocol and the SDK on the daemon's own loop, behind the door.

It is imported in a thread, when first needed.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import Any

import anyio
import uvicorn
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types import CallToolRequestParams, CallToolResult, ListToolsResult, PaginatedRequestParams
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from swarmd import __version__
from swarmd.core.mcp_values import SERVER_NAME, SESSION_INSTRUCTIONS, listed
from swarmd.core.tools import TOOLS
from swarmd.runners.mcp_door import BODY_BYTES, CONNECTION, PATH, VISITOR, Door, Find, Strangers
from swarmd.runners.mcp_endpoint import Visitor

HOST = "127.0.0.1"
BACKLOG = 1024
IDLE_SECONDS = 3600
"""How long a connection stays between two calls: a model thinks for minutes, and a client that finds its connection
closed just when it makes its next call may take that for a failure.
"""
CLOSING_SECONDS = 2.0
SILENT = ("mcp", "uvicorn", "uvicorn.error")
"""Whoever sends nonsense must not fill the daemon's log; what is the daemon's own fault, door and endpoint tell."""
SCHEMAS = {tool.name: tool.schema for tool in TOOLS.values()}

# anyio loads what it needs of asyncio when it is first used: here, in a thread, and not on the daemon's loop.
anyio.run(anyio.sleep, 0)


class McpServer:
    """Serves the sessions that `find` knows, until it is closed."""

    def __init__(self, find: Find) -> None:
        self._listener = _listener()
        port = self._listener.getsockname()[1]
        self.url = f"http://{HOST}:{port}{PATH}"
        # Each request stands alone and is answered by one JSON document: nothing is kept between two.
        self._manager = StreamableHTTPSessionManager(
            _sdk_server(), json_response=True, stateless=True, max_request_body_size=BODY_BYTES
        )
        self._strangers = Strangers()
        door = Door(
            self._manager.handle_request, find, self._strangers, (f"{HOST}:{port}", f"localhost:{port}")
        )
        self._config = _config(door)
        self._state = ServerState()
        self._closing = asyncio.Event()

    async def open(self) -> None:
        """Begin to serve."""
        loop = asyncio.get_running_loop()
        ready = asyncio.Event()
        self._running = asyncio.ensure_future(self._run(ready))
        await ready.wait()
        self._server = await loop.create_server(self._connection, sock=self._listener)

    async def close(self) -> None:
        """Serve no more; what is being answered may come to its end, if that is soon."""
        self._server.close()
        if self._state.tasks:
            await asyncio.wait(list(self._state.tasks), timeout=CLOSING_SECONDS)
        for connection in list(self._state.connections):
            connection.transport.close()
        self._closing.set()
        await self._running

    async def _run(self, ready: asyncio.Event) -> None:
        async with self._manager.run():
            ready.set()
            await self._closing.wait()

    def _connection(self) -> _Connection:
        return _Connection(self._config, self._state, self._strangers)


def _listener() -> socket.socket:
    # Named as TCP: asyncio sets TCP_NODELAY only then, and without it an answer in two pieces takes 40 ms.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.bind((HOST, 0))
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


async def serve(find: Find) -> McpServer:
    """A server that serves."""
    server = McpServer(find)
    await server.open()
    return server


class _Connection(H11Protocol):
    """mcp_door.Connection."""

    def __init__(self, config: uvicorn.Config, state: ServerState, strangers: Strangers) -> None:
        super().__init__(config, state, {CONNECTION: self})
        self._strangers = strangers
        self.visitor: Visitor | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """As asyncio.Protocol."""
        super().connection_made(transport)
        self._strangers.came(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """As asyncio.Protocol."""
        self._strangers.gone(self)
        if self.visitor is not None:
            self.visitor.guests.discard(self)
        super().connection_lost(exc)

    def leave(self) -> None:
        """As mcp_endpoint.Guest."""
        if self.visitor is not None:
            self.visitor.guests.discard(self)
            self.visitor = None
            self._strangers.came(self)

    def drop(self) -> None:
        """As mcp_door.Connection."""
        self.transport.abort()


def _config(door: Door) -> uvicorn.Config:
    """Of uvicorn only the protocol is used: its server takes the process's signals, and wakes ten times a second."""
    for name in SILENT:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    config = uvicorn.Config(
        door, http=H11Protocol, ws="none", lifespan="off", interface="asgi3", log_config=None, access_log=False,
        proxy_headers=False, server_header=False, date_header=False, timeout_keep_alive=IDLE_SECONDS,
    )  # fmt: skip
    config.load()
    return config


def _sdk_server() -> Server[Any]:
    server = Server(
        SERVER_NAME, version=__version__, instructions=SESSION_INSTRUCTIONS, get_tool_input_schema=SCHEMAS.get,
        on_list_tools=_tools, on_call_tool=_call,
    )  # fmt: skip
    server.middleware.clear()  # tracing, which nobody reads here
    return server


_LISTED = ListToolsResult.model_validate({"tools": listed(TOOLS.values())})


async def _tools(
    context: ServerRequestContext[Any], params: PaginatedRequestParams | None
) -> ListToolsResult:
    return _LISTED


async def _call(context: ServerRequestContext[Any], params: CallToolRequestParams) -> CallToolResult:
    request = context.request
    assert request is not None
    visitor: Visitor = request.scope["state"][VISITOR]
    return CallToolResult.model_validate(await visitor.call(params.name, dict(params.arguments or {})))
