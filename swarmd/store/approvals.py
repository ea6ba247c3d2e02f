"""Rows of what waits for an operator's yes: kept with the commit that held it, superseded, expired, told, withdrawn."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

from swarmd.core.approvals import Approval, as_json, digest_of, held_because, of_one_target, replaces
from swarmd.core.changes import Change, WriteMemory, change_from_json, target_of
from swarmd.core.digests import digest
from swarmd.core.instants import from_text, maybe_instant, to_text
from swarmd.core.interaction_log import is_log
from swarmd.core.judge import fold
from swarmd.core.owners import agent_of_owner
from swarmd.core.staging import Folded, Verdict
from swarmd.errors import NotFound
from swarmd.store.windows import Row, Window, select, windowed

if TYPE_CHECKING:
    from swarmd.core.agent import Agent
    from swarmd.core.world import Actor, World

LOOKED_BACK = 20
"""So many of an agent's newest wishes for one target are looked at for what a text was made from."""


def approval_of(row: sqlite3.Row) -> Approval:
    """A row as a value. What it holds is nothing where it cannot be read: then it is not what was held."""
    return Approval(
        id=row["id"], agent=row["agent"], session=row["session"], by=row["by"], target=row["target"],
        changes=_changes(row["changes"]), hash=row["hash"],
        reason=row["reason"], created=from_text(row["created"]), expires=from_text(row["expires"]),
        state=row["state"], decided=maybe_instant(row["decided"]), decided_by=row["decided_by"],
        decided_reason=row["decided_reason"],
    )  # fmt: skip


def _changes(text: str) -> tuple[Change, ...]:
    try:
        return tuple(change_from_json(raw) for raw in json.loads(text))
    except (ValueError, TypeError, KeyError, AttributeError):
        return ()


def by_id(connection: sqlite3.Connection, id: int) -> Approval:
    """One of them. Raises NotFound."""
    row = connection.execute("SELECT * FROM approvals WHERE id = ?", (id,)).fetchone()
    if row is None:
        raise NotFound(f"there is no approval {id}; swarmd approval list --all shows every one")
    return approval_of(row)


# -- holding ------------------------------------------------------------------------------------------------


def rules_of(actor: Actor, world: World) -> Agent | None:
    """The agent, where anything that its session writes may have to wait."""
    if actor.agent is None or actor.session is None:
        return None
    own = world.tree.agent(actor.agent)
    if own is None or not (
        own.approval_keys or own.memory.approval or any(f.approval for f in own.memory.shared)
    ):
        return None
    return own


def rebased(
    connection: sqlite3.Connection, actor: Actor, changes: Sequence[Change], world: World
) -> Sequence[Change]:
    """The changes, where a text that was made from one which is held itself is made from what that was made from: in
    the store there never was the other.
    """
    if rules_of(actor, world) is None:
        return changes
    return [
        _rebased(connection, actor, change, world)
        if isinstance(change, WriteMemory) and held_because(actor, change, world.tree)
        else change
        for change in changes
    ]


def _rebased(connection: sqlite3.Connection, actor: Actor, change: WriteMemory, world: World) -> WriteMemory:
    head = world.document(change.agent, change.path)
    head_rev = head.rev if head is not None else 0
    if change.base_hash is None and 0 <= change.base <= head_rev:
        return change
    for old in _wishes(connection, actor, target_of(change), "state != 'approved'"):
        texts = [wish for wish in old.changes if isinstance(wish, WriteMemory)]
        if texts and _is_made_from(change, texts[-1], same_session=old.session == actor.session):
            return replace(change, base=texts[-1].base, base_hash=texts[-1].base_hash)
    return change


def _is_made_from(change: WriteMemory, held: WriteMemory, *, same_session: bool) -> bool:
    if change.base_hash is not None:
        return held.data is not None and digest(held.data) == change.base_hash
    return same_session and (change.base > 0 or held.data is None)


def _wishes(connection: sqlite3.Connection, actor: Actor, target: str, where: str) -> list[Approval]:
    """The agent's newest approvals for a target, newest first."""
    rows = connection.execute(
        f"SELECT * FROM approvals WHERE agent = ? AND target = ? AND {where} ORDER BY id DESC LIMIT ?",
        (actor.agent, target, LOOKED_BACK),
    )
    return [approval_of(row) for row in rows]


