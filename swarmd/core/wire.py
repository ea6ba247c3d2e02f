"""The values that travel between swarmd and a runner: request, desk messages, result. No paths, no handles.

Everything here can be written as JSON (bytes as base64), so that a runner may live in another process or on
another host. A memory folder travels as a content-addressed tree: names to hashes, hashes to bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from swarmd.core.digests import digest
from swarmd.core.owners import subject_owner

JSON = Any
"""A JSON value: str, int, float, bool, None, list of them, dict of str to them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryTree:
    """A memory folder as a value: `files` maps a path to the digest of its bytes, `blobs` digest to bytes."""

    files: Mapping[str, str] = field(default_factory=dict)
    blobs: Mapping[str, bytes] = field(default_factory=dict)

    @classmethod
    def of(cls, files: Mapping[str, bytes]) -> MemoryTree:
        """The tree that holds these bytes under these paths."""
        names = {path: digest(data) for path, data in sorted(files.items())}
        return cls(files=names, blobs={name: files[path] for path, name in names.items()})

    def read(self, path: str) -> bytes | None:
        """The bytes under `path`, or None where there is no such file."""
        name = self.files.get(path)
        return None if name is None else self.blobs[name]

    def as_files(self) -> dict[str, bytes]:
        """Path to bytes, in the order of paths."""
        return {path: self.blobs[name] for path, name in sorted(self.files.items())}


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a runner is given: the prompt, the memory copy, its options and limits, and the session's token."""

    agent: str
    session: int
    epoch: int
    attempt: int
    trigger: str
    system: str = field(repr=False)
    user: str = field(repr=False)
    user_ends: tuple[int, ...] = ()
    """Where the sections of `user` end, in characters, from what changes least to what changes most."""
    memory: MemoryTree = field(repr=False)
    read_only: tuple[str, ...]
    """Globs of memory paths that the session may read and not change (as `[memory] read_only`, and `archive/**`)."""
    held: tuple[str, ...] = ()
    """Globs of memory paths whose changes wait for an operator's yes: whoever writes there by a call is told."""
    keeps_memory: bool = True
    """False: the agent has no memory; its copy starts empty, and nothing in it is ever saved."""
    archived: int = 0
    """How many older texts its memory has, which are not in the copy: they are read by `memory_show`."""
    revisions: Mapping[str, Mapping[str, JSON]] = field(default_factory=dict)
    """What each file of `memory` was made from: `rev`, `at` and `by`."""
    options: Mapping[str, JSON]
    """The agent's `[runner]` table without `kind`, as checked when the file was loaded."""
    folder: str
    """The folder of the agent's file, where a relative program starts: a name for the runner's host to resolve."""
    sandbox: Mapping[str, JSON]
    """`level`, `write` (list of absolute paths), `home` ("private" or a path), `network` (bool)."""
    timezone: str
    timeout_seconds: float
    token_limit: int | None = None
    """`tokens_per_session`: the session ends as failed when `Usage.counted` goes above it; None: no limit."""
    output_limit: int | None = None
    """Bytes of standard output after which a program is ended with all its processes; None: no limit."""
    errors_limit: int | None = None
    """The same of standard error."""
    token: str = field(repr=False)
    """The secret with which the session's programs speak at the desk."""
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """Values to be masked wherever output is kept."""
    acts: bool = True
    """Whether its programs may speak at the desk; False: they get neither socket nor token."""
    subject: str | None = None
    """What the session is about: its memory is then the agent's folder about that subject."""

    @property
    def owner(self) -> str:
        """Whose folder its memory is (core.owners)."""
        return self.agent if self.subject is None else subject_owner(self.agent, self.subject)

    @property
    def about_itself(self) -> dict[str, str]:
        """What the environment of the session's programs says of who they act as."""
        said = {"SWARMD_AGENT": self.agent, "SWARMD_SESSION": str(self.session)}
        return said if self.subject is None else {**said, "SWARMD_SUBJECT": self.subject}


Outcome = Literal["success", "failed", "unavailable", "timed_out", "cancelled", "lost"]
"""What a runner can report; the session's own outcome (committed, refused ...) is decided after it."""


