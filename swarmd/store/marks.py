"""What is known of each published file: what it last held (`published`) and which swap is under way (`pending`).

A swap has a number of its own, which also names its leftover file. Whoever has used a leftover up changes the number or
the phase in the same transaction, so that at that very instant the file turns to rubbish. A commit that meets a swap
under way leaves its row alone: publishing goes on to the newest head when the swap is done.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from swarmd.core.instants import to_text
from swarmd.store import texts
from swarmd.store.rows import is_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """One file. `hash` None: the head is a deletion; `seen_hash` None: there was no file when last looked at."""

    path: str
    rev: int
    hash: str | None
    seen_rev: int
    seen_hash: str | None
    swap: int | None
    swap_rev: int | None
    swap_hash: str | None
    phase: Literal["todo", "done"] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A file to publish: the head's text (None: to be removed), and what is expected to come out."""

    path: str
    rev: int
    swap: int
    hash: str | None
    data: bytes | None
    seen_rev: int
    seen_hash: str | None


MEMORY = ("memory", "put it right in the memory folder; the item then closes by itself")
"""The kind and the next step of most of what is raised of memory folders."""
NEW_SWAP = "random() & 4611686018427387903"
"""A number that no other swap has, as SQL; also the default of the column."""

_MARKS = """
SELECT h.path, h.rev, h.hash, coalesce(p.rev, 0) AS seen_rev, p.hash AS seen_hash, n.swap, n.rev AS swap_rev,
  s.hash AS swap_hash, n.phase FROM heads h
LEFT JOIN published p ON p.agent = h.agent AND p.path = h.path
LEFT JOIN pending n ON n.agent = h.agent AND n.path = h.path
LEFT JOIN revisions s ON s.agent = h.agent AND s.path = h.path AND s.rev = n.rev WHERE h.agent = ?"""


def marks(connection: sqlite3.Connection, agent: str) -> dict[str, Mark]:
    """Every file of the agent's that ever was, by path."""
    return {row["path"]: Mark(**dict(row)) for row in connection.execute(_MARKS, (agent,))}


def mark(connection: sqlite3.Connection, agent: str, path: str) -> Mark | None:
    """One file; None if it never was."""
    row = connection.execute(f"{_MARKS} AND h.path = ?", (agent, path)).fetchone()
    return None if row is None else Mark(**dict(row))


def to_publish(connection: sqlite3.Connection, agent: str, path: str, rev: int) -> None:
    """The file is to hold `rev`; a swap under way is finished first."""
    connection.execute(
        "INSERT INTO pending (agent, path, rev, phase) VALUES (?, ?, ?, 'todo')"
        " ON CONFLICT (agent, path) DO UPDATE SET rev = excluded.rev, swap = excluded.swap, phase = 'todo'"
        " WHERE phase = 'done'",
        (agent, path, rev),
    )


def seen(connection: sqlite3.Connection, agent: str, path: str, rev: int, hash_: str | None) -> None:
    """The file now holds this: note it, and that the head is to follow, or that the disk has yet to keep it.

    Gives the swap a new number: a leftover of the old one is rubbish from here on.
    """
    connection.execute(
        "INSERT INTO published (agent, path, rev, hash) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (agent, path) DO UPDATE SET rev = excluded.rev, hash = excluded.hash",
        (agent, path, rev, hash_),
    )
    connection.execute(
        "INSERT INTO pending (agent, path, rev, phase)"
        " SELECT agent, path, rev, CASE WHEN hash IS ? THEN 'done' ELSE 'todo' END FROM heads"
        " WHERE agent = ? AND path = ?"
        " ON CONFLICT (agent, path) DO UPDATE SET rev = excluded.rev, swap = excluded.swap, phase = excluded.phase",
        (hash_, agent, path),
    )


