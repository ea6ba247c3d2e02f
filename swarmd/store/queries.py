"""Reads for people: lists with a time window and a length, newest first. Rows come back as plain dicts."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

from swarmd.store.rows import UNSETTLED, UNTAINTED
from swarmd.store.windows import Row, Window, select, windowed


def open_work(connection: sqlite3.Connection) -> dict[str, int]:
    """How many handoffs each agent has open (those that wait for an answer are not its work)."""
    rows = connection.execute(
        f"SELECT receiver, count(*) AS n FROM handoffs INDEXED BY handoffs_work WHERE {UNSETTLED} "
        "AND status != 'waiting' GROUP BY receiver"
    )
    return {row["receiver"]: row["n"] for row in rows}


def slots(
    connection: sqlite3.Connection,
    window: Window,
    *,
    agents: Sequence[str] | None = None,
    unstarted: bool = False,
) -> list[Row]:
    """Slots (None: of all agents) by the time they were decided, newest first; `unstarted`: those with no session."""
    where, values = windowed("at", window)
    if agents is not None:
        where.append(f"agent IN ({','.join('?' * len(agents))})")
        values.extend(agents)
    if unstarted:
        where.append("decision != 'started'")
    one = agents is not None and len(agents) == 1
    order = "slot DESC" if one else "at DESC, agent, slot DESC"
    return select(connection, "SELECT * FROM slots", where, values, order, window.n)


def slots_around(connection: sqlite3.Connection, agent: str, at: str) -> list[Row]:
    """The slot of the agent that covers a moment, else the nearest before and after it (rows never overlap)."""
    before = select(
        connection, "SELECT * FROM slots", ["agent = ?", "slot <= ?"], (agent, at), "slot DESC", 1
    )
    if before and before[0]["last"] >= at:
        return before
    return (
        select(connection, "SELECT * FROM slots", ["agent = ?", "slot > ?"], (agent, at), "slot", 1) + before
    )


def handoffs(
    connection: sqlite3.Connection,
    window: Window,
    *,
    receiver: str | None = None,
    sender: str | None = None,
    status: str | None = None,
) -> list[int]:
    """Ids of handoffs that match, newest first."""
    where, values = windowed("created", window)
    for column, value in (("receiver", receiver), ("sender", sender), ("status", status)):
        if value is not None:
            where.append(f"{column} = ?")
            values.append(value)
    return [
        row["id"]
        for row in select(
            connection, "SELECT id FROM handoffs", where, values, "created DESC, id DESC", window.n
        )
    ]


def reports(
    connection: sqlite3.Connection,
    window: Window,
    *,
    agents: Sequence[str] | None = None,
    to_operator: bool = False,
    untainted: bool = False,
) -> list[Row]:
    """Reports (None: of all agents), newest first; `to_operator`: those that went to no agent; `untainted`: none of
    sessions in quarantine.
    """
    where, values = windowed("at", window)
    where += [UNTAINTED] if untainted else []
    if agents is not None:
        where.append(f"agent IN ({','.join('?' * len(agents))})")
        values.extend(agents)
    if to_operator:
        where.append("parent IS NULL")
    return select(connection, "SELECT * FROM reports", where, values, "id DESC", window.n)


def key_history(connection: sqlite3.Connection, agent: str, key: str, n: int = 1000) -> list[Row]:
    """Every value that a key had, newest first."""
    return select(
        connection, "SELECT * FROM key_history", ["agent = ?", "key = ?"], (agent, key), "version DESC", n
    )


def key_value(connection: sqlite3.Connection, agent: str, key: str, version: int) -> str | None:
    """The value of one version of a key; None: unset, or never."""
    row = connection.execute("SELECT value FROM key_history WHERE agent = ? AND key = ? AND version = ?",
                             (agent, key, version)).fetchone()  # fmt: skip
    return None if row is None else row["value"]


def revisions(connection: sqlite3.Connection, agent: str, path: str | None, window: Window) -> list[Row]:
    """The revisions of an agent's memory files, newest first."""
    where, values = windowed("at", window)
    where.append("agent = ?")
    values.append(agent)
    if path is not None:
        where.append("path = ?")
        values.append(path)
    return select(connection, "SELECT * FROM revisions", where, values, "at DESC, rev DESC, path", window.n)


