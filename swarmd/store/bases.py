"""What a session was shown, kept as versions and numbers; and its snapshot made again from them out of history.

Texts stand in history already (key versions, memory revisions, threads, reports, definitions). Here is only which of
them a session saw, and of what changes in place (a handoff's status, counts) how it was.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from swarmd.core.agent import Agent
from swarmd.core.handoffs import Handoff, Priority, Status
from swarmd.core.instants import from_text, maybe_instant, maybe_text, to_text
from swarmd.core.memory import is_archive
from swarmd.core.owners import shared_owner, subject_owner
from swarmd.core.sessions import UPKEEP
from swarmd.core.snapshot import (
    Aftermath,
    ApprovalSeen,
    Below,
    ConflictSeen,
    FolderSeen,
    ReportSeen,
    Snapshot,
    Transcripts,
    Trigger,
)
from swarmd.core.world import Document, Key
from swarmd.errors import Refused
from swarmd.store import trees
from swarmd.store.approvals import approval_of
from swarmd.store.folders_seen import conflict_of, folder_again, revisions_of
from swarmd.store.rows import document_of
from swarmd.store.snapshots import aftermath_of, approval_seen, fence, without_texts
from swarmd.store.windows import Row
from swarmd.store.world import SqlWorld


def shown(snapshot: Snapshot) -> str:
    """What the session has read by being shown it, as JSON: memory revisions, key versions, handoffs, reports.

    The key versions decide later what is superseded, the revisions are the bases of merges, and `session trace`
    finds by them whose prompts had what a session wrote. All of it together is what `rebuilt` goes by.
    """
    keys = [*snapshot.keys, *(key for below in snapshot.below for key in below.keys)]
    after = snapshot.aftermath
    return json.dumps(
        {
            "memory": {document.path: document.rev for document in snapshot.memory},
            "keys": [[key.agent, key.key, key.version] for key in keys],
            "handoffs": [h.id for h in (*snapshot.open_handoffs, *snapshot.sent)],
            "reports": [report.id for below in snapshot.below for report in below.reports],
            "skills": [[skill.name, skill.digest] for skill in snapshot.skills if not skill.own],
            "now": to_text(snapshot.now),
            "trigger": _trigger_of(snapshot.trigger),
            "tokens": [snapshot.token_ratio, snapshot.token_overhead],
            "below": [[b.agent, b.definition, b.last_session, b.open_handoffs] for b in snapshot.below],
            "open": [_state_of(handoff) for handoff in snapshot.open_handoffs],
            "more": snapshot.more_open_handoffs,
            "sent": [_state_of(handoff) for handoff in snapshot.sent],
            "last": None if after is None else
            [after.session, after.draft_session, len(after.refusals), len(after.superseded)],
            "conflicts": [conflict.id for conflict in snapshot.conflicts],
            "subject": snapshot.subject,
            "others": {folder.owner: revisions_of(folder) for folder in snapshot.others},
            "approvals": [[one.id, one.state] for one in snapshot.approvals],
            **({"kept_out": True} if after is not None and after.quarantined else {}),
            **({"consolidates": _transcripts_of(snapshot.transcripts)} if snapshot.transcripts is not None else {}),
            "archived": snapshot.archived,
        },
        separators=(",", ":"),
    )  # fmt: skip


def _transcripts_of(shown: Transcripts) -> dict[str, Any]:
    ids = [seen.session for seen in shown.seen]
    return {"sessions": ids, "more": shown.more, "since": shown.since, "until": shown.until}


def _state_of(handoff: Handoff) -> list[Any]:
    return [handoff.id, len(handoff.thread), handoff.status.value, handoff.priority, maybe_text(handoff.due),
            maybe_text(handoff.expires)]  # fmt: skip


def _trigger_of(trigger: Trigger) -> list[Any]:
    return [trigger.kind, maybe_text(trigger.slot), trigger.attempt, list(trigger.reasons)]


class NotKept(Refused):
    """A session's snapshot cannot be made again."""

    def __init__(self, session: int, missing: Iterable[str]) -> None:
        super().__init__(f"what session {session} was shown is not kept any more: {'; '.join(missing)}")


