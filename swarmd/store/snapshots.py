"""What a session is shown at its start: one consistent read, as core.snapshot.Snapshot."""

from __future__ import annotations

import hmac
import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from swarmd.core.agent import Agent
from swarmd.core.approvals import Approval
from swarmd.core.calibration import measured_as
from swarmd.core.changes import act_of, target_of
from swarmd.core.handoffs import Handoff, work_order
from swarmd.core.instants import from_text, maybe_instant, to_text
from swarmd.core.owners import subject_owner
from swarmd.core.skills import Skill
from swarmd.core.snapshot import (
    Aftermath,
    ApprovalSeen,
    Below,
    ReportSeen,
    Snapshot,
    Trigger,
)
from swarmd.core.world import Document
from swarmd.store import approvals, folders_seen, meta, sessions, usage
from swarmd.store.connections import reading
from swarmd.store.handoff_rows import handoffs_of
from swarmd.store.rows import HANDOFF_COLUMNS, ORDINARY, UNSETTLED, UNTAINTED
from swarmd.store.world import SqlWorld

QUARANTINED = "the session is in quarantine: what it said is not shown"
WORK_READ = 500
SENT_SHOWN = 200
REPORTS_SHOWN = 20
APPROVALS_SHOWN = 100
KEPT_DAYS = 30


def snapshot(
    connection: sqlite3.Connection,
    agent: Agent,
    trigger: Trigger,
    now: datetime,
    *,
    session: int | None = None,
    skills: Sequence[Skill] = (),
    subject: str | None = None,
) -> Snapshot:
    """All that a session of `agent` that starts at `now` may know. `session`: its own id, which is not counted as
    a last session. `skills`: the operator's, which the store does not have. `subject`: what it is about; what sessions
    about others have left behind is not told to it.
    """
    own = agent.name if subject is None else subject_owner(agent.name, subject)
    with reading(connection):
        world = SqlWorld(connection, now)
        last = _last(connection, agent.name, session, subject)
        open_handoffs, more = _work(connection, agent.name, now)
        children = world.tree.children(agent.name)
        hashes = _definitions(connection, children)
        kept = _memory(world, agent, own)
        corrected = usage.learnt(connection, agent.name, measured_as(agent))
        return Snapshot(
            agent=agent, now=now, zone=agent.when.timezone, trigger=trigger, skills=tuple(skills),
            memory=kept[0], keys=tuple(world.keys(agent.name)),
            below=tuple(_below(connection, world, name, hashes.get(name, "")) for name in children),
            open_handoffs=tuple(open_handoffs), more_open_handoffs=more,
            sent=tuple(_sent(connection, agent.name, last, now)),
            aftermath=None if last is None else _aftermath(connection, last, agent.name, subject),
            conflicts=tuple(folders_seen.conflicts_now(connection, agent, own, subject)), archived=kept[1],
            approvals=tuple(_approvals(connection, agent.name, subject, now)),
            last_started=None if last is None else maybe_instant(last["started"]),
            last_outcome=None if last is None else last["outcome"],
            fence=fence(connection, agent.name), token_ratio=corrected.ratio, token_overhead=corrected.overhead,
            subject=subject, shared=folders_seen.shared_now(world, agent, connection),
            readable=folders_seen.readable_now(world, agent, connection),
            general=folders_seen.general_now(world, agent, subject, connection),
        )  # fmt: skip


def fence(connection: sqlite3.Connection, agent: str) -> str:
    """The agent's secret for section fences, from the store's."""
    secret = meta.get(connection, "fence") or ""
    return hmac.new(secret.encode(), agent.encode(), "sha256").hexdigest()


def _last(
    connection: sqlite3.Connection, agent: str, session: int | None, subject: str | None
) -> sqlite3.Row | None:
    """The last session about the same subject (None: about none)."""
    found: sqlite3.Row | None = connection.execute(
        "SELECT * FROM sessions INDEXED BY sessions_subject WHERE agent = ? AND subject IS ? AND state = 'ended' "
        f"AND mode = 'commit' AND started IS NOT NULL AND {ORDINARY} AND id IS NOT ? ORDER BY id DESC LIMIT 1",
        (agent, subject, session),
    ).fetchone()
    return found


