"""Opening a store: the lock that makes one writer, the checks that never overwrite a damaged one, migrations."""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from swarmd.errors import Failed, NotFound, StoreUnusable
from swarmd.store.connections import is_read_only, open_reading, open_writing
from swarmd.store.copies import put_in_place
from swarmd.store.migrating import migrate, unknown_migrations
from swarmd.store.schema import VERSION

DATABASE = "swarmd.db"
STATE_SIGNS = ("memory", "sessions", "operator.key")
"""What a state folder holds beside its database: a database missing there is damage, never a fresh start."""
PROBE_SECONDS = 0.2
"""How long a lock is tried for at least: others look whether it is held, each for an instant."""


class Lock:
    """The right to write this state: a flock on the state folder itself, so that no path and no deleted lock file
    lets a second writer in. Held until `release` or the end of the process.
    """

    def __init__(self, state: Path) -> None:
        self._state = state
        self._fd: int | None = None

    def acquire(self, *, wait_seconds: float = 0.0, give_up: Callable[[], bool] = lambda: False) -> bool:
        """Take the lock, trying for `wait_seconds` or until `give_up` says so; False when another has it."""
        fd = os.open(self._state, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        deadline = time.monotonic() + max(wait_seconds, PROBE_SECONDS)
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= deadline or give_up():
                    os.close(fd)
                    return False
                time.sleep(0.01)
            else:
                self._fd = fd
                return True

    def release(self) -> None:
        """Give the lock back."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def is_locked(state: Path) -> bool:
    """Whether some process has the right to write this state now."""
    try:
        fd = os.open(state, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        # Shared, so that two that look do not see each other.
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        return False
    finally:
        os.close(fd)


def owner_problem(state: Path) -> str | None:
    """Why this process must not write the state, or None: it is another user's, whose files would become ours."""
    try:
        owner = state.stat().st_uid
    except OSError:
        return None
    if owner == os.geteuid():
        return None
    from swarmd.store.disk import user_name  # with ctypes, which commands that read need not load

    name = user_name(owner)
    return (
        f"the state {state} is {name}'s, and what another user writes there {name} could not read: run it as its owner "
        f"(runuser -u {name} -- swarmd ...), or while the daemon runs, which then does it"
    )


def make_state(state: Path) -> None:
    """The state folder and what belongs in it, private to its owner; what is there already stays."""
    state.mkdir(mode=0o700, parents=True, exist_ok=True)
    if stat.S_IMODE(state.stat().st_mode) != 0o700 and state.stat().st_uid == os.geteuid():
        state.chmod(0o700)  # made by hand, with the mode that folders usually get
    for name in ("memory", "sessions", "homes"):
        (state / name).mkdir(mode=0o700, exist_ok=True)
    key = state / "operator.key"
    if not key.exists():
        part = state / ".operator.key.part"
        fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(fd, "w") as file:
            file.write(os.urandom(32).hex() + "\n")
            file.flush()
            os.fsync(file.fileno())
        part.rename(key)


def connect_writing(state: Path, *, thorough: bool = False) -> sqlite3.Connection:
    """The writing connection of a state whose lock the caller holds: checked, made when all is new, migrated.

    `thorough` runs SQLite's own check over the whole file. Raises StoreUnusable for a damaged, newer or missing
    database; nothing is changed then.
    """
    path = state / DATABASE
    missing = not path.exists()
    fresh = missing or check(path, thorough=thorough) == 0
    signs = (*STATE_SIGNS, f"{DATABASE}-wal") if missing else STATE_SIGNS
    if fresh and _has_signs(state, signs):
        raise _missing(path)
    old_mask = os.umask(0o077)
    connection: sqlite3.Connection | None = None
    try:
        connection = open_writing(path)
        migrate(connection, path)
        # After the database: a start that was killed half way leaves no sign of a state without one.
        make_state(state)
    except BaseException as error:
        if connection is not None:
            connection.close()
        if isinstance(error, sqlite3.Error | OSError):
            raise unusable(path, error) from error
        raise
    finally:
        os.umask(old_mask)
    return connection


def lost_database(state: Path) -> StoreUnusable | None:
    """The refusal where a state folder has no database although it once had one."""
    path = state / DATABASE
    if path.exists() or not _has_signs(state, (*STATE_SIGNS, f"{DATABASE}-wal")):
        return None
    return _missing(path)


def _has_signs(state: Path, signs: tuple[str, ...]) -> bool:
    return any((state / sign).exists() for sign in signs)


def _missing(path: Path) -> StoreUnusable:
    return StoreUnusable(
        f"{path} is missing beside other state; it is not made anew: put it back, or restore a backup into an "
        f"empty state folder with swarmd --state DIR restore FILE"
    )


def check(path: Path, *, thorough: bool) -> int:
    """The version of the store (0: nothing in it yet). Raises StoreUnusable when it is damaged or newer than this
    program.
    """
    try:
        connection = sqlite3.connect(path, timeout=30.0, isolation_level=None)
        try:
            version = int(connection.execute("PRAGMA user_version").fetchone()[0])
            # The migrations' own table comes first: a start may have been killed right after it.
            tables = connection.execute(
                "SELECT count(*) FROM sqlite_schema WHERE tbl_name != '_sqlite_migrations'"
            ).fetchone()[0]
            unknown, applied = unknown_migrations(connection)
            wrong = connection.execute("PRAGMA quick_check(1)").fetchone()[0] if thorough else "ok"
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise unusable(path, error) from error
    if wrong != "ok":
        raise damaged(path, wrong.splitlines()[0])
    if version > VERSION or unknown:
        raise _newer(path, max(version, applied))
    if version == 0 and tables:
        raise damaged(path, "it is not a store of swarmd, or was cut off")
    return version


def _newer(path: Path, version: int) -> StoreUnusable:
    copy = path.with_name(f"before-{version}.db")
    back = f", or go back to the copy {copy}" if copy.exists() else ""
    return StoreUnusable(
        f"{path} was written by a newer swarmd (store version {version}, this program knows {VERSION}); "
        f"use that program{back}"
    )


def unusable(path: Path, error: sqlite3.Error | OSError) -> StoreUnusable:
    """Why the store cannot be used: damage only where it is damage."""
    code = getattr(error, "sqlite_errorcode", None)
    if isinstance(error, OSError):
        return StoreUnusable(f"{error.filename or path}: {error.strerror or error}; see swarmd doctor")
    # A plain error: our own SQL met a table or a column that is not there.
    if code is None or code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR):
        return damaged(path, str(error))
    if code & 0xFF == sqlite3.SQLITE_FULL:
        return StoreUnusable(f"{path} cannot be opened: the disk is full; free some space and try again")
    if code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StoreUnusable(f"{path} is held by another program; close it and try again")
    if is_read_only(path.parent):
        return StoreUnusable(
            f"{path} cannot be written: its file system is mounted read-only; remount it, or use another"
        )
    return StoreUnusable(f"{path} cannot be opened: {error}; see swarmd doctor")


