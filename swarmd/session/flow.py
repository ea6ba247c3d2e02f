"""The life of a session, in order: settle memory, snapshot, prompt, start, run, check, commit, publish.

No transaction is open while a runner runs. Whatever happens, the session ends with an outcome and a reason; a
change set that was not committed is kept as its draft.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import secrets as randomness
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from swarmd.core.agent import Agent, definition_hash
from swarmd.core.changes import Change
from swarmd.core.consolidation import consolidating, emptied, problem_of
from swarmd.core.digests import prompt_digest
from swarmd.core.documents import revision_doc
from swarmd.core.instants import maybe_instant
from swarmd.core.owners import subject_owner
from swarmd.core.prompt import assemble
from swarmd.core.sessions import COMPACT, CONSOLIDATE, is_asked_for
from swarmd.core.snapshot import Prompt, Snapshot, Trigger
from swarmd.core.wire import MemoryTree, Request, Result
from swarmd.core.world import Actor
from swarmd.errors import Refused, SwarmdError
from swarmd.runners.outcomes import RunCancelled
from swarmd.runners.workspace import drop_memory
from swarmd.session import consolidating as consolidating_session
from swarmd.session import interaction
from swarmd.session.desk import SessionDesk
from swarmd.session.ending import Ending, end
from swarmd.session.given_again import past_for
from swarmd.session.hooks import Facts, Hooks
from swarmd.session.instructions import standing
from swarmd.session.journal import Journal
from swarmd.session.known_secrets import Masking
from swarmd.session.persistence import surely, through
from swarmd.session.ports import Ports
from swarmd.session.requests import request_of
from swarmd.session.skills import shown_skills, with_own
from swarmd.session.transcript import Transcript
from swarmd.store import sessions
from swarmd.store.bases import shown
from swarmd.store.connections import Connection, Row
from swarmd.store.database import OutcomeUnknown
from swarmd.store.folders_seen import revisions_of
from swarmd.store.past import Past
from swarmd.store.rows import DamagedText
from swarmd.store.snapshots import snapshot
from swarmd.store.trees import keep_definition, tree_of

logger = logging.getLogger("swarmd")


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A session to be run: its row's facts, and the definition to use where it is not the one in force."""

    id: int
    agent: str
    trigger: str
    slot: datetime | None
    attempt: int
    note: str
    mode: str
    cause_handoff: int | None = None
    depth: int = 0
    definition: Agent | None = None
    from_session: int | None = None
    """An earlier session of the agent, whose snapshot this one is given in place of one of now (see given_again)."""
    by: str = "schedule"
    summary: str | None = None
    """Of a compaction: the summary that a person gives, in place of one that is made."""
    subject: str | None = None
    """What it is about; its memory is then the agent's folder about that subject (core.owners)."""

    @property
    def owner(self) -> str:
        """Whose folder its own memory is."""
        return self.agent if self.subject is None else subject_owner(self.agent, self.subject)

    @property
    def is_asked_for(self) -> bool:
        """Whether an operator waits for it."""
        return is_asked_for(self.trigger, self.by)

    @property
    def is_consolidation(self) -> bool:
        """Whether it puts the agent's memory in order, and does nothing else."""
        return self.trigger == CONSOLIDATE


