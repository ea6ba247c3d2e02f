"""The one door through which a change set enters the store: judged and written in one transaction."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from swarmd.core.changes import AppendMemory, Change, act_of, change_to_json, target_of
from swarmd.core.instants import to_text
from swarmd.core.interaction_log import is_log
from swarmd.core.judge import fold
from swarmd.core.sessions import CONSOLIDATE
from swarmd.core.staging import (
    Effect,
    Folded,
    HandoffWritten,
    KeyWritten,
    MemoryWritten,
    Reported,
    Verdict,
)
from swarmd.core.world import Actor
from swarmd.errors import KINDS
from swarmd.store import approvals, audit, losses
from swarmd.store.handoff_rows import write_handoff
from swarmd.store.memory import write_revision
from swarmd.store.world import SqlWorld
from swarmd.store.wrote import wrote

HOW: Mapping[str, str] = {"memory_restore": "restore", "session_revert": "revert"}
"""What history says of the revisions that an act of an operator makes, where they are no writes like all others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """What became of a change set: its verdicts, and whose memory now waits to be published."""

    folded: Folded
    memory_of: frozenset[str]
    changes: tuple[Change, ...] = ()
    """What was judged, in the verdicts' order."""

    @property
    def refusals(self) -> list[str]:
        """Every reason against it; not empty: nothing was written."""
        return self.folded.refusals

    def must_stand(self) -> None:
        """Raise what stands against the change set, of the kind of its first refusal."""
        refused = [verdict for verdict in self.folded.verdicts if verdict.decision == "refused"]
        if refused:
            reasons = dict.fromkeys(verdict.reason for verdict in refused)  # one may stand against many
            raise KINDS[refused[0].kind]("; ".join(reasons))

    @property
    def changed(self) -> bool:
        """Whether anything was written, or waits for an operator's yes."""
        return not self.refusals and any(v.effects or v.decision == "held" for v in self.folded.verdicts)


def commit(
    connection: sqlite3.Connection,
    actor: Actor,
    changes: Sequence[Change],
    now: datetime,
    *,
    asked: bool = False,
    act: str = "commit",
    target: str = "",
    part: int = 0,
    always_told: bool = False,
    how: str | None = None,
    told: Mapping[str, Any] | None = None,
    approver: str | None = None,
) -> Committed:
    """Judge `changes` one after another on the rows as they are, and write all of them or, where authority is
    lacking for any, none; what needs an operator's approval is kept for it. The caller's savepoint makes it all or
    nothing; the audit row is part of it.

    `asked` as in core.judge; `part` numbers a session's checkpoints. `always_told`: the audit has a row also where
    nothing came of it. `how`: what history is to say of revisions of memory (None: what `act` says); `told`: what the
    audit is to say beside that. `approver`: the operator who has said yes to all of it, and stands in the audit for it.
    """
    world = SqlWorld(connection, now)
    if approver is None:
        changes = approvals.rebased(connection, actor, changes, world)
    folded = fold(actor, changes, world, asked=asked, approved=approver is not None)
    if folded.refusals:
        return Committed(folded=folded, memory_of=frozenset(), changes=tuple(changes))
    held: dict[int, str] = {}
    if approver is None:
        folded, held = approvals.keep(connection, actor, changes, folded, world)
    else:
        folded = _approved(folded, approver)
    how = CONSOLIDATE if actor.only_memory else how or HOW.get(act, "write")
    reports = write_effects(connection, folded.effects, actor, now, how)
    if actor.session is not None:
        record(connection, actor.session, part, changes, folded.verdicts, reports=reports)
    by = approver or actor.by
    operators = by.startswith("operator:")
    if folded.effects or held or always_told or approver or not (operators or actor.session is None):
        audit.write(
            connection, at=now, by=by, act=act, target=target,
            detail={**_detail(changes, folded, held), **(told or {})},
            # What an operator does with a session's draft is the operator's act, and stands in the log as such.
            session=None if operators else actor.session,
        )  # fmt: skip
    owners = {e.document.agent for e in folded.effects if isinstance(e, MemoryWritten)}
    return Committed(folded=folded, memory_of=frozenset(owners), changes=tuple(changes))


def _detail(changes: Sequence[Change], folded: Folded, held: Mapping[int, str]) -> dict[str, Any]:
    """What the audit keeps of a change set."""
    detail: dict[str, Any] = {
        "changes": [
            [act_of(change), target_of(change), verdict.decision]
            for change, verdict in zip(changes, folded.verdicts, strict=True)
        ],
    }
    if written := wrote(folded.effects):
        detail["wrote"] = written
    if held:
        detail["held"] = list(map(list, held.items()))
    return detail


def _approved(folded: Folded, by: str) -> Folded:
    """The verdicts, with the operator named where something is written."""
    return Folded(
        verdicts=tuple(
            replace(v, reason="; ".join(filter(None, (f"approved by {by}", v.reason)))) if v.effects else v
            for v in folded.verdicts
        )
    )


