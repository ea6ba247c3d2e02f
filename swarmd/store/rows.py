"""Rows of keys and memory files as values, and what queries need to know of handoffs (handoff_rows has the rest)."""

from __future__ import annotations

import sqlite3

from swarmd.core.instants import from_text
from swarmd.core.world import Document, Key

UNSETTLED = "status IN ('open', 'acknowledged', 'waiting')"
"""The condition of the partial indexes `handoffs_work` (by receiver) and `handoffs_asked` (by sender)."""
HANDOFF_COLUMNS = (
    "id, sender, receiver, text, priority, status, created, due, expires, depth, cause_session, cause_handoff, "
    "dedupe, by"
)


def key_of(row: sqlite3.Row) -> Key:
    """A row of `keys`."""
    return Key(agent=row["agent"], key=row["key"], value=row["value"], version=row["version"],
               updated=from_text(row["updated"]), by=row["by"])  # fmt: skip


def document_of(row: sqlite3.Row) -> Document:
    """A row of heads joined with revisions and blobs."""
    return Document(agent=row["agent"], path=row["path"], rev=row["rev"], data=row["data"],
                    at=from_text(row["at"]), by=row["by"])  # fmt: skip
