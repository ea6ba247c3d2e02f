"""How a session ends: its change set committed or kept as a draft, its row closed, what follows queued."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from swarmd.core.agent import Agent
from swarmd.core.changes import Change
from swarmd.core.judge import fold
from swarmd.core.staging import Folded, Verdict
from swarmd.core.wire import Result, Usage
from swarmd.core.world import Actor
from swarmd.session.desk import SessionDesk
from swarmd.session.ports import Ports
from swarmd.store import audit, sessions
from swarmd.store import commit as committing
from swarmd.store.connections import Connection
from swarmd.store.trees import tree_of
from swarmd.store.world import SqlWorld

if TYPE_CHECKING:
    from swarmd.session.flow import Order

REASON_CHARS = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a session's run went. Outcome `success` still has to be committed; all others keep a draft."""

    outcome: str
    reason: str = ""
    changes: tuple[Change, ...] = ()
    result: Result | None = None


async def end(
    ports: Ports,
    order: Order,
    ending: Ending,
    desk: SessionDesk | None = None,
    actor: Actor | None = None,
    agent: Agent | None = None,
    epoch: int | None = None,
) -> str:
    """End the session and return its outcome. The commit, the row's end, the audit row, the retry and the pause are
    one transaction; the memory files are published after it, before the agent may start again."""
    changes = ending.changes
    if desk is not None:
        await ports.settle(order.agent)

    def work(connection: Connection) -> tuple[str, frozenset[str]]:
        if epoch is not None:
            sessions.still_running(connection, order.id, epoch)
        return _ended(connection, ports, order, ending, changes, desk, actor, agent)

    outcome, memory_of = await ports.writer.run(work)
    if desk is not None:
        desk.close()
    for name in memory_of:
        await ports.settle(name)
    return outcome


def _ended(
    connection: Connection,
    ports: Ports,
    order: Order,
    ending: Ending,
    changes: Sequence[Change],
    desk: SessionDesk | None,
    actor: Actor | None,
    agent: Agent | None,
) -> tuple[str, frozenset[str]]:
    now = ports.clock.now()
    outcome, reason = ending.outcome, ending.reason
    memory_of: frozenset[str] = frozenset()
    draft = tuple(changes)
    if desk is not None and actor is not None:
        if order.mode != "commit":
            outcome, reason = _tried(connection, ports, order, ending, changes, actor)
            draft = ()
        elif outcome == "success":
            outcome, reason, memory_of = _committed(connection, ports, order, changes, desk, actor)
            draft = () if outcome != "refused" else draft
        else:
            _keep(connection, order.id, desk.tally.checkpoints + 1, changes, outcome)
        _keep_notes(connection, order.id, desk)
    result = ending.result
    in_force = tree_of(connection).agent(order.agent)
    sessions.end(
        connection, order.id, outcome=outcome, reason=reason[:REASON_CHARS], now=now,
        exit=result.exit if result is not None else None, usage=result.usage if result is not None else Usage(),
        limits=in_force.limits if in_force is not None else agent.limits if agent is not None else None, draft=draft,
    )  # fmt: skip
    if outcome not in ("committed", "no_change"):
        audit.write(connection, at=now, by=f"{order.agent}#{order.id}", act="session_end", target=order.agent,
                    detail={"outcome": outcome, "reason": reason[:REASON_CHARS]}, session=order.id)  # fmt: skip
    return outcome, memory_of


def _committed(
    connection: Connection,
    ports: Ports,
    order: Order,
    changes: Sequence[Change],
    desk: SessionDesk,
    actor: Actor,
) -> tuple[str, str, frozenset[str]]:
    """Try the commit: the outcome, its reason, and whose memory has changed."""
    now = ports.clock.now()
    part = desk.tally.checkpoints + 1
    if order.agent not in tree_of(connection):
        _keep(connection, order.id, part, changes, "refused")
        return "refused", f"the agent {order.agent!r} was removed while its session ran", frozenset()
    committed = committing.commit(connection, actor, changes, now, target=order.agent, part=part)
    if committed.refusals:
        committing.record(
            connection, order.id, part, changes, committed.folded.verdicts, verdict_of=_refused_whole
        )
        return "refused", "; ".join(committed.refusals), frozenset()
    for id, how in desk.tally.drafts.items():
        sessions.close_draft(connection, id, how, strict=False)
    overtaken = [v.reason for v in committed.folded.verdicts if v.decision == "superseded"]
    reason = f"superseded: {'; '.join(overtaken)}" if overtaken else ""
    changed = committed.changed or desk.tally.checkpoints > 0 or bool(desk.tally.drafts)
    return ("committed" if changed else "no_change"), reason, committed.memory_of


def _refused_whole(verdict: Verdict) -> str:
    """In a change set that is refused as a whole nothing is done, also what would have been right."""
    return "refused" if verdict.decision == "refused" else "not_written"


def _tried(
    connection: Connection,
    ports: Ports,
    order: Order,
    ending: Ending,
    changes: Sequence[Change],
    actor: Actor,
) -> tuple[str, str]:
    """A session that saves nothing: the verdicts are kept to be shown."""
    if ending.outcome != "success":
        _keep(connection, order.id, 1, changes, ending.outcome)
        return ending.outcome, ending.reason
    folded = fold(actor, changes, SqlWorld(connection, ports.clock.now()))
    committing.record(connection, order.id, 1, changes, _without_traces(folded))
    if folded.refusals:
        return "refused", "; ".join(folded.refusals)
    return "dry_run", "nothing was saved: --no-commit"


def _without_traces(folded: Folded) -> list[Verdict]:
    return [
        Verdict(decision=v.decision, reason=v.reason, kind=v.kind, before=v.before, after=v.after)
        for v in folded.verdicts
    ]


def _keep(connection: Connection, id: int, part: int, changes: Sequence[Change], why: str) -> None:
    """Note changes that were not written, for `session show`."""
    verdicts = [Verdict(decision="nothing", reason=f"not saved: the session is {why}")] * len(changes)
    committing.record(connection, id, part, changes, verdicts, verdict_of=lambda _: "not_written")


def _keep_notes(connection: Connection, id: int, desk: SessionDesk) -> None:
    """The acts that were refused or overtaken when they were asked for; they are in no change set."""
    tally = desk.tally
    notes = [("refused", n.act, n.target, n.reason) for n in tally.refusals]
    notes += [("superseded", n.act, n.target, n.reason) for n in tally.superseded]
    committing.note(connection, id, notes)