def order_of(
    row: Row | Mapping[str, Any], definition: Agent | None = None, from_session: int | None = None
) -> Order:
    """The order that a queued row means."""
    return Order(id=row["id"], agent=row["agent"], trigger=row["trigger"], slot=maybe_instant(row["slot"]),
                 attempt=row["attempt"], note=row["note"], mode=row["mode"], cause_handoff=row["cause_handoff"],
                 depth=row["depth"], definition=definition, from_session=from_session, by=row["by"],
                 subject=row["subject"])  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A session that has its row, its prompt and its desk, and now runs."""

    order: Order
    agent: Agent
    actor: Actor
    epoch: int
    memory: MemoryTree
    desk: SessionDesk
    hooks: Hooks
    request: Request


class _NothingNew(Exception):
    """There is nothing that the session could look at: it ends before anything is spent."""


async def run(ports: Ports, order: Order, why_cancelled: Callable[[], str] = lambda: "cancelled") -> str:
    """Run a queued session to its end and return its outcome. Cancelling the task ends it as `cancelled`, for the
    reason that `why_cancelled` gives then.
    """
    if order.trigger == COMPACT:
        # Imported here: it stands on this module, and most sessions are none.
        from swarmd.session.compacting import compact

        return await compact(ports, order, why_cancelled)

    async def unprepared(ending: Ending) -> str:
        return await end(ports, order, ending)

    try:
        started = await _start(ports, order)
    except OutcomeUnknown:
        raise
    except _NothingNew as none:
        ending = Ending(outcome="no_change", reason=str(none))
        return await surely(unprepared, ending, agent=order.agent, session=order.id)
    except Exception as error:  # noqa: BLE001 - a boundary: a fault of one session is that session's end, not more
        ending = Ending(outcome="failed", reason=fault_of("it could not be started", error))
        return await surely(unprepared, ending, agent=order.agent, session=order.id)
    except asyncio.CancelledError:
        ending = Ending(outcome="cancelled", reason=why_cancelled())
        return await surely(unprepared, ending, agent=order.agent, session=order.id)

    async def prepared(ending: Ending) -> str:
        return await end(ports, order, ending, started.desk, started.actor, started.agent, started.epoch)

    ending = await _ran(ports, started, why_cancelled)
    outcome = await surely(prepared, ending, agent=order.agent, session=order.id)
    tally = started.desk.tally
    if outcome in ("committed", "no_change") and tally.saved is not None:
        await started.hooks.after(tally.saved, Facts(refusals=tally.refused))
    return outcome


async def _ran(ports: Ports, started: Started, why_cancelled: Callable[[], str]) -> Ending:
    """How the runner's part went, whatever it does."""
    result: Result | None = None
    try:
        result = await ports.runner(started.agent.runner_kind).run(started.request, started.desk)
        return await _judged(ports, started, result)
    except OutcomeUnknown:
        raise
    except Exception as error:  # noqa: BLE001 - runners are plug-ins: whatever they raise ends their session
        reason = fault_of(f"the runner {started.agent.runner_kind} broke", error)
        return Ending(
            outcome="failed", reason=reason, changes=await _left(ports, started, result), result=result
        )
    except asyncio.CancelledError as stop:
        started.hooks.stop()
        result = stop.result if isinstance(stop, RunCancelled) else result
        reason = why_cancelled()
        return Ending(
            outcome="cancelled", reason=reason, changes=await _left(ports, started, result), result=result
        )


async def _left(ports: Ports, started: Started, result: Result | None) -> tuple[Change, ...]:
    """The change set of a session whose runner is at its end: nothing comes to it any more. It is kept before the
    memory copy is removed, so that no daemon that dies before the commit takes it along.
    """
    desk = started.desk
    await through(asyncio.ensure_future(desk.shut()))
    if desk.log is not None:
        desk.log.ended(result)
    memory, problems = (result.memory, result.memory_problems) if result is not None else (None, ())
    changes = desk.changes_with(memory, problems)
    folder = session_folder(ports, started.order.id)

    def keep() -> None:
        desk.keep_left(changes)
        drop_memory(str(folder))

    if desk.log is not None and (full := interaction.lacks_room(changes, memory or started.memory)):
        desk.transcript.add("warning", {"text": full})
    # Before the session counts as ended: who follows it reads to the end of it then.
    if unkept := desk.transcript.finish():
        logger.warning("%s", unkept, extra={"agent": started.order.agent, "session": started.order.id})

    await through(asyncio.ensure_future(asyncio.to_thread(keep)))
    return tuple(changes)


def fault_of(what: str, error: Exception) -> str:
    """A sentence for people: ours say all, a stranger's needs to be told of what it was."""
    return str(error) if isinstance(error, SwarmdError) else f"{what}: {error!r}"


