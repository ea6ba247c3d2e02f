"""An agent's rows under another name, or gone: for `agent rename` and `agent forget`."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from typing import Any

from swarmd.store import approvals, texts
from swarmd.store.holding import resumed_key
from swarmd.store.trees import tree_changed

_OWNED = (
    ("keys", "agent"), ("key_history", "agent"), ("revisions", "agent"), ("heads", "agent"), ("conflicts", "agent"),
    ("slots", "agent"), ("sessions", "agent"), ("reports", "agent"), ("reports", "parent"), ("agent_history", "agent"),
    ("handoffs", "sender"), ("handoffs", "receiver"), ("pauses", "agent"), ("counted", "agent"), ("adaptive", "agent"),
    ("losses", "agent"), ("consolidated", "agent"),
)  # fmt: skip
_NAMES_IN_CHANGES = ("agent", "to", "sender")


def has_state(connection: sqlite3.Connection, agent: str) -> bool:
    """Whether the agent has keys, memory, sessions or handoffs of its own."""
    return any(
        connection.execute(f"SELECT 1 FROM {table} WHERE {column} = ? LIMIT 1", (agent,)).fetchone()
        for table, column in (
            ("keys", "agent"),
            ("heads", "agent"),
            ("sessions", "agent"),
            ("handoffs", "receiver"),
        )
    )


def rename(connection: sqlite3.Connection, old: str, new: str) -> None:
    """Everything that was `old`'s is `new`'s. The caller has seen that `new` has none, and publishes its memory."""
    for table in ("slots", "agent_history", "pauses", "counted", "adaptive", "consolidated"):
        connection.execute(f"DELETE FROM {table} WHERE agent = ?", (new,))
    for table, column in _OWNED:
        connection.execute(f"UPDATE {table} SET {column} = ? WHERE {column} = ?", (new, old))
    for table in ("published", "pending"):
        connection.execute(f"DELETE FROM {table} WHERE agent IN (?, ?)", (old, new))
    connection.execute(
        "INSERT INTO pending (agent, path, rev, phase) SELECT agent, path, rev, 'todo' FROM heads WHERE agent = ?",
        (new,),
    )
    # What was raised has the name in its id; it is raised again under the new one where it still holds.
    connection.execute("DELETE FROM raised WHERE agent = ?", (old,))
    connection.execute("DELETE FROM meta WHERE key = ?", (resumed_key(new),))
    connection.execute("UPDATE meta SET key = ? WHERE key = ?", (resumed_key(new), resumed_key(old)))
    _rename_in_drafts(connection, old, new)
    approvals.rename(connection, old, new)
    connection.execute("DELETE FROM agents WHERE name = ?", (old,))
    tree_changed(connection)


def _rename_in_drafts(connection: sqlite3.Connection, old: str, new: str) -> None:
    """Drafts that may still be applied speak of the agent by its new name."""
    rows = connection.execute(
        "SELECT d.session, d.changes FROM drafts d JOIN sessions s ON s.id = d.session WHERE s.draft = 'open'"
    ).fetchall()
    for row in rows:
        changes: list[dict[str, Any]] = json.loads(row["changes"])
        renamed = [
            {k: new if k in _NAMES_IN_CHANGES and v == old else v for k, v in change.items()}
            for change in changes
        ]
        if renamed != changes:
            text = json.dumps(renamed, ensure_ascii=False)
            connection.execute("UPDATE drafts SET changes = ? WHERE session = ?", (text, row["session"]))


def forget(connection: sqlite3.Connection, agent: str) -> list[str]:
    """Remove keys, memory and pauses of an agent that is out of force. Sessions, handoffs and the audit stay: they
    are the history of others too. Returns the digests of its texts, for `forget_texts` when its folder is gone.
    """
    hashes = [
        row[0]
        for row in connection.execute(
            "SELECT DISTINCT hash FROM revisions WHERE agent = ? AND hash IS NOT NULL", (agent,)
        )
    ]
    for table in (
        "keys",
        "key_history",
        "heads",
        "revisions",
        "published",
        "pending",
        "conflicts",
        "pauses",
        "raised",
        "counted",
        "approvals",
        "consolidated",
        "adaptive",
        "losses",
    ):
        connection.execute(f"DELETE FROM {table} WHERE agent = ?", (agent,))
    connection.execute("DELETE FROM meta WHERE key = ?", (resumed_key(agent),))
    connection.execute("UPDATE sessions SET draft = 'discarded' WHERE agent = ? AND draft = 'open'", (agent,))
    connection.execute("DELETE FROM agents WHERE name = ?", (agent,))
    return hashes


def forget_texts(connection: sqlite3.Connection, hashes: Sequence[str]) -> None:
    """Remove these texts, but for those that somebody else has word for word."""
    shared = {
        row[0] for row in connection.execute("SELECT DISTINCT hash FROM revisions WHERE hash IS NOT NULL")
    }
    texts.forget(connection, set(hashes) - shared)
