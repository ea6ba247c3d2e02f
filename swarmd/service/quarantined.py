"""What agents are not shown of sessions in quarantine: their texts, and their lines in archives and in the past.

An operator sees all. What stands in the newest revisions is state, and stays until somebody takes it out.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from swarmd.core.lineage import without
from swarmd.service import rows
from swarmd.service.view import JSON, View
from swarmd.store.queries import Row

ARCHIVE = "archive/"
NOTE = "(lines of a session in quarantine were taken out here)"
HIDDEN = "the session is in quarantine: its texts are not shown"


def is_hidden(view: View, row: Row) -> bool:
    """Whether the caller is an agent, and the session of this row is in quarantine."""
    return view.actor.agent is not None and row["quarantined"] is not None


def session_doc(view: View, row: Row, changes: Sequence[Row]) -> dict[str, JSON]:
    """The session's document, as this caller may see it."""
    document = rows.session_doc(row, changes)
    if not is_hidden(view, row):
        return document
    return {**document, "reason": HIDDEN, "note": "", "draft": None, "changes": [], "refusals": [],
            "superseded": [], "quarantined": {"at": _mark(row)["at"]}}  # fmt: skip


def _mark(row: Row) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(row["quarantined"])
    return found


def log_without_texts(row: Row) -> dict[str, JSON]:
    """The log of such a session."""
    return {"output": "", "bytes": 0, "output_next": 0, "events": [], "events_next": 0, "events_more": False,
            "quarantined": {"at": _mark(row)["at"]}}  # fmt: skip


def old_text(view: View, owner: str, path: str, data: bytes, *, past: bool) -> bytes:
    """A memory file's text as an agent may read it: of an archive, and of what a file was (`past`), without the lines
    of sessions in quarantine.
    """
    if view.actor.agent is None or not (past or path.startswith(ARCHIVE)):
        return data
    from swarmd.store import lineage

    sessions = lineage.quarantined(view.connection, owner)
    keys: set[str] = set()
    for session in sessions:
        keys |= lineage.written(view.connection, session).get(owner, frozenset())
    return without(data, keys, sessions, NOTE) if sessions else data
