"""The desk over MCP: one endpoint a daemon on loopback, at which a session speaks by its token. What serves it is in
mcp_server.py, which is imported only when the first session needs it, since the SDK takes its time.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import os
from collections.abc import Awaitable
from contextlib import suppress
from hashlib import sha256
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from swarmd.core.mcp_values import answered, no_such_tool, refused
from swarmd.core.tools import TOOLS
from swarmd.core.wire import Message, Reply
from swarmd.errors import Failed

if TYPE_CHECKING:
    from swarmd.runners.memory_desk import MemoryDesk

LARGE_BODIES = 3
"""How many requests of a session may be large at a time, as at its socket: the others wait, memory stays bounded."""
CONNECTIONS = 128
"""Of one session; a client may open one for each call that it makes at the same time."""
log = logging.getLogger("swarmd")


class Guest(Protocol):
    """A connection, as its session's end concerns it."""

    def leave(self) -> None:
        """Its session has ended: it is closed soon."""
        ...


class Visitor:
    """A session that may speak here."""

    def __init__(self, token: bytes, desk: MemoryDesk) -> None:
        self.token = token
        """The hash of its token."""
        self.guests: set[Guest] = set()
        self.large = asyncio.Semaphore(LARGE_BODIES)
        self._desk = desk
        self._answering: set[asyncio.Task[Reply]] = set()

    async def call(self, name: str, args: dict[str, Any]) -> dict[str, Any]:
        """The result of a tool's call. What is begun is done to its end, whoever hangs up meanwhile: else a
        checkpoint could see half of it.
        """
        if name not in TOOLS:
            return refused(no_such_tool(name))
        message = Message(id=os.urandom(16).hex(), call=name, args=args)
        task = asyncio.ensure_future(self._desk.answer(message))
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)
        try:
            reply = await asyncio.shield(task)
        except Exception as error:  # the boundary: a fault of one call is that call's end
            log.exception("a call of %s over MCP could not be answered", name)
            return refused(f"the daemon met a fault of its own ({error!r:.200}); its log has more")
        return answered(reply.value) if reply.error is None else refused(reply.error)

    def leave(self) -> asyncio.Future[Any]:
        """It speaks here no more; done when the calls that are being judged are."""
        for guest in list(self.guests):
            guest.leave()
        return asyncio.gather(*self._answering, return_exceptions=True) if self._answering else _done()


class Server(Protocol):
    """What serves the endpoint (mcp_server.McpServer)."""

    @property
    def url(self) -> str:
        """Where clients find it."""

    async def close(self) -> None:
        """Serve no more."""
        ...


class McpEndpoint:
    """One per daemon; it costs nothing before the first `admit`, and lives on the loop of that."""

    def __init__(self) -> None:
        self._visitors: dict[bytes, Visitor] = {}
        self._opening: asyncio.Task[Server] | None = None
        self._closed = False

    async def admit(self, token: str, desk: MemoryDesk) -> str:
        """The URL; from now on that token speaks at that desk. Raises Failed where nothing can be served."""
        if self._opening is None or _has_failed(self._opening):
            self._opening = asyncio.ensure_future(self._open())
        # The first session may be cancelled while it waits; others wait for the same.
        server = await asyncio.shield(self._opening)
        if self._closed:
            raise Failed("the daemon stops, and serves MCP no more")
        hashed = _hash(token.encode())
        self._visitors[hashed] = Visitor(hashed, desk)
        return server.url

    def dismiss(self, token: str) -> Awaitable[Any]:
        """From now on the token is refused (401). Who must know that its last calls are done awaits the answer."""
        visitor = self._visitors.pop(_hash(token.encode()), None)
        return _done() if visitor is None else visitor.leave()

    async def close(self) -> None:
        """Serve no more, for good."""
        self._closed = True
        self._visitors.clear()
        if self._opening is not None:
            with suppress(Failed):
                await (await self._opening).close()

    def visitor(self, token: bytes) -> Visitor | None:
        """Whose token it is. It is looked up by its hash, so that how long that takes tells nothing of any token."""
        hashed = _hash(token)
        visitor = self._visitors.get(hashed)
        return visitor if visitor is not None and hmac.compare_digest(visitor.token, hashed) else None

    async def _open(self) -> Server:
        if self._closed:
            raise Failed("the daemon stops, and serves MCP no more")
        try:
            module = await asyncio.to_thread(import_module, "swarmd.runners.mcp_server")
            server: Server = await module.serve(self.visitor)
        except (ImportError, OSError) as error:
            raise Failed(f"MCP cannot be served: {error}") from error
        return server


def _has_failed(task: asyncio.Task[Server]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)


def _done() -> asyncio.Future[Any]:
    done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    done.set_result(None)
    return done


def _hash(token: bytes) -> bytes:
    return sha256(token).digest()
