"""A wall for all who use the same key: while it stands, one of them tries at a time, and the others wait for that.

Without it a hundred agents would each find out for themselves, again and again, that the API is overloaded.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Collection

from swarmd.runners.model.trouble import HARD, OF_KEY, OF_MODEL, Trouble

IN_A_ROW = 3
"""So many failures one after another, of whoever's requests, are no accident any more."""
FIRST_SECONDS, LONGEST_SECONDS = 2.0, 60.0
HARD_SECONDS = 60.0
"""For how long a wrong key, or an allowance that is used up, is taken to be so without asking."""


class Shut(Exception):
    """It will not open in time. `trouble` is what closed it."""

    def __init__(self, trouble: Trouble) -> None:
        super().__init__(str(trouble))
        self.trouble = trouble


class Breaker:
    """Of one credential at one address. `now` gives seconds that only grow, as the running loop's clock does.

    A wrong key and a dead network are met whatever is asked; that a model is overloaded says nothing of another one.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._key = _Wall(now, OF_KEY)
        self._models: dict[str, _Wall] = {}

    @contextlib.asynccontextmanager
    async def turn(self, until: float, model: str) -> AsyncIterator[None]:
        """A request is made within it, and what it raises is noted. Raises Shut where no turn comes before `until`,
        and at once where asking is of no use.
        """
        of_model = self._models.setdefault(model, _Wall(self._now, OF_MODEL))
        async with self._key.turn(until), of_model.turn(until):
            yield


class _Wall:
    """For some kinds of trouble."""

    def __init__(self, now: Callable[[], float], kinds: Collection[str]) -> None:
        self._now = now
        self._kinds = kinds
        self._failures = 0
        self._open_until = 0.0
        self._trouble: Trouble | None = None
        self._probing = False
        self._changed = asyncio.Condition()

    @contextlib.asynccontextmanager
    async def turn(self, until: float) -> AsyncIterator[None]:
        probing = await self._admitted(until)
        try:
            yield
        except Trouble as trouble:
            await self._bad(trouble)
            raise
        except BaseException:
            await self._nothing_learnt()
            raise
        else:
            await self._good(probing)

    async def _admitted(self, until: float) -> bool:
        """Wait for a turn; whether it is the one that tries the wall."""
        async with self._changed:
            while True:
                if self._trouble is None:
                    return False
                left = self._open_until - self._now()
                if left > 0 and (self._trouble.kind in HARD or self._now() + left > until):
                    raise Shut(self._trouble)
                if left <= 0 and not self._probing:
                    self._probing = True
                    return True
                await self._wait(left if left > 0 else until - self._now())
                if self._now() >= until and self._trouble is not None:
                    raise Shut(self._trouble)

    async def _wait(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(seconds, 0.0) + 0.001):
                await self._changed.wait()

    async def _good(self, probing: bool) -> None:
        if probing or self._failures:
            async with self._changed:
                self._failures, self._trouble, self._probing = 0, None, False
                self._changed.notify_all()

    async def _bad(self, trouble: Trouble) -> None:
        async with self._changed:
            self._probing = False
            if trouble.kind in self._kinds:
                self._failures += 1
                seconds = self._seconds(trouble)
                if seconds > 0:
                    self._trouble = trouble
                    self._open_until = max(self._open_until, self._now() + seconds)
            self._changed.notify_all()

    async def _nothing_learnt(self) -> None:
        async with self._changed:
            self._probing = False
            self._changed.notify_all()

    def _seconds(self, trouble: Trouble) -> float:
        """For how long nobody needs to ask; 0: it may have been an accident."""
        if trouble.kind in HARD:
            return HARD_SECONDS
        if trouble.retry_after is not None:
            return trouble.retry_after
        if self._failures < IN_A_ROW:
            return 0.0
        return min(FIRST_SECONDS * 2.0 ** (self._failures - IN_A_ROW), LONGEST_SECONDS)
