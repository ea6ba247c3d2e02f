"""The rows that the rules look at, as values, behind one protocol: SQL in the store, dicts in tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from swarmd.core.owners import subject_owner

if TYPE_CHECKING:
    from swarmd.core.handoffs import Handoff
    from swarmd.core.tree import Tree


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """Who writes. `agent` None is the operator, who may do all; `by` is the name that history keeps.

    `subject` is what a session is about (core.owners): its own memory is then the agent's folder about that subject.
    `only_memory`: it may write its own memory and nothing else, as a whole, and never over what others have written
    since it was shown it.
    `depth` and `cause_handoff` say where a session's own handoffs come from; `epoch_sent` is not here: the
    number of handoffs a session has sent is asked of the world, so that drafts and checkpoints count.
    """

    by: str
    agent: str | None = None
    session: int | None = None
    depth: int = 0
    cause_handoff: int | None = None
    subject: str | None = None
    only_memory: bool = False

    @property
    def owner(self) -> str | None:
        """Whose folder its own memory is; None for an operator."""
        if self.agent is None or self.subject is None:
            return self.agent
        return subject_owner(self.agent, self.subject)

    @property
    def name(self) -> str:
        """The agent's name, or `operator`: what a handoff's sender is."""
        return self.agent if self.agent is not None else "operator"


def agent_of(by: str) -> str | None:
    """The agent that a `by` names: `AGENT#SESSION` gives AGENT, `operator:X` and `operator:X as A` give None."""
    name, mark, _ = by.partition("#")
    return name if mark and not by.startswith("operator:") else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A context key. `value` None: unset, kept for its version, which grows with each write for ever."""

    agent: str
    key: str
    value: str | None
    version: int
    updated: datetime
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """The newest revision of a memory file; `data` None: deleted."""

    agent: str
    path: str
    rev: int
    data: bytes | None
    at: datetime
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFacts:
    """The newest revision of a memory file that exists, without its text."""

    agent: str
    path: str
    rev: int
    size: int
    at: datetime
    by: str

    @classmethod
    def of(cls, document: Document) -> FileFacts:
        """Those of a document."""
        return cls(agent=document.agent, path=document.path, rev=document.rev, size=len(document.data or b""),
                   at=document.at, by=document.by)  # fmt: skip


class World(Protocol):
    """What the rules may ask. All reads of one judgement come from one transaction."""

    @property
    def tree(self) -> Tree:
        """The agents in force."""
        ...

    @property
    def now(self) -> datetime:
        """The moment of the judgement, UTC."""
        ...

    def key(self, agent: str, key: str) -> Key | None:
        """The key, also an unset one; None if it never was."""
        ...

    def keys(self, agent: str) -> Sequence[Key]:
        """The agent's keys that are set, sorted by name."""
        ...

    def handoff(self, id: int) -> Handoff | None:
        """The handoff, or None."""
        ...

    def handoffs(
        self,
        *,
        receiver: str | None = None,
        sender: str | None = None,
        statuses: Sequence[str] | None = None,
        limit: int = 1000,
    ) -> Sequence[Handoff]:
        """Handoffs that match all of what is given, newest first."""
        ...

    def open_with_dedupe(self, sender: str, receiver: str, dedupe: str) -> Handoff | None:
        """The first handoff of that dedupe key that is not final."""
        ...

    def sent_in_session(self, session: int) -> int:
        """How many handoffs the session has sent, checkpoints included."""
        ...

    def document(self, agent: str, path: str) -> Document | None:
        """The head of a memory file, also a deleted one; None if it never was."""
        ...

    def documents(self, agent: str) -> Sequence[Document]:
        """The heads of the agent's memory files that exist, sorted by path; what is archived is left out."""
        ...

    def files(self, agent: str) -> Sequence[FileFacts]:
        """The same without texts, and with what is archived: no text is read for it."""
        ...

    def revision(self, agent: str, path: str, rev: int) -> bytes | None:
        """The bytes of an earlier revision; None for revision 0, a deletion, or one that retention removed."""
        ...

    def blob(self, hash: str) -> bytes | None:
        """Bytes that a session went on from, by their digest; None where they are gone."""
        ...
