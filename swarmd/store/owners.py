"""Whose folders there are, out of the rows: which owners are known, an agent's subjects, what is forgotten of one.

Like store.queries these are reads for people; sessions are judged by core.authority before they come here.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from swarmd.core.owners import agent_of_owner, subject_of, subject_owner
from swarmd.store.queries import is_known
from swarmd.store.windows import Row

FORGOTTEN = "-"
"""What a session's subject is called once that was forgotten: no subject can have this name."""


def of_agent(column: str = "agent") -> str:
    """A condition, with the agent's name as ?1: the owner is the agent, or one of its folders about a subject."""
    # `A` comes right after `@`, and no name holds one: a range that an index can be asked for.
    return f"({column} = ?1 OR ({column} > ?1 || '@' AND {column} < ?1 || 'A'))"


def folder_is_known(connection: sqlite3.Connection, owner: str) -> bool:
    """Whether the folder has had a file, or belongs to an agent that is or was; of subjects: one that a session was
    about. A shared folder without any file is known to the tree alone.
    """
    if has_files(connection, owner):
        return True
    agent, subject = agent_of_owner(owner), subject_of(owner)
    if agent is None:
        return False
    if subject is None:
        return is_known(connection, agent)
    found = connection.execute(
        "SELECT 1 FROM sessions INDEXED BY sessions_subject WHERE agent = ? AND subject = ? LIMIT 1",
        (agent, subject),
    ).fetchone()
    return found is not None


def has_files(connection: sqlite3.Connection, owner: str) -> bool:
    """Whether the folder has, or ever had, a file."""
    return connection.execute("SELECT 1 FROM heads WHERE agent = ? LIMIT 1", (owner,)).fetchone() is not None


def sizes(connection: sqlite3.Connection, owners: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Of each owner how many files there are, and how many bytes they have."""
    found = {}
    for owner in owners:
        row = connection.execute(
            "SELECT count(*), coalesce(sum(r.size), 0) FROM heads h JOIN revisions r ON r.agent = h.agent AND "
            "r.path = h.path AND r.rev = h.rev WHERE h.agent = ? AND h.hash IS NOT NULL",
            (owner,),
        ).fetchone()
        found[owner] = (int(row[0]), int(row[1]))
    return found


def subjects(connection: sqlite3.Connection, agent: str) -> dict[str, Row]:
    """The agent's subjects by name: how many sessions were about each, and the last."""
    rows = connection.execute(
        "SELECT subject, count(*) AS sessions, max(id) AS last_session FROM sessions INDEXED BY sessions_subject "
        "WHERE agent = ? AND subject > '' AND subject != ? GROUP BY subject",
        (agent, FORGOTTEN),
    )
    found = {
        row["subject"]: {"sessions": row["sessions"], "last_session": row["last_session"]} for row in rows
    }
    for owner in folders_of(connection, agent):
        if (subject := subject_of(owner)) is not None:
            found.setdefault(subject, {"sessions": 0, "last_session": None})
    return dict(sorted(found.items()))


def folders_of(connection: sqlite3.Connection, agent: str) -> list[str]:
    """The owners of the agent's folders that have, or had, a file: itself, and its subjects."""
    rows = connection.execute(f"SELECT DISTINCT agent FROM heads WHERE {of_agent()} ORDER BY agent", (agent,))
    return [row[0] for row in rows]


def sessions_about(connection: sqlite3.Connection, agent: str, subject: str) -> list[Row]:
    """All sessions about a subject, oldest first: id, state, checkpoints."""
    rows = connection.execute(
        "SELECT id, state FROM sessions INDEXED BY sessions_subject WHERE agent = ? AND subject = ? ORDER BY id",
        (agent, subject),
    )
    return [dict(row) for row in rows]


def forget_subject(connection: sqlite3.Connection, agent: str, subject: str) -> list[str]:
    """Remove all that is stored about a subject: files, revisions, conflicts, drafts; and from its sessions' rows what
    they said and were shown. Keys, handoffs and reports are the agent's and stay. Returns the digests of the texts,
    for `moving.forget_texts` when the folder is gone.
    """
    owner = subject_owner(agent, subject)
    hashes = [
        row[0]
        for row in connection.execute(
            "SELECT DISTINCT hash FROM revisions WHERE agent = ? AND hash IS NOT NULL", (owner,)
        )
    ]
    for table in ("heads", "revisions", "published", "pending", "conflicts", "losses", "raised"):
        connection.execute(f"DELETE FROM {table} WHERE agent = ?", (owner,))
    for row in sessions_about(connection, agent, subject):
        id = row["id"]
        for table in ("drafts", "approvals"):
            connection.execute(f"DELETE FROM {table} WHERE session = ?", (id,))
        connection.execute(
            "DELETE FROM changes WHERE session = ? AND substr(target, 1, ?) = ?",
            (id, len(owner) + 1, f"{owner}:"),
        )
        connection.execute("UPDATE changes SET reason = '' WHERE session = ? AND reason != ''", (id,))
        connection.execute(
            "UPDATE sessions SET subject = ?, reason = '', note = '', base = NULL, prompt = NULL, "
            "draft = CASE draft WHEN 'open' THEN 'discarded' ELSE draft END WHERE id = ?",
            (FORGOTTEN, id),
        )
    return hashes
