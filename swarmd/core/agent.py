"""An agent's definition as a checked, frozen value, and its form as JSON (what the store keeps in force)."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

CatchUp = Literal["none", "last", "all"]
Overlap = Literal["skip", "queue", "cancel_running"]
SandboxLevel = Literal["auto", "landlock", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class When:
    """The `[schedule]` table: at most one of `cron`, `every_seconds`, `at`; none of them means never by itself."""

    cron: str | None = None
    every_seconds: float | None = None
    at: str | None = None
    timezone: str = "UTC"
    jitter_seconds: float = 0.0
    catch_up: CatchUp = "none"
    catch_up_max_age_seconds: float = 86400.0
    overlap: Overlap = "skip"

    @property
    def moments(self) -> tuple[str | None, float | None, str | None, str]:
        """What alone decides when slots are; the rest decides what becomes of them."""
        return (self.cron, self.every_seconds, self.at, self.timezone)

    @property
    def text(self) -> str | None:
        """The schedule as the user wrote it, for listings."""
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
class MemoryRules:
    """The `[memory]` table: the prompt's budget in tokens, read-only globs, and whose memory it may read."""

    prompt_tokens: int = 4000
    read_only: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Success:
    """The `[success]` table: what must hold before a session's commit."""

    keys_changed: tuple[str, ...] = ()
    command: tuple[str, ...] = ()


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


def to_json(agent: Agent) -> str:
    """The definition as canonical JSON: equal definitions give equal text, so its hash names the definition."""
    return json.dumps(agent, default=_fields, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def _fields(value: Any) -> dict[str, Any]:
    """A definition's parts as JSON sees them: dataclasses.asdict would copy all of it first."""
    return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}


def from_json(text: str) -> Agent:
    """The definition that `to_json` wrote; a field that this version does not know is left out."""
    raw = json.loads(text)
    parts = {
        "when": When,
        "sandbox": Sandbox,
        "limits": Limits,
        "memory": MemoryRules,
        "success": Success,
    }
    values = {name: _part(cls, raw.pop(name, {})) for name, cls in parts.items()}
    return Agent(**values, **_known(Agent, raw))


def _part(cls: type, raw: Mapping[str, Any]) -> Any:
    known = _known(cls, raw)
    return cls(**{k: tuple(v) if isinstance(v, list) else v for k, v in known.items()})


def _known(cls: type, raw: Mapping[str, Any]) -> dict[str, Any]:
    names = {f.name for f in dataclasses.fields(cls)}
    return {k: v for k, v in raw.items() if k in names}


def definition_hash(agent: Agent) -> str:
    """The name of this definition: SHA-256 of its canonical JSON, hexadecimal."""
    return hashlib.sha256(to_json(agent).encode()).hexdigest()