def all_revisions(connection: sqlite3.Connection, agent: str, path: str) -> list[Row]:
    """Every revision of one file, oldest first."""
    return select(connection, "SELECT * FROM revisions", ["agent = ?", "path = ?"], (agent, path), "rev", -1)


def revision(connection: sqlite3.Connection, agent: str, path: str, rev: int) -> Row | None:
    """One revision of a memory file, without its text."""
    row = connection.execute("SELECT * FROM revisions WHERE agent = ? AND path = ? AND rev = ?",
                             (agent, path, rev)).fetchone()  # fmt: skip
    return None if row is None else dict(row)


def conflicts(
    connection: sqlite3.Connection,
    agent: str | None = None,
    *,
    of: tuple[str, str | None] | None = None,
    untainted: bool = False,
) -> list[Row]:
    """Open conflicts, oldest first; `of`: only of lines that sessions of this agent about this subject wrote;
    `untainted`: none of sessions in quarantine.
    """
    where, values = ["resolved IS NULL", *([UNTAINTED] if untainted else [])], list[Any]()
    if agent is not None:
        where.append("agent = ?")
        values.append(agent)
    if of is not None:
        where.append(
            "EXISTS (SELECT 1 FROM sessions s WHERE s.id = session AND s.agent = ? AND s.subject IS ?)"
        )
        values.extend(of)
    return select(connection, "SELECT * FROM conflicts INDEXED BY conflicts_open", where, values, "id", 1000)


def agent_history(connection: sqlite3.Connection, agent: str, n: int = 1000) -> list[Row]:
    """When the agent's definition changed, newest first."""
    return select(connection, "SELECT * FROM agent_history", ["agent = ?"], (agent,), "id DESC", n)


def pauses_and_renames(connection: sqlite3.Connection, n: int = 10_000) -> list[Row]:
    """What operators did to agents' pauses and names, newest first."""
    where = ["session IS NULL", "act IN ('pause', 'resume', 'rename')"]
    return select(connection, "SELECT * FROM audit", where, (), "seq DESC", n)


def agent_rows(connection: sqlite3.Connection) -> dict[str, Row]:
    """Every agent that ever was, by name."""
    return {row["name"]: dict(row) for row in connection.execute("SELECT * FROM agents ORDER BY name")}


def is_known(connection: sqlite3.Connection, name: str) -> bool:
    """Whether an agent of this name is in force, or ever was."""
    return connection.execute("SELECT 1 FROM agents WHERE name = ?", (name,)).fetchone() is not None


def is_in_force(connection: sqlite3.Connection, name: str) -> bool:
    """Whether an agent of this name is in force."""
    row = connection.execute("SELECT 1 FROM agents WHERE name = ? AND state = 'in_force'", (name,)).fetchone()
    return row is not None


def definition_text(connection: sqlite3.Connection, hash: str) -> str | None:
    """The text of a definition's file."""
    row = connection.execute("SELECT text FROM definitions WHERE hash = ?", (hash,)).fetchone()
    return None if row is None else row["text"]


def pauses(connection: sqlite3.Connection) -> dict[str, Row]:
    """The pauses in force, by the agent (or `all`) at which they were set."""
    return {row["agent"]: dict(row) for row in connection.execute("SELECT * FROM pauses ORDER BY agent")}


def problems(connection: sqlite3.Connection) -> list[Row]:
    """What is wrong with agent files and settings."""
    return select(connection, "SELECT * FROM problems", [], [], "file, line", 1000)


def raised(connection: sqlite3.Connection) -> list[Row]:
    """What was raised to a person's attention and not cured yet."""
    return select(connection, "SELECT * FROM raised", [], [], "since, id", 1000)