def keep(
    connection: sqlite3.Connection, actor: Actor, changes: Sequence[Change], folded: Folded, world: World
) -> tuple[Folded, dict[int, str]]:
    """Keep what was held of a change set, an approval a target; the verdicts then name them. A newer wish takes the
    place of an open one, and the same wish again is the same approval. Returns the digests of the new ones too.
    """
    own = rules_of(actor, world)
    if own is None:
        return folded, {}
    verdicts = list(folded.verdicts)
    # What was said is wanted for itself, whatever becomes of the notes beside it.
    targets: dict[tuple[str, bool], list[int]] = {}
    for n, (change, verdict) in enumerate(zip(changes, verdicts, strict=True)):
        if verdict.decision == "held":
            targets.setdefault((target_of(change), is_log(change)), []).append(n)
        elif verdict.decision == "nothing" and held_because(actor, change, world.tree):
            _take_back(connection, actor, [change], world.now)
    expires = world.now + timedelta(seconds=own.approval_expires_seconds)
    hashes: dict[int, str] = {}
    for (target, _), places in targets.items():
        wanted = of_one_target([changes[n] for n in places])
        if all(v.decision == "nothing" for v in fold(actor, wanted, world, approved=True).verdicts):
            _take_back(connection, actor, wanted, world.now)
            for n in places:
                verdicts[n] = Verdict(decision="nothing", before=verdicts[n].before, after=verdicts[n].after)
            continue
        reason = verdicts[places[-1]].reason
        id, hash_ = _held(connection, actor, target, wanted, reason, world.now, expires)
        if hash_ is not None:
            hashes[id] = hash_
        for n in places:
            verdicts[n] = replace(verdicts[n], reason=f"{verdicts[n].reason} (approval {id})", value=id)
    return Folded(verdicts=tuple(verdicts)), hashes


def _held(
    connection: sqlite3.Connection,
    actor: Actor,
    target: str,
    wanted: tuple[Change, ...],
    reason: str,
    now: datetime,
    expires: datetime,
) -> tuple[int, str | None]:
    """The approval that holds it, and its digest where it is a new one."""
    assert actor.agent is not None
    older = [o for o in _wishes(connection, actor, target, "state = 'open'") if o.expires > now]
    replaced = [old for old in older if replaces(wanted, old.changes)]
    for old in replaced:
        if old.changes == wanted:
            return old.id, None
    hash_ = digest_of(actor.agent, actor.session, actor.by, wanted, expires)
    cursor = connection.execute(
        "INSERT INTO approvals (agent, session, by, target, changes, hash, reason, created, expires, state) "
        "VALUES (?,?,?,?,?,?,?,?,?,'open')",
        (actor.agent, actor.session, actor.by, target, json.dumps(as_json(wanted), ensure_ascii=False), hash_,
         reason, to_text(now), to_text(expires)),
    )  # fmt: skip
    id = int(cursor.lastrowid or 0)
    for old in replaced:
        _supersede(connection, actor, old, f"approval {id} has taken its place", now)
    return id, hash_


def _take_back(connection: sqlite3.Connection, actor: Actor, wanted: Sequence[Change], now: datetime) -> None:
    """What the agent wants now stands there already: an open wish for something else is none any more."""
    for old in _wishes(connection, actor, target_of(wanted[0]), "state = 'open'"):
        if replaces(wanted, old.changes):
            _supersede(connection, actor, old, "the agent wants it as it is", now)


def _supersede(connection: sqlite3.Connection, actor: Actor, old: Approval, why: str, now: datetime) -> None:
    settle(connection, old.id, "superseded", by=actor.by, reason=why, now=now)
    if old.session == actor.session:
        # Its own session knows: nobody has to be told in a prompt.
        connection.execute("UPDATE approvals SET told = ? WHERE id = ?", (actor.session, old.id))


# -- what becomes of them -----------------------------------------------------------------------------------


def settle(
    connection: sqlite3.Connection, id: int, state: str, *, by: str, reason: str, now: datetime
) -> bool:
    """Move an open one to its final state; False where it is not open any more."""
    cursor = connection.execute(
        "UPDATE approvals SET state = ?, decided = ?, decided_by = ?, decided_reason = ? "
        "WHERE id = ? AND state = 'open'",
        (state, to_text(now), by, reason, id),
    )
    return cursor.rowcount == 1


def overdue(connection: sqlite3.Connection, now: datetime) -> list[int]:
    """Open ones whose time is over."""
    rows = connection.execute(
        "SELECT id FROM approvals WHERE state = 'open' AND expires <= ? ORDER BY id", (to_text(now),)
    )
    return [row[0] for row in rows]


def expire(connection: sqlite3.Connection, now: datetime) -> int:
    """Mark those whose time is over; how many there were."""
    found = overdue(connection, now)
    for id in found:
        settle(connection, id, "expired", by="system", reason="nobody decided in time", now=now)
    if found:
        from swarmd.store import audit  # imported here: lists of approvals write nothing

        audit.write(connection, at=now, by="system", act="approval_expire", target=", ".join(map(str, found[:50])),
                    detail={"approvals": found})  # fmt: skip
    return len(found)


