"""Changes folded one after another over a world: the second is judged on what the first has left.

`Staged` is a world that shows a session its own writes; `judge` gives one change its verdict; `fold` does a
whole change set. The effects are the rows to write: whoever commits only writes them down.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from swarmd.core.changes import Change, WriteMemory
from swarmd.core.digests import digest
from swarmd.core.handoffs import FINAL, Entry, Handoff
from swarmd.core.memory import is_archive
from swarmd.core.tree import Tree
from swarmd.core.world import Actor, Document, FileFacts, Key, World


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyWritten:
    """A key's new row; its value None: unset."""

    key: Key


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoffWritten:
    """A handoff's new row, and the thread entry that made it (None when it was sent)."""

    handoff: Handoff
    entry: Entry | None
    created: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """Lines of an agent that met a person's at the same place: kept aside, shown, never lost.

    `by` wrote the lines that were set aside (None: whoever the change set is of).
    """

    path: str
    line: int
    ours: str
    theirs: str
    by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryWritten:
    """A memory file's next revision; `parent` is the head it follows, `over` the text of that (None: it has none),
    `conflicts` what the merge set aside.
    """

    document: Document
    parent: int
    over: bytes | None = None
    merged: bool = False
    conflicts: tuple[Conflict, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """A report to `parent` (None: a root's, for the operator)."""

    agent: str
    parent: str | None
    text: str


Effect = KeyWritten | HandoffWritten | MemoryWritten | Reported


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What became of one change. `nothing`: right, and there was nothing to do. `held`: right, and it waits for an
    operator's yes; what it would write is `withheld`, and no effect.

    `kind` is the errors.KINDS name of a refusal (`refused`, `bad_input`, `not_found`); `value` is what the one
    who asked is told (a handoff's id); `before` and `after` are for the log.
    """

    decision: Literal["done", "nothing", "held", "superseded", "refused"]
    reason: str = ""
    kind: str = "refused"
    effects: tuple[Effect, ...] = ()
    value: Any = None
    before: str | None = None
    after: str | None = None
    withheld: tuple[Effect, ...] = ()


class Staged:
    """A world with effects laid over it."""

    def __init__(self, base: World) -> None:
        self._base = base
        self._keys: dict[tuple[str, str], Key] = {}
        self._handoffs: dict[int, Handoff] = {}
        self._created: list[Handoff] = []
        self._documents: dict[tuple[str, str], Document] = {}
        self._wished: list[bytes] = []

    def wished(self, change: Change) -> None:
        """Remember a text as its writer left it: a later change of the same set may be made from it, which a merge
        has made no revision of.
        """
        if isinstance(change, WriteMemory) and change.data is not None:
            self._wished.append(change.data)

    def apply(self, effects: Iterable[Effect]) -> None:
        """Lay these over what is there."""
        for effect in effects:
            match effect:
                case KeyWritten():
                    self._keys[effect.key.agent, effect.key.key] = effect.key
                case HandoffWritten():
                    if effect.created:
                        self._created.append(effect.handoff)
                    self._handoffs[effect.handoff.id] = effect.handoff
                case MemoryWritten():
                    self._documents[effect.document.agent, effect.document.path] = effect.document
                case Reported():
                    pass

    @property
    def tree(self) -> Tree:
        """As World."""
        return self._base.tree

    @property
    def now(self) -> datetime:
        """As World."""
        return self._base.now

    def key(self, agent: str, key: str) -> Key | None:
        """As World."""
        return self._keys.get((agent, key)) or self._base.key(agent, key)

    def keys(self, agent: str) -> Sequence[Key]:
        """As World."""
        rows = {row.key: row for row in self._base.keys(agent)}
        rows |= {name: row for (owner, name), row in self._keys.items() if owner == agent}
        return [row for _, row in sorted(rows.items()) if row.value is not None]

    def handoff(self, id: int) -> Handoff | None:
        """As World."""
        return self._handoffs.get(id) or self._base.handoff(id)

    def handoffs(
        self,
        *,
        receiver: str | None = None,
        sender: str | None = None,
        statuses: Sequence[str] | None = None,
        limit: int = 1000,
    ) -> Sequence[Handoff]:
        """As World."""
        found = self._base.handoffs(receiver=receiver, sender=sender, statuses=statuses, limit=limit)
        rows = {h.id: h for h in found}
        rows |= {
            h.id: h
            for h in self._handoffs.values()
            if (receiver is None or h.receiver == receiver) and (sender is None or h.sender == sender)
        }
        chosen = [h for h in rows.values() if statuses is None or h.status in statuses]
        return sorted(chosen, key=lambda h: -h.id)[:limit]

    def open_with_dedupe(self, sender: str, receiver: str, dedupe: str) -> Handoff | None:
        """As World."""
        for handoff in self._created:
            current = self._handoffs[handoff.id]
            same = (current.sender, current.receiver, current.dedupe) == (sender, receiver, dedupe)
            if same and current.status not in FINAL:
                return current
        found = self._base.open_with_dedupe(sender, receiver, dedupe)
        if found is not None and self._handoffs.get(found.id, found).status in FINAL:
            return None
        return found

    def sent_in_session(self, session: int) -> int:
        """As World."""
        staged = sum(1 for handoff in self._created if handoff.cause.session == session)
        return self._base.sent_in_session(session) + staged

    def document(self, agent: str, path: str) -> Document | None:
        """As World."""
        return self._documents.get((agent, path)) or self._base.document(agent, path)

    def documents(self, agent: str) -> Sequence[Document]:
        """As World."""
        rows = {row.path: row for row in self._base.documents(agent)}
        rows |= {path: row for path, row in self._written(agent) if not is_archive(path)}
        return [row for _, row in sorted(rows.items()) if row.data is not None]

    def files(self, agent: str) -> Sequence[FileFacts]:
        """As World."""
        rows = {row.path: row for row in self._base.files(agent)}
        for path, row in self._written(agent):
            rows.pop(path, None)
            if row.data is not None:
                rows[path] = FileFacts.of(row)
        return [row for _, row in sorted(rows.items())]

    def _written(self, agent: str) -> list[tuple[str, Document]]:
        return [(path, row) for (owner, path), row in self._documents.items() if owner == agent]

    def revision(self, agent: str, path: str, rev: int) -> bytes | None:
        """As World: earlier revisions are the base's; one staged here is not yet a revision."""
        return self._base.revision(agent, path, rev)

    def blob(self, hash: str) -> bytes | None:
        """As World; also what earlier changes have wished to write."""
        wished = next((data for data in self._wished if digest(data) == hash), None)
        return wished if wished is not None else self._base.blob(hash)


@dataclass(frozen=True, slots=True, kw_only=True)
class Folded:
    """A change set judged: one verdict a change, in order."""

    verdicts: tuple[Verdict, ...]

    @property
    def refusals(self) -> list[str]:
        """Every reason against it; not empty: nothing may be written."""
        return [v.reason for v in self.verdicts if v.decision == "refused"]

    @property
    def effects(self) -> list[Effect]:
        """All rows to write, in order."""
        return [effect for verdict in self.verdicts for effect in verdict.effects]

    @property
    def conflicts(self) -> list[Conflict]:
        """What merges have set aside, in order."""
        written = [effect for effect in self.effects if isinstance(effect, MemoryWritten)]
        return [conflict for effect in written for conflict in effect.conflicts]


def actor_label(actor: Actor) -> str:
    """How sentences name the actor."""
    return actor.agent if actor.agent is not None else "the operator"
