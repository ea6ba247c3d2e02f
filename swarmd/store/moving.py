"""An agent's rows under another name, or gone: for `agent rename` and `agent forget`."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from typing import Any

from swarmd.core.owners import is_about, renamed
from swarmd.store import approvals, texts
from swarmd.store.holding import resumed_key
from swarmd.store.owners import of_agent
from swarmd.store.trees import tree_changed

_FOLDERS = ("revisions", "heads", "conflicts", "losses")
"""Tables whose `agent` is the owner of a folder (core.owners): also the agent's folders about subjects."""
_OWNED = (
    ("keys", "agent"), ("key_history", "agent"),
    ("slots", "agent"), ("sessions", "agent"), ("reports", "agent"), ("reports", "parent"), ("agent_history", "agent"),
    ("handoffs", "sender"), ("handoffs", "receiver"), ("pauses", "agent"), ("counted", "agent"), ("adaptive", "agent"),
    ("consolidated", "agent"),
)  # fmt: skip
_NAMES_IN_CHANGES = ("agent", "to", "sender")


def has_state(connection: sqlite3.Connection, agent: str) -> bool:
    """Whether the agent has keys, memory, sessions or handoffs of its own."""
    wheres = ("keys WHERE agent = ?1", f"heads WHERE {of_agent()}", "sessions WHERE agent = ?1",
              "handoffs WHERE receiver = ?1")  # fmt: skip
    return any(connection.execute(f"SELECT 1 FROM {where} LIMIT 1", (agent,)).fetchone() for where in wheres)


def rename(connection: sqlite3.Connection, old: str, new: str) -> None:
    """Everything that was `old`'s is `new`'s. The caller has seen that `new` has none, and publishes its memory."""
    for table in ("slots", "agent_history", "pauses", "counted", "adaptive", "consolidated"):
        connection.execute(f"DELETE FROM {table} WHERE agent = ?", (new,))
    for table, column in _OWNED:
        connection.execute(f"UPDATE {table} SET {column} = ? WHERE {column} = ?", (new, old))
    for table in _FOLDERS:
        connection.execute(
            f"UPDATE {table} SET agent = ?2 || substr(agent, length(?1) + 1) WHERE {of_agent()}", (old, new)
        )
    for table in ("published", "pending"):
        for name in (old, new):
            connection.execute(f"DELETE FROM {table} WHERE {of_agent()}", (name,))
    connection.execute(
        f"INSERT INTO pending (agent, path, rev, phase) SELECT agent, path, rev, 'todo' FROM heads WHERE {of_agent()}",
        (new,),
    )
    # What was raised has the name in its id; it is raised again under the new one where it still holds.
    connection.execute(f"DELETE FROM raised WHERE {of_agent()}", (old,))
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
        changed = [
            {k: _renamed(v, old, new) if k in _NAMES_IN_CHANGES else v for k, v in change.items()}
            for change in changes
        ]
        if changed != changes:
            text = json.dumps(changed, ensure_ascii=False)
            connection.execute("UPDATE drafts SET changes = ? WHERE session = ?", (text, row["session"]))


def _renamed(name: Any, old: str, new: str) -> Any:
    return renamed(name, old, new) if isinstance(name, str) and is_about(name, old) else name


def forget(connection: sqlite3.Connection, agent: str) -> list[str]:
    """Remove keys, memory and pauses of an agent that is out of force. Sessions, handoffs and the audit stay: they
    are the history of others too. Returns the digests of its texts, for `forget_texts` when its folder is gone.
    """
    hashes = [
        row[0]
        for row in connection.execute(
            f"SELECT DISTINCT hash FROM revisions WHERE {of_agent()} AND hash IS NOT NULL", (agent,)
        )
    ]
    for table in ("keys", "key_history", "pauses", "counted", "approvals", "consolidated", "adaptive"):
        connection.execute(f"DELETE FROM {table} WHERE agent = ?", (agent,))
    for table in (*_FOLDERS, "published", "pending", "raised"):
        connection.execute(f"DELETE FROM {table} WHERE {of_agent()}", (agent,))
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
