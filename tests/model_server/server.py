"""The scripted model server: a real HTTP server on loopback, in a thread of its own, for tests of whoever calls models.

with ModelServer([tools(call("ctx_set", key="a", value="b")), text("done")]) as server:
    ... # server.url is what ANTHROPIC_BASE_URL or base_url is set to
assert server.messages[1].results
"""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import weakref
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from tests.model_server.answers import Answer, error, plain
from tests.model_server.anthropic_api import AnthropicApi, Count
from tests.model_server.checks import Model
from tests.model_server.http_wire import ClientGone, Reader, Reply, read_request
from tests.model_server.messages_wire import MessagesWire
from tests.model_server.playing import Wire, play
from tests.model_server.request import Request
from tests.model_server.responses_api import ResponsesWire, refused_input
from tests.model_server.scripts import Part, Script, Scripts
from tests.model_server.sent import new_id

MESSAGES, RESPONSES = "/v1/messages", "/v1/responses"
BACKLOG = 1024


class ModelServer:
    """Answers by script, from `start` (or `with`, or `async with`) to `stop`.

    `script` is everyone's; `scripts` are those of a model, or of whoever's system text (or first message) contains
    the marker; `paths` are those of other paths or overrule what the server would say there ("/v1/models").
    """

    def __init__(
        self,
        script: Script | None = None,
        *,
        scripts: Mapping[str, Script] | None = None,
        paths: Mapping[str, Script] | None = None,
        key: str | None = None,
        models: Mapping[str, Model] | None = None,
        count: Count | None = None,
        checks: bool = True,
        cache_minimum: int = 0,
        port: int = 0,
    ) -> None:
        self._scripts = Scripts(script, scripts)
        self._paths = {path: Part(one) for path, one in (paths or {}).items()}
        self._api = AnthropicApi(
            key=key, models=models, count=count, checks=checks, cache_minimum=cache_minimum
        )
        self._port = port
        self._changed = threading.Condition()
        self._requests: list[Request] = []
        self._open = 0
        self.most_open = 0
        """So many requests to messages or responses were being answered at once."""
        self.failures: list[BaseException] = []
        """What scripts have raised; the first of it is raised again at the end of `with`."""
        self.url = ""

    # -- what came in ---------------------------------------------------------------------------------------

    @property
    def requests(self) -> list[Request]:
        with self._changed:
            return list(self._requests)

    @property
    def messages(self) -> list[Request]:
        return [request for request in self.requests if request.path == MESSAGES]

    @property
    def responses(self) -> list[Request]:
        return [request for request in self.requests if request.path == RESPONSES]

    @property
    def complaints(self) -> list[str]:
        """What was refused as the real API would refuse it: a loop that is right leaves this empty."""
        return list(self._api.complaints)

    @property
    def left(self) -> int:
        """So many answers of lists have not been asked for."""
        return self._scripts.left

    @property
    def open(self) -> int:
        """So many requests to messages or responses are being answered now."""
        return self._open

    def wait(self, count: int, seconds: float = 10.0) -> list[Request]:
        """Waits until so many requests to messages or responses have come (in async tests: in `to_thread`)."""
        with self._changed:
            enough = self._changed.wait_for(lambda: len(self._asked()) >= count, seconds)
            assert enough, f"{len(self._asked())} of {count} requests came within {seconds} s"
            return self._asked()

    def until_idle(self, seconds: float = 10.0) -> None:
        """Waits until no request to messages or responses is being answered."""
        with self._changed:
            assert self._changed.wait_for(lambda: not self._open, seconds), (
                f"{self._open} requests are still open"
            )

    def _asked(self) -> list[Request]:
        return [request for request in self._requests if request.path in {MESSAGES, RESPONSES}]

    def forget_cache(self) -> None:
        """As when prompt caches have run out."""
        self._api.cache.forget()

    # -- start and stop -------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Also after a stop: on the same port, with all that it knows."""
        self._socket = socket.create_server(("127.0.0.1", self._port), backlog=BACKLOG)
        self._port = self._socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self._port}"
        self._started = threading.Event()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._run()), name="model-server", daemon=True
        )
        self._thread.start()
        self._started.wait()
        return self

    def stop(self) -> None:
        """At once, whatever is still open."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        if raised is None and self.failures:
            raise self.failures[0]

    async def __aenter__(self) -> Self:
        return self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.__exit__(kind, raised, trace)

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        self._connections: set[asyncio.Task[None]] = set()
        self._transports: weakref.WeakSet[asyncio.Transport] = weakref.WeakSet()

        def protocol() -> asyncio.StreamReaderProtocol:
            return asyncio.StreamReaderProtocol(Reader(self._loop), self._connected, loop=self._loop)

        listening = await self._loop.create_server(protocol, sock=self._socket, backlog=BACKLOG)
        self._started.set()
        await self._stopping.wait()
        # asyncio leaks connections that it is accepting while its server closes: they are let in first.
        self._loop.remove_reader(self._socket)
        for _ in range(3):
            await asyncio.sleep(0)
        listening.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        for transport in list(self._transports):
            transport.abort()
        # One more round: aborted transports close their sockets in it.
        await asyncio.sleep(0)

    # -- connections ----------------------------------------------------------------------------------------

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert isinstance(reader, Reader)
        self._transports.add(writer.transport)
        task = self._loop.create_task(self._serve(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _serve(self, reader: Reader, writer: asyncio.StreamWriter) -> None:
        """One connection, request after request. Its end is abrupt unless the answer was closed as it should be."""
        ended = False
        try:
            while not ended and (request := await read_request(reader, writer)) is not None:
                ended = await self._answer(request, Reply(reader, writer, request))
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client broke off
        finally:
            if not writer.is_closing():
                writer.transport.abort()

    async def _answer(self, request: Request, reply: Reply) -> bool:
        """Whether the connection has ended with it."""
        counts = request.path in {MESSAGES, RESPONSES}
        unread = _read_json(request)
        with self._changed:
            self._requests.append(request)
            self._open += counts
            self.most_open = max(self.most_open, self._open)
            self._changed.notify_all()
        headers = {"request-id": new_id("req"), "anthropic-organization-id": "org-scripted"}
        wire = self._wire(request)
        try:
            answer = unread or self._api.unauthorized(request.headers) or await self._find(request)
            await play(answer, wire, reply, headers)
        except (ClientGone, ConnectionError):
            request.gone = True
            return True
        except Exception as raised:  # noqa: BLE001 - a script may raise whatever it likes
            self.failures.append(raised)
            await play(error(500, f"the script failed: {raised!r}"), wire, reply, headers)
        finally:
            with self._changed:
                self._open -= counts
                self._changed.notify_all()
        return reply.ended

    def _wire(self, request: Request) -> Wire:
        if request.path == RESPONSES:
            return ResponsesWire(request.body, self._api.cache)
        return MessagesWire(request.body, self._api.sent, self._api.cache)

    async def _find(self, request: Request) -> Answer:
        """The answer to a request: by path, then by script."""
        if (part := self._paths.get(request.path)) is not None:
            return await part.answer(request.body)
        match request.method, request.path.strip("/").split("/"):
            case "POST", ["v1", "messages"]:
                return self._api.refused(request) or await self._scripted(request)
            case "POST", ["v1", "responses"]:
                return refused_input(request.body) or await self._scripted(request)
            case "POST", ["v1", "messages", "count_tokens"]:
                return self._api.counted(request)
            case "GET", ["v1", "models"]:
                return self._api.listed()
            case "GET", ["v1", "models", name]:
                return self._api.model(name)
            case "HEAD" | "GET", ["" | "api", *_]:
                return plain("{}")
        return error(404, f"Not found: {request.method} {request.path}")

    async def _scripted(self, request: Request) -> Answer:
        return await self._scripts.part_of(request).answer(request.body)


def _read_json(request: Request) -> Answer | None:
    """Puts the body into the request; an error if it cannot be read."""
    if request.method != "POST":
        return None
    try:
        body: Any = json.loads(request.raw)
    except ValueError as wrong:
        return error(400, f"The request body is not valid JSON: {wrong}")
    if not isinstance(body, dict):
        return error(400, "The request body is not a JSON object")
    request.body = body
    return None
