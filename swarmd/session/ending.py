"""How a session ends: its change set committed or kept as a draft, its row closed, what follows queued."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from swarmd.core.agent import Agent, Limits
from swarmd.core.calibration import measured_as
from swarmd.core.changes import Change, owners_of
from swarmd.core.judge import AS_A_WHOLE, fold
from swarmd.core.staging import Folded, Verdict
from swarmd.core.wire import Result
from swarmd.core.world import Actor
from swarmd.errors import SwarmdError
from swarmd.session import drafts, interaction
from swarmd.session.desk import SessionDesk
from swarmd.session.known_secrets import Masking
from swarmd.session.ports import Ports
from swarmd.session.tally import Note, overtaken_draft
from swarmd.store import approvals, audit, consolidated, sessions, usage
from swarmd.store import commit as committing
from swarmd.store.connections import Connection, StoreError
from swarmd.store.raising import cure, raise_attention
from swarmd.store.trees import tree_of

if TYPE_CHECKING:
    from swarmd.session.flow import Order

REASON_CHARS = 2000
TELLING = frozenset({"committed", "no_change"})
"""What a session that ended so was told counts as told."""


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
    one transaction; the memory files are published after it, before the agent may start again.
    """
    changes = ending.changes
    if desk is not None:
        for owner in (order.owner, *sorted(owners_of(changes) - {order.owner})):
            await settled(ports, owner)

    def work(connection: Connection) -> tuple[str, frozenset[str]]:
        if epoch is not None:
            sessions.still_running(connection, order.id, epoch)
        return _ended(connection, ports, order, ending, changes, desk, actor, agent)

    outcome, memory_of = await ports.writer.run(work)
    if desk is not None:
        desk.close()
    for name in memory_of:
        await settled(ports, name)
    return outcome


async def settled(ports: Ports, agent: str) -> None:
    """Bring memory files up to date, where that can be done now: the end of a session does not hang on it. What
    waits is done before the agent's next session, which does.
    """
    with suppress(SwarmdError, OSError, StoreError):
        await ports.settle(agent)


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
    overtaken: list[Note] = []
    draft = tuple(changes)
    if desk is not None and actor is not None:
        if order.mode != "commit":
            outcome, reason = _tried(connection, order, ending, changes, desk, actor)
            draft = ()
        elif outcome == "success":
            outcome, reason, memory_of, overtaken = _committed(connection, ports, order, changes, desk, actor)
            draft = () if outcome != "refused" else draft
        else:
            _keep(connection, order.id, desk.tally.checkpoints + 1, changes, outcome)
        if order.is_consolidation:
            draft = _looked_through(connection, order, outcome, overtaken=bool(reason), now=now)
        if draft:
            drafts.hand_on(connection, desk.tally.drafts)
        kept = agent is None or agent.memory.persistent
        problems = ending.result.memory_problems if ending.result is not None and kept else ()
        _keep_notes(connection, order, desk, overtaken, problems)
    reason = (desk.masking if desk is not None else Masking()).text(reason)
    in_force = tree_of(connection).agent(order.agent)
    limits = in_force.limits if in_force is not None else agent.limits if agent is not None else None
    close(
        connection,
        order,
        Ending(outcome=outcome, reason=reason, result=ending.result),
        now,
        limits=limits,
        draft=draft,
    )
    if desk is not None and desk.tally.told and outcome in TELLING and order.mode == "commit":
        approvals.told(connection, desk.tally.told, order.id)
    pair = desk.tally.pair if desk is not None else None
    if pair is not None and agent is not None and order.mode == "commit" and not order.is_consolidation:
        usage.learn(connection, order.agent, measured_as(agent), order.id, pair)
    return outcome, memory_of


def close(
    connection: Connection,
    order: Order,
    ending: Ending,
    now: datetime,
    *,
    limits: Limits | None = None,
    draft: Sequence[Change] = (),
) -> None:
    """End the row, with what was used; the audit tells of what did not go well. `limits` as in sessions.end."""
    outcome, reason, result = ending.outcome, ending.reason[:REASON_CHARS], ending.result
    sessions.end(
        connection, order.id, outcome=outcome, reason=reason, now=now,
        exit=result.exit if result is not None else None, usage=result.usage if result is not None else None,
        by_model=result.by_model if result is not None else None, limits=limits, draft=draft,
    )  # fmt: skip
    if outcome not in ("committed", "no_change"):
        # The audit never forgets, and what was said about a subject may have to be forgotten: the row has the reason.
        why = {"reason": reason} if order.subject is None else {}
        audit.write(connection, at=now, by=f"{order.agent}#{order.id}", act="session_end", target=order.agent,
                    detail={"outcome": outcome, **why}, session=order.id)  # fmt: skip


