"""Who may do what: authority flows down the tree. One function per kind of wish; each answer is a sentence or None.

Unknown names and names that are not below get the same words, so that a session learns nothing about the rest
of the tree by asking.
"""

from __future__ import annotations

from swarmd.core.agent import Agent
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
from swarmd.core.handoffs import Handoff, Move
from swarmd.core.memory import matches
from swarmd.core.owners import shared_name, subject_of
from swarmd.core.tree import Tree
from swarmd.core.world import Actor, World

RECEIVERS_MOVES = frozenset({Move.ACK, Move.COMPLETE, Move.DECLINE, Move.ASK})
ARCHIVE = ("archive/**",)


def refusal(actor: Actor, change: Change, world: World) -> str | None:
    """Why `actor` may not make `change` on the tree and rows of `world`, or None where it may.

    Only authority is judged: whether the handoff's status allows a move, and sizes, are judged elsewhere. Whoever
    is out of force may write nothing; `fold` sees to that when a change set is committed.
    """
    if actor.agent is None:
        return None
    agent, tree = actor.agent, world.tree
    if actor.only_memory and (problem := _no_order(actor, change, tree)):
        return problem
    match change:
        case SetKey() | UnsetKey():
            return _writing_keys(agent, change.agent, tree)
        case SendHandoff():
            return None if tree.is_below(change.to, agent) else not_below(change.to, agent)
        case MoveHandoff() | ChangeHandoff():
            handoff = world.handoff(change.id)
            move = change.move if isinstance(change, MoveHandoff) else None
            return None if handoff is None else _moving(agent, handoff, move, tree)
        case WriteMemory() | AppendMemory():
            return _writing_memory(actor, change.agent, change.path, tree)
        case Report():
            return None


def not_below(name: str, agent: str) -> str:
    """The words for a name that does not exist and for one that is not below: the same."""
    return f"no agent named {name!r} stands below {agent}"


def may_read_keys(actor: Actor, agent: str, tree: Tree) -> str | None:
    """Keys, definition, state and outcomes: own and below."""
    if actor.agent is None or tree.is_within(agent, actor.agent):
        return None
    return not_below(agent, actor.agent)


def may_read_memory(actor: Actor, owner: str, tree: Tree) -> str | None:
    """Memory (core.owners): own, below, and what the agent's file lists in `memory.reads` and `memory.shared`.

    A folder about a subject is read by sessions about that subject alone: not by others of its agent, nor from above.
    """
    if actor.agent is None:
        return None
    own = tree.agent(actor.agent)
    if owner in (actor.agent, actor.owner) and own is not None and not own.memory.persistent:
        return keeps_none(actor.agent)
    if owner == actor.owner:
        return None
    folder = shared_name(owner)
    if folder is not None:
        shares = own is not None and own.memory.shares(folder) is not None
        return None if shares else not_shared(folder, actor.agent)
    if subject_of(owner) is None:
        if tree.is_within(owner, actor.agent):
            return None
        if own is not None and owner in own.memory.reads and owner in tree:
            return None
    return f"{actor.agent} may not read the memory of {owner!r}: not below it, nor listed in its memory.reads"


def not_shared(folder: str, agent: str) -> str:
    """The words for a shared folder that does not exist and for one that the agent does not have: the same."""
    return f"{agent} has no shared folder {folder!r}: its file lists none of that name in memory.shared"


def may_read_session(actor: Actor, agent: str, subject: str | None, tree: Tree) -> str | None:
    """What a session said and wrote: own and below; one about a subject by sessions about that subject alone."""
    if unseen := may_read_keys(actor, agent, tree):
        return unseen
    if actor.agent is None or subject is None or (agent, subject) == (actor.agent, actor.subject):
        return None
    return f"that session of {agent} is about a subject, and private to sessions about the same subject"


