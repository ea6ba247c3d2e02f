"""Connections to the database, and what other layers call SQLite's own: they hand connections on, and speak no SQL."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path

from swarmd.store.database import StoreClosed

Connection = sqlite3.Connection
Row = sqlite3.Row
StoreError = sqlite3.Error

BUSY_SECONDS = 30.0


def open_reading(path: Path) -> sqlite3.Connection:
    """A connection that cannot write. Raises sqlite3.OperationalError where the file may not be read."""
    # Where nothing can be written, SQLite cannot make the files that it keeps beside a database, and need not: nobody
    # else can write there either, and what was there at the last close is in the database.
    still = "&immutable=1" if is_read_only(path) and not _has_log(path) else ""
    connection = sqlite3.connect(f"file:{quoted(path)}?mode=ro{still}", uri=True, timeout=BUSY_SECONDS,
                                 isolation_level=None, check_same_thread=False, factory=_Reading)  # fmt: skip
    connection.row_factory = sqlite3.Row
    connection.execute("PRAGMA query_only = 1")
    return connection


def is_read_only(path: Path) -> bool:
    """Whether the file system that holds this is mounted so that nobody can write."""
    try:
        return bool(os.statvfs(path).f_flag & os.ST_RDONLY)
    except OSError:
        return False


def _has_log(path: Path) -> bool:
    try:
        return os.stat(f"{path}-wal").st_size > 0
    except OSError:
        return False


class _Reading(sqlite3.Connection):
    """Closes when nobody has it any more, in whatever thread that is."""

    def __del__(self) -> None:
        with contextlib.suppress(sqlite3.ProgrammingError):  # it was never opened
            self.close()


class Readers:
    """A reading connection for each thread that asks for one."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._local = threading.local()
        self._all: weakref.WeakSet[sqlite3.Connection] = weakref.WeakSet()
        self._lock = threading.Lock()
        self._closed = False

    def __call__(self) -> sqlite3.Connection:
        """This thread's connection. Raises StoreClosed."""
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            with self._lock:
                if self._closed:
                    raise StoreClosed("the store is closed; nothing is read any more")
                connection = self._local.connection = open_reading(self._path)
                self._all.add(connection)
        return connection

    def close_own(self) -> None:
        """Close this thread's, which nobody reads from any more."""
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is not None:
            connection.close()

    def close(self) -> None:
        """Close this thread's connection and let the others go. A thread that is at one is interrupted, and the last
        reference closes it: SQLite's library crashes where a connection is closed under another thread.
        """
        self.close_own()
        with self._lock:
            self._closed = True
            others = list(self._all)
            self._local = threading.local()
        while others:
            with contextlib.suppress(sqlite3.ProgrammingError):  # it has closed by itself
                others.pop().interrupt()


@contextlib.contextmanager
def reading(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """One consistent view over several reads."""
    if connection.in_transaction:
        yield connection
        return
    connection.execute("BEGIN")
    try:
        yield connection
    finally:
        _end(connection)


def _end(connection: sqlite3.Connection) -> None:
    """End the read; where it met damage, SQLite may have done so by itself."""
    if connection.in_transaction:
        connection.execute("COMMIT")


def open_writing(path: Path) -> sqlite3.Connection:
    """The writing connection: WAL, full synchronous; created if missing (the caller has decided that it may be)."""
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    connection.row_factory = sqlite3.Row
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")
    # Readers come and go (every CLI command): the WAL is checkpointed by this connection alone.
    connection.execute("PRAGMA wal_autocheckpoint = 1000")
    return connection


def quoted(path: Path) -> str:
    """The path as a part of SQLite's file: addresses."""
    return str(path).replace("%", "%25").replace("?", "%3f").replace("#", "%23")
