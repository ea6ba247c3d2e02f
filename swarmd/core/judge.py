"""The verdict on a change: authority first, then limits, then whether others have overtaken it, then its effects.

`asked` True is the moment of asking: what a handoff's status or a limit does not allow is refused with the reason.
At the commit (`asked` False) every act has been right once, so what is not possible any more was overtaken by
somebody: superseded, never a refusal. Lost authority is a refusal at both moments, and so is memory over a limit:
files in the working copy are never asked for.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from swarmd.core import authority, names
from swarmd.core.approvals import held_because
from swarmd.core.changes import (
    AppendMemory,
    Change,
    ChangeHandoff,
    MoveHandoff,
    Report,
    SendHandoff,
    SetKey,
    UnsetKey,
    WriteMemory,
)
from swarmd.core.counts import counted
from swarmd.core.handoffs import FINAL, RESULT, Cause, Entry, Handoff, Move, move_problem
from swarmd.core.interaction_log import is_log
from swarmd.core.judge_memory import appending, overtaken, writing
from swarmd.core.staging import (
    Folded,
    HandoffWritten,
    KeyWritten,
    Reported,
    Staged,
    Verdict,
)
from swarmd.core.world import Actor, Key, World, agent_of


def fold(
    actor: Actor, changes: Iterable[Change], world: World, *, asked: bool = False, approved: bool = False
) -> Folded:
    """Judge each change on what those before it have left; nothing of `world` is changed. What needs an operator's
    approval is held, unless it is `approved`: what is free is judged without it.

    Whoever is out of force may write nothing, not even its own. (A session that runs on may still ask for it: its
    change set then stays a draft.) The log of a session is no wish of its own: where it finds no room it is left out,
    and what the session has done is written all the same.
    """
    staged = Staged(world)
    aside = Staged(staged)
    verdicts = []
    gone = actor.agent is not None and actor.agent not in world.tree
    for change in changes:
        if gone:
            reason = f"the agent {actor.agent!r} is not in force any more"
            verdicts.append(_superseded(reason) if is_log(change) else refused(reason))
            continue
        why = None if approved else held_because(actor, change, world.tree)
        verdict = judge(actor, change, staged if why is None else aside, asked=asked)
        staged.wished(change)
        if verdict.decision == "refused" and is_log(change):
            verdict = _superseded(f"what the session said is not kept in the log: {verdict.reason}")
        if why is not None:
            verdict = held(verdict, why)
        staged.apply(verdict.effects)
        aside.apply(verdict.withheld)
        verdicts.append(verdict)
    return Folded(verdicts=tuple(_as_one(verdicts) if actor.only_memory else verdicts))


AS_A_WHOLE = "saved as a whole or not at all: "
"""Before the reason of a change that is not saved for another's sake."""


def _as_one(verdicts: list[Verdict]) -> list[Verdict]:
    """All or nothing: where one file was overtaken, a text that was moved between files would be in neither."""
    overtaken = next((verdict for verdict in verdicts if verdict.decision == "superseded"), None)
    if overtaken is None:
        return verdicts
    reason = f"{AS_A_WHOLE}{overtaken.reason}"
    return [_superseded(reason) if verdict.decision == "done" else verdict for verdict in verdicts]


def held(verdict: Verdict, why: str) -> Verdict:
    """The verdict on a change that waits for a yes: only what would be done can wait."""
    if verdict.decision != "done":
        return verdict
    reason = f"{why}; {verdict.reason}" if verdict.reason else why
    return replace(verdict, decision="held", reason=reason, effects=(), withheld=verdict.effects)


def judge(actor: Actor, change: Change, world: World, *, asked: bool) -> Verdict:
    """One change's verdict on the world as it stands."""
    reason = authority.refusal(actor, change, world)
    if reason is not None:
        return refused(reason)
    match change:
        case SetKey():
            return _set_key(actor, change, world, asked)
        case UnsetKey():
            return _unset_key(actor, change, world, asked)
        case SendHandoff():
            return _send(actor, change, world, asked)
        case MoveHandoff():
            return _move(actor, change, world, asked)
        case ChangeHandoff():
            return _change(actor, change, world, asked)
        case WriteMemory():
            return overtaken(actor, change, world) or writing(actor, change, world)
        case AppendMemory():
            return appending(actor, change, world)
        case Report():
            return _report(actor, change, world)


def refused(reason: str, kind: str = "refused") -> Verdict:
    """A verdict that says no; `kind` as errors.KINDS."""
    return Verdict(decision="refused", reason=reason, kind=kind)