def rebuilt(connection: sqlite3.Connection, row: Row | sqlite3.Row) -> Snapshot:
    """The snapshot as the session of this row saw it. Call it in one read transaction. Raises NotKept."""
    base = json.loads(row["base"]) if row["base"] else {}
    if "now" not in base:
        why = "it never started" if row["started"] is None else "a version of swarmd before this one ran it"
        if row["trigger"] in UPKEEP and row["started"] is not None:
            why = "it looked after the memory, and had no prompt of the agent's own"
        raise NotKept(row["id"], [why])
    agent = trees.definition(connection, row["definition"])
    if agent is None:
        raise NotKept(row["id"], ["the definition it ran with"])
    if agent.name != row["agent"]:
        raise NotKept(row["id"], [f"{agent.name} was renamed to {row['agent']} since"])
    return _Rebuilding(connection, base).snapshot(agent, row)


class _Rebuilding:
    """Looks each thing up, and remembers what is gone."""

    def __init__(self, connection: sqlite3.Connection, base: Mapping[str, Any]) -> None:
        self._connection = connection
        self._base = base
        self._missing: list[str] = []

    def snapshot(self, agent: Agent, row: Row | sqlite3.Row) -> Snapshot:
        base, now, subject = self._base, from_text(self._base["now"]), self._base.get("subject")
        own = agent.name if subject is None else subject_owner(agent.name, subject)
        keys = self._keys()
        last = self._last()
        found = Snapshot(
            agent=agent, now=now, zone=agent.when.timezone, trigger=_trigger(*base["trigger"]),
            memory=tuple(self._memory(own)), keys=tuple(keys.get(agent.name, ())),
            below=tuple(self._below(facts, keys) for facts in base["below"]),
            open_handoffs=tuple(self._handoffs(base["open"])), more_open_handoffs=base["more"],
            sent=tuple(self._handoffs(base["sent"])),
            aftermath=None if last is None else self._aftermath(last),
            conflicts=tuple(self._conflicts(own)), approvals=tuple(self._approvals()),
            archived=base.get("archived", sum(map(is_archive, base["memory"]))),
            last_started=None if last is None else maybe_instant(last["started"]),
            last_outcome=None if last is None else last["outcome"],
            fence=fence(self._connection, agent.name), token_ratio=base["tokens"][0], token_overhead=base["tokens"][1],
            subject=subject,
            shared=tuple(self._other(owner) for owner in (shared_owner(f.name) for f in agent.memory.shared)
                         if owner in base.get("others", {})),
            readable=tuple(self._other(name, whole=False) for name in agent.memory.reads
                           if name != agent.name and name in base.get("others", {})),
            general=None if subject is None or not agent.memory.persistent else self._other(agent.name),
        )  # fmt: skip
        if self._missing:
            raise NotKept(row["id"], self._missing)
        return found

    def _one(self, what: str, sql: str, *values: object) -> sqlite3.Row | None:
        row: sqlite3.Row | None = self._connection.execute(sql, values).fetchone()
        if row is None:
            self._missing.append(what)
        return row

    def _memory(self, agent: str) -> list[Document]:
        found = []
        for path, rev in sorted(self._base["memory"].items()):
            if is_archive(path):
                continue  # an earlier swarmd gave these too; all that is shown of them is their number
            row = self._one(
                f"{path}, revision {rev}",
                "SELECT agent, path, rev, hash, at, by FROM revisions WHERE agent = ? AND path = ? AND rev = ? AND "
                "EXISTS (SELECT 1 FROM blobs b WHERE b.hash = revisions.hash)",
                agent, path, rev,
            )  # fmt: skip
            if row is not None:
                found.append(document_of(self._connection, row))
        return found

    def _keys(self) -> dict[str, list[Key]]:
        """By agent, in the order in which they were shown."""
        found: dict[str, list[Key]] = {}
        for agent, name, version in self._base["keys"]:
            row = self._one(
                f"version {version} of {agent}/{name}",
                "SELECT * FROM key_history WHERE agent = ? AND key = ? AND version = ?", agent, name, version,
            )  # fmt: skip
            if row is not None:
                key = Key(agent=agent, key=name, value=row["value"], version=version,
                          updated=from_text(row["at"]), by=row["by"])  # fmt: skip
                found.setdefault(agent, []).append(key)
        return found

    def _below(self, facts: Sequence[Any], keys: Mapping[str, Sequence[Key]]) -> Below:
        name, hash_, session, open_handoffs = facts
        agent = trees.definition(self._connection, hash_)
        if agent is None:
            self._missing.append(f"the definition of {name}")
        last = None if session is None else self._session(session)
        return Below(
            agent=name, description=agent.description if agent is not None else "",
            last_outcome=None if last is None else last["outcome"],
            last_ended=None if last is None else maybe_instant(last["ended"]),
            open_handoffs=open_handoffs, keys=tuple(keys.get(name, ())),
            reports=tuple(report for report in self._reports() if report.agent == name),
            last_session=session, definition=hash_,
        )  # fmt: skip

    def _reports(self) -> list[ReportSeen]:
        found = []
        for id in self._base["reports"]:
            row = self._one(f"report {id}", "SELECT id, agent, text, at FROM reports WHERE id = ?", id)
            if row is not None:
                found.append(ReportSeen(id=id, agent=row["agent"], text=row["text"], at=from_text(row["at"])))
        return found

    def _session(self, id: int) -> sqlite3.Row | None:
        return self._one(f"session {id}", "SELECT * FROM sessions WHERE id = ?", id)

    def _handoffs(self, states: Sequence[Sequence[Any]]) -> list[Handoff]:
        world = SqlWorld(self._connection, from_text(self._base["now"]))
        found = []
        for id, entries, status, priority, due, expires in states:
            handoff = world.handoff(id)
            if handoff is None or len(handoff.thread) < entries:
                self._missing.append(f"handoff {id}")
                continue
            found.append(
                replace(
                    handoff, thread=handoff.thread[:entries], status=Status(status),
                    priority=cast(Priority, priority), due=maybe_instant(due), expires=maybe_instant(expires),
                )
            )  # fmt: skip
        return found

    def _last(self) -> sqlite3.Row | None:
        return None if self._base["last"] is None else self._session(self._base["last"][0])

    def _aftermath(self, last: sqlite3.Row) -> Aftermath:
        _, draft, refusals, superseded = self._base["last"]
        if draft is not None:
            self._one(f"the draft of session {draft}", "SELECT 1 FROM drafts WHERE session = ?", draft)
        found = aftermath_of(self._connection, last, draft)
        if len(found.refusals) < refusals or len(found.superseded) < superseded:
            self._missing.append(f"the changes of session {last['id']}")
        if self._base.get("kept_out"):
            return without_texts(found)
        # A draft of that session which was applied since has added verdicts of its own.
        return replace(found, refusals=found.refusals[:refusals], superseded=found.superseded[:superseded])

    def _other(self, owner: str, *, whole: bool = True) -> FolderSeen:
        revs = self._base.get("others", {}).get(owner, {})
        return folder_again(self._connection, owner, revs, self._missing, whole=whole)

    def _conflicts(self, own: str) -> list[ConflictSeen]:
        found = []
        for id in self._base["conflicts"]:
            row = self._one(
                f"conflict {id}", "SELECT id, agent, path, line, ours, theirs FROM conflicts WHERE id = ?", id
            )
            if row is not None:
                found.append(conflict_of(row, own))
        return found

    def _approvals(self) -> list[ApprovalSeen]:
        found = []
        for id, state in self._base.get("approvals", ()):
            row = self._one(f"approval {id}", "SELECT * FROM approvals WHERE id = ?", id)
            if row is not None:
                found.append(approval_seen(approval_of(row), state))
        return found


def _trigger(kind: str, slot: str | None, attempt: int, reasons: Sequence[str]) -> Trigger:
    return Trigger(kind=kind, slot=maybe_instant(slot), attempt=attempt, reasons=tuple(reasons))
