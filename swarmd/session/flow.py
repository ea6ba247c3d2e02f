"""The life of a session, in order: settle memory, snapshot, prompt, start, run, check, commit, publish.

No transaction is open while a runner runs. Whatever happens, the session ends with an outcome and a reason; a
change set that was not committed is kept as its draft.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets as randomness
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from swarmd.core.agent import Agent, definition_hash, to_json
from swarmd.core.instants import maybe_instant, to_text
from swarmd.core.prompt import assemble
from swarmd.core.snapshot import Prompt, Snapshot, Trigger
from swarmd.core.wire import MemoryTree, Request, Result
from swarmd.core.world import Actor
from swarmd.errors import Refused, SwarmdError
from swarmd.runners.outcomes import RunCancelled
from swarmd.session.desk import SessionDesk
from swarmd.session.ending import Ending, end
from swarmd.session.journal import Journal
from swarmd.session.ports import Ports
from swarmd.store import sessions
from swarmd.store.snapshots import shown, snapshot
from swarmd.store.trees import tree_of


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


def order_of(row: sqlite3.Row, definition: Agent | None = None) -> Order:
    """The order that a queued row means."""
    return Order(id=row["id"], agent=row["agent"], trigger=row["trigger"], slot=maybe_instant(row["slot"]),
                 attempt=row["attempt"], note=row["note"], mode=row["mode"], cause_handoff=row["cause_handoff"],
                 depth=row["depth"], definition=definition)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A session that has its row, its prompt and its desk, and now runs."""

    order: Order
    agent: Agent
    actor: Actor
    epoch: int
    memory: MemoryTree
    desk: SessionDesk
    request: Request


async def run(ports: Ports, order: Order) -> str:
    """Run a queued session to its end and return its outcome. Cancelling ends it as `cancelled`, with the reason
    that was given to `Task.cancel`."""
    try:
        started = await _start(ports, order)
    except SwarmdError as error:
        return await end(ports, order, Ending(outcome="failed", reason=str(error)))
    except asyncio.CancelledError as stop:
        return await asyncio.shield(end(ports, order, Ending(outcome="cancelled", reason=_why(stop))))
    try:
        result = await ports.runner(started.agent.runner_kind).run(started.request, started.desk)
        ending = await _judged(ports, started, result)
    except SwarmdError as error:
        ending = Ending(outcome="failed", reason=str(error))
    except asyncio.CancelledError as stop:
        ending = Ending(outcome="cancelled", reason=_why(stop))
    return await asyncio.shield(
        end(ports, order, ending, started.desk, started.actor, started.agent, started.epoch)
    )


async def _start(ports: Ports, order: Order) -> Started:
    await ports.settle(order.agent)
    agent = order.definition or tree_of(ports.reader).agent(order.agent)
    if agent is None:
        raise Refused(f"the agent {order.agent!r} is not in force any more")
    seen = snapshot(ports.reader, agent, _trigger(order), ports.clock.now(), session=order.id)
    prompt = assemble(seen, ports.count)
    token = randomness.token_urlsafe(32)
    actor = Actor(by=f"{order.agent}#{order.id}", agent=order.agent, session=order.id, depth=_depth(order, seen),
                  cause_handoff=_cause(order, seen))  # fmt: skip
    facts = _facts(agent, prompt, seen, token)
    epoch = await ports.writer.run(
        lambda connection: _mark(connection, order, agent, ports.clock.now(), facts, actor)
    )
    memory = MemoryTree.of({d.path: d.data for d in seen.memory if d.data is not None})
    desk = SessionDesk(
        ports, agent=agent, actor=actor, session=order.id, epoch=epoch, base=memory,
        bases={d.path: (d.rev, None) for d in seen.memory},
        seen={(k.agent, k.key): k.version for k in (*seen.keys, *(k for b in seen.below for k in b.keys))},
        journal=Journal(session_folder(ports, order.id)), saves=order.mode == "commit",
    )  # fmt: skip
    return Started(order=order, agent=agent, actor=actor, epoch=epoch, memory=memory, desk=desk,
                   request=_request(ports, order, agent, epoch, prompt, memory, token))  # fmt: skip


def session_folder(ports: Ports, id: int) -> Path:
    """The private folder of a session."""
    return ports.sessions_dir / str(id)


def _mark(
    connection: sqlite3.Connection,
    order: Order,
    agent: Agent,
    now: datetime,
    facts: Mapping[str, Any],
    actor: Actor,
) -> int:
    connection.execute("INSERT OR IGNORE INTO definitions (hash, json, text, seen) VALUES (?,?,'',?)",
                       (facts["definition"], to_json(agent), to_text(now)))  # fmt: skip
    connection.execute("UPDATE sessions SET depth = ?, cause_handoff = ? WHERE id = ?",
                       (actor.depth, actor.cause_handoff, order.id))  # fmt: skip
    return sessions.start(connection, order.id, now, facts)


def _facts(agent: Agent, prompt: Prompt, seen: Snapshot, token: str) -> dict[str, Any]:
    whole = hashlib.sha256(f"{prompt.system}\x00{prompt.user}".encode("utf-8", "surrogatepass")).hexdigest()
    sections = [{"name": s.name, "tokens": s.tokens, "left_out": s.left_out} for s in prompt.sections]
    return {
        "token_hash": hashlib.sha256(token.encode()).hexdigest(), "definition": definition_hash(agent),
        "prompt_hash": whole, "prompt": json.dumps({"tokens": prompt.tokens, "sections": sections}), "base": shown(seen),
    }  # fmt: skip


def _request(
    ports: Ports, order: Order, agent: Agent, epoch: int, prompt: Prompt, memory: MemoryTree, token: str
) -> Request:
    box = agent.sandbox
    return Request(
        agent=agent.name, session=order.id, epoch=epoch, attempt=order.attempt, trigger=order.trigger,
        system=prompt.system, user=prompt.user, memory=memory, read_only=(*agent.memory.read_only, "archive/**"),
        options=agent.runner_options, folder=agent.folder, timezone=agent.when.timezone,
        sandbox={"level": box.level, "write": list(box.write), "home": box.home, "network": box.network},
        timeout_seconds=agent.limits.timeout_seconds, token=token, secrets=(token, *ports.secrets(agent.runner_options)),
    )  # fmt: skip


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
    desk, tally = started.desk, started.desk.tally
    changes = desk.changes_with(result.memory)
    outcome, reason = _outcome(result, tally.failed)
    if outcome == "success" and result.memory_problems:
        outcome, reason = "refused", "; ".join(result.memory_problems)
    if outcome == "success":
        problem = await _success_problem(ports, started, result)
        if problem is not None:
            outcome, reason = "failed", problem
    return Ending(outcome=outcome, reason=reason, changes=tuple(changes), result=result)


def _outcome(result: Result, failed: str | None) -> tuple[str, str]:
    """An agent that says itself that it failed has failed, whatever its program's exit status."""
    if failed is not None and result.outcome == "success":
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