async def _start(ports: Ports, order: Order) -> Started:
    agent = order.definition or tree_of(ports.reader).agent(order.agent)
    if agent is None:
        raise Refused(f"the agent {order.agent!r} is not in force any more")
    if order.is_consolidation:
        agent = _consolidating(agent)
    await ports.settle_for(agent, order.owner)
    past, seen, prompt = await asyncio.to_thread(_prompted, ports, order, agent)
    token, secrets = randomness.token_urlsafe(32), ports.secrets(agent.runner_options, agent.folder)
    actor = Actor(by=f"{order.agent}#{order.id}", agent=order.agent, session=order.id, depth=_depth(order, seen),
                  cause_handoff=_cause(order, seen), subject=order.subject,
                  only_memory=order.is_consolidation)  # fmt: skip
    facts = _facts(agent, prompt, seen, token, actor)
    if past is not None:
        facts["cause_handoff"] = None  # it is no work on a handoff: whoever sent that hears nothing of it
    epoch = await ports.writer.run(
        lambda connection: mark_running(connection, order, agent, ports.clock.now(), facts)
    )
    memory = MemoryTree.of({d.path: d.data for d in seen.memory if d.data is not None})
    masking, folder = Masking((*secrets, token)), session_folder(ports, order.id)
    request = request_of(
        agent, session=order.id, epoch=epoch, attempt=order.attempt, trigger=order.trigger, prompt=prompt,
        memory=memory, archived=seen.archived, revisions={d.path: revision_doc(d) for d in seen.memory}, token=token,
        secrets=secrets, subject=order.subject,
    )  # fmt: skip
    hooks = Hooks(agent=agent, request=request, ports=ports)
    journal = Journal(folder)
    log = interaction.of_session(agent, actor, order.trigger, journal, ports.clock.now, masking)
    desk = SessionDesk(
        ports, agent=agent, actor=actor, session=order.id, epoch=epoch, base=memory,
        bases={d.path: (d.rev, None) for d in seen.memory}, made_from=_seen_elsewhere(seen),
        seen={(k.agent, k.key): k.version for k in (*seen.keys, *(k for b in seen.below for k in b.keys))},
        journal=journal, transcript=Transcript(folder, ports.clock.now, masking),
        saves=order.mode == "commit", masking=masking, hooks=hooks, past=past, log=log,
    )  # fmt: skip
    if log is not None:
        log.woken(seen)
    desk.tally.counted = prompt.counted
    desk.tally.told = tuple(one.id for one in seen.approvals if one.state != "open")
    return Started(order=order, agent=agent, actor=actor, epoch=epoch, memory=memory, desk=desk, hooks=hooks,
                   request=request)  # fmt: skip


def _consolidating(agent: Agent) -> Agent:
    if problem := problem_of(agent):
        raise Refused(problem)
    return consolidating(agent)


def _prompted(ports: Ports, order: Order, agent: Agent) -> tuple[Past | None, Snapshot, Prompt]:
    """What it is shown. Off the loop: a large memory takes long to read and to count."""
    reader = ports.own_reader() if ports.own_reader else ports.reader
    rules = standing(agent, str(ports.sessions_dir.parent))
    if order.from_session is not None:
        past = past_for(reader, order.from_session, agent, ports.count, str(ports.sessions_dir.parent))
        return past, past.seen, assemble(with_own(past.seen), ports.count, standing=rules)
    skills = shown_skills(agent, tree_of(reader), str(ports.sessions_dir.parent))

    def read() -> Snapshot:
        now = ports.clock.now()
        if order.is_consolidation:
            return _what_is_new(reader, agent, _trigger(order), now, ports.sessions_dir)
        return snapshot(reader, agent, _trigger(order), now, session=order.id, skills=skills,
                        subject=order.subject)  # fmt: skip

    try:
        seen = read()
    except DamagedText as damage:
        if not ports.folders.heal(damage.owner):
            raise
        facts = {"agent": order.agent, "session": order.id}
        logger.warning("put back from the published file: %s", damage, extra=facts)
        seen = read()
    return None, seen, assemble(with_own(seen), ports.count, standing=rules)


def _seen_elsewhere(seen: Snapshot) -> dict[tuple[str, str], int]:
    """The revisions of what it was shown of other folders: what it writes there is made from them."""
    return {(folder.owner, path): rev for folder in seen.shared for path, rev in revisions_of(folder).items()}


