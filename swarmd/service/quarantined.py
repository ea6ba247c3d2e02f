"""What agents are not shown of sessions in quarantine: their texts, and their lines in archives and in the past.

An operator sees all. What stands in the newest revisions is state, and stays until somebody takes it out.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from swarmd.core.lineage import marked, without
from swarmd.core.memory import is_archive
from swarmd.service import rows
from swarmd.service.view import JSON, View
from swarmd.store.windows import Row

if TYPE_CHECKING:
    from swarmd.store.lineage import Writers

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


@dataclass(frozen=True, slots=True)
class _Gone:
    """The sessions in quarantine that have written into a folder."""

    sessions: list[int]
    keys: frozenset[str]
    """What their lines say."""
    revisions: Mapping[str, frozenset[int]]
    """Those that they have made, by path."""


@dataclass(slots=True)
class Untainted:
    """A folder's texts as this caller may read them: of archives, and of what files were before, an agent is not shown
    the lines of sessions in quarantine. What they are is worked out when it is first asked for.

    They are the lines that history says they brought, and their blocks of a log. An archive has the history of the text
    that was moved there. Where a line is there by another hand, or nobody knows by whose, it is left out only if it is
    distinctive and no other session wrote the same.
    """

    view: View
    owner: str
    _known: _Gone | None = None
    _writers: Writers | None = None

    def text(self, path: str, data: bytes, *, rev: int | None = None) -> bytes:
        """The text of a file; `rev`: of this revision, not of its newest."""
        marks = self.marks(path, data, rev=rev)
        return data if marks is None else without(data, marks, NOTE)

    def marks(self, path: str, data: bytes, *, rev: int | None = None) -> list[bool] | None:
        """Of each line of the text whether it is kept back; None: none is."""
        if self.view.actor.agent is None or not (rev is not None or is_archive(path)):
            return None
        gone = self._gone()
        if not gone.sessions:
            return None
        from swarmd.store import lineage

        def common(keys: Collection[str]) -> Collection[str]:
            self._writers = self._writers or lineage.Writers(self.view.connection, self.owner)
            return self._writers.others(keys, gone.sessions)

        return marked(
            data, gone.keys, gone.sessions, brought=lambda: self._brought(path, rev), also_others=common
        )

    def _brought(self, path: str, rev: int | None) -> list[bool]:
        """Of each line whether such a session brought it; nothing where that is not known."""
        from swarmd.store import lineage

        at: tuple[str, int | None] | None = (path, rev)
        if is_archive(path):
            at = lineage.archived_from(self.view.connection, self.owner, path, rev)
        if at is None:
            return []
        own = self._gone().revisions.get(at[0], frozenset())
        return [one in own for one in lineage.brought_by(self.view.connection, self.owner, *at)]

    def _gone(self) -> _Gone:
        if self._known is None:
            from swarmd.store import lineage

            connection = self.view.connection
            sessions = lineage.quarantined(connection, self.owner)
            keys: frozenset[str] = frozenset()
            revisions: dict[str, frozenset[int]] = {}
            for session in sessions:
                keys |= lineage.written(connection, session).get(self.owner, frozenset())
                for (owner, path), revs in lineage.own_revisions(connection, session).items():
                    if owner == self.owner:
                        revisions[path] = revisions.get(path, frozenset()) | revs
            self._known = _Gone(sessions, keys, revisions)
        return self._known