def keeps_none(agent: str) -> str:
    """What a session is told that asks for a memory which its agent has not."""
    return (
        f"{agent} keeps no memory (its file says memory.persistent = false): what is to last goes into a key, a reply "
        f"or a report"
    )


def unread_memory(agent: str) -> str:
    """What an operator is told who writes to the memory of an agent that has none."""
    return (
        f"nothing of it reaches {agent}, whose file says memory.persistent = false: take that line out of "
        f"{agent}.toml, or use a key (swarmd ctx set {agent} KEY VALUE)"
    )


def may_read_handoff(actor: Actor, handoff: Handoff, tree: Tree) -> str | None:
    """A handoff: sent or received by itself or by one below."""
    if actor.agent is None:
        return None
    if any(tree.is_within(party, actor.agent) for party in (handoff.sender, handoff.receiver)):
        return None
    return f"handoff {handoff.id} is neither from nor to {actor.agent} or an agent below it"


def _no_order(actor: Actor, change: Change, tree: Tree) -> str | None:
    """Why a consolidation may not make this change. It is saved as a whole: no part of it can wait for a yes."""
    if not isinstance(change, WriteMemory | AppendMemory) or change.agent != actor.owner:
        return f"a consolidation may write the memory of {actor.agent} and nothing else"
    own = tree.agent(actor.agent or "")
    if own is not None and matches(change.path, own.memory.approval):
        return f"a change of {change.path} needs an operator's approval: a consolidation leaves it alone"
    return None


def _writing_keys(agent: str, target: str, tree: Tree) -> str | None:
    if target == agent:
        return None
    if not tree.is_below(target, agent):
        return not_below(target, agent)
    own = tree.agent(agent)
    if own is None or own.keys_scope == "own":
        return f'{agent} may set only its own keys: its file says authority.keys = "own"'
    return None


def _moving(agent: str, handoff: Handoff, move: Move | None, tree: Tree) -> str | None:
    """`move` None is a change of priority or due, which goes as cancel and answer do."""
    if move is Move.REQUEUE or move is Move.EXPIRE:
        return f"only an operator may {move.value} a handoff"
    if agent not in (handoff.receiver, handoff.sender):
        # Whom it is from and to is told only to those who may read it.
        unseen = may_read_handoff(Actor(by=agent, agent=agent), handoff, tree)
        if unseen is not None:
            return unseen
    if move in RECEIVERS_MOVES:
        if handoff.receiver == agent:
            return None
        return f"handoff {handoff.id} belongs to {handoff.receiver}, not to {agent}: only its receiver may {move}"
    if handoff.sender == agent or tree.is_below(handoff.sender, agent):
        return None
    what = move.value if move is not None else "change"
    return (
        f"handoff {handoff.id} was sent by {handoff.sender}: only its sender, or an agent above the sender, "
        f"may {what} it"
    )


def _writing_memory(actor: Actor, target: str, path: str, tree: Tree) -> str | None:
    agent = actor.name
    own = tree.agent(agent)
    folder = shared_name(target)
    if folder is not None:
        return _writing_shared(agent, own, folder, path)
    if target == agent and actor.subject is not None:
        return f"a session about {actor.subject} may read the memory that {agent} has in general, and not write it"
    if target != actor.owner:
        return f"{agent} may write only its own memory, not that of {target!r}"
    if own is not None and not own.memory.persistent:
        return keeps_none(agent)
    read_only = own.memory.read_only if own is not None else ()
    if matches(path, (*read_only, *ARCHIVE)):
        return f"{path} is read-only for {agent}"
    return None


def _writing_shared(agent: str, own: Agent | None, folder: str, path: str) -> str | None:
    shares = own.memory.shares(folder) if own is not None else None
    if shares is None:
        return not_shared(folder, agent)
    if not shares.write:
        return f"the shared folder {folder!r} is read-only for {agent}: its file does not say write = true"
    if matches(path, ARCHIVE):
        return f"{path} is read-only for {agent}"
    return None