MOST_TOKENS, MOST_USD = 10**12, 10**6
"""Larger figures of one session are none; sums of smaller ones fit where they are stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens and money of a session; None is unknown, never zero."""

    tokens_in: int | None = None
    tokens_out: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    usd: float | None = None
    priced_by: Literal["client", "list"] | None = None
    """Whose figure `usd` is: the client's (or provider's) own, or one by a list of prices (runners.prices)."""

    def plausible(self) -> Usage:
        """The same, where figures that can be none (negative, or more than any session has) are unknown."""

        def known(value: Any, most: float) -> bool:
            return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= most

        kept: dict[str, Any] = {
            name: value if known(value := getattr(self, name), MOST_TOKENS) else None
            for name in ("tokens_in", "tokens_out", "cache_read", "cache_write")
        }
        usd = self.usd if known(self.usd, MOST_USD) else None
        return Usage(**kept, usd=usd, priced_by=self.priced_by if usd is not None else None)

    @property
    def counted(self) -> int:
        """What counts against limits of tokens: input, output, cache writes, and a tenth of cache reads."""
        whole = (self.tokens_in or 0) + (self.tokens_out or 0) + (self.cache_write or 0)
        return whole + (self.cache_read or 0) // 10

    def __add__(self, other: Usage) -> Usage:
        """Both together. What is known of one side only counts alone; money that is unknown on one side is unknown."""
        whole = [
            None if mine is None and theirs is None else (mine or 0) + (theirs or 0)
            for mine, theirs in (
                (self.tokens_in, other.tokens_in), (self.tokens_out, other.tokens_out),
                (self.cache_read, other.cache_read), (self.cache_write, other.cache_write),
            )
        ]  # fmt: skip
        usd = None if self.usd is None or other.usd is None else self.usd + other.usd
        priced_by = self.priced_by if self.priced_by == other.priced_by else None
        return Usage(tokens_in=whole[0], tokens_out=whole[1], cache_read=whole[2], cache_write=whole[3], usd=usd,
                     priced_by=priced_by)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Captured:
    """What a program printed, bounded: `head` and `tail` are kept, `dropped` bytes between them are not."""

    head: bytes = b""
    tail: bytes = b""
    dropped: int = 0

    @property
    def size(self) -> int:
        """How many bytes were printed."""
        return len(self.head) + self.dropped + len(self.tail)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a runner gives back when every process of the session is dead."""

    outcome: Outcome
    reason: str = ""
    exit: int | None = None
    memory: MemoryTree | None = None
    """The memory copy as the session left it; None when it could not be read at all."""
    memory_problems: tuple[str, ...] = ()
    """What in the copy may not be taken (a link, a device, a file over a limit ...): the session is refused."""
    stdout: Captured = Captured()
    stderr: Captured = Captured()
    usage: Usage = Usage()
    """All that the session used."""
    by_model: Mapping[str, Usage] = field(default_factory=dict)
    """The same by model, where the runner can tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One wish at the desk. `id` is chosen by the caller; a repeated id gets the first answer again."""

    id: str
    call: str
    args: Mapping[str, JSON]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The desk's answer: `value` when it went well, else `error` (a sentence) and `kind` (as errors.KINDS)."""

    value: JSON = None
    error: str | None = None
    kind: str | None = None

    def as_json(self) -> dict[str, JSON]:
        """The reply as one JSON object."""
        if self.error is None:
            return {"value": self.value}
        return {"error": self.error, "kind": self.kind}


class Desk(Protocol):
    """A session's only channel beside request and result; every transport (socket, tool, worker) speaks to it."""

    async def call(self, message: Message) -> Reply:
        """An act or a read, judged at once; acts are staged, reads see them."""
        ...

    async def checkpoint(self, message: Message, memory: MemoryTree, problems: tuple[str, ...]) -> Reply:
        """Commit what is staged now, with the memory copy as it is; the session goes on."""
        ...

    def event(self, kind: str, detail: Mapping[str, JSON]) -> None:
        """Something worth keeping in the transcript (text, tool call, usage, retry)."""
        ...


class Runner(Protocol):
    """A plug-in that runs one session. It writes nothing in the store, decides nothing, never sees it."""

    async def run(self, request: Request, desk: Desk) -> Result:
        """Run to the end or the deadline; on cancellation end every process, then raise CancelledError."""
        ...
