"""Bringing a store of an older version to this program's."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

from swarmd.store import meta
from swarmd.store.copies import keep_copy
from swarmd.store.schema import MIGRATIONS, VERSION


def migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Bring the store to VERSION, each step in its own transaction, after a copy was kept (`before-VERSION.db`)."""
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if version != VERSION:
        if version:
            _keep_before(connection, version, path.with_name(f"before-{VERSION}.db"))
        _migrate(connection)
    from swarmd.store import sums  # what only reads need not load it

    sums.keep(connection)
    # Asked for each time: the start that made the tables may have been killed before this.
    if meta.get(connection, "store_id") is None:
        connection.execute("BEGIN IMMEDIATE")
        meta.put(connection, "store_id", os.urandom(16).hex())
        meta.put(connection, "fence", os.urandom(16).hex())
        connection.execute("COMMIT")


def _migrate(connection: sqlite3.Connection) -> None:
    # Imported here: it costs more than a whole reading command, and is needed once a release.
    from sqlite_utils import Database
    from sqlite_utils.migrations import Migrations

    migrations = Migrations("swarmd")
    for number, (name, sql) in enumerate(MIGRATIONS, 1):
        migrations(name=name)(_step(number, sql))
    migrations.apply(Database(connection, execute_plugins=False))


def _step(number: int, sql: str) -> Callable[..., None]:
    def step(db: object) -> None:
        connection: sqlite3.Connection = db.conn  # type: ignore[attr-defined]
        for statement in statements(sql):
            connection.execute(statement)
        from swarmd.store import sums

        sums.take(connection)
        connection.execute(f"PRAGMA user_version = {number}")

    return step


def statements(sql: str) -> list[str]:
    """The statements of a script one by one (executescript would commit the migration's transaction)."""
    found, part = [], ""
    for line in sql.splitlines():
        part += line + "\n"
        if sqlite3.complete_statement(part):
            found.append(part.strip())
            part = ""
    return [statement for statement in found if statement]


def unknown_migrations(connection: sqlite3.Connection) -> tuple[list[str], int]:
    """The migrations that were applied to the store and that this program does not know, and how many were in all."""
    known = {name for name, _ in MIGRATIONS}
    try:
        rows = connection.execute("SELECT name FROM _sqlite_migrations WHERE migration_set = 'swarmd'")
        names = [row[0] for row in rows]
    except sqlite3.OperationalError:
        return [], 0  # there are none yet
    return [name for name in names if name not in known], len(names)


def _keep_before(connection: sqlite3.Connection, version: int, target: Path) -> None:
    """Keep the store as it is before its migration. A copy of an older version is there after a migration that was
    killed half way, and stays; one of this version is of an earlier upgrade that was gone back on.
    """
    if target.exists():
        with contextlib.closing(sqlite3.connect(target)) as kept:
            if kept.execute("PRAGMA user_version").fetchone()[0] < version:
                return
    keep_copy(connection, target)
