"""What of a session's change set waits for an operator's yes: the rule, an approval, and what it is bound to."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import Any, Literal

from swarmd.core.changes import (
    AppendMemory,
    Change,
    SetKey,
    UnsetKey,
    WriteMemory,
    change_to_json,
    last_writes,
)
from swarmd.core.instants import to_text
from swarmd.core.memory import matches
from swarmd.core.merge import lines_of
from swarmd.core.owners import agent_of_owner, shared_name, subject_of
from swarmd.core.staging import Conflict
from swarmd.core.tree import Tree
from swarmd.core.world import Actor

State = Literal["open", "approved", "denied", "expired", "superseded"]
HELD = "held: needs an operator's approval"
"""What the agent is told at once of an act that is staged and will be held."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """What a session wanted written to one target, and an operator has to decide on. `reason` says why it was held;
    `decided_by` is the operator, or `AGENT#SESSION` of the session whose newer wish has taken its place.
    """

    id: int
    agent: str
    session: int | None
    by: str
    target: str
    changes: tuple[Change, ...]
    hash: str
    reason: str
    created: datetime
    expires: datetime
    state: State
    decided: datetime | None = None
    decided_by: str | None = None
    decided_reason: str = ""

    @property
    def bound(self) -> str:
        """The digest of what it holds, as it is now."""
        return digest_of(self.agent, self.session, self.by, self.changes, self.expires)

    @property
    def actor(self) -> Actor:
        """Who writes it once it is approved: the agent's session, which has asked for it, about what it was."""
        owner = getattr(self.changes[0], "agent", "") if self.changes else ""
        return Actor(by=self.by, agent=self.agent, session=self.session, subject=subject_of(owner))

    def state_at(self, now: datetime) -> State:
        """Its state; one whose time is over has expired, whoever has noticed."""
        return "expired" if self.state == "open" and self.expires <= now else self.state


def held_because(actor: Actor, change: Change, tree: Tree) -> str | None:
    """Why a session's change waits for an operator's yes, or None. What an operator writes never waits, also not with
    an agent's authority (`--as`); a draft that he applies as the agent's does.
    """
    if actor.agent is None or actor.session is None:
        return None
    own = tree.agent(actor.agent)
    if own is None:
        return None
    match change:
        case SetKey() | UnsetKey():
            if own.approval_keys and any(_pattern(g).fullmatch(change.key) for g in own.approval_keys):
                return f"a change of the key {change.key} needs an operator's approval"
        case WriteMemory() | AppendMemory():
            shared = shared_name(change.agent)
            if shared is not None:
                if any(folder.name == shared and folder.approval for folder in own.memory.shared):
                    return (
                        f"what {own.name} writes in the shared folder {shared} needs an operator's approval"
                    )
            elif agent_of_owner(change.agent) == own.name and matches(change.path, own.memory.approval):
                return f"a change of {change.path} needs an operator's approval"
    return None


@lru_cache(maxsize=512)
def _pattern(glob: str) -> re.Pattern[str]:
    pieces = {"*": ".*", "?": "."}
    return re.compile("".join(pieces.get(char, re.escape(char)) for char in glob), re.DOTALL)


def digest_of(agent: str, session: int | None, by: str, changes: Sequence[Change], expires: datetime) -> str:
    """What an approval is bound to: who wants what written, made from what (it stands in the changes), until when."""
    facts = {"agent": agent, "session": session, "by": by, "changes": list(map(change_to_json, changes)),
             "expires": to_text(expires)}  # fmt: skip
    text = json.dumps(facts, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def of_one_target(changes: Sequence[Change]) -> tuple[Change, ...]:
    """What is to be held of a session's changes to one target, in order: of a key the last; of a file what follows
    its last whole text, which is made from what the first was made from.
    """
    whole = [n for n, change in enumerate(changes) if isinstance(change, WriteMemory)]
    if not whole or whole[-1] == 0:
        return tuple(last_writes(changes))
    first, last = changes[0], changes[whole[-1]]
    assert isinstance(last, WriteMemory)
    if isinstance(first, WriteMemory):
        last = replace(last, base=first.base, base_hash=first.base_hash)
    return (last, *changes[whole[-1] + 1 :])


def replaces(new: Sequence[Change], old: Sequence[Change]) -> bool:
    """Whether a newer wish for the same target takes the place of an open one. Texts that are only added do not: both
    are wanted.
    """
    return not (_only_adds(new) or _only_adds(old))


def _only_adds(changes: Iterable[Change]) -> bool:
    return all(isinstance(change, AppendMemory) for change in changes)


def lines_aside(conflicts: Iterable[Conflict]) -> int:
    """How many of its lines do not get into the file with a yes, since others have changed the same place."""
    return sum(len(lines_of(conflict.ours.encode())) for conflict in conflicts)


def told_aside(lines: int) -> str:
    """What is said of them after the yes."""
    were = "was" if lines == 1 else "were"
    return f"{lines:,} of its lines met other edits and {were} set aside as a conflict"


def as_json(changes: Sequence[Change]) -> list[dict[str, Any]]:
    """The changes as the store keeps them."""
    return [change_to_json(change) for change in changes]