def _superseded(reason: str) -> Verdict:
    return Verdict(decision="superseded", reason=reason)


def _not_now(reason: str, asked: bool, kind: str = "refused") -> Verdict:
    """What could be right at another moment: refused when it is asked for, superseded when it has been right once."""
    return refused(reason, kind) if asked else _superseded(reason)


def _set_key(actor: Actor, change: SetKey, world: World, asked: bool) -> Verdict:
    problem = names.key_name_problem(change.key) or names.text_problem(
        f"the value of {change.key!r}", change.value, names.VALUE_BYTES, may_be_empty=True
    )
    if problem is not None:
        return refused(problem)
    if change.agent not in world.tree and actor.agent is None:
        return refused(names.unknown_agent(change.agent), "not_found")
    current = world.key(change.agent, change.key)
    if overtaken := _key_overtaken(actor, current, change.seen, world):
        return _superseded(overtaken)
    if (current is None or current.value is None) and len(world.keys(change.agent)) >= names.KEYS_PER_AGENT:
        full = f"{change.agent} has {names.KEYS_PER_AGENT} keys, the most it may have; unset one first"
        return _not_now(full, asked)
    before = current.value if current is not None else None
    version = current.version + 1 if current is not None else 1
    key = Key(agent=change.agent, key=change.key, value=change.value, version=version,
              updated=world.now, by=actor.by)  # fmt: skip
    if before == change.value:
        return Verdict(decision="nothing", before=before, after=before)
    return Verdict(decision="done", effects=(KeyWritten(key=key),), before=before, after=change.value)


def _unset_key(actor: Actor, change: UnsetKey, world: World, asked: bool) -> Verdict:
    current = world.key(change.agent, change.key)
    if current is None or current.value is None:
        if asked:
            return refused(f"{change.agent} has no key {change.key!r}", "not_found")
        return Verdict(decision="nothing")
    if overtaken := _key_overtaken(actor, current, change.seen, world):
        return _superseded(overtaken)
    key = replace(current, value=None, version=current.version + 1, updated=world.now, by=actor.by)
    return Verdict(decision="done", effects=(KeyWritten(key=key),), before=current.value)


def _key_overtaken(actor: Actor, current: Key | None, seen: int | None, world: World) -> str | None:
    """Why a key written since it was read keeps its value: the operator's stays, then the higher agent's, then
    the first commit.
    """
    if actor.agent is None or seen is None or current is None:
        return None
    if current.version <= seen or current.by == actor.by:
        return None
    writer = agent_of(current.by)
    if writer is not None and world.tree.is_below(writer, actor.agent):
        return None
    return f"{current.agent}/{current.key} was changed by {current.by} after this session last read it"


def _send(actor: Actor, change: SendHandoff, world: World, asked: bool) -> Verdict:
    if change.to not in world.tree:
        return refused(names.unknown_agent(change.to), "not_found")
    if problem := names.text_problem("a handoff", change.text, names.HANDOFF_BYTES):
        return refused(problem, "refused" if change.text.strip() else "bad_input")
    if change.expires is not None and change.expires <= world.now:
        over = f"the handoff to {change.to} would expire at once: {change.expires.isoformat()}"
        return _not_now(over, asked, "bad_input")
    if world.handoff(change.id) is not None:
        # A draft keeps the number that was reserved for it, and may have been applied by somebody else meanwhile.
        return _superseded(f"handoff {change.id} has been sent already")
    if change.dedupe is not None:
        if problem := names.text_problem("a dedupe key", change.dedupe, names.DEDUPE_BYTES):
            return refused(problem)
        first = world.open_with_dedupe(actor.name, change.to, change.dedupe)
        if first is not None:
            return Verdict(decision="nothing", reason=f"handoff {first.id} is still open", value=first.id)
    if problem := _sending_limit(actor, world):
        return _not_now(problem, asked)
    sender = change.sender if actor.agent is None and change.sender is not None else actor.name
    handoff = Handoff(
        id=change.id, sender=sender, receiver=change.to, text=change.text, created=world.now,
        priority=change.priority, due=change.due, expires=change.expires, depth=actor.depth + 1,
        cause=Cause(session=actor.session, handoff=actor.cause_handoff), dedupe=change.dedupe, by=actor.by,
    )  # fmt: skip
    return Verdict(
        decision="done", effects=(HandoffWritten(handoff=handoff, entry=None, created=True),), value=change.id,
        after=change.text,
    )  # fmt: skip


