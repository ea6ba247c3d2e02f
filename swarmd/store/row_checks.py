"""Whether the rows fit together: the tables as they should be, and each thing's row as its own history has it."""

from __future__ import annotations

import contextlib
import hashlib
import sqlite3
from collections.abc import Callable, Iterator

from swarmd.core.agent import from_json
from swarmd.core.handoffs import RESULT, Move
from swarmd.store.approvals import approval_of
from swarmd.store.migrating import statements, unknown_migrations
from swarmd.store.schema import MIGRATIONS, VERSION

LIMIT = 20
"""Of one kind of fault as many are named; more say no more."""

_SCHEMA = (
    "SELECT type, name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\' "
    "AND tbl_name != '_sqlite_migrations'"
)
_KEYS = """
SELECT agent || '/' || key FROM (
  SELECT k.agent, k.key FROM keys k LEFT JOIN key_history h
    ON h.agent = k.agent AND h.key = k.key AND h.version = k.version
    WHERE h.version IS NULL OR h.value IS NOT k.value OR h.by IS NOT k.by OR h.at IS NOT k.updated
  UNION
  SELECT h.agent, h.key FROM key_history h LEFT JOIN keys k ON k.agent = h.agent AND k.key = h.key
    GROUP BY h.agent, h.key HAVING k.version IS NOT max(h.version) OR count(*) != max(h.version))
ORDER BY 1 LIMIT ?"""
_HEADS = """
SELECT agent || ':' || path FROM (
  SELECT r.agent, r.path, r.hash, max(r.rev) AS newest, h.rev AS head, h.hash AS head_hash
    FROM revisions r LEFT JOIN heads h ON h.agent = r.agent AND h.path = r.path GROUP BY r.agent, r.path)
  WHERE newest IS NOT head OR hash IS NOT head_hash
UNION
SELECT h.agent || ':' || h.path FROM heads h WHERE NOT EXISTS
  (SELECT 1 FROM revisions r WHERE r.agent = h.agent AND r.path = h.path AND r.rev = h.rev)
ORDER BY 1 LIMIT ?"""
_SESSIONS = """
SELECT 'changes of session ' || session FROM changes WHERE session NOT IN (SELECT id FROM sessions)
UNION
SELECT 'a slot of ' || agent || ', session ' || session FROM slots
  WHERE session IS NOT NULL AND session NOT IN (SELECT id FROM sessions)
ORDER BY 1 LIMIT ?"""
_AGENTS = "SELECT name FROM agents WHERE hash NOT IN (SELECT hash FROM definitions) ORDER BY name LIMIT ?"


def faults(connection: sqlite3.Connection, pause: Callable[[], None] = lambda: None) -> list[str]:
    """What does not fit, a sentence each. Where tables are not as they should be, their rows are not looked at.
    `pause` is called often.
    """
    found = list(_schema(connection))
    if found:
        return found
    named = (
        (_KEYS, "the key {} is not what its history says"),
        (_HEADS, "the newest revision of {} is not the one in force"),
        (_SESSIONS, "{} is of a session that there is not"),
        (_AGENTS, "the definition in force of {} is missing"),
    )
    for sql, sentence in named:
        found += [sentence.format(row[0]) for row in connection.execute(sql, (LIMIT,))]
        pause()
    return [
        *found,
        *_definitions(connection, pause),
        *_handoffs(connection, pause),
        *_approvals(connection, pause),
    ]


def _schema(connection: sqlite3.Connection) -> Iterator[str]:
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    unknown, _ = unknown_migrations(connection)
    if version != VERSION or unknown:
        more = f", and has migrations that it does not know: {', '.join(unknown)}" if unknown else ""
        yield f"the store has version {version}, this program writes {VERSION}{more}"
        return
    wanted, here = _expected(), {(row[0], row[1]): row[2] for row in connection.execute(_SCHEMA)}
    for type_, name in sorted(wanted.keys() | here.keys()):
        if (type_, name) not in here:
            yield f"the {type_} {name} is missing from the database"
        elif (type_, name) not in wanted:
            yield f"the {type_} {name} in the database is none of swarmd's"
        elif wanted[type_, name] != here[type_, name]:
            yield f"the {type_} {name} in the database is not as swarmd made it"


def _expected() -> dict[tuple[str, str], str]:
    with contextlib.closing(sqlite3.connect(":memory:")) as fresh:
        for _, sql in MIGRATIONS:
            for statement in statements(sql):
                fresh.execute(statement)
        return {(row[0], row[1]): row[2] for row in fresh.execute(_SCHEMA)}


def _definitions(connection: sqlite3.Connection, pause: Callable[[], None]) -> Iterator[str]:
    for row in connection.execute("SELECT hash, json FROM definitions ORDER BY hash"):
        try:
            # Of the text, not of what this version reads in it: a later version may know more fields.
            right = hashlib.sha256(row["json"].encode()).hexdigest() == row["hash"]
            from_json(row["json"])
        except (ValueError, TypeError, KeyError, AttributeError):
            right = False
        if not right:
            yield f"the definition {row['hash'][:12]} is not what its digest says"
        pause()


def _handoffs(connection: sqlite3.Connection, pause: Callable[[], None]) -> Iterator[str]:
    """A handoff's status is that of the last move in its thread; one that never moved is open."""
    moves = ", ".join(f"'{move.value}'" for move in Move)
    rows = connection.execute(
        f"SELECT h.id, h.status, (SELECT e.kind FROM handoff_entries e WHERE e.handoff = h.id AND e.kind IN ({moves}) "
        "ORDER BY e.seq DESC LIMIT 1) AS last FROM handoffs h ORDER BY h.id"
    )
    for row in rows:
        wanted = RESULT[Move(row["last"])].value if row["last"] is not None else "open"
        if row["status"] != wanted:
            yield f"handoff {row['id']} is {row['status']}; its thread says {wanted}"
        pause()


def _approvals(connection: sqlite3.Connection, pause: Callable[[], None]) -> Iterator[str]:
    """What still waits for an operator's yes is what was held."""
    for row in connection.execute("SELECT * FROM approvals WHERE state = 'open' ORDER BY id"):
        try:
            right = approval_of(row).bound == row["hash"]
        except (ValueError, TypeError):  # a time that is none
            right = False
        if not right:
            yield f"approval {row['id']} is not what was held"
        pause()
