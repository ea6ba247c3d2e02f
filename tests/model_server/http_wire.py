"""HTTP/1.1 on asyncio streams, as much as a model server needs: requests read, answers written, clients that leave."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import Coroutine, Mapping
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from tests.model_server.request import Request

HEAD_LIMIT = 1 << 20
REASONS = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 403: "Forbidden", 404: "Not Found",
           413: "Payload Too Large", 429: "Too Many Requests", 500: "Internal Server Error", 529: "Overloaded"}  # fmt: skip


class ClientGone(Exception):
    """The client has closed its connection, or broken it."""


class Reader(asyncio.StreamReader):
    """Knows at once when the client has left, also while nobody reads."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(limit=HEAD_LIMIT, loop=loop)
        self.gone = asyncio.Event()

    def feed_eof(self) -> None:
        super().feed_eof()
        self.gone.set()

    def set_exception(self, exc: BaseException) -> None:
        super().set_exception(exc)  # type: ignore[arg-type]
        self.gone.set()


async def read_request(reader: Reader, writer: asyncio.StreamWriter) -> Request | None:
    """The next request of a connection; None when the client has closed it."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        return None
    first, *lines = head.decode("latin-1").split("\r\n")
    method, _, rest = first.partition(" ")
    url = urlsplit(rest.rpartition(" ")[0])
    headers = {
        name.strip().lower(): value.strip()
        for name, _, value in (line.partition(":") for line in lines if line)
    }
    request = Request(method, unquote(url.path), headers, query=dict(parse_qsl(url.query)))
    if headers.get("expect") == "100-continue":
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    request.raw = await _read_body(reader, headers)
    return request


async def _read_body(reader: Reader, headers: Mapping[str, str]) -> bytes:
    if headers.get("transfer-encoding") != "chunked":
        return await reader.readexactly(int(headers.get("content-length", 0)))
    body = b""
    while size := int((await reader.readline()).partition(b";")[0], 16):
        body += (await reader.readexactly(size + 2))[:-2]
    await reader.readline()
    return body


class Reply:
    """The answer to one request, on its way out. `ended` connections are not used again."""

    def __init__(self, reader: Reader, writer: asyncio.StreamWriter, request: Request) -> None:
        self._reader = reader
        self._writer = writer
        self.request = request
        self.ended = False

    async def wait(self, seconds: float | None) -> None:
        """Waits, for ever if told None; raises when the client leaves meanwhile."""
        try:
            async with asyncio.timeout(seconds):
                await self._reader.gone.wait()
        except TimeoutError:
            return
        raise ClientGone

    async def until(self, event: Coroutine[Any, Any, None]) -> None:
        """Waits for the event; raises when the client leaves before it."""
        waiting = asyncio.create_task(event), asyncio.create_task(self._reader.gone.wait())
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waiting:
                task.cancel()
        if self._reader.gone.is_set():
            raise ClientGone

    async def whole(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        """An answer of known length."""
        self._head(status, {"content-type": "application/json", **headers, "content-length": str(len(body))})
        if self.request.method != "HEAD":
            self._writer.write(body)
        await self._sent()

    async def start(self, headers: Mapping[str, str]) -> None:
        """The head of a stream."""
        fixed = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}
        self._head(200, {**fixed, "transfer-encoding": "chunked", **headers})

    async def part(self, data: bytes) -> None:
        """The next bytes of a stream."""
        if data:
            self._writer.writelines((f"{len(data):x}\r\n".encode(), data, b"\r\n"))
            await self._sent()

    async def end(self) -> None:
        """The end of a stream as it should be."""
        self._writer.write(b"0\r\n\r\n")
        await self._sent()

    def close(self) -> None:
        """The end as it should not be: what was written arrives, and then nothing."""
        self.ended = True
        self._writer.close()

    def reset(self) -> None:
        self.ended = True
        sock = self._writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()

    def _head(self, status: int, headers: Mapping[str, str]) -> None:
        self.request.status = status
        lines = [f"HTTP/1.1 {status} {REASONS.get(status, 'Status')}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self._writer.write("\r\n".join((*lines, "", "")).encode("latin-1"))

    async def _sent(self) -> None:
        if self._reader.gone.is_set():
            raise ClientGone
        await self._writer.drain()


def json_bytes(value: Any) -> bytes:
    return json.dumps(value).encode()
