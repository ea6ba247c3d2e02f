"""What an agent may know when its session starts: one read of the store, as a value. The prompt is made of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from swarmd.core.agent import Agent
from swarmd.core.handoffs import Handoff
from swarmd.core.owners import subject_owner
from swarmd.core.skills import Skill
from swarmd.core.world import Document, Key


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """Why a session starts. `kind` is one word of INTERFACE section 1; `reasons` are sentences."""

    kind: str
    slot: datetime | None = None
    attempt: int = 1
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportSeen:
    """A report that an agent below has made, newest last."""

    id: int
    agent: str
    text: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Below:
    """What an agent is told of one directly below it."""

    agent: str
    description: str
    last_outcome: str | None
    last_ended: datetime | None
    open_handoffs: int
    keys: tuple[Key, ...]
    reports: tuple[ReportSeen, ...]
    last_session: int | None = None
    definition: str = ""
    """The hash of its definition then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Aftermath:
    """What the last session left undone: its draft, what was refused, what others had overtaken."""

    session: int
    outcome: str
    reason: str = ""
    draft: tuple[str, ...] = ()
    """One line a change of the newest open draft; `draft_session` names its session."""
    draft_session: int | None = None
    refusals: tuple[str, ...] = ()
    superseded: tuple[str, ...] = ()
    quarantined: bool = False
    """Whether its texts were kept out, since it was in quarantine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalSeen:
    """What a session of the agent's wanted and had to wait for a yes, as it stands now."""

    id: int
    target: str
    session: int | None
    created: datetime
    expires: datetime
    state: str
    decided: datetime | None = None
    decided_by: str = ""
    decided_reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSeen:
    """A memory file of which only the beginning is shown; `start` is that, in bytes."""

    path: str
    rev: int
    size: int
    start: bytes
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderSeen:
    """A folder of notes beside the session's own, by its owner (core.owners). `first` is its MEMORY.md, `files` are
    the others; of a folder that it only may read when it wants to, all stand in `files`.
    """

    owner: str
    first: Document | None = None
    files: tuple[FileSeen, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConflictSeen:
    """Lines of the agent's that met other edits and stand aside. `owner`: in whose folder, where it is not the
    session's own.
    """

    id: int
    path: str
    line: int
    ours: str
    theirs: str
    owner: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptSeen:
    """An earlier session as a consolidation is shown it; `text` is its transcript, condensed."""

    session: int
    trigger: str
    started: datetime
    outcome: str
    reason: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcripts:
    """The sessions since the last consolidation, oldest first, and how many older ones are left out. `since` and
    `until` are the numbers of the last session before them and of the newest.
    """

    seen: tuple[TranscriptSeen, ...]
    more: int
    since: int
    until: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """All that a prompt is made of; equal snapshots give equal bytes.

    `now` is the session's start; `zone` names the agent's time zone. `sent` are handoffs it sent that others
    have moved since its last session. `token_ratio` corrects the tokenizer's count to what the API reports, and
    `token_overhead` is what a first request has beside the prompt (core.calibration).
    """

    agent: Agent
    now: datetime
    zone: str
    trigger: Trigger
    skills: tuple[Skill, ...] = ()
    """The operator's, and those that stand in its memory."""
    memory: tuple[Document, ...] = ()
    keys: tuple[Key, ...] = ()
    below: tuple[Below, ...] = ()
    open_handoffs: tuple[Handoff, ...] = ()
    more_open_handoffs: int = 0
    """Open work beyond `open_handoffs`, where the store has so much that it gives only the first of it."""
    sent: tuple[Handoff, ...] = ()
    aftermath: Aftermath | None = None
    conflicts: tuple[ConflictSeen, ...] = ()
    approvals: tuple[ApprovalSeen, ...] = ()
    """What waits for an operator's yes, and what became of it since a session that went well was told; newest first."""
    archived: int = 0
    """How many older texts its archive has; `memory` has none of them."""
    last_started: datetime | None = None
    last_outcome: str | None = None
    fence: str = ""
    """A secret of the agent's, from which section fences are made."""
    token_ratio: float = 1.0
    token_overhead: int = 0
    transcripts: Transcripts | None = None
    """Of a consolidation alone."""
    subject: str | None = None
    """Whom or what the session is about: `memory` is then the agent's folder about that subject."""
    shared: tuple[FolderSeen, ...] = ()
    """The shared folders that its file lists, in that order."""
    readable: tuple[FolderSeen, ...] = ()
    """The MEMORY.md of each agent whose memory its file lets it read, in that order."""
    general: FolderSeen | None = None
    """In a session about a subject: the memory that the agent has in general."""

    @property
    def owner(self) -> str:
        """Whose folder `memory` is (core.owners)."""
        return self.agent.name if self.subject is None else subject_owner(self.agent.name, self.subject)

    @property
    def others(self) -> tuple[FolderSeen, ...]:
        """Every folder that is shown beside `memory`."""
        return (*self.shared, *self.readable, *((self.general,) if self.general is not None else ()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One part of the prompt. `left_out` says in words what did not fit, or is empty."""

    name: str
    tokens: int
    left_out: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """What a session is given: `system` first, then `user`; `tokens` is the estimate for the first request, which is
    both and the `overhead` of the runner's tools and instructions.
    """

    system: str
    user: str
    tokens: int
    sections: tuple[Section, ...]
    ends: tuple[int, ...] = ()
    """Where each section of `user` ends, in characters: from there on a provider's cache may be good or not."""
    ratio: float = 1.0
    overhead: int = 0
    counted: int = 0
    """Our tokenizer's count of both, uncorrected."""

    def as_json(self) -> Mapping[str, Any]:
        """As `swarmd prompt --json` prints it."""
        return {
            "system": self.system,
            "user": self.user,
            "tokens": self.tokens,
            "sections": [{"name": s.name, "tokens": s.tokens, "left_out": s.left_out} for s in self.sections],
            "overhead": self.overhead,
            "ratio": self.ratio,
        }
