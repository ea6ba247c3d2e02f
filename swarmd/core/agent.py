"""An agent's definition as a checked, frozen value, and its form as JSON (what the store keeps in force)."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from swarmd.core.durations import format_duration

CatchUp = Literal["none", "last", "all"]
Overlap = Literal["skip", "queue", "cancel_running"]
SandboxLevel = Literal["auto", "landlock", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Adaptive:
    """`[schedule] adaptive`: between `min_seconds` and `max_seconds` from one session to the next, sooner while open
    handoffs or a key named in `work` say that there is work.
    """

    min_seconds: float
    max_seconds: float
    work: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """In one line, for listings."""
        return f"adaptive {format_duration(self.min_seconds)}..{format_duration(self.max_seconds)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class When:
    """The `[schedule]` table: at most one of `cron`, `every_seconds`, `at` and `adaptive`; none of them means never by
    itself.
    """

    cron: str | None = None
    every_seconds: float | None = None
    at: str | None = None
    adaptive: Adaptive | None = None
    timezone: str = "UTC"
    jitter_seconds: float = 0.0
    catch_up: CatchUp = "none"
    catch_up_max_age_seconds: float = 86400.0
    overlap: Overlap = "skip"

    @property
    def moments(self) -> tuple[str | None, float | None, str | None, str, Adaptive | None]:
        """What alone decides when slots are; the rest decides what becomes of them."""
        return (self.cron, self.every_seconds, self.at, self.timezone, self.adaptive)

    @property
    def text(self) -> str | None:
        """The schedule as the user wrote it, for listings."""
        if self.adaptive is not None:
            return self.adaptive.text
        if self.every_seconds is not None:
            return f"every {self.every_seconds:g}s"
        return f"at {self.at}" if self.at is not None else self.cron


@dataclass(frozen=True, slots=True, kw_only=True)
class Sandbox:
    """The `[sandbox]` table; `write` are absolute paths."""

    level: SandboxLevel = "auto"
    write: tuple[str, ...] = ()
    home: str = "private"
    network: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The `[limits]` table, durations in seconds."""

    timeout_seconds: float = 3600.0
    retries: int = 0
    retry_delay_seconds: float = 60.0
    tokens_per_session: int | None = None
    pause_after_failures: int = 10
    handoffs_per_session: int = 20
    handoff_depth: int = 8
    sessions_per_cause: int = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedFolder:
    """A `[[memory.shared]]` table: a folder of notes that several agents have, by its name. `approval`: what the agent
    writes there waits for an operator's yes.
    """

    name: str
    write: bool = False
    approval: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRules:
    """The `[memory]` table: the prompt's budget in tokens, read-only globs, whose memory it may read, and how the
    memory is kept small. `approval` are globs of files whose changes wait for an operator's yes.
    """

    prompt_tokens: int = 4000
    read_only: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    persistent: bool = True
    log: bool = False
    compact_at: float = 0.9
    context_tokens: int | None = None
    """The summarizer's window; None: what its model has, or a default."""
    summary_tokens: int | None = None
    """The most that a summary may have; None: half of the memory's room."""
    summarizer_model: str | None = None
    summarizer_command: tuple[str, ...] = ()
    approval: tuple[str, ...] = ()
    shared: tuple[SharedFolder, ...] = ()

    def shares(self, folder: str) -> SharedFolder | None:
        """What it may do with the shared folder of this name; None: its file does not list it."""
        return next((each for each in self.shared if each.name == folder), None)

    @property
    def room(self) -> int:
        """How many tokens MEMORY.md may have: in the prompt, and in a request about it."""
        return min(self.prompt_tokens, self.context_tokens or self.prompt_tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class Success:
    """The `[success]` table: what must hold before a session's commit."""

    keys_changed: tuple[str, ...] = ()
    command: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """The `[hooks]` table: programs that are given a change set before and after its commit."""

    before_commit: tuple[str, ...] = ()
    after_commit: tuple[str, ...] = ()
    timeout_seconds: float = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Consolidate:
    """The `[consolidate]` table: when, by which model or command, and within which bounds the memory is put in order.
    At most one of `cron` and `after_seconds`; none of them means never.
    """

    cron: str | None = None
    after_seconds: float | None = None
    model: str | None = None
    command: tuple[str, ...] = ()
    sessions: int = 20
    tokens_per_session: int | None = None
    timeout_seconds: float = 1800.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """One agent as its file defines it, defaults filled in. `folder` is where its file stands (absolute)."""

    name: str
    description: str = ""
    parent: str | None = None
    gone_parent: str | None = None
    """The parent that its file names, where that one is no longer in force; `parent` is then the nearest agent
    above it that still is. Who stands above keeps its authority; a report goes to no agent, but to `attention`."""
    enabled: bool = True
    system_prompt: str = ""
    folder: str = "/"
    runner_kind: str = "command"
    runner_options: Mapping[str, Any] = field(default_factory=dict)
    when: When = When()
    sandbox: Sandbox = Sandbox()
    limits: Limits = Limits()
    memory: MemoryRules = MemoryRules()
    keys_scope: Literal["own", "below"] = "below"
    success: Success = Success()
    hooks: Hooks = Hooks()
    consolidate: Consolidate = Consolidate()
    approval_keys: tuple[str, ...] = ()
    """Globs of its own and others' keys whose change by its sessions waits for an operator's yes."""
    approval_expires_seconds: float = 7 * 86400.0
    skills: tuple[str, ...] = ()
    """Folders of skills, absolute."""


def to_json(agent: Agent) -> str:
    """The definition as canonical JSON: equal definitions give equal text, so its hash names the definition."""
    return json.dumps(agent, default=_fields, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def _fields(value: Any) -> dict[str, Any]:
    """A definition's parts as JSON sees them: dataclasses.asdict would copy all of it first."""
    return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}


def from_json(text: str) -> Agent:
    """The definition that `to_json` wrote; a field that this version does not know is left out."""
    return cast(Agent, _part(Agent, json.loads(text)))


_PARTS: Mapping[str, type] = {
    "when": When,
    "adaptive": Adaptive,
    "sandbox": Sandbox,
    "limits": Limits,
    "memory": MemoryRules,
    "shared": SharedFolder,
    "success": Success,
    "hooks": Hooks,
    "consolidate": Consolidate,
}
"""Fields that are tables of their own, or lists of such tables."""


def _part(cls: type, raw: Mapping[str, Any]) -> Any:
    return cls(**{name: _value(name, value) for name, value in _known(cls, raw).items()})


def _value(name: str, value: Any) -> Any:
    if name == "runner_options" or value is None:
        return value
    part = _PARTS.get(name)
    if isinstance(value, list):
        return tuple(value if part is None else (_part(part, each) for each in value))
    return value if part is None else _part(part, value)


def _known(cls: type, raw: Mapping[str, Any]) -> dict[str, Any]:
    names = {f.name for f in dataclasses.fields(cls)}
    return {k: v for k, v in raw.items() if k in names}


def definition_hash(agent: Agent) -> str:
    """The name of this definition: SHA-256 of its canonical JSON, hexadecimal."""
    return hashlib.sha256(to_json(agent).encode()).hexdigest()