def write_effects(
    connection: sqlite3.Connection, effects: Sequence[Effect], actor: Actor, now: datetime, how: str = "write"
) -> list[int]:
    """Write the rows that the rules have decided on; the numbers of the reports, in order. `how`: of revisions."""
    at = to_text(now)
    reports: list[int] = []
    for effect in effects:
        match effect:
            case KeyWritten():
                _write_key(connection, effect)
            case HandoffWritten():
                write_handoff(connection, effect.handoff, at, created=effect.created)
                if effect.entry is not None:
                    entry = effect.entry
                    connection.execute(
                        "INSERT INTO handoff_entries (handoff, seq, at, by, kind, text) VALUES "
                        "(?1, (SELECT 1 + coalesce(max(seq), 0) FROM handoff_entries WHERE handoff = ?1), "
                        "?2, ?3, ?4, ?5)",
                        (effect.handoff.id, to_text(entry.at), entry.by, entry.kind, entry.text),
                    )
            case MemoryWritten():
                write_revision(connection, effect, actor.session, how, actor.by)
            case Reported():
                cursor = connection.execute(
                    "INSERT INTO reports (agent, parent, text, at, session, by) VALUES (?,?,?,?,?,?)",
                    (effect.agent, effect.parent, effect.text, at, actor.session, actor.by),
                )
                reports.append(int(cursor.lastrowid or 0))
    losses.note_written(connection, effects, how)
    return reports


def _write_key(connection: sqlite3.Connection, effect: KeyWritten) -> None:
    key = effect.key
    row = (key.agent, key.key, key.value, key.version, to_text(key.updated), key.by)
    connection.execute(
        "INSERT OR REPLACE INTO keys (agent, key, value, version, updated, by) VALUES (?,?,?,?,?,?)", row
    )
    connection.execute(
        "INSERT INTO key_history (agent, key, value, version, at, by) VALUES (?,?,?,?,?,?)", row
    )  # fmt: skip


def record(
    connection: sqlite3.Connection,
    session: int,
    part: int,
    changes: Sequence[Change],
    verdicts: Sequence[Verdict],
    *,
    verdict_of: Callable[[Verdict], str] = lambda v: v.decision,
    reports: Sequence[int] | None = None,
) -> None:
    """Keep each change of a session with its verdict, for `session show`, trace and revert. `reports`: the numbers of
    those that were made; None: nothing was written.
    """
    numbers = None if reports is None else iter(reports)
    start = connection.execute(
        "SELECT coalesce(max(seq), 0) FROM changes WHERE session = ?", (session,)
    ).fetchone()[0]
    connection.executemany(
        "INSERT INTO changes (session, seq, part, act, target, before, after, verdict, reason, effect) "
        "VALUES (?,?,?,?,?,?,?,?,?,?)",
        [
            (session, start + n, part, act_of(change), target_of(change), verdict.before, _after(change, verdict),
             verdict_of(verdict), verdict.reason, json.dumps([] if numbers is None else _traces(verdict, numbers)))
            for n, (change, verdict) in enumerate(zip(changes, verdicts, strict=True), 1)
        ],
    )  # fmt: skip


def _after(change: Change, verdict: Verdict) -> str | None:
    if verdict.after is not None:
        return verdict.after
    if isinstance(change, AppendMemory) and is_log(change):
        return f"{len(change.text.encode('utf-8', 'replace'))} bytes"  # the draft has them
    raw = change_to_json(change)
    return raw.get("value") or raw.get("text")


def _traces(verdict: Verdict, reports: Iterator[int]) -> list[dict[str, Any]]:
    """What a change has written, as the versions and numbers by which later readers can be found."""
    found: list[dict[str, Any]] = []
    for effect in verdict.effects:
        match effect:
            case KeyWritten():
                found.append({"key": [effect.key.agent, effect.key.key, effect.key.version]})
            case HandoffWritten():
                found.append({"handoff": effect.handoff.id, "created": effect.created})
            case MemoryWritten():
                if effect.document.rev != effect.parent:  # else only conflicts came of it
                    found.append(
                        {"memory": [effect.document.agent, effect.document.path, effect.document.rev]}
                    )
            case Reported():
                found.append({"report": next(reports)})
    return found


def note(connection: sqlite3.Connection, session: int, notes: Sequence[tuple[str, str, str, str]]) -> None:
    """Keep acts that are in no change set: verdict, act, target, reason of each; what is kept already is left out."""
    start = connection.execute(
        "SELECT coalesce(max(seq), 0) FROM changes WHERE session = ?", (session,)
    ).fetchone()[0]
    have = {
        tuple(row)
        for row in connection.execute(
            "SELECT verdict, act, target, reason FROM changes WHERE session = ?", (session,)
        )
    }
    connection.executemany(
        "INSERT INTO changes (session, seq, part, verdict, act, target, reason) VALUES (?,?,0,?,?,?,?)",
        [(session, start + n, *row) for n, row in enumerate((row for row in notes if row not in have), 1)],
    )


def keep_texts(connection: sqlite3.Connection, files: Mapping[str, bytes]) -> None:
    """Keep bytes by their digest: a session goes on from them after a checkpoint that merged."""
    connection.executemany("INSERT OR IGNORE INTO blobs (hash, data) VALUES (?,?)", list(files.items()))