def _committed(
    connection: Connection,
    ports: Ports,
    order: Order,
    changes: Sequence[Change],
    desk: SessionDesk,
    actor: Actor,
) -> tuple[str, str, frozenset[str], list[Note]]:
    """Try the commit: the outcome, its reason, whose memory has changed, and what of a draft was overtaken."""
    tally, part = desk.tally, desk.tally.checkpoints + 1
    kept, closed = drafts.without_closed(connection, tally.drafts, changes)
    committed = committing.commit(connection, actor, kept, ports.clock.now(), target=order.agent, part=part)
    verdicts = committed.folded.verdicts
    if committed.refusals:
        committing.record(connection, order.id, part, kept, verdicts, verdict_of=_refused_whole)
        # One reason may stand against many acts.
        return "refused", "; ".join(dict.fromkeys(committed.refusals)), frozenset(), []
    drafts.close(connection, tally.drafts)
    tally.saved = committed
    notes = [overtaken_draft(change, draft) for draft, change in closed]
    overtaken = [
        *(v.reason.removeprefix(AS_A_WHOLE) for v in verdicts if v.decision == "superseded"),
        *(note.reason for note in notes),
    ]
    reason = f"superseded: {'; '.join(dict.fromkeys(overtaken))}" if overtaken else ""
    _tell_of_log(connection, order, interaction.left_out(kept, verdicts), ports.clock.now())
    changed = interaction.did_more(kept, verdicts) or tally.checkpoints > 0 or bool(tally.drafts)
    return ("committed" if changed else "no_change"), reason, committed.memory_of, notes


def _looked_through(
    connection: Connection, order: Order, outcome: str, *, overtaken: bool, now: datetime
) -> tuple[Change, ...]:
    """Where a consolidation has gone well, note how far it has looked. It leaves no draft: that would be written over
    what has come since, and another is made of the same transcripts.
    """
    if order.mode == "commit" and outcome in ("committed", "no_change") and not overtaken:
        consolidated.done(connection, order.id, now)
    return ()


def _tell_of_log(connection: Connection, order: Order, left_out: str | None, now: datetime) -> None:
    """A log that found no room is a person's business: the next ones will find none either."""
    id = f"log:{order.agent}"
    if left_out:
        step = f"swarmd memory edit {order.agent}, or swarmd memory compact {order.agent}"
        raise_attention(
            connection, id=id, kind="log", agent=order.agent, text=left_out, next_step=step, now=now
        )
    elif left_out is not None:
        cure(connection, id)


def _refused_whole(verdict: Verdict) -> str:
    """In a change set that is refused as a whole nothing is done, also what would have been right."""
    return "refused" if verdict.decision == "refused" else "not_written"


def _tried(
    connection: Connection,
    order: Order,
    ending: Ending,
    changes: Sequence[Change],
    desk: SessionDesk,
    actor: Actor,
) -> tuple[str, str]:
    """A session that saves nothing: the verdicts are kept to be shown."""
    if ending.outcome != "success":
        _keep(connection, order.id, 1, changes, ending.outcome)
        return ending.outcome, ending.reason
    folded = fold(actor, changes, desk.rows(connection))
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


def _keep_notes(
    connection: Connection,
    order: Order,
    desk: SessionDesk,
    overtaken: Sequence[Note],
    problems: Sequence[str],
) -> None:
    """What was refused or overtaken and is in no change set: acts when they were asked for, files of the copy."""
    tally, masked = desk.tally, desk.masking.text
    notes = [("refused", n.act, n.target, n.reason) for n in tally.refusals]
    notes += [("refused", "memory_write", f"{order.owner}:", masked(problem)) for problem in problems]
    notes += [("superseded", n.act, n.target, n.reason) for n in (*tally.superseded, *overtaken)]
    committing.note(connection, order.id, notes)
