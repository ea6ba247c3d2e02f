"""Whole copies of a store: there under their name, or not there."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path

from swarmd.errors import Failed


def keep_copy(connection: sqlite3.Connection, target: Path) -> None:
    """A consistent copy of the store under `target`, whole or not there, private to its owner. Raises OSError, and
    Failed where SQLite cannot write it.
    """
    part = target.with_name(f".{target.name}.part")
    part.unlink(missing_ok=True)
    os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    try:
        with contextlib.closing(sqlite3.connect(part)) as copy:
            connection.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE")
        put_in_place(part, target)
    except sqlite3.Error as error:
        raise Failed(f"{target} could not be written: {error}") from error
    finally:
        part.unlink(missing_ok=True)


def put_in_place(part: Path, target: Path) -> None:
    """Give a finished file its name, for good."""
    _flush(part)
    part.rename(target)
    _flush(target.parent)


def _flush(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
