"""The open store of the one process that may write it: connections, writer, memory folders, handoff numbers."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from swarmd.errors import StoreUnusable
from swarmd.store import meta, opening
from swarmd.store.connections import Readers
from swarmd.store.database import Writer
from swarmd.store.memory import MemoryFolders


class Store:
    """Opened under the state's lock; `close` gives it back. Raises as opening.connect_writing does."""

    def __init__(
        self,
        state: Path,
        lock: opening.Lock,
        now: Callable[[], datetime],
        *,
        operator: str,
        thorough: bool = False,
        handoff_block: int = 1,
    ) -> None:
        self.state = state
        self._lock = lock
        self._block = handoff_block
        self._numbers: list[int] = []
        self._numbering = threading.Lock()
        self.writer = Writer(opening.connect_writing(state, thorough=thorough))
        self.reader = Readers(state / opening.DATABASE)
        """This thread's reading connection, whenever it is called."""
        # Its own: whoever settles memory may be in the middle of a longer read, and must not be shown the past.
        self._memory_reader = Readers(state / opening.DATABASE)
        self.folders = MemoryFolders(state / "memory", self.writer, self._memory_reader, now, operator)
        try:
            self.folders.recover()
        except BaseException:
            self._memory_reader.close()
            self.writer.close()
            raise

    def reserve(self) -> int:
        """A handoff's number that nobody else gets. Numbers are taken in blocks, so that asking costs no flush."""
        with self._numbering:
            if not self._numbers:
                last = self.writer.do(lambda connection: meta.bump(connection, "handoffs", self._block))
                self._numbers = list(range(last, last - self._block, -1))
            return self._numbers.pop()

    def close(self) -> None:
        """Finish what waits and give the lock back."""
        try:
            # Readers first: the last to close tidies up, and only the writer can.
            self.reader.close()
            self._memory_reader.close()
            self.writer.close()
        finally:
            self._lock.release()


def open_store(
    state: Path,
    now: Callable[[], datetime],
    *,
    operator: str,
    thorough: bool = False,
    handoff_block: int = 1,
    wait_seconds: float = 0.0,
    give_up: Callable[[], bool] = lambda: False,
) -> Store:
    """Take the lock and open the store. Raises StoreUnusable when another process has it for all of `wait_seconds`, or
    when the state is another user's.
    """
    if not state.exists():
        state.mkdir(mode=0o700, parents=True)
    elif (problem := opening.owner_problem(state)) is not None:
        raise StoreUnusable(problem)
    lock = opening.Lock(state)
    if not lock.acquire(wait_seconds=wait_seconds, give_up=give_up):
        raise StoreUnusable(f"another swarmd has the state {state}; stop it first, or use another --state")
    try:
        return Store(state, lock, now, operator=operator, thorough=thorough, handoff_block=handoff_block)
    except BaseException:
        lock.release()
        raise