def of_sessions(connection: sqlite3.Connection, sessions: Sequence[int]) -> list[Approval]:
    """The open ones of these sessions."""
    marks = ",".join("?" * len(sessions))
    rows = connection.execute(
        f"SELECT * FROM approvals WHERE state = 'open' AND session IN ({marks}) ORDER BY id", list(sessions)
    )
    return [approval_of(row) for row in rows]


def untold(
    connection: sqlite3.Connection, agent: str, most: int, subject: str | None = None
) -> list[Approval]:
    """What the agent's next prompt about this subject (None: about none) tells of, newest first: what still waits, and
    what was decided since it was told. Of sessions in quarantine nothing is told.
    """
    rows = connection.execute(
        "SELECT a.* FROM approvals a LEFT JOIN sessions s ON s.id = a.session WHERE a.agent = ? AND a.told IS NULL "
        "AND s.subject IS ? AND s.quarantined IS NULL ORDER BY a.id DESC LIMIT ?",
        (agent, subject, most),
    )
    return [approval_of(row) for row in rows]


def told(connection: sqlite3.Connection, ids: Sequence[int], session: int) -> None:
    """A session that went well was shown what became of these."""
    connection.executemany(
        "UPDATE approvals SET told = ? WHERE id = ? AND told IS NULL",
        [(session, id) for id in ids],
    )


def rename(connection: sqlite3.Connection, old: str, new: str) -> None:
    """What waits speaks of the agent by its new name, and is bound to that; what was changed by hand still shows."""
    for row in connection.execute("SELECT * FROM approvals WHERE state = 'open' ORDER BY id").fetchall():
        found = approval_of(row)
        if found.bound != found.hash:
            continue
        changes = tuple(_renamed(change, old, new) for change in found.changes)
        agent = new if found.agent == old else found.agent
        if (agent, changes) == (found.agent, found.changes):
            continue
        bound = digest_of(agent, found.session, found.by, changes, found.expires)
        connection.execute(
            "UPDATE approvals SET agent = ?, target = ?, changes = ?, hash = ? WHERE id = ?",
            (agent, target_of(changes[0]), json.dumps(as_json(changes), ensure_ascii=False),
             bound, found.id),
        )  # fmt: skip
    connection.execute("UPDATE approvals SET agent = ? WHERE agent = ?", (new, old))


def _renamed(change: Change, old: str, new: str) -> Change:
    owner = getattr(change, "agent", None)
    if not isinstance(owner, str) or agent_of_owner(owner) != old:
        return change
    renamed: Any = change
    return cast(Change, replace(renamed, agent=new + owner.removeprefix(old)))


# -- lists --------------------------------------------------------------------------------------------------


def rows(
    connection: sqlite3.Connection,
    *,
    agent: str | None = None,
    open_only: bool = True,
    since: str | None = None,
    until: str | None = None,
    n: int = 1000,
) -> list[Approval]:
    """Approvals, newest first; `open_only`: those that nobody has decided on, expired or not."""
    where, values = ["1"], list[Any]()
    conditions: Mapping[str, str | None] = {"agent = ?": agent, "created >= ?": since, "created < ?": until}
    for condition, value in conditions.items():
        if value is not None:
            where.append(condition)
            values.append(value)
    if open_only:
        where.append("state = 'open'")
    sql = f"SELECT * FROM approvals WHERE {' AND '.join(where)} ORDER BY id DESC LIMIT ?"
    return [approval_of(row) for row in connection.execute(sql, (*values, n))]


def happened(connection: sqlite3.Connection, window: Window, agent: str | None = None) -> list[Row]:
    """When sessions asked for an approval, and when a newer wish took the place of an open one, newest first: `what` is
    `held` or `superseded`. What operators decided is in the audit.
    """
    asked = "SELECT id, agent, session, by, target, reason, created AS at, 'held' AS what FROM approvals"
    overtaken = (
        "SELECT id, agent, session, decided_by AS by, target, decided_reason AS reason, decided AS at, "
        "'superseded' AS what FROM approvals WHERE state = 'superseded' AND decided_by NOT GLOB 'operator:*'"
    )
    where, values = windowed("at", window)
    if agent is not None:
        where.append("agent = ?")
        values.append(agent)
    sql = f"SELECT * FROM ({asked} UNION ALL {overtaken})"
    return select(connection, sql, where, values, "at DESC, id DESC", window.n)