def _sending_limit(actor: Actor, world: World) -> str | None:
    agent = world.tree.agent(actor.agent) if actor.agent is not None else None
    if agent is None or actor.session is None:
        return None
    limits = agent.limits
    if world.sent_in_session(actor.session) >= limits.handoffs_per_session:
        return (
            f"{agent.name} may send {counted(limits.handoffs_per_session, 'handoff')} in a session, no more"
        )
    if actor.depth + 1 > limits.handoff_depth:
        return f"a handoff from here would be {actor.depth + 1} deep; {agent.name} may go to {limits.handoff_depth}"
    return None


def _move(actor: Actor, change: MoveHandoff, world: World, asked: bool) -> Verdict:
    handoff = world.handoff(change.id)
    if handoff is None:
        return refused(f"there is no handoff {change.id}", "not_found")
    if problem := _reply_problem(change):
        return refused(problem, "refused" if change.text.strip() else "bad_input")
    if _repeats(actor, change, handoff):
        return Verdict(decision="nothing", before=handoff.status, after=handoff.status, value=handoff.id)
    if problem := move_problem(handoff, change.move):
        who = next((e.by for e in reversed(handoff.thread) if e.kind != "change"), "somebody")
        return refused(problem) if asked else _superseded(
            f"handoff {handoff.id} was {handoff.status} by {who} meanwhile"
        )  # fmt: skip
    entry = Entry(at=world.now, by=actor.by, kind=change.move.value, text=change.text)
    moved = replace(handoff, status=RESULT[change.move], thread=(*handoff.thread, entry))
    if change.move is Move.REQUEUE and handoff.expires is not None and handoff.expires <= world.now:
        moved = replace(moved, expires=None)  # or it would be over again at once
    return Verdict(
        decision="done", effects=(HandoffWritten(handoff=moved, entry=entry),), value=handoff.id,
        before=handoff.status, after=moved.status,
    )  # fmt: skip


def _reply_problem(change: MoveHandoff) -> str | None:
    """A decline, a question and an answer say why; the others may."""
    must = change.move in (Move.DECLINE, Move.ASK, Move.ANSWER)
    return names.text_problem(f"the text of a handoff's {change.move}", change.text, names.HANDOFF_BYTES,
                              may_be_empty=not must)  # fmt: skip


def _repeats(actor: Actor, change: MoveHandoff, handoff: Handoff) -> bool:
    """The same final move again, by the same actor, does nothing."""
    last = handoff.last
    if last is None or last.kind != change.move or handoff.status not in FINAL:
        return False
    return last.by == actor.by or (actor.agent is not None and agent_of(last.by) == actor.agent)


def _change(actor: Actor, change: ChangeHandoff, world: World, asked: bool) -> Verdict:
    handoff = world.handoff(change.id)
    if handoff is None:
        return refused(f"there is no handoff {change.id}", "not_found")
    if handoff.status in FINAL:
        sentence = f"handoff {handoff.id} is {handoff.status}; only one that has not ended can be changed"
        return _not_now(sentence, asked)
    changed = replace(handoff, priority=change.priority or handoff.priority, due=change.due or handoff.due)
    if changed == handoff:
        return Verdict(decision="nothing", value=handoff.id)
    what = f"priority {changed.priority}" + (f", due {changed.due.isoformat()}" if changed.due else "")
    entry = Entry(at=world.now, by=actor.by, kind="change", text=what)
    changed = replace(changed, thread=(*handoff.thread, entry))
    return Verdict(
        decision="done", effects=(HandoffWritten(handoff=changed, entry=entry),), value=handoff.id,
        before=f"priority {handoff.priority}", after=what,
    )  # fmt: skip


def _report(actor: Actor, change: Report, world: World) -> Verdict:
    agent = actor.agent or change.agent
    if agent is None:
        return refused("a report goes from an agent to its parent; name the agent with --as", "bad_input")
    if problem := names.text_problem("a report", change.text, names.REPORT_BYTES):
        return refused(problem, "refused" if change.text.strip() else "bad_input")
    own = world.tree.agent(agent)
    # An agent whose parent is gone stands below the next one up, which must not hear what was meant for another.
    orphaned = own is not None and own.gone_parent is not None
    parent = None if orphaned else world.tree.parent(agent)
    effect = Reported(agent=agent, parent=parent, text=change.text)
    return Verdict(decision="done", effects=(effect,), after=change.text)
