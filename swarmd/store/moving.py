"""An agent's rows under another name, or gone: for `agent rename` and `agent forget`."""

from __future__ import annotations

import sqlite3

_OWNED = (
    ("keys", "agent"), ("key_history", "agent"), ("revisions", "agent"), ("heads", "agent"), ("conflicts", "agent"),
    ("slots", "agent"), ("sessions", "agent"), ("reports", "agent"), ("reports", "parent"), ("agent_history", "agent"),
    ("handoffs", "sender"), ("handoffs", "receiver"), ("pauses", "agent"), ("raised", "agent"),
)  # fmt: skip


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
    for table in ("slots", "agent_history", "pauses"):
        connection.execute(f"DELETE FROM {table} WHERE agent = ?", (new,))
    for table, column in _OWNED:
        connection.execute(f"UPDATE {table} SET {column} = ? WHERE {column} = ?", (new, old))
    for table in ("published", "pending"):
        connection.execute(f"DELETE FROM {table} WHERE agent IN (?, ?)", (old, new))
    connection.execute(
        "INSERT INTO pending (agent, path, rev, phase) SELECT agent, path, rev, 'todo' FROM heads WHERE agent = ?",
        (new,),
    )
    connection.execute("DELETE FROM agents WHERE name = ?", (old,))


def forget(connection: sqlite3.Connection, agent: str) -> None:
    """Remove keys, memory and pauses of an agent that is out of force. Sessions, handoffs and the audit stay: they
    are the history of others too."""
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
    ):
        connection.execute(f"DELETE FROM {table} WHERE agent = ?", (agent,))
    connection.execute("UPDATE sessions SET draft = 'discarded' WHERE agent = ? AND draft = 'open'", (agent,))
    connection.execute("DELETE FROM agents WHERE name = ?", (agent,))