def _what_is_new(
    reader: Connection, agent: Agent, trigger: Trigger, now: datetime, sessions_dir: Path
) -> Snapshot:
    seen = consolidating_session.snapshot(reader, agent, trigger, now, sessions_dir)
    if seen.transcripts is None or not seen.transcripts.seen:
        last = seen.transcripts.since if seen.transcripts is not None else 0
        raise _NothingNew(
            f"nothing was started: no session since the last consolidation (up to session {last})"
        )
    return seen


def session_folder(ports: Ports, id: int) -> Path:
    """The private folder of a session."""
    return ports.sessions_dir / str(id)


def mark_running(
    connection: Connection,
    order: Order,
    agent: Agent,
    now: datetime,
    facts: Mapping[str, Any],
) -> int:
    """Write down that the session runs and what it was given; its epoch."""
    if order.definition is not None or order.is_consolidation:  # one that was in force is kept already
        keep_definition(connection, agent, facts["definition"], now)
    return sessions.start(connection, order.id, now, facts)


def _facts(agent: Agent, prompt: Prompt, seen: Snapshot, token: str, actor: Actor) -> dict[str, Any]:
    sections = [{"name": s.name, "tokens": s.tokens, "left_out": s.left_out} for s in prompt.sections]
    return {
        "token_hash": hashlib.sha256(token.encode()).hexdigest(), "definition": definition_hash(agent),
        "prompt_hash": prompt_digest(prompt.system, prompt.user),
        "prompt": json.dumps({"tokens": prompt.tokens, "sections": sections}),
        "base": shown(seen),
        "depth": actor.depth, "cause_handoff": actor.cause_handoff,
    }  # fmt: skip


def _trigger(order: Order) -> Trigger:
    return Trigger(kind=order.trigger, slot=order.slot, attempt=order.attempt,
                   reasons=(order.note,) if order.note else ())  # fmt: skip


def _cause(order: Order, seen: Snapshot) -> int | None:
    """The handoff that a session works on: the one that started it, else the deepest of its open ones."""
    if order.cause_handoff is not None:
        return order.cause_handoff
    deepest = max(seen.open_handoffs, key=lambda h: (h.depth, -h.id), default=None)
    return None if deepest is None else deepest.id


def _depth(order: Order, seen: Snapshot) -> int:
    return max([order.depth, *(h.depth for h in seen.open_handoffs)])


async def _judged(ports: Ports, started: Started, result: Result) -> Ending:
    """The ending that a runner's result means, before the commit."""
    changes = await _left(ports, started, result)
    outcome, reason = _outcome(result, started.desk.tally.failed)
    if outcome == "success" and result.memory_problems and started.agent.memory.persistent:
        outcome, reason = "refused", "; ".join(result.memory_problems)
    if outcome == "success":
        problem = await _success_problem(ports, started, result)
        if problem is None and started.actor.only_memory:
            problem = emptied(started.memory.as_files(), changes)
        if problem is not None:
            outcome, reason = "failed", problem
    if outcome == "success" and started.order.mode == "commit":
        # The last word before the commit: the change set is whole, and nothing comes to it any more.
        changes = tuple(started.hooks.asked_about(changes))
        facts = Facts(refusals=started.desk.tally.refused)
        problem = await started.hooks.before(started.actor, changes, facts)
        if problem is not None:
            outcome, reason = "refused", problem
    return Ending(outcome=outcome, reason=reason, changes=changes, result=result)


def _outcome(result: Result, failed: str | None) -> tuple[str, str]:
    """An agent that says itself that it failed has failed, in its own words, whatever its program's exit status."""
    if failed is not None and result.outcome in ("success", "failed"):
        return "failed", failed
    return result.outcome, result.reason


async def _success_problem(ports: Ports, started: Started, result: Result) -> str | None:
    wanted = started.agent.success
    missing = [key for key in wanted.keys_changed if key not in started.desk.tally.keys_changed]
    if missing:
        return f"success.keys_changed: the session did not set {', '.join(missing)}"
    if wanted.command:
        return await ports.check(started.request, wanted.command, result.memory)
    return None