def _last_of_all(connection: sqlite3.Connection, agent: str) -> sqlite3.Row | None:
    """The last session, whatever it was about: of it an agent above is told the outcome and the time."""
    found: sqlite3.Row | None = connection.execute(
        "SELECT id, outcome, ended FROM sessions WHERE agent = ? AND state = 'ended' AND mode = 'commit' AND started "
        f"IS NOT NULL AND {ORDINARY} ORDER BY id DESC LIMIT 1",
        (agent,),
    ).fetchone()
    return found


def _memory(world: SqlWorld, agent: Agent, own: str) -> tuple[tuple[Document, ...], int]:
    """Its files, and how many older texts there are. Of an agent that keeps nothing, what is left of earlier times is
    the operator's.
    """
    if not agent.memory.persistent:
        return (), 0
    return tuple(world.documents(own)), world.archived(own)


def _definitions(connection: sqlite3.Connection, names: Sequence[str]) -> dict[str, str]:
    """The hashes of the definitions in force."""
    found: dict[str, str] = {}
    for start in range(0, len(names), 500):
        some = names[start : start + 500]
        marks = ",".join("?" * len(some))
        rows = connection.execute(f"SELECT name, hash FROM agents WHERE name IN ({marks})", some)
        found.update((row["name"], row["hash"]) for row in rows)
    return found


def _below(connection: sqlite3.Connection, world: SqlWorld, name: str, definition: str) -> Below:
    last = _last_of_all(connection, name)
    count = connection.execute(
        f"SELECT count(*) FROM handoffs INDEXED BY handoffs_work WHERE receiver = ? AND {UNSETTLED}",
        (name,),
    ).fetchone()[0]
    # What it reported to somebody else, as long as it stood elsewhere in the tree, was meant for that one.
    reports = connection.execute(
        f"SELECT id, agent, text, at FROM reports WHERE agent = ? AND parent = ? AND {UNTAINTED} "
        "ORDER BY id DESC LIMIT ?",
        (name, world.tree.parent(name), REPORTS_SHOWN),
    ).fetchall()
    agent = world.tree.agent(name)
    return Below(
        agent=name, description=agent.description if agent is not None else "",
        last_outcome=last["outcome"] if last is not None else None,
        last_ended=maybe_instant(last["ended"]) if last is not None else None,
        open_handoffs=count, keys=tuple(world.keys(name)),
        reports=tuple(
            ReportSeen(id=row["id"], agent=row["agent"], text=row["text"], at=from_text(row["at"]))
            for row in reversed(reports)
        ),
        last_session=last["id"] if last is not None else None, definition=definition,
    )  # fmt: skip


def _work(connection: sqlite3.Connection, agent: str, now: datetime) -> tuple[list[Handoff], int]:
    """The open work, urgent first, then oldest, and how much more there is than is looked at."""
    rows = connection.execute(
        f"SELECT {HANDOFF_COLUMNS} FROM handoffs INDEXED BY handoffs_work WHERE receiver = ? AND {UNSETTLED} "
        "AND status != 'waiting' ORDER BY min(3, "
        "CASE priority WHEN 'urgent' THEN 3 WHEN 'high' THEN 2 WHEN 'normal' THEN 1 ELSE 0 END "
        "+ (due IS NOT NULL AND due < ?)) DESC, created, id LIMIT ?",
        (agent, to_text(now - timedelta(hours=1)), WORK_READ + 1),
    ).fetchall()
    more = 0
    if len(rows) > WORK_READ:
        count = connection.execute(
            f"SELECT count(*) FROM handoffs INDEXED BY handoffs_work WHERE receiver = ? AND {UNSETTLED} "
            "AND status != 'waiting'",
            (agent,),
        ).fetchone()[0]
        rows, more = rows[:WORK_READ], count - WORK_READ
    return sorted(handoffs_of(connection, rows), key=lambda h: work_order(h, now)), more


