"""Messages between the daemon and its workers: JSON objects over a socket, each with its length before it."""

from __future__ import annotations

import asyncio
import json
import struct
from typing import Any

_LENGTH = struct.Struct(">I")
FRAME_BYTES = 64 * 1024 * 1024
"""More than a prompt, a memory file or an event has; a longer one is a fault of the other side."""


class Broken(ConnectionError):
    """What came is no frame of ours, or the other side is gone."""


class Frames:
    """One end of the socket. Sending never waits for the other side to read."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    def send(self, message: dict[str, Any]) -> None:
        """Queue a message. Raises Broken where it is too long or the other side is gone."""
        data = json.dumps(message, separators=(",", ":")).encode()
        if len(data) > FRAME_BYTES:
            raise Broken(f"a message has {len(data)} bytes; {FRAME_BYTES} are the most")
        if self._writer.is_closing():
            raise Broken("the other side is gone")
        self._writer.write(_LENGTH.pack(len(data)) + data)

    async def receive(self) -> dict[str, Any]:
        """The next message. Raises Broken at the end, and for what is none."""
        try:
            (length,) = _LENGTH.unpack(await self._reader.readexactly(_LENGTH.size))
            if length > FRAME_BYTES:
                raise Broken(f"a message of {length} bytes was announced; {FRAME_BYTES} are the most")
            message = json.loads(await self._reader.readexactly(length))
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            raise Broken("its channel was closed") from error
        except (OSError, ValueError, RecursionError) as error:
            raise Broken(str(error)) from error
        if not isinstance(message, dict):
            raise Broken("a message is no object")
        return message

    def close(self) -> None:
        """Nothing more is sent."""
        self._writer.close()
