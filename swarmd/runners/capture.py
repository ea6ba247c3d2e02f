"""A program's output in constant memory: its head and its tail, and how much was dropped between them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from swarmd.core.wire import Captured
from swarmd.runners.masking import Masker

HEAD_BYTES = 64 * 1024
TAIL_BYTES = 192 * 1024


class Capture:
    """Takes one stream chunk by chunk; what is kept, and what `follow` is given, is masked already."""

    def __init__(self, secrets: Iterable[str], follow: Callable[[bytes], None] | None = None) -> None:
        self._masker = Masker(secrets)
        self._follow = follow
        self._head = bytearray()
        self._tail = bytearray()
        self._dropped = 0

    def feed(self, chunk: bytes) -> None:
        """The next bytes of the stream."""
        self._keep(self._masker.feed(chunk))

    def close(self) -> Captured:
        """All of it, when the stream has ended."""
        self._keep(self._masker.close())
        self._trim()
        return Captured(head=bytes(self._head), tail=bytes(self._tail), dropped=self._dropped)

    def _keep(self, masked: bytes) -> None:
        if not masked:
            return
        if self._follow is not None:
            self._follow(masked)
        room = HEAD_BYTES - len(self._head)
        self._head += masked[:room]
        self._tail += masked[room:]
        if len(self._tail) > 2 * TAIL_BYTES:  # cut seldom: each cut moves the whole tail
            self._trim()

    def _trim(self) -> None:
        over = len(self._tail) - TAIL_BYTES
        if over > 0:
            del self._tail[:over]
            self._dropped += over
