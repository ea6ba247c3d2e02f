"""The file of the search index: derived from the store and the sessions' files, never needed, made anew at will.

It is a database of its own beside the store's, so that no commit pays for it, and no backup, migration or check
knows of it. Whoever holds the state's lock writes it; others only read.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from pathlib import Path

from swarmd.store.connections import open_reading, quoted

FILE = "search.db"
FORMAT = 1
"""Of the tables and of what stands in them; an index of any other is made anew."""
PART_ROWS = 50_000
"""Rows of one part: a search looks at the newest part first, and mostly at no other, so that a word which stands
everywhere costs no more than this many rows do."""
WRITERS_WAIT_SECONDS = 2.0

_SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE owners (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
CREATE INDEX owners_name ON owners (name);
CREATE TABLE sources (
  id INTEGER PRIMARY KEY, kind TEXT NOT NULL, owner TEXT NOT NULL, name TEXT NOT NULL, version TEXT NOT NULL,
  UNIQUE (kind, owner, name)
);
CREATE INDEX sources_unsettled ON sources (version) WHERE kind = 'session' AND version != 'done';
CREATE TABLE units (
  id INTEGER PRIMARY KEY, part INTEGER NOT NULL, source INTEGER NOT NULL, kind TEXT NOT NULL, owner INTEGER NOT NULL,
  other INTEGER, place INTEGER NOT NULL, at TEXT NOT NULL, by TEXT NOT NULL, scope TEXT NOT NULL, text TEXT NOT NULL
);
CREATE INDEX units_source ON units (source);
CREATE TABLE parts (part INTEGER PRIMARY KEY, rows INTEGER NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL);
"""
_PART = (
    "CREATE VIRTUAL TABLE part_{part} USING fts5(scope, text, content='units', content_rowid='id', columnsize=0, "
    "prefix='3', tokenize=\"unicode61 remove_diacritics 2\")"
)
_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_LACKING = ("no such table", "no such column", "vtable constructor failed")


def is_damage(error: sqlite3.Error) -> bool:
    """Whether an index that is made anew would cure it; a full disk and a held lock are none."""
    code = getattr(error, "sqlite_errorcode", None)  # none: a text that is no UTF-8
    return code is None or code & 0xFF in _DAMAGE or str(error).startswith(_LACKING)


def path_of(state: Path) -> Path:
    """Where the index of this state is."""
    return state / FILE


def obstacle(state: Path) -> str | None:
    """What stands where the index should be, and keeps it from being made; None where all is well."""
    path = path_of(state)
    try:
        mode = path.lstat().st_mode
    except OSError:
        return None  # whoever opens it is told
    if stat.S_ISREG(mode):
        return None
    what = "a directory" if stat.S_ISDIR(mode) else "no regular file"
    if stat.S_ISLNK(mode):
        what = (
            f"a symbolic link{'' if path.exists() else ' to nothing'}, and the index is never kept behind one"
        )
    return f"{path} is {what}: remove it; it is made again"


def open_to_read(state: Path) -> sqlite3.Connection | None:
    """The index, read only; None where there is none of this version, or one that is damaged at its very start."""
    path = path_of(state)
    if not path.exists():
        return None
    connection = open_reading(path)
    try:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
    except sqlite3.Error as error:
        connection.close()
        if is_damage(error):
            return None
        raise
    if version != FORMAT:
        connection.close()
        return None
    return connection


def open_to_write(state: Path, store: Path) -> sqlite3.Connection:
    """The index, with the store beside it as `store`, read only; made where there is none of this version. The caller
    holds the state's lock. Raises OSError and sqlite3.Error.
    """
    if problem := obstacle(state):
        raise OSError(problem)
    connection = _connected(state)
    try:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
    except sqlite3.Error as error:
        connection.close()
        if not is_damage(error):
            raise
        version = None
    if version != FORMAT:
        connection.close()
        remove(state)
        connection = _connected(state)
        _make(connection)
    # What a power cut takes is indexed again; what it leaves must be whole.
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("ATTACH ? AS store", (f"file:{quoted(store)}?mode=ro",))
    return connection


def _connected(state: Path) -> sqlite3.Connection:
    path = path_of(state)
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
    connection = sqlite3.connect(f"file:{quoted(path)}", uri=True, timeout=WRITERS_WAIT_SECONDS, isolation_level=None,
                                 check_same_thread=False)  # fmt: skip
    connection.row_factory = sqlite3.Row
    return connection


def _make(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("BEGIN IMMEDIATE")
    for statement in _SCHEMA.split(";\n"):
        if statement.strip():
            connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {FORMAT}")
    connection.execute("COMMIT")


def add_part(connection: sqlite3.Connection, part: int, first: int) -> None:
    """Begin a new part."""
    connection.execute(_PART.format(part=part))
    connection.execute(
        "INSERT INTO parts (part, rows, first, last) VALUES (?, 0, ?, ?)", (part, first, first)
    )


def drop_part(connection: sqlite3.Connection, part: int) -> None:
    """Remove a part that has no rows any more."""
    connection.execute(f"DROP TABLE part_{int(part)}")
    connection.execute("DELETE FROM parts WHERE part = ?", (part,))


def remove(state: Path) -> None:
    """Remove the index. Nobody may be writing it."""
    for suffix in ("", "-wal", "-shm"):
        Path(f"{path_of(state)}{suffix}").unlink(missing_ok=True)