@contextlib.contextmanager
def telling_damage(state: Path) -> Iterator[None]:
    """What a read meets in a damaged database, or in a row that is not as it was written, as StoreUnusable."""
    path = state / DATABASE
    try:
        yield
    except (sqlite3.ProgrammingError, UnicodeEncodeError):
        raise  # not the store's fault
    except sqlite3.Error as error:
        raise unusable(path, error) from error
    except (ValueError, LookupError) as error:
        raise damaged(path, f"a row cannot be read: {error}") from error


def damaged(path: Path, why: str) -> StoreUnusable:
    """The sentence for a store that must not be touched."""
    return StoreUnusable(
        f"{path} is damaged: {why}; nothing was changed: keep a copy of the folder, then restore a backup into an "
        f"empty one with swarmd --state DIR restore FILE"
    )


def put_restored(file: Path, state: Path, prepare: Callable[[sqlite3.Connection], None]) -> None:
    """Make `file`, a backup, the database of `state`, which is empty. What `prepare` writes is in it before it has its
    name: a restore that is killed half way leaves nothing that could be started. Raises OSError and Failed.
    """
    import shutil  # here: reading commands load this module

    state.mkdir(mode=0o700, parents=True, exist_ok=True)
    target = state / DATABASE
    part = target.with_name(f".{DATABASE}.part")
    old_mask = os.umask(0o077)
    try:
        shutil.copyfile(file, part)
        with contextlib.closing(open_writing(part)) as connection:
            migrate(connection, target)
            connection.execute("BEGIN IMMEDIATE")
            prepare(connection)
            connection.execute("COMMIT")
            connection.execute("PRAGMA journal_mode = DELETE")
        put_in_place(part, target)
    except sqlite3.Error as error:
        raise Failed(f"{file} could not be restored: {error}") from error
    finally:
        os.umask(old_mask)
        for name in (part.name, f"{part.name}-wal", f"{part.name}-shm"):
            (state / name).unlink(missing_ok=True)


def connect_reading(state: Path) -> sqlite3.Connection:
    """A read-only connection. Raises NotFound where there is no store yet, PermissionError where the caller may
    not read it, StoreUnusable where it is damaged, newer, or older than this program reads.
    """
    path = state / DATABASE
    if not state.exists():
        raise NotFound(
            f"there is no state in {state} yet; swarmd init makes a first one, swarmd serve starts there"
        )
    if not os.access(state, os.R_OK | os.X_OK) or (path.exists() and not os.access(path, os.R_OK)):
        raise PermissionError(f"{path} may not be read by this user")
    if not path.exists():
        lost = lost_database(state)
        if lost is not None:
            raise lost
        raise NotFound(f"there is no store in {state} yet; swarmd reload or swarmd serve makes it")
    try:
        connection = open_reading(path)
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        unknown, _ = unknown_migrations(connection)
    except sqlite3.Error as error:
        raise unusable(path, error) from error
    if version != VERSION or unknown:
        connection.close()
        check(path, thorough=False)
        raise StoreUnusable(
            f"{path} is of an older version; start swarmd serve once, or any acting command, to migrate it"
        )
    return connection


def free_bytes(state: Path) -> int:
    """Bytes that the disk of the state has left."""
    status = os.statvfs(state)
    return status.f_bavail * status.f_frsize
