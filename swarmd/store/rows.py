"""Rows of keys and memory files as values, and what queries need to know of handoffs (handoff_rows has the rest)."""

from __future__ import annotations

import sqlite3

from swarmd.core.digests import digest
from swarmd.core.instants import from_text
from swarmd.core.sessions import UPKEEP
from swarmd.core.world import Document, FileFacts, Key
from swarmd.errors import StoreUnusable
from swarmd.store import texts

UNSETTLED = "status IN ('open', 'acknowledged', 'waiting')"
"""The condition of the partial indexes `handoffs_work` (by receiver) and `handoffs_asked` (by sender)."""
ORDINARY = f"trigger NOT IN ({', '.join(repr(trigger) for trigger in sorted(UPKEEP))})"
"""The condition for sessions that are work of their agent's, not upkeep of its memory."""
UNTAINTED = (
    "(session IS NULL OR session NOT IN "
    "(SELECT id FROM sessions INDEXED BY sessions_quarantined WHERE quarantined IS NOT NULL))"
)
"""The condition for what no session in quarantine has made (reports, conflicts)."""
HANDOFF_COLUMNS = (
    "id, sender, receiver, text, priority, status, created, due, expires, depth, cause_session, cause_handoff, "
    "dedupe, by"
)


def key_of(row: sqlite3.Row) -> Key:
    """A row of `keys`."""
    return Key(agent=row["agent"], key=row["key"], value=row["value"], version=row["version"],
               updated=from_text(row["updated"]), by=row["by"])  # fmt: skip


class DamagedText(StoreUnusable):
    """The text of a memory file is gone from the store, or is not what its digest says: it is never taken as empty."""

    def __init__(self, agent: str, path: str, rev: int) -> None:
        self.owner = agent
        super().__init__(
            f"the store is damaged: the text of {agent}:{path}, revision {rev}, is gone or is not what it was; nothing "
            f"is written over its file: what that still holds is put back at the agent's next session; else save it "
            f"anew (any edit counts, or the old text from a copy), or keep a copy of the state and restore a backup "
            f"into an empty one with swarmd --state DIR restore FILE"
        )


def is_text(data: object, hash_: str) -> bool:
    """Whether these are the very bytes of that digest."""
    return isinstance(data, bytes) and digest(data) == hash_


def document_of(connection: sqlite3.Connection, row: sqlite3.Row) -> Document:
    """A row of revisions, with its text. Raises DamagedText."""
    data = None if row["hash"] is None else texts.of_digest(connection, row["hash"])
    if row["hash"] is not None and not is_text(data, row["hash"]):
        raise DamagedText(row["agent"], row["path"], row["rev"])
    return Document(agent=row["agent"], path=row["path"], rev=row["rev"], data=data, at=from_text(row["at"]),
                    by=row["by"])  # fmt: skip


def facts_of(row: sqlite3.Row) -> FileFacts:
    """A row of revisions, as a file's head without its text."""
    return FileFacts(agent=row["agent"], path=row["path"], rev=row["rev"], size=row["size"], at=from_text(row["at"]),
                     by=row["by"])  # fmt: skip


def between(receiver: str | None, sender: str | None) -> tuple[list[str], list[object]]:
    """The conditions for handoffs to and from these agents (None: any), and their values."""
    where, values = ["1"], list[object]()
    for column, value in (("receiver", receiver), ("sender", sender)):
        if value is not None:
            where.append(f"{column} = ?")
            values.append(value)
    return where, values
