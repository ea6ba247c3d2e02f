"""The lines that a session has written into memory folders, out of the revisions that it made."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator

from swarmd.core.lineage import keys_of
from swarmd.core.owners import agent_of_owner, subject_owner
from swarmd.store import texts


def owner_of(agent: str, subject: str | None) -> str:
    """Whose folder a session of this agent has."""
    return agent if subject is None else subject_owner(agent, subject)


def revisions_by(connection: sqlite3.Connection, session: int) -> Iterator[tuple[str, str, int]]:
    """The memory revisions that the session has made: owner, path, number."""
    rows = connection.execute(
        "SELECT effect FROM changes WHERE session = ? AND verdict = 'done' AND effect IS NOT NULL ORDER BY seq",
        (session,),
    ).fetchall()
    for row in rows:
        for trace in json.loads(row["effect"]):
            if "memory" in trace:
                owner, path, rev = trace["memory"]
                yield owner, path, rev


def added(connection: sqlite3.Connection, session: int, owner: str, path: str, rev: int) -> frozenset[str]:
    """What the lines say that this revision of the session's brought, and that stood in no file that it was given."""
    found = keys_at(connection, owner, path, rev)
    found -= keys_at(connection, owner, path, parent_of(connection, owner, path, rev))
    for other, revision in shown_files(connection, session, owner).items():
        if not found:
            break
        found -= keys_at(connection, owner, other, revision)
    return found


def written(connection: sqlite3.Connection, session: int) -> dict[str, frozenset[str]]:
    """What the lines say that the session has brought into memory, by owner."""
    found: dict[str, frozenset[str]] = {}
    for owner, path, rev in revisions_by(connection, session):
        found[owner] = found.get(owner, frozenset()) | added(connection, session, owner, path, rev)
    return found


def parent_of(connection: sqlite3.Connection, owner: str, path: str, rev: int) -> int:
    """The revision that this one was written over; 0: none."""
    row = connection.execute(
        "SELECT parent FROM revisions WHERE agent = ? AND path = ? AND rev = ?", (owner, path, rev)
    ).fetchone()
    return 0 if row is None else int(row["parent"])


def keys_at(connection: sqlite3.Connection, owner: str, path: str, rev: int) -> frozenset[str]:
    """What the lines of a revision say."""
    return keys_of(texts.of_revision(connection, owner, path, rev))


def shown_files(connection: sqlite3.Connection, session: int, owner: str) -> dict[str, int]:
    """The files of this folder that the session was given at its start: path to revision."""
    row = connection.execute("SELECT agent, subject, base FROM sessions WHERE id = ?", (session,)).fetchone()
    if row is None or not row["base"]:
        return {}
    return memory_shown(row["agent"], row["subject"], json.loads(row["base"])).get(owner, {})


def memory_shown(agent: str, subject: str | None, base: dict[str, object]) -> dict[str, dict[str, int]]:
    """What of memory a session's base names: owner to path to revision."""
    own, others = base.get("memory"), base.get("others")
    found = {owner_of(agent, subject): own} if isinstance(own, dict) else {}
    return {**others, **found} if isinstance(others, dict) else found


def quarantined(connection: sqlite3.Connection, owner: str) -> list[int]:
    """The sessions in quarantine that may have written into this folder."""
    agent = agent_of_owner(owner)
    rows = connection.execute(
        "SELECT id FROM sessions INDEXED BY sessions_quarantined WHERE quarantined IS NOT NULL "
        "AND (?1 IS NULL OR agent = ?1) ORDER BY id",
        (agent,),
    )
    return [int(row["id"]) for row in rows]