def open_approvals(connection: sqlite3.Connection, at: str, n: int) -> list[Row]:
    """What waits for an operator's yes at this moment, without what it holds."""
    sql = "SELECT id, agent, by, target, reason, created, expires FROM approvals"
    return select(connection, sql, ["state = 'open'", "expires > ?"], [at], "id", n)


def acks(connection: sqlite3.Connection) -> dict[str, str]:
    """Attention items that somebody has seen: id to the `since` that was seen."""
    return {row["id"]: row["since"] for row in connection.execute("SELECT id, since FROM acks")}


def overdue(connection: sqlite3.Connection, before: str) -> list[Row]:
    """Handoffs in work that were due before that moment."""
    return select(connection, "SELECT id, sender, receiver, due FROM handoffs INDEXED BY handoffs_work",
                   [UNSETTLED, "due < ?"], (before,), "due, id", 1000)  # fmt: skip


def undeliverable(connection: sqlite3.Connection) -> list[Row]:
    """Handoffs in work whose receiver is not in force."""
    return select(
        connection, "SELECT id, sender, receiver, created FROM handoffs INDEXED BY handoffs_work",
        [UNSETTLED,
         "receiver NOT IN (SELECT name FROM agents WHERE state = 'in_force')"], (), "id", 1000,
    )  # fmt: skip


def expired(connection: sqlite3.Connection, now: str) -> list[int]:
    """Handoffs in work that have expired by now."""
    rows = connection.execute(
        f"SELECT id FROM handoffs INDEXED BY handoffs_work WHERE {UNSETTLED} AND expires <= ? ORDER BY id",
        (now,),
    )
    return [row["id"] for row in rows]


_DECIDED = (
    "act IN ('approve', 'deny', 'approval_expire') AND EXISTS (SELECT 1 FROM approvals a WHERE a.agent = ? AND "
    "(a.id = json_extract(detail, '$.approval') OR a.id IN (SELECT value FROM json_each(detail, '$.approvals'))))"
)
"""An act that settled approvals of an agent: its target names what was to be written, which may be another's."""


def operator_acts(connection: sqlite3.Connection, window: Window, target: str | None = None) -> list[Row]:
    """What operators and the system did, newest first."""
    where, values = windowed("at", window)
    where.append("session IS NULL")
    if target is not None:
        # GLOB: in LIKE a name's `_` would stand for any character. A revert names several sessions.
        globs = (f"{target}/*", f"*, {target}/*", f"{target}:*", f"{target}@*")
        alike = " OR ".join("target GLOB ?" for _ in globs)
        where.append(f"(target = ? OR {alike} OR by GLOB ? OR {_DECIDED})")
        values.extend((target, *globs, f"operator:* as {target}", target))
    return select(connection, "SELECT * FROM audit", where, values, "seq DESC", window.n)


def agents_with_memory(connection: sqlite3.Connection) -> list[str]:
    """Whoever has a memory file."""
    return [
        row[0]
        for row in connection.execute(
            "SELECT DISTINCT agent FROM heads WHERE hash IS NOT NULL ORDER BY agent"
        )
    ]


def handled_until(connection: sqlite3.Connection, names: Sequence[str] | None = None) -> dict[str, str]:
    """Up to when the slots of these agents have their rows (None: of all that are in force)."""
    if names is None or len(names) > 5000:
        rows = connection.execute(
            "SELECT name, handled_until FROM agents WHERE state = 'in_force' AND handled_until IS NOT NULL"
        ).fetchall()
        found = {row["name"]: row["handled_until"] for row in rows}
        return found if names is None else {name: found[name] for name in names if name in found}
    found = {}
    for start in range(0, len(names), 500):
        some = names[start : start + 500]
        marks = ",".join("?" * len(some))
        found.update(
            (row["name"], row["handled_until"])
            for row in connection.execute(
                f"SELECT name, handled_until FROM agents WHERE handled_until IS NOT NULL AND name IN ({marks})",
                some,
            )
        )
    return found
