"""What the search index lacks, or has too much of: the difference between the store and what was indexed of it.

Each read is one short statement over both databases, outside of any transaction, so that the store's log of writes is
not kept from being worked off. Nothing here depends on a clock but where handoffs are looked for (`OVERLAP`).
"""

from __future__ import annotations

import sqlite3
from datetime import timedelta

from swarmd.core.instants import from_text, to_text
from swarmd.store.search_units import Units

MOST = 1000
"""Rows of one look; who gets as many looks again."""
OVERLAP = timedelta(hours=1)
"""A handoff's `moved` is the moment at which its commit was asked for, which others may have overtaken."""

Row = sqlite3.Row


def get(connection: sqlite3.Connection, key: str) -> str | None:
    """A fact that the index keeps of itself."""
    row = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    return None if row is None else str(row[0])


def put(connection: sqlite3.Connection, key: str, value: str) -> None:
    """Keep a fact."""
    connection.execute("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", (key, value))


def is_of_another_store(connection: sqlite3.Connection) -> bool:
    """Whether the index was made of another store than the one beside it, or of a later state of it."""
    row = connection.execute("SELECT value FROM store.meta WHERE key = 'store_id'").fetchone()
    own, last = get(connection, "store"), get(connection, "sessions")
    if own is None:
        return False
    newest = connection.execute("SELECT coalesce(max(id), 0) FROM store.sessions").fetchone()[0]
    return row is None or own != row[0] or int(last or 0) > newest


def renamed(connection: sqlite3.Connection, after: int) -> list[tuple[str, str]]:
    """Who was renamed since that row of the audit: old name and new, oldest first."""
    rows = connection.execute(
        "SELECT json_extract(detail, '$.old') AS old, target FROM store.audit INDEXED BY audit_operators "
        "WHERE session IS NULL AND seq > ? AND act = 'rename' ORDER BY seq",
        (after,),
    )
    return [(row["old"], row["target"]) for row in rows if row["old"]]


MOVING = ("rename", "forget_subject", "session_quarantine", "session_unquarantine")
"""Acts by which what is indexed already changes its owner, or who may see it."""


def moved_since(store: sqlite3.Connection, acts: str | None) -> bool:
    """Whether something was moved that the index does not have where it is now. `acts`: up to which row of the audit
    it has all; `store` is the store itself.
    """
    if acts is None:
        return True
    row = store.execute(
        f"SELECT 1 FROM audit INDEXED BY audit_operators WHERE session IS NULL AND seq > ? AND act IN "
        f"({','.join('?' * len(MOVING))}) LIMIT 1",
        (int(acts), *MOVING),
    ).fetchone()
    return row is not None


def last_audit(connection: sqlite3.Connection) -> int:
    """The newest row of the audit."""
    return int(connection.execute("SELECT coalesce(max(seq), 0) FROM store.audit").fetchone()[0])


def take_over_names(units: Units, old: str, new: str) -> None:
    """What was indexed of an agent is that of its new name, with its folders about subjects."""
    connection = units.connection
    for (name,) in connection.execute("SELECT DISTINCT name FROM owners").fetchall():
        if name == old or name.startswith(f"{old}@"):
            after = new + name[len(old) :]
            for row in connection.execute("SELECT id FROM sources WHERE owner = ?", (after,)).fetchall():
                units.remove(row["id"])
            units.rename(name, after)


# -- memory and keys ------------------------------------------------------------------------------------------


def memory(connection: sqlite3.Connection) -> list[Row]:
    """Files whose newest revision is not the one that was indexed: owner and path."""
    return connection.execute(
        "SELECT h.agent AS owner, h.path AS name FROM store.heads h LEFT JOIN sources s ON s.kind = 'memory' "
        "AND s.owner = h.agent AND s.name = h.path WHERE h.hash IS NOT NULL "
        "AND s.version IS NOT CAST(h.rev AS TEXT) LIMIT ?",
        (MOST,),
    ).fetchall()


def keys(connection: sqlite3.Connection) -> list[Row]:
    """Keys whose value is not the one that was indexed."""
    return connection.execute(
        "SELECT k.agent AS owner, k.key AS name FROM store.keys k LEFT JOIN sources s ON s.kind = 'key' "
        "AND s.owner = k.agent AND s.name = k.key WHERE k.value IS NOT NULL "
        "AND s.version IS NOT CAST(k.version AS TEXT) LIMIT ?",
        (MOST,),
    ).fetchall()


