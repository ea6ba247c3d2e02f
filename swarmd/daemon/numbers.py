"""Handoff numbers ahead of need: a session that sends one must not make the whole loop wait for a flush."""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import Future

from swarmd.store import meta
from swarmd.store.database import Writer

BLOCK = 200
LOW = 100


class Numbers:
    """Gives numbers that nobody else gets, in order. Any thread may ask; only one that finds none left waits."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._left: deque[int] = deque()
        self._lock = threading.RLock()
        self._coming: Future[int] | None = None

    def take(self) -> int:
        """A number."""
        while True:
            with self._lock:
                number = self._left.popleft() if self._left else None
                coming = self._more() if len(self._left) < LOW else None
            if number is not None:
                return number
            if coming is not None:
                self._came(coming)

    def _more(self) -> Future[int]:
        if self._coming is None:
            self._coming = self._writer.submit(lambda connection: meta.bump(connection, "handoffs", BLOCK))
            self._coming.add_done_callback(self._arrived)
        return self._coming

    def _arrived(self, future: Future[int]) -> None:
        if future.exception() is None:
            self._came(future)
        else:
            with self._lock:
                self._coming = None

    def _came(self, future: Future[int]) -> None:
        last = future.result()
        with self._lock:
            if self._coming is future:
                self._coming = None
                self._left.extend(range(last - BLOCK + 1, last + 1))
