"""The one writing connection's thread. No table is known here.

All writes of a process go through one `Writer`: whatever waits is done in one `BEGIN IMMEDIATE` transaction with
a savepoint each, so that waiting sessions share one flush and one's failure does not touch another's rows.
"""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

from swarmd.errors import StoreUnusable

T = TypeVar("T")
BATCH = 256


class OutcomeUnknown(StoreUnusable):
    """COMMIT met an I/O error: whether it took place is not known. Stop, restart, read the truth."""


class StoreGone(OutcomeUnknown):
    """The store's files are not those any more that were opened: what is written now is in no store."""


class StoreClosed(StoreUnusable):
    """The process ends: no more writes are taken."""


@dataclass(slots=True)
class _Wish:
    work: Callable[[sqlite3.Connection], Any]
    future: Future[Any]
    durable: bool


class Writer:
    """Runs functions over the writing connection, one transaction for all that wait, on one thread.

    A function must not keep the connection, and must do no I/O of its own: all waiting sessions wait with it.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._waiting: queue.SimpleQueue[_Wish | None] = queue.SimpleQueue()
        self._closing = threading.Lock()
        self._closed = False
        self.broken: BaseException | None = None
        self.trouble: str | None = None
        """Why the last write did not go through; None when one has gone through since."""
        self.guard: Callable[[], None] = lambda: None
        """Asked before each transaction, on the writer's thread; what it raises stops the store."""
        self._thread = threading.Thread(target=self._serve, name="swarmd-writer", daemon=True)
        self._thread.start()

    def submit(self, work: Callable[[sqlite3.Connection], T], *, durable: bool = True) -> Future[T]:
        """Queue `work`; the future is set after the COMMIT. Not durable: survives kill -9, not a power cut."""
        wish = _Wish(work=work, future=Future(), durable=durable)
        if self.broken is not None:
            raise self._stopped(self.broken)
        with self._closing:
            if self._closed:
                raise StoreClosed("the store is closed; nothing was written")
            self._waiting.put(wish)
        return wish.future

    def do(self, work: Callable[[sqlite3.Connection], T], *, durable: bool = True) -> T:
        """Do `work` and wait for its COMMIT."""
        return self.submit(work, durable=durable).result()

    async def run(self, work: Callable[[sqlite3.Connection], T], *, durable: bool = True) -> T:
        """Do `work` without blocking the loop. Cancelling the waiter does not undo the work."""
        return await asyncio.shield(asyncio.wrap_future(self.submit(work, durable=durable)))

    def close(self) -> None:
        """Finish what waits, then close the connection. What is asked for after that is refused."""
        with self._closing:
            self._closed = True
        self._waiting.put(None)
        self._thread.join()
        self._connection.close()

    def _serve(self) -> None:
        while True:
            first = self._waiting.get()
            if first is None:
                return
            batch, last = self._more(first)
            if self.broken is not None:
                self._fail(batch, self._stopped(self.broken))
            else:
                self._guarded(batch)
            if last:
                return

    def _guarded(self, batch: list[_Wish]) -> None:
        """Whatever happens, nobody waits for ever: an error in the writer itself stops the store."""
        try:
            self._transact(batch)
        except BaseException as error:  # noqa: BLE001 - the thread must not end: somebody waits for each answer
            self.broken = error
            self._fail([wish for wish in batch if not wish.future.done()], self._stopped(error))

    @staticmethod
    def _stopped(error: BaseException) -> OutcomeUnknown:
        if isinstance(error, StoreGone):
            return StoreGone(str(error))
        return OutcomeUnknown(f"the store stopped after an error: {error}; restart the daemon")

    def _more(self, first: _Wish) -> tuple[list[_Wish], bool]:
        batch = [first]
        while len(batch) < BATCH:
            try:
                wish = self._waiting.get_nowait()
            except queue.Empty:
                break
            if wish is None:
                return batch, True
            batch.append(wish)
        return batch, False

    def _transact(self, wishes: list[_Wish]) -> None:
        connection, before = self._connection, self._connection.total_changes
        batch = [
            wish for wish in wishes if wish.future.running() or wish.future.set_running_or_notify_cancel()
        ]
        self.guard()
        try:
            durable = any(wish.durable for wish in batch)
            connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.Error as error:
            self._fail(batch, self._told(error))
            return
        done: list[tuple[_Wish, Any, BaseException | None]] = []
        for wish in batch:
            value, fault = self._try(wish)
            done.append((wish, value, fault))
            if fault is not None and not connection.in_transaction:
                # SQLite itself has rolled the whole transaction back (a full disk, an I/O error): what the others
                # did is gone too, and what came after would stand outside any transaction. Each goes by itself.
                wish.future.set_exception(fault)
                for other in batch:
                    if other is not wish:
                        self._transact([other])
                return
        try:
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            self._after_failed_commit(batch, error)
            return
        if connection.total_changes != before and any(fault is None for _, _, fault in done):
            self.trouble = None
        for wish, value, fault in done:
            if fault is not None:
                wish.future.set_exception(fault)
            else:
                wish.future.set_result(value)

    def _try(self, wish: _Wish) -> tuple[Any, BaseException | None]:
        connection = self._connection
        try:
            connection.execute("SAVEPOINT wish")
            value = wish.work(connection)
            connection.execute("RELEASE wish")
        except BaseException as error:  # noqa: BLE001 - it is raised where the answer is waited for
            if connection.in_transaction:
                connection.execute("ROLLBACK TO wish")
                connection.execute("RELEASE wish")
            return None, self._told(error) if isinstance(error, sqlite3.Error) else error
        return value, None

    def _told(self, error: sqlite3.Error) -> BaseException:
        """The error in words; where the store cannot be written, that is kept until it can be."""
        plain = _plain(error)
        if isinstance(plain, StoreUnusable):
            self.trouble = str(plain)
        return plain

    def _after_failed_commit(self, batch: list[_Wish], error: sqlite3.Error) -> None:
        """A full disk and a busy file roll back cleanly; after an I/O error nobody knows what was written."""
        clean = error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY)
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")
        if clean:
            self._fail(batch, self._told(error))
            return
        self.broken = error
        self._fail(
            batch, OutcomeUnknown(f"the store met an I/O error at a commit: {error}; restart the daemon")
        )

    def _fail(self, batch: list[_Wish], fault: BaseException) -> None:
        for wish in batch:
            wish.future.set_exception(fault)


def _plain(error: sqlite3.Error) -> BaseException:
    """The error in words for users; one that no user can cause stays what it is."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # without the finer code, as of which I/O it was
    if code == sqlite3.SQLITE_FULL:
        return StoreUnusable(
            "the disk that holds the store is full; nothing was written: free some space and try again"
        )
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StoreUnusable(
            "another program holds a lock on the store; nothing was written: close it and try again"
        )
    lacking = code == sqlite3.SQLITE_ERROR and str(error).startswith(("no such table", "no such column"))
    if lacking or code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return StoreUnusable(
            f"the store is damaged ({error}); stop, keep a copy, and restore a backup: swarmd restore"
        )
    if code in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
        return StoreUnusable(f"the store cannot be written ({error}); nothing was: see swarmd doctor")
    return error
