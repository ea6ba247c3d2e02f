"""What the store knows of compactions: how they fared, what was told of it, which names an archive has used up."""

from __future__ import annotations

import json
import sqlite3
from datetime import UTC, datetime
from typing import Any

from swarmd.core.compaction import delay_after
from swarmd.core.instants import from_text
from swarmd.core.memory import FIRST_FILE
from swarmd.core.owners import agent_of_owner, subject_of
from swarmd.core.sessions import COMPACT, GOOD
from swarmd.store.raising import cure, raise_attention

KIND = "compaction"
BY = "system"
"""Who asks for those that nobody has asked for."""
UNTOLD = ("cancelled", "lost")
"""Outcomes that raise nothing to attention."""
_AGAIN = "; it is tried again after "
_SIZES = (
    "SELECT h.agent, h.rev, r.size FROM heads h JOIN revisions r ON r.agent = h.agent AND r.path = h.path "
    "AND r.rev = h.rev WHERE h.path = ? AND h.hash IS NOT NULL"
)


def paths(connection: sqlite3.Connection, owner: str) -> list[str]:
    """Every path that the owner's folder has or ever had."""
    return [row[0] for row in connection.execute("SELECT path FROM heads WHERE agent = ?", (owner,))]


def revision(connection: sqlite3.Connection, owner: str) -> int:
    """The newest revision of the owner's MEMORY.md; 0 where it has none."""
    row = connection.execute(
        "SELECT rev FROM heads WHERE agent = ? AND path = ?", (owner, FIRST_FILE)
    ).fetchone()
    return 0 if row is None else int(row[0])


def size(connection: sqlite3.Connection, owner: str) -> tuple[int, int] | None:
    """The newest revision of the owner's MEMORY.md and how many bytes it has; None where there is none."""
    found = connection.execute(f"{_SIZES} AND h.agent = ?", (FIRST_FILE, owner)).fetchone()
    return None if found is None else (found["rev"], found["size"])


def sizes(connection: sqlite3.Connection) -> dict[str, tuple[int, int]]:
    """Of every owner that has a MEMORY.md: its newest revision, and how many bytes that has."""
    return {row["agent"]: (row["rev"], row["size"]) for row in connection.execute(_SIZES, (FIRST_FILE,))}


def failures(connection: sqlite3.Connection, owner: str) -> tuple[int, datetime | None]:
    """How many of the owner's last compactions in a row brought nothing, and when the newest ended. One that was lost
    with its daemon is forgiven, a second is not: it may be what the daemon dies of. Those that a person asked for do
    not count, nor those from before the memory was small for a while: what was told of them is closed since then.
    """
    count, last, lost = 0, None, 0
    told = connection.execute("SELECT since FROM raised WHERE id = ?", (_id(owner),)).fetchone()
    for row in connection.execute(
        "SELECT outcome, ended FROM sessions INDEXED BY sessions_compact "
        f"WHERE agent = ? AND trigger = '{COMPACT}' AND subject IS ? AND state = 'ended' AND started IS NOT NULL "
        f"AND (by = '{BY}' OR outcome IN ('committed', 'no_change')) ORDER BY id DESC LIMIT 30",
        (agent_of_owner(owner), subject_of(owner)),
    ):
        if row["outcome"] in GOOD:
            break
        if row["outcome"] not in UNTOLD and (told is None or row["ended"] < told["since"]):
            break
        count, last = count + 1, last or from_text(row["ended"])
        lost += row["outcome"] == "lost"
    return count - (lost == 1), last


def figures(connection: sqlite3.Connection, session: int) -> dict[str, Any]:
    """What the audit tells of a compaction that has just been committed: archive, before, after, made_by."""
    row = connection.execute(
        "SELECT detail FROM audit WHERE session = ? AND act = ? ORDER BY seq DESC LIMIT 1", (session, COMPACT)
    ).fetchone()
    return {} if row is None else dict(json.loads(row["detail"]))


def is_told(connection: sqlite3.Connection, owner: str) -> bool:
    """Whether attention names a compaction of this owner's memory that did not succeed."""
    found = connection.execute("SELECT 1 FROM raised WHERE id = ?", (_id(owner),)).fetchone()
    return found is not None


def tell(
    connection: sqlite3.Connection, owner: str, session: int, outcome: str, reason: str, now: datetime
) -> None:
    """Raise one that did not succeed to a person's attention, with when it is tried again."""
    about = (
        f"the memory of {owner} is nearly full, and its compaction {outcome} (session {session}): {reason}"
    )
    _raise(connection, owner, about, now)
    count, last = failures(connection, owner)  # of which this is one, now that it is told
    if last is not None:
        _raise(connection, owner, about + _again(last + delay_after(count)), now)


def put_off(connection: sqlite3.Connection, owner: str, until: datetime, now: datetime) -> None:
    """Raise that one is due and waits until then; of one that is told already only the moment changes."""
    row = connection.execute("SELECT text FROM raised WHERE id = ?", (_id(owner),)).fetchone()
    told = "" if row is None else str(row["text"])
    about = told.rpartition(_AGAIN)[0] or told
    about = about or f"the memory of {owner} is nearly full, and its compaction did not come to its end"
    if about + _again(until) != told:
        _raise(connection, owner, about + _again(until), now)


def _again(at: datetime) -> str:
    return f"{_AGAIN}{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def _raise(connection: sqlite3.Connection, owner: str, text: str, now: datetime) -> None:
    raise_attention(
        connection, id=_id(owner), kind=KIND, agent=owner, now=now, text=text,
        next_step=f"swarmd memory compact {owner}, with --summary-file for a summary of your own",
    )  # fmt: skip


def over(connection: sqlite3.Connection, owner: str) -> None:
    """One has succeeded, or there is nothing to be done any more."""
    cure(connection, _id(owner))


def _id(owner: str) -> str:
    return f"{KIND}:{owner}"
