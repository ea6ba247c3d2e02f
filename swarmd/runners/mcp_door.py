"""Who may speak at the MCP endpoint: what a request must show before the SDK sees any of it, and how large it may be.

A page of a web browser can send requests to loopback, and by DNS rebinding under a name of its own: hence the checks
of Host and Origin. Any program of the machine can connect: hence a token, and bounds for those who show none.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from contextlib import AsyncExitStack
from typing import Any, Protocol

from swarmd.runners.mcp_endpoint import CONNECTIONS, Guest, Visitor

PATH = "/mcp"
BODY_BYTES = 2 * 1024 * 1024
"""As the longest line of a session's socket: more than the largest MEMORY.md."""
SMALL_BODY_BYTES = 64 * 1024
DRAINED_BYTES = 32 * 1024 * 1024
"""How much of a body that is too large is read and thrown away, so that its sender reads the answer."""
BODY_SECONDS = 30.0
STRANGERS = 1024
"""Connections that have shown no token yet, at most; the oldest goes first. A burst of sessions must fit in."""
STRANGER_SECONDS = 10.0
CONNECTION = "connection"
VISITOR = "visitor"
INVALID_REQUEST = -32600
UNKNOWN_TOKEN = "the token is not that of a running session: it is wrong, or the session has ended"  # noqa: S105
log = logging.getLogger("swarmd")

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Find = Callable[[bytes], Visitor | None]


class Connection(Guest, Protocol):
    """A connection, as the door sees it."""

    visitor: Visitor | None
    """The session whose token was shown on it last."""

    def drop(self) -> None:
        """End it at once."""
        ...


class Strangers:
    """Connections on which no session's token was shown yet. Each ends soon, and the oldest when there are too many:
    a client shows its token at once, so those who do not can keep nobody out.
    """

    def __init__(self) -> None:
        self._ends: dict[Connection, asyncio.TimerHandle] = {}

    def came(self, connection: Connection) -> None:
        """A connection is a stranger's now."""
        if len(self._ends) >= STRANGERS:
            oldest = next(iter(self._ends))
            self.gone(oldest)
            oldest.drop()
        self._ends[connection] = asyncio.get_running_loop().call_later(STRANGER_SECONDS, connection.drop)

    def gone(self, connection: Connection) -> None:
        """It is closed, or no stranger's any more."""
        end = self._ends.pop(connection, None)
        if end is not None:
            end.cancel()


class TurnedAway(Exception):
    """A request that goes no further; the text says why."""

    def __init__(self, status: int, why: str, *headers: tuple[bytes, bytes]) -> None:
        super().__init__(why)
        self.status = status
        self.headers = headers


class HungUp(Exception):
    """The client went away before it had said all."""


class Door:
    """The ASGI application before the SDK's. `hosts` are the names under which a client may mean this endpoint."""

    def __init__(self, app: App, find: Find, strangers: Strangers, hosts: Iterable[str]) -> None:
        self._app = app
        self._find = find
        self._strangers = strangers
        self._hosts = frozenset(host.encode() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        try:
            visitor = self._visitor(scope)
            # The turn of a large request lasts until it is answered.
            async with AsyncExitStack() as turn:
                body = await _body(receive, visitor, turn)
                scope["state"][VISITOR] = visitor
                await self._app(scope, _again(body, receive), send)
        except TurnedAway as away:
            await _answer(send, away)
        except HungUp:
            return
        except Exception:
            log.exception("a request over MCP could not be answered")
            raise  # uvicorn answers 500

    def _visitor(self, scope: Scope) -> Visitor:
        """Who asks. Raises TurnedAway."""
        host, origin = _header(scope, b"host"), _header(scope, b"origin")
        if host not in self._hosts:
            raise TurnedAway(
                421, "this is the MCP endpoint of a swarmd on its own machine, and of no other host"
            )
        if origin is not None and origin.removeprefix(b"http://") not in self._hosts:
            raise TurnedAway(403, "no web page may speak here")
        if scope["path"] != PATH:
            raise TurnedAway(404, f"there is nothing but {PATH}")
        kind, _, token = (_header(scope, b"authorization") or b"").partition(b" ")
        visitor = self._find(token.strip()) if kind.lower() == b"bearer" else None
        if visitor is None:
            raise TurnedAway(401, UNKNOWN_TOKEN, (b"www-authenticate", b"Bearer"))
        self._let_in(scope["state"][CONNECTION], visitor)
        if scope["method"] != "POST":
            # No stream from here to the client is offered: nothing is ever said unasked.
            raise TurnedAway(405, "only POST is served", (b"allow", b"POST"))
        return visitor

    def _let_in(self, connection: Connection, visitor: Visitor) -> None:
        if connection in visitor.guests:
            return
        if len(visitor.guests) >= CONNECTIONS:
            raise TurnedAway(503, f"a session may have {CONNECTIONS} connections at a time")
        if connection.visitor is not None:
            connection.visitor.guests.discard(connection)
        self._strangers.gone(connection)
        visitor.guests.add(connection)
        connection.visitor = visitor


def _header(scope: Scope, name: bytes) -> bytes | None:
    """The only one of that name: two would mean one thing to us and another to whoever reads the other."""
    found = [value for key, value in scope["headers"] if key == name]
    if len(found) > 1:
        raise TurnedAway(400, f"there is more than one header {name.decode()}")
    return found[0] if found else None


async def _body(receive: Receive, visitor: Visitor, turn: AsyncExitStack) -> bytes:
    """All of it. One that is large is read on only when it is its turn. Raises TurnedAway, HungUp."""
    body, size, more, waited = bytearray(), 0, True, False
    loop = asyncio.get_running_loop()
    deadline = loop.time() + BODY_SECONDS
    while more:
        try:
            async with asyncio.timeout_at(deadline):
                message = await receive()
        except TimeoutError:
            raise TurnedAway(408, f"a request must have come after {BODY_SECONDS:g} seconds") from None
        if message["type"] != "http.request":
            raise HungUp
        chunk, more = message.get("body", b""), message.get("more_body", False)
        size += len(chunk)
        if size <= BODY_BYTES:
            body += chunk
        elif size > DRAINED_BYTES:
            break
        if size > SMALL_BODY_BYTES and not waited:
            await turn.enter_async_context(visitor.large)
            waited, deadline = True, loop.time() + BODY_SECONDS
    if size > BODY_BYTES:
        raise TurnedAway(413, f"a request may have {BODY_BYTES} bytes")
    return bytes(body)


def _again(body: bytes, receive: Receive) -> Receive:
    """What is received, with the body in one piece."""
    first: list[MutableMapping[str, Any]] = [{"type": "http.request", "body": body, "more_body": False}]

    async def received() -> MutableMapping[str, Any]:
        return first.pop() if first else await receive()

    return received


async def _answer(send: Send, away: TurnedAway) -> None:
    """As JSON-RPC, so that a client can show the sentence."""
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": INVALID_REQUEST, "message": str(away)}}
    body = json.dumps(error).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        *away.headers,
    ]
    await send({"type": "http.response.start", "status": away.status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})
