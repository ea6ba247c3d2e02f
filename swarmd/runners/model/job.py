"""What a worker is given to run a session: values that travel as JSON from the daemon to it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from swarmd.core.wire import Outcome, Usage
from swarmd.runners.sandbox import Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramsJob:
    """How the programs of the session's tools are started."""

    session: int
    workdir: str
    env: Mapping[str, str] = field(repr=False)
    """Without a token: what a model's shell does is not asked in the session's name."""
    policy: Policy
    marker: str
    secrets: tuple[str, ...] = field(repr=False)
    python: str
    cgroup: str | None = None
    bubblewrap: str | None = None
    """The program, where the shell is to have a namespace of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One session. `options` are those of the runner `anthropic`, checked; `key` is the credential itself."""

    session: int
    agent: str
    system: str = field(repr=False)
    user: str = field(repr=False)
    user_ends: tuple[int, ...]
    options: Mapping[str, Any]
    key: str = field(repr=False)
    keys: Mapping[str, str] = field(repr=False)
    """The credentials of the MCP servers that have one, by the server's name."""
    timeout_seconds: float
    token_limit: int | None
    dated: str
    programs: ProgramsJob

    def as_json(self) -> dict[str, Any]:
        """For the channel to the worker."""
        return dataclasses.asdict(self)

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> Job:
        """What `as_json` gave."""
        programs: dict[str, Any] = dict(raw["programs"])
        policy: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in programs.pop("policy").items()
        }
        programs["secrets"] = tuple(programs["secrets"])
        rest = {name: value for name, value in raw.items() if name not in ("programs", "user_ends")}
        return cls(
            **rest,
            user_ends=tuple(raw["user_ends"]),
            programs=ProgramsJob(**programs, policy=Policy(**policy)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """How a session went in the worker. `by_model` is by the model that was asked."""

    outcome: Outcome
    reason: str = ""
    text: str = ""
    by_model: Mapping[str, Usage] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """For the channel to the daemon."""
        return dataclasses.asdict(self)

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> Done:
        """What `as_json` gave."""
        by_model = {str(name): Usage(**usage) for name, usage in raw["by_model"].items()}
        return cls(outcome=raw["outcome"], reason=raw["reason"], text=raw["text"], by_model=by_model)


def usage_of(done: Done) -> Usage:
    """All that a session used; nothing where no answer came."""
    usages = list(done.by_model.values())
    return sum(usages[1:], usages[0]) if usages else Usage()
