"""The search index while the daemon runs: soon after sessions end and each minute, in a thread that mostly rests. Where
a daemon lives for one session only, also at its end: the next may be long in coming.
"""

from __future__ import annotations

import asyncio
import threading
import time

from swarmd.session.ports import Clock
from swarmd.store.indexing import NoMoreTime, SearchIndex

MINUTE_SECONDS = 60.0
SOON_SECONDS = 1.0
"""So long after a round the next begins at the earliest: sessions that end together share one."""
WORK_SECONDS = 0.005
RESTS = 4
"""Work so long at a time, and rest so many times as long."""
STOP_SECONDS = 10.0


class Indexing:
    """Asks for rounds. It lives on the loop, but for its work."""

    def __init__(self, index: SearchIndex, clock: Clock) -> None:
        self._index = index
        self._clock = clock
        self._woken = True
        self._last: float | None = None
        self._stop = threading.Event()
        self._idle = threading.Event()
        self._idle.set()
        self._working_since = 0.0
        self._deadline: float | None = None

    def wake(self) -> None:
        """There is something new."""
        self._woken = True

    def is_due(self) -> bool:
        """Whether a round should begin, and none is under way."""
        if self._stop.is_set() or not self._idle.is_set():
            return False
        since = MINUTE_SECONDS if self._last is None else self._clock.monotonic() - self._last
        return since >= (SOON_SECONDS if self._woken else MINUTE_SECONDS)

    async def round(self) -> None:
        """Do one round. Raises StoreError and OSError where the index cannot be written; the next tries again."""
        self._idle.clear()
        self._woken = False
        self._last = self._clock.monotonic()
        await asyncio.to_thread(self._work)

    def _work(self) -> None:
        try:
            self._working_since = time.monotonic()
            self._index.bring_up_to_date(pause=self._rest)
        finally:
            self._idle.set()

    async def finish(self, seconds: float) -> None:
        """Put in what there is, without rests, for so many seconds at most. Raises as `round` does."""
        self._deadline = time.monotonic() + seconds
        await asyncio.to_thread(self._idle.wait, seconds)
        if self._idle.is_set() and not self._stop.is_set():
            await self.round()

    async def stop(self) -> None:
        """No more rounds; one that is under way ends at its next step, and what it has done stays."""
        self._stop.set()
        await asyncio.to_thread(self._idle.wait, STOP_SECONDS)

    def _rest(self) -> None:
        if self._deadline is not None:
            if self._stop.is_set() or time.monotonic() >= self._deadline:
                raise NoMoreTime
            return
        worked = time.monotonic() - self._working_since
        if (worked < WORK_SECONDS or self._index.is_hurried) and not self._stop.is_set():
            return
        if self._stop.wait(min(worked * RESTS, 1.0)):
            raise NoMoreTime
        self._working_since = time.monotonic()
