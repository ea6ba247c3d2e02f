"""`swarmd session trace`: what a session wrote, and which later sessions were shown it.

Keys, handoffs and reports are followed by their versions and numbers, memory by its lines: as long as a line stands,
whatever revision it stands in. Each is the session's in the file where history says so; a distinctive one that no other
session has written is known by its words too, wherever it was taken. Where a summary or a consolidation was made of
them, its own lines are followed on.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
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
    history = _History(connection=view.connection)
    followers = [
        (change["act"], change["target"], _follower(history, row["id"], trace))
        for change in wrote for trace in json.loads(change["effect"] or "[]")
    ]  # fmt: skip
    transcript = _Lines(history=history, transcript=row["id"])
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


def _follower(history: _History, session: int, trace: Mapping[str, Any]) -> _Rows | _Lines:
    if "memory" not in trace:
        return _Rows(trace=trace)
    owner, path, rev = trace["memory"]
    found = _Lines(history=history)
    keys = lineage.added(history.connection, session, owner, path, rev)
    found.follow(session, owner, keys, {path: {rev}})
    return found


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
class _History:
    """What revisions say, and who wrote it: read once for all that is followed."""

    connection: Connection
    _said: dict[tuple[str, str, int], list[tuple[str, bool]]] = field(default_factory=dict)
    _brought: dict[tuple[str, str], dict[int, list[int]]] = field(default_factory=dict)
    _writers: dict[str, lineage.Writers] = field(default_factory=dict)

    def said(self, owner: str, path: str, rev: int) -> list[tuple[str, bool]]:
        """What each line of a revision says, and whether that alone tells which line it is."""
        at = (owner, path, rev)
        if at not in self._said:
            self._said[at] = lineage.said_at(self.connection, owner, path, rev)
        return self._said[at]

    def brought(self, owner: str, path: str, rev: int) -> list[int]:
        """The revision that brought each line of a revision."""
        if (owner, path) not in self._brought:
            self._brought[owner, path] = lineage.brought_in_all(self.connection, owner, path)
        return self._brought[owner, path][rev]

    def also_others(self, owner: str, keys: Collection[str], session: int) -> Collection[str]:
        """Those of these keys that other sessions have written too."""
        if owner not in self._writers:
            self._writers[owner] = lineage.Writers(self.connection, owner)
        return self._writers[owner].others(keys, [session])


@dataclass(slots=True, kw_only=True)
class _Line:
    """What a line says that is followed."""

    through: int | None
    """The upkeep session that has made it of others; None: the session's own."""
    is_common: bool = False
    """Whether other sessions have written it too: then only history tells whose it is."""
    brought: set[tuple[str, int]] = field(default_factory=set)
    """The revisions that brought it: path and number."""


@dataclass(slots=True, kw_only=True)
class _Lines:
    """Follows lines of memory, and those that were made of them."""

    history: _History
    transcript: int | None = None
    """Also followed: who was given the transcript of this session."""
    readers: list[Reader] = field(default_factory=list)
    _lines: dict[str, dict[str, _Line]] = field(default_factory=dict)
    """By owner and what a line says."""

    def follow(
        self, session: int, owner: str, keys: Collection[str], revisions: Mapping[str, Collection[int]],
        *, through: int | None = None,
    ) -> None:  # fmt: skip
        """Follow what lines of the session's say, which it brought in these revisions, by path."""
        lines = self._lines.setdefault(owner, {})
        common = self.history.also_others(owner, keys, session)
        for key in keys:
            line = lines.setdefault(key, _Line(through=through))
            line.is_common = line.is_common or key in common
            line.brought |= {(path, rev) for path, revs in revisions.items() for rev in revs}

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
            for path, rev in sorted(files.items()) if self._lines.get(owner) else ():
                through = self._had(owner, path, rev)
                if through is None:
                    continue
                reader = _reader(later, "prompt" if path == FIRST_FILE else "files", through or None)
                # What was seen as it was written says more than what was made of it.
                if best is None or (best["through"] is not None and not through):
                    best = reader
        return best

    def _had(self, owner: str, path: str, rev: int) -> int | None:
        """None: the revision has none of the lines; 0: it has one of the session's own; else whose."""
        lines = self._lines[owner]
        found: set[int] = set()
        for n, (key, telling) in enumerate(self.history.said(owner, path, rev)):
            line = lines.get(key)
            if line is None or (line.through or 0) in found:
                continue
            if (telling and not line.is_common) or (
                path,
                self.history.brought(owner, path, rev)[n],
            ) in line.brought:
                found.add(line.through or 0)
        return None if not found else 0 if 0 in found else max(found)

    def _built_on(self, later: _Later) -> bool:
        """Whether it wrote over a revision that has the lines, also where nothing tells what it was shown."""
        for owner, path, rev in lineage.revisions_by(self.history.connection, later.id):
            parent = lineage.parent_of(self.history.connection, owner, path, rev)
            if parent and self._lines.get(owner) and self._had(owner, path, parent) is not None:
                return True
        return False

    def _hand_on(self, later: _Later) -> None:
        revisions: dict[str, dict[str, Collection[int]]] = {}
        for (owner, path), revs in lineage.own_revisions(self.history.connection, later.id).items():
            revisions.setdefault(owner, {})[path] = revs
        for owner, keys in lineage.written(self.history.connection, later.id).items():
            self.follow(later.id, owner, keys, revisions[owner], through=later.id)


def _reader(later: _Later, how: str, through: int | None) -> Reader:
    return {"session": later.id, "agent": later.agent, "how": how, "through": through}
