"""The desk's Unix socket: one JSON line a request, one a reply. It checks the token; the desk decides."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import os
from collections.abc import Mapping
from typing import Any

from swarmd.core.wire import JSON, Message, Reply
from swarmd.runners.memory_desk import MemoryDesk

LINE_BYTES = 2 * 1024 * 1024
"""More than the largest memory file, so that one can be written through the socket."""
SMALL_LINE_BYTES = 64 * 1024
LARGE_LINES = 3
"""How many connections may hold a line above SMALL_LINE_BYTES at a time: the others wait, memory stays bounded."""
CONNECTIONS = 64
ID_CHARACTERS = 100
CLOSING_SECONDS = 5.0


class BadLine(Exception):
    """A line that is no request; the text says why."""


def parse(line: bytes, token: str) -> Message:
    """The message in a line. Raises BadLine, PermissionError where the token is not the session's."""
    try:
        raw = json.loads(line.decode("utf-8"), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise BadLine(f"a request is one line of JSON; this one is not: {str(error)[:200]}") from None
    if not isinstance(raw, dict):
        raise BadLine("a request is a JSON object with id, token, call and args")
    given = raw.get("token")
    good = isinstance(given, str) and hmac.compare_digest(_bytes(given), _bytes(token))
    if not good or not token:
        raise PermissionError
    name, call, args = raw.get("id"), raw.get("call"), raw.get("args", {})
    if not isinstance(name, str) or not 0 < len(name) <= ID_CHARACTERS:
        raise BadLine(f"id: a text of 1 to {ID_CHARACTERS} characters is expected")
    if not isinstance(call, str) or not isinstance(args, dict):
        raise BadLine("call must be a text, and args an object")
    return Message(id=name, call=call, args=args)


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


class DeskSocket:
    """Serves one session's desk at `path` until it is closed; after that the path is gone."""

    def __init__(self, path: str, *, token: str, memory: MemoryDesk) -> None:
        self._path = path
        self._token = token
        self._memory = memory
        self._large = asyncio.Semaphore(LARGE_LINES)
        self._connections: set[asyncio.Task[None]] = set()
        self._answering: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        """Begin to listen; the folder is private to the user."""
        self._server = await asyncio.start_unix_server(
            self._connected, self._path, limit=SMALL_LINE_BYTES // 2
        )
        os.chmod(self._path, 0o600)

    async def close(self) -> None:
        """Stop listening, let calls that are being judged end, drop the connections."""
        if self._server is not None:
            self._server.close()
        try:
            os.unlink(self._path)
        except FileNotFoundError:
            pass
        if self._answering:
            await asyncio.wait(self._answering, timeout=CLOSING_SECONDS)
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            if len(self._connections) > CONNECTIONS:
                await _send(writer, _error("busy", f"a session may have {CONNECTIONS} connections at a time"))
                return
            await self._serve(reader, writer)
        except (OSError, asyncio.CancelledError):
            writer.transport.abort()  # the other side is gone, or the session has ended: nobody waits for an answer
        finally:
            self._connections.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lines = _Lines(reader, self._large)
        more = True
        while more:
            # The turn to hold a long line lasts until it is answered.
            async with contextlib.AsyncExitStack() as turn:
                try:
                    line = await lines.next(turn)
                    if line is None:
                        return
                    reply = await self._answer(line)
                except BadLine as error:
                    reply, more = _error("bad_input", str(error)), False
            await _send(writer, reply)

    async def _answer(self, line: bytes) -> Reply:
        try:
            message = parse(line, self._token)
        except PermissionError:
            return _error(
                "refused", "the token is not that of a running session: SWARMD_TOKEN is wrong or has expired"
            )
        task = asyncio.current_task()
        assert task is not None
        self._answering.add(task)
        try:
            return await self._judged(message)
        finally:
            self._answering.discard(task)

    async def _judged(self, message: Message) -> Reply:
        return await self._memory.answer(message)


def _error(kind: str, sentence: str) -> Reply:
    return Reply(error=sentence, kind=kind)


async def _send(writer: asyncio.StreamWriter, reply: Reply) -> None:
    answer: Mapping[str, JSON] = reply.as_json()
    writer.write(json.dumps(answer, separators=(",", ":")).encode() + b"\n")
    await writer.drain()


class _Lines:
    """The lines of a connection, each bounded; a long one is read on only when it is its turn."""

    def __init__(self, reader: asyncio.StreamReader, large: asyncio.Semaphore) -> None:
        self._reader = reader
        self._large = large
        self._rest = bytearray()

    async def next(self, turn: contextlib.AsyncExitStack) -> bytes | None:
        """The next line without its end, or None at the end of the stream; a long one is held until `turn` ends."""
        line = await self._fill(SMALL_LINE_BYTES)
        if line is not None:
            return line
        if self._reader.at_eof() and len(self._rest) < SMALL_LINE_BYTES:
            if self._rest:
                raise BadLine("the last request has no end of line")
            return None
        await turn.enter_async_context(self._large)
        line = await self._fill(LINE_BYTES)
        if line is None:
            self._rest.clear()
            raise BadLine(f"a request may have {LINE_BYTES} bytes; edit the files in $SWARMD_MEMORY instead")
        return line

    async def _fill(self, limit: int) -> bytes | None:
        searched = 0
        while True:
            end = self._rest.find(b"\n", searched)
            if end >= 0:
                line = bytes(self._rest[:end])
                del self._rest[: end + 1]
                return line
            searched = len(self._rest)
            if searched >= limit:
                return None
            chunk: Any = await self._reader.read(SMALL_LINE_BYTES)
            if not chunk:
                return None
            self._rest += chunk
