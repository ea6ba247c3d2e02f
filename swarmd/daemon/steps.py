"""The steps of a daemon: what fails because of the world is tried again, what fails because of us ends the daemon."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from swarmd.daemon.logs import log
from swarmd.errors import SwarmdError
from swarmd.session.ports import Clock
from swarmd.store.connections import StoreError
from swarmd.store.database import OutcomeUnknown
from swarmd.store.store import Store

SAID_AGAIN_SECONDS = 60.0


class Steps(ABC):
    """What a daemon does in steps and tasks, on its loop."""

    store: Store

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._tasks: set[asyncio.Task[Any]] = set()
        self._failing: dict[str, tuple[str, float]] = {}

    @abstractmethod
    def fail(self, error: BaseException) -> None:
        """Something that only a restart can answer."""

    async def attempt(self, what: str, step: Awaitable[object]) -> bool:
        """Do a step that is done again anyway. What the world does to it (a full disk, a held lock) is told and
        survived; an unknown outcome and a fault of ours are not, and end the daemon.
        """
        try:
            await step
        except OutcomeUnknown as error:
            self.fail(error)
            return False
        except (SwarmdError, StoreError, OSError) as error:
            self._tell_failure(what, str(error))
            return False
        # What had nothing to write says nothing of a store that takes nothing.
        if self.store.writer.trouble is None and self._failing.pop(what, None) is not None:
            log.info("%s succeeds again", what)
        return True

    def _tell_failure(self, what: str, why: str) -> None:
        """What fails each second is said once a minute."""
        said, at = self._failing.get(what, ("", 0.0))
        now = self.clock.monotonic()
        if said != why or now - at >= SAID_AGAIN_SECONDS:
            log.error(f"{what} did not succeed, and is tried again: %s", why)
            self._failing[what] = why, now

    def until_stop(self, task: asyncio.Task[Any]) -> None:
        """Let the daemon's stop cancel the task; whoever made it waits for its end."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def soon(self, what: str, step: Callable[[], Awaitable[object]]) -> asyncio.Task[Any]:
        """Attempt a step (see `attempt`) as a task; where that is cancelled at once, the step is not begun."""

        async def attempting() -> None:
            await self.attempt(what, step())

        return self.spawn(attempting())

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """A task that lives as long as the daemon; its fault ends the daemon."""
        task: asyncio.Task[Any] = asyncio.ensure_future(work)
        self._tasks.add(task)

        def over(finished: asyncio.Task[Any]) -> None:
            self._tasks.discard(finished)
            if not finished.cancelled() and (error := finished.exception()) is not None:
                log.error("a step of the daemon failed", exc_info=error)
                self.fail(error)

        task.add_done_callback(over)
        return task
