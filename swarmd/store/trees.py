"""The definitions in force, and the tree they make: kept with text and hash, so that the last good ones last."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from swarmd.core.agent import Agent, definition_hash, from_json, to_json
from swarmd.core.instants import maybe_instant, maybe_text, to_text
from swarmd.core.tree import Tree
from swarmd.errors import StoreUnusable
from swarmd.store import adaptive
from swarmd.store.meta import get, put


@dataclass(frozen=True, slots=True, kw_only=True)
class InForce:
    """An agent in force: its last good definition, and what its file is like now."""

    agent: Agent
    hash: str
    file: str
    absent_since: datetime | None
    problem: str | None
    handled_until: datetime | None


_CACHE: dict[tuple[str, str], Tree] = {}


def in_force(connection: sqlite3.Connection) -> dict[str, InForce]:
    """Every agent in force, by name."""
    rows = connection.execute(
        "SELECT a.name, a.hash, a.file, a.absent_since, a.problem, a.handled_until, d.json FROM agents a "
        "JOIN definitions d ON d.hash = a.hash WHERE a.state = 'in_force' ORDER BY a.name"
    )
    return {
        row["name"]: InForce(
            agent=_decoded(row["hash"], row["json"]), hash=row["hash"], file=row["file"], problem=row["problem"],
            absent_since=maybe_instant(row["absent_since"]), handled_until=maybe_instant(row["handled_until"]),
        )
        for row in rows
    }  # fmt: skip


def tree_of(connection: sqlite3.Connection) -> Tree:
    """The tree in force. Kept by store and version: reading a thousand definitions costs tens of milliseconds."""
    name = (get(connection, "store_id") or "", get(connection, "tree_version") or "0")
    tree = _CACHE.get(name)
    if tree is None:
        tree = Tree({agent: row.agent for agent, row in in_force(connection).items()})
        _CACHE.clear()
        _CACHE[name] = tree
    return tree


def definition(connection: sqlite3.Connection, hash: str) -> Agent | None:
    """A definition by its hash, also one that is not in force any more."""
    row = connection.execute("SELECT json FROM definitions WHERE hash = ?", (hash,)).fetchone()
    return None if row is None else _decoded(hash, row["json"])


def _decoded(hash: str, text: str) -> Agent:
    """A definition out of its row. Raises StoreUnusable where that is not as it was written."""
    try:
        return from_json(text)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise StoreUnusable(
            f"the store is damaged: the definition {hash[:12]} cannot be read ({error}): keep a copy of the state, "
            f"then restore a backup into an empty one with swarmd --state DIR restore FILE"
        ) from error


def put_in_force(
    connection: sqlite3.Connection, agent: Agent, text: str, file: str, now: datetime, by: str
) -> None:
    """Make this definition the one in force. A changed schedule starts afresh: nothing of it counts as missed."""
    hash, at = definition_hash(agent), to_text(now)
    old = connection.execute("SELECT a.hash, a.state, d.json FROM agents a JOIN definitions d USING (hash) "
                             "WHERE name = ?", (agent.name,)).fetchone()  # fmt: skip
    # A session may have run with it before it came into force, and then its text is not known yet.
    connection.execute("INSERT INTO definitions (hash, json, text, seen) VALUES (?,?,?,?) "
                       "ON CONFLICT (hash) DO UPDATE SET text = excluded.text WHERE definitions.text = ''",
                       (hash, to_json(agent), text, at))  # fmt: skip
    same_schedule = (
        old is not None
        and old["state"] == "in_force"
        and _decoded(old["hash"], old["json"]).when.moments == agent.when.moments
    )
    connection.execute(
        "INSERT INTO agents (name, hash, file, state, absent_since, problem, handled_until, since) "
        "VALUES (?,?,?,'in_force',NULL,NULL,?,?) ON CONFLICT (name) DO UPDATE SET hash = excluded.hash, "
        "file = excluded.file, state = 'in_force', absent_since = NULL, problem = NULL, since = excluded.since, "
        "handled_until = CASE WHEN ? THEN handled_until ELSE excluded.handled_until END",
        (agent.name, hash, file, at, at, same_schedule),
    )
    if not same_schedule:
        adaptive.drop(connection, agent.name)
    if old is None or old["hash"] != hash or old["state"] != "in_force":
        what = "added" if old is None or old["state"] != "in_force" else "changed"
        _history(connection, agent.name, at, hash, what, by)
    tree_changed(connection)


def remove(connection: sqlite3.Connection, name: str, now: datetime, by: str) -> None:
    """Take an agent out of force; its keys, handoffs, memory and history stay."""
    connection.execute("UPDATE agents SET state = 'removed', absent_since = NULL WHERE name = ?", (name,))
    _history(connection, name, to_text(now), None, "removed", by)
    tree_changed(connection)


def tree_changed(connection: sqlite3.Connection) -> None:
    """A version is a random name, never counted: one that was rolled back must not come again with another tree."""
    put(connection, "tree_version", os.urandom(16).hex())


def mark(
    connection: sqlite3.Connection, name: str, problem: str | None, absent_since: datetime | None
) -> None:
    """Note what an agent's file is like now, while its last good definition stays in force."""
    connection.execute(
        "UPDATE agents SET problem = ?, absent_since = ? "
        "WHERE name = ? AND (problem IS NOT ? OR absent_since IS NOT ?)",
        (problem, maybe_text(absent_since), name, problem, maybe_text(absent_since)),
    )


def set_problems(
    connection: sqlite3.Connection, problems: Sequence[Mapping[str, object]], now: datetime
) -> None:
    """The problems of the agent files as they are now; one that stays keeps its first moment."""
    since = {row["text"]: row["since"] for row in connection.execute("SELECT text, since FROM problems")}
    connection.execute("DELETE FROM problems")
    connection.executemany(
        "INSERT INTO problems (file, line, field, severity, text, since) VALUES (?,?,?,?,?,?)",
        [(p["file"], p["line"], p["field"], p["severity"], p["text"], since.get(p["text"], to_text(now)))
         for p in problems],
    )  # fmt: skip


def handled(connection: sqlite3.Connection, agent: str, until: datetime) -> None:
    """All slots of the agent up to `until` have their rows."""
    connection.execute(
        "UPDATE agents SET handled_until = ? WHERE name = ? AND (handled_until IS NULL OR handled_until < ?)",
        (to_text(until), agent, to_text(until)),
    )


def _history(
    connection: sqlite3.Connection, agent: str, at: str, hash: str | None, what: str, by: str
) -> None:
    connection.execute("INSERT INTO agent_history (agent, at, hash, what, by) VALUES (?,?,?,?,?)",
                       (agent, at, hash, what, by))  # fmt: skip


def keep_definition(connection: sqlite3.Connection, agent: Agent, hash: str, now: datetime) -> None:
    """Keep a definition that a session runs with, also one that never was in force (`run --file`)."""
    connection.execute(
        "INSERT OR IGNORE INTO definitions (hash, json, text, seen) VALUES (?,?,'',?)",
        (hash, to_json(agent), to_text(now)),
    )