def gone(connection: sqlite3.Connection) -> list[Row]:
    """Sources, by number, of files and keys that are no more."""
    return connection.execute(
        "SELECT s.id FROM sources s LEFT JOIN store.heads h ON h.agent = s.owner AND h.path = s.name "
        "WHERE s.kind = 'memory' AND h.hash IS NULL UNION ALL "
        "SELECT s.id FROM sources s LEFT JOIN store.keys k ON k.agent = s.owner AND k.key = s.name "
        "WHERE s.kind = 'key' AND k.value IS NULL LIMIT ?",
        (MOST,),
    ).fetchall()


# -- handoffs -------------------------------------------------------------------------------------------------

_SENDERS = """
WITH RECURSIVE senders (name) AS (
  SELECT min(sender) FROM store.handoffs UNION ALL
  SELECT (SELECT min(sender) FROM store.handoffs WHERE sender > senders.name) FROM senders WHERE senders.name NOT NULL
)"""


def handoffs(connection: sqlite3.Connection, since: str | None) -> list[Row]:
    """Handoffs that have moved on: number and moment. `since`: how far they are known to be indexed; None: of all."""
    start = "" if since is None else to_text(from_text(since) - OVERLAP)
    return connection.execute(
        f"{_SENDERS} SELECT h.id, h.moved FROM senders JOIN store.handoffs h INDEXED BY handoffs_sent "
        "ON h.sender = senders.name AND h.moved >= ? LEFT JOIN sources s ON s.kind = 'handoff' AND s.owner = '' "
        "AND s.name = CAST(h.id AS TEXT) WHERE s.version IS NOT h.moved ORDER BY h.moved LIMIT ?",
        (start, MOST),
    ).fetchall()


def gone_handoffs(connection: sqlite3.Connection) -> list[Row]:
    """Sources, by number, of handoffs that are no more."""
    return connection.execute(
        "SELECT s.id FROM sources s WHERE s.kind = 'handoff' AND NOT EXISTS "
        "(SELECT 1 FROM store.handoffs h WHERE h.id = CAST(s.name AS INTEGER)) LIMIT ?",
        (MOST,),
    ).fetchall()


# -- sessions -------------------------------------------------------------------------------------------------


def new_sessions(connection: sqlite3.Connection, after: int) -> list[Row]:
    """Sessions that were not there at the last look, oldest first: number and state."""
    return connection.execute(
        "SELECT id, state FROM store.sessions WHERE id > ? ORDER BY id LIMIT ?", (after, MOST)
    ).fetchall()


def ended_sessions(connection: sqlite3.Connection) -> list[Row]:
    """Those that were waited for and have ended."""
    return _sessions(connection, "s.version = '' AND x.state = 'ended'")


def to_hide(connection: sqlite3.Connection) -> list[Row]:
    """Sessions that were put into quarantine since they were indexed."""
    return connection.execute(
        "SELECT x.id FROM store.sessions x INDEXED BY sessions_quarantined JOIN sources s ON s.kind = 'session' "
        "AND s.owner = '' AND s.name = CAST(x.id AS TEXT) WHERE x.quarantined IS NOT NULL AND s.version = 'done' "
        "LIMIT ?",
        (MOST,),
    ).fetchall()


def to_show(connection: sqlite3.Connection) -> list[Row]:
    """Sessions that were let out of quarantine."""
    return _sessions(connection, "s.version = 'hidden' AND x.quarantined IS NULL")


def _sessions(connection: sqlite3.Connection, condition: str) -> list[Row]:
    return connection.execute(
        "SELECT x.id FROM sources s INDEXED BY sources_unsettled JOIN store.sessions x "
        f"ON x.id = CAST(s.name AS INTEGER) WHERE s.kind = 'session' AND s.version != 'done' AND {condition} LIMIT ?",
        (MOST,),
    ).fetchall()


def indexed_sessions(connection: sqlite3.Connection, after: int) -> list[Row]:
    """Sources of sessions that have rows, by number from one on, each with the session, and whether it has a row in the
    store.
    """
    return connection.execute(
        "SELECT s.id, s.name, EXISTS (SELECT 1 FROM store.sessions x WHERE x.id = CAST(s.name AS INTEGER)) AS known "
        "FROM sources s WHERE s.id > ? AND s.kind = 'session' AND s.version != '' ORDER BY s.id LIMIT ?",
        (after, MOST),
    ).fetchall()