def _sent(
    connection: sqlite3.Connection, agent: str, last: sqlite3.Row | None, now: datetime
) -> list[Handoff]:
    """What has become of handoffs that the agent sent: asking, a day past their due time, or moved since its last
    good session began.
    """
    good = connection.execute(
        f"SELECT started FROM sessions WHERE agent = ? AND state = 'ended' AND mode = 'commit' AND {ORDINARY} "
        "AND outcome IN ('committed', 'no_change') ORDER BY id DESC LIMIT 1",
        (agent,),
    ).fetchone()
    since = good["started"] if good is not None else to_text(now - timedelta(days=KEPT_DAYS))
    # Two reads, each by an index of its own: over all that it ever sent one read takes as long as its history is.
    urgent = connection.execute(
        f"SELECT {HANDOFF_COLUMNS} FROM handoffs INDEXED BY handoffs_asked WHERE sender = ? AND {UNSETTLED} "
        "AND (status = 'waiting' OR due < ?) ORDER BY moved DESC LIMIT ?",
        (agent, to_text(now - timedelta(days=1)), SENT_SHOWN),
    ).fetchall()
    moved = connection.execute(
        f"SELECT {HANDOFF_COLUMNS} FROM handoffs INDEXED BY handoffs_sent WHERE sender = ? AND moved > ? "
        "AND status != 'open' ORDER BY moved DESC LIMIT ?",
        (agent, since, SENT_SHOWN),
    ).fetchall()
    rows = {row["id"]: row for row in (*urgent, *moved)}
    return handoffs_of(connection, [row for _, row in sorted(rows.items())])


def _aftermath(
    connection: sqlite3.Connection, last: sqlite3.Row, agent: str, subject: str | None
) -> Aftermath:
    found = aftermath_of(connection, last, sessions.newest_draft(connection, agent, subject))
    return without_texts(found) if last["quarantined"] is not None else found


def without_texts(after: Aftermath) -> Aftermath:
    """What a session in quarantine left: how it ended, and nothing that it said."""
    return replace(after, reason=QUARANTINED, refusals=(), superseded=(), quarantined=True)


def aftermath_of(connection: sqlite3.Connection, last: sqlite3.Row, open_draft: int | None) -> Aftermath:
    """What the session of this row left undone; `open_draft`: the session whose draft was the agent's newest open one
    then.
    """
    rows = connection.execute(
        "SELECT act, target, verdict, reason FROM changes WHERE session = ? AND verdict IN ('refused', 'superseded') "
        "ORDER BY seq LIMIT 100",
        (last["id"],),
    ).fetchall()
    lines = (
        []
        if open_draft is None
        else [f"{act_of(c)} {target_of(c)}" for c in sessions.draft(connection, open_draft)]
    )

    def told(verdict: str) -> tuple[str, ...]:
        return tuple(f"{r['act']} {r['target']}: {r['reason']}" for r in rows if r["verdict"] == verdict)

    return Aftermath(
        session=last["id"], outcome=last["outcome"], reason=last["reason"], draft=tuple(lines),
        draft_session=open_draft,
        refusals=told("refused"), superseded=told("superseded"),
    )  # fmt: skip


def _approvals(
    connection: sqlite3.Connection, agent: str, subject: str | None, now: datetime
) -> list[ApprovalSeen]:
    found = approvals.untold(connection, agent, APPROVALS_SHOWN, subject)
    return [approval_seen(one, one.state_at(now)) for one in found]


def approval_seen(approval: Approval, state: str) -> ApprovalSeen:
    """An approval as a prompt tells of it while it stands so; what came later is not in it."""
    shown = ApprovalSeen(id=approval.id, target=approval.target, session=approval.session, created=approval.created,
                         expires=approval.expires, state=state)  # fmt: skip
    if state in ("open", "expired"):
        return shown
    return replace(shown, decided=approval.decided, decided_by=approval.decided_by or "",
                   decided_reason=approval.decided_reason)  # fmt: skip
