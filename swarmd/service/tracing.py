"""`swarmd session trace`: what a session wrote, and which later sessions were shown it.

Keys, handoffs and reports are followed by their versions and numbers, memory by its lines: as long as a line stands,
whatever revision it stands in. Where a summary or a consolidation was made of them, its own lines are followed on.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from swarmd.core.memory import FIRST_FILE
from swarmd.core.sessions import UPKEEP
from swarmd.service.sessions_named import named
from swarmd.service.view import JSON, Args, View
from swarmd.store import lineage, session_reads, windows
from swarmd.store.connections import Connection

Reader = dict[str, JSON]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Later:
    """A session that started after the one that is traced, and what it was shown."""

    id: int
    agent: str
    trigger: str
    subject: str | None
    base: Mapping[str, Any]


def session_trace(view: View, args: Args) -> JSON:
    """What a session wrote, and which later sessions were shown it; an item of its own for its transcript, where a
    consolidation has read that.
    """
    row = named(view, args.get("session"))
    wrote = [
        c for c in session_reads.changes(view.connection, [row["id"]])[row["id"]] if c["verdict"] == "done"
    ]
    followers = [
        (change["act"], change["target"], _follower(view.connection, row["id"], trace))
        for change in wrote for trace in json.loads(change["effect"] or "[]")
    ]  # fmt: skip
    transcript = _Lines(connection=view.connection, transcript=row["id"])
    for later in _later(view.connection, row):
        for _, _, follower in followers:
            follower.look(later)
        transcript.look(later)
    items = [{"act": act, "target": target, "shown_to": found.readers} for act, target, found in followers]
    if transcript.readers:
        items.append({"act": "transcript", "target": f"session {row['id']}", "shown_to": transcript.readers})
    return {"session": row["id"], "agent": row["agent"], "items": items, "next": None}


def _later(connection: Connection, row: windows.Row) -> Iterator[_Later]:
    for found in session_reads.started_after(connection, row):
        yield _Later(id=found["id"], agent=found["agent"], trigger=found["trigger"], subject=found["subject"],
                     base=json.loads(found["base"]) if found["base"] else {})  # fmt: skip


def _follower(connection: Connection, session: int, trace: Mapping[str, Any]) -> _Rows | _Lines:
    if "memory" not in trace:
        return _Rows(trace=trace)
    owner, path, rev = trace["memory"]
    keys = lineage.added(connection, session, owner, path, rev)
    return _Lines(connection=connection, lines={owner: dict.fromkeys(keys)})


@dataclass(slots=True, kw_only=True)
class _Rows:
    """Follows a key's version, a handoff or a report."""

    trace: Mapping[str, Any]
    readers: list[Reader] = field(default_factory=list)

    def look(self, later: _Later) -> None:
        """Note the session, where it was shown that."""
        trace, base = self.trace, later.base
        if (
            ("key" in trace and trace["key"] in base.get("keys", ()))
            or ("handoff" in trace and trace["handoff"] in base.get("handoffs", ()))
            or ("report" in trace and trace["report"] in base.get("reports", ()))
        ):
            self.readers.append(_reader(later, "prompt", None))


@dataclass(slots=True, kw_only=True)
class _Lines:
    """Follows lines of memory, and those that were made of them."""

    connection: Connection
    lines: dict[str, dict[str, int | None]] = field(default_factory=dict)
    """By owner: what a line says, and the upkeep session that has made it of others; None: the session's own."""
    transcript: int | None = None
    """Also followed: who was given the transcript of this session."""
    readers: list[Reader] = field(default_factory=list)
    _known: dict[tuple[str, str, int], frozenset[str]] = field(default_factory=dict)

    def look(self, later: _Later) -> None:
        """Note the session, where it was shown any of the lines. One that looks after memory hands them on."""
        found = self._shown(later)
        if found is not None:
            self.readers.append(found)
        if later.trigger in UPKEEP and (found is not None or self._built_on(later)):
            self._hand_on(later)

    def _shown(self, later: _Later) -> Reader | None:
        given = later.base.get("consolidates") or {}
        if self.transcript is not None and self.transcript in given.get("sessions", ()):
            return _reader(later, "transcript", None)
        best: Reader | None = None
        for owner, files in lineage.memory_shown(later.agent, later.subject, dict(later.base)).items():
            lines = self.lines.get(owner)
            for path, rev in sorted(files.items()) if lines else ():
                through = self._had(lines or {}, owner, path, rev)
                if through is None:
                    continue
                reader = _reader(later, "prompt" if path == FIRST_FILE else "files", through or None)
                # What was seen as it was written says more than what was made of it.
                if best is None or (best["through"] is not None and not through):
                    best = reader
        return best

    def _had(self, lines: Mapping[str, int | None], owner: str, path: str, rev: int) -> int | None:
        """None: the revision has none of the lines; 0: it has one of the session's own; else whose."""
        at = (owner, path, rev)
        if at not in self._known:
            self._known[at] = lineage.keys_at(self.connection, owner, path, rev)
        had = [lines[key] for key in self._known[at] if key in lines]
        if not had:
            return None
        return 0 if None in had else max(through for through in had if through is not None)

    def _built_on(self, later: _Later) -> bool:
        """Whether it wrote over a revision that has the lines, also where nothing tells what it was shown."""
        for owner, path, rev in lineage.revisions_by(self.connection, later.id):
            lines, before = self.lines.get(owner), lineage.parent_of(self.connection, owner, path, rev)
            if lines and self._had(lines, owner, path, before) is not None:
                return True
        return False

    def _hand_on(self, later: _Later) -> None:
        for owner, keys in lineage.written(self.connection, later.id).items():
            lines = self.lines.setdefault(owner, {})
            for key in keys:
                lines.setdefault(key, later.id)


def _reader(later: _Later, how: str, through: int | None) -> Reader:
    return {"session": later.id, "agent": later.agent, "how": how, "through": through}