def targets(connection: sqlite3.Connection, agent: str) -> list[Target]:
    """What is to be published, each swap turned to the newest head. No leftover of the agent's may be on disk."""
    found = []
    for row in [m for m in marks(connection, agent).values() if m.phase == "todo"]:
        if row.hash == row.seen_hash:
            seen(connection, agent, row.path, row.rev, row.hash)
            continue
        swap = row.swap
        if swap is None or row.swap_rev != row.rev:
            swap = connection.execute(
                f"UPDATE pending SET rev = ?, swap = {NEW_SWAP} WHERE agent = ? AND path = ? RETURNING swap",
                (row.rev, agent, row.path),
            ).fetchone()[0]
        data = texts.of_digest(connection, row.hash)
        if row.hash is not None and not is_text(data, row.hash):
            continue  # damaged (see store.healing): what the file holds may be the only text there is
        found.append(
            Target(path=row.path, rev=row.rev, swap=swap, hash=row.hash, data=data, seen_rev=row.seen_rev,
                   seen_hash=row.seen_hash)
        )  # fmt: skip
    return found


def waits(connection: sqlite3.Connection, agent: str) -> bool:
    """Whether the agent has a swap to do."""
    sql = "SELECT 1 FROM pending WHERE phase = 'todo' AND agent = ? LIMIT 1"
    return connection.execute(sql, (agent,)).fetchone() is not None


def agents_to_publish(connection: sqlite3.Connection) -> list[str]:
    """The agents with a swap to do."""
    return [
        row[0]
        for row in connection.execute("SELECT DISTINCT agent FROM pending WHERE phase = 'todo' ORDER BY 1")
    ]


def agents_with_memory(connection: sqlite3.Connection) -> list[str]:
    """The agents that ever had a file."""
    return [row[0] for row in connection.execute("SELECT DISTINCT agent FROM heads ORDER BY 1")]


def done_swaps(connection: sqlite3.Connection) -> list[int]:
    """The swaps that are done and perhaps not yet on the disk."""
    return [row[0] for row in connection.execute("SELECT swap FROM pending WHERE phase = 'done'")]


def forget_swaps(connection: sqlite3.Connection, swaps: Iterable[int]) -> None:
    """These are on the disk: nothing is pending for them, unless the file has moved on."""
    connection.executemany(
        "DELETE FROM pending WHERE swap = ? AND phase = 'done'", [(swap,) for swap in swaps]
    )


def raise_problems(
    connection: sqlite3.Connection,
    prefix: str,
    agent: str | None,
    problems: Mapping[str, str],
    clock: Callable[[], datetime],
    sort: tuple[str, str] = MEMORY,
) -> None:
    """Make the attention items whose id starts with `prefix` these (rest of the id to sentence): new, kept or cured.
    `sort`: their kind and next step.
    """
    wanted = {prefix + name: text for name, text in problems.items()}
    known = raised(connection, prefix)
    if known == wanted:
        return
    for id_ in known.keys() - wanted.keys():
        connection.execute("DELETE FROM raised WHERE id = ?", (id_,))
    for id_, text in wanted.items():
        connection.execute(
            "INSERT INTO raised (id, kind, agent, since, text, next_step) VALUES (?, ?, ?, ?, ?, ?)"
            " ON CONFLICT (id) DO UPDATE SET text = excluded.text",
            (id_, sort[0], agent, to_text(clock()), text, sort[1]),
        )


def raised(connection: sqlite3.Connection, prefix: str) -> dict[str, str]:
    """The attention items whose id starts with `prefix`, which ends with ':'."""
    rows = connection.execute(
        "SELECT id, text FROM raised WHERE id >= ? AND id < ?", (prefix, prefix[:-1] + chr(ord(":") + 1))
    )
    return {row[0]: row[1] for row in rows}


def has_blob(connection: sqlite3.Connection, hash_: str) -> bool:
    """Whether the store keeps these bytes, for any file."""
    return connection.execute("SELECT 1 FROM blobs WHERE hash = ?", (hash_,)).fetchone() is not None
