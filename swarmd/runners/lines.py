"""Lines of a stream, in bounded memory whatever comes: a line that is too long is dropped and counted."""

from __future__ import annotations

import json
from typing import Any

LINE_BYTES = 8 * 1024 * 1024
"""Real lines of clients reach 3 MB (a tool's result with an image)."""


class Lines:
    """Takes a stream chunk by chunk and gives its whole lines; asyncio's own reader raises above 64 KiB."""

    def __init__(self, limit: int = LINE_BYTES) -> None:
        self._limit = limit
        self._rest = bytearray()
        self._searched = 0
        self._skipping = False
        self.dropped = 0
        """How many lines were too long."""

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that are whole now, without their ends."""
        lines = []
        self._rest += chunk
        start = 0
        while (end := self._rest.find(b"\n", max(start, self._searched))) >= 0:
            if self._skipping:
                self._skipping = False
            elif end - start > self._limit:
                self.dropped += 1
            else:
                lines.append(bytes(self._rest[start:end]))
            start = end + 1
        del self._rest[:start]
        if len(self._rest) > self._limit and not self._skipping:
            self.dropped += 1
            self._skipping = True
        if self._skipping:
            self._rest.clear()
        self._searched = len(self._rest)
        return lines

    def close(self) -> list[bytes]:
        """What the stream ended with, where no end of line came after it: perhaps half a line."""
        rest = bytes(self._rest)
        self._rest.clear()
        self._searched = 0
        return [rest] if rest and not self._skipping else []


def _nothing(_name: str) -> None:
    """NaN and the infinities are no JSON, and could be kept nowhere."""


def event(line: bytes) -> dict[str, Any] | None:
    """The JSON object with a `type` that a line is, or None: a bare number is JSON too, and half a line is none."""
    text = line.strip(b" \t\r\0")
    if not text.startswith(b"{"):
        return None
    try:
        value = json.loads(text.decode("utf-8", "replace"), parse_constant=_nothing)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) and isinstance(value.get("type"), str) else None
