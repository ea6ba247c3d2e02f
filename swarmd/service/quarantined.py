"""What agents are not shown of sessions in quarantine: their texts, and their lines in archives and in the past.

An operator sees all. What stands in the newest revisions is state, and stays until somebody takes it out.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from swarmd.core.lineage import marked, without
from swarmd.core.memory import is_archive
from swarmd.service import rows
from swarmd.service.view import JSON, View
from swarmd.store.windows import Row

NOTE = "(lines of a session in quarantine were taken out here)"
HIDDEN = "the session is in quarantine: its texts are not shown"


def is_hidden(view: View, row: Row) -> bool:
    """Whether the caller is an agent, and the session of this row is in quarantine."""
    return view.actor.agent is not None and row["quarantined"] is not None


def session_doc(view: View, row: Row, changes: Sequence[Row]) -> dict[str, JSON]:
    """The session's document, as this caller may see it."""
    if view.session_refusal(row) is not None:
        return rows.session_doc(rows.withheld(row), [])
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


@dataclass(slots=True)
class Untainted:
    """A folder's texts as this caller may read them: of archives, and of what files were before, an agent is not shown
    the lines of sessions in quarantine. What they are is worked out when it is first asked for.
    """

    view: View
    owner: str
    _known: tuple[list[int], frozenset[str]] | None = None

    def text(self, path: str, data: bytes, *, past: bool = False) -> bytes:
        """The text of a file; `past`: of a revision that is not its newest."""
        if self.view.actor.agent is None or not (past or is_archive(path)):
            return data
        sessions, keys = self._gone()
        return without(data, keys, sessions, NOTE) if sessions else data

    def marks(self, path: str, data: bytes) -> list[bool] | None:
        """Of each line of its newest text whether it is kept back; None: none is."""
        if self.view.actor.agent is None or not is_archive(path) or not self._gone()[0]:
            return None
        sessions, keys = self._gone()
        return marked(data, keys, sessions)

    def _gone(self) -> tuple[list[int], frozenset[str]]:
        if self._known is None:
            from swarmd.store import lineage

            connection = self.view.connection
            sessions = lineage.quarantined(connection, self.owner)
            lines = (lineage.written(connection, session).get(self.owner, ()) for session in sessions)
            self._known = sessions, frozenset(key for keys in lines for key in keys)
        return self._known
