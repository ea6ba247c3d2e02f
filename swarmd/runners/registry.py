"""Which runners there are: the built-in ones and those of installed packages; it starts none of them."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Literal, Protocol, cast, get_args, runtime_checkable

from pydantic import BaseModel

from swarmd.core.wire import Runner
from swarmd.errors import BadInput
from swarmd.runners.host import Host

GROUP = "swarmd.runners"
BUILT_IN: Mapping[str, str] = {
    "anthropic": "swarmd.runners.anthropic",
    "claude-code": "swarmd.runners.claude_code",
    "codex": "swarmd.runners.codex",
    "command": "swarmd.runners.command",
}


Capability = Literal[
    "system_prompt",  # gives the system part apart from the user part, as a system prompt
    "tools",  # gives the model the session's acts as tools
    "usage",  # tells how many tokens were used
    "cost",  # tells, itself or by a price list, what they cost
    "max_turns",  # ends a session after so many answers of the model
    "tells_truncation",  # an answer that was cut off is not taken for a success
    "tells_refusal",  # nor one that the model refused to give
    "hides_token",  # keeps the session's token from the environment of programs that the model starts
    "offline",  # can do its work where sandbox.network is false
]


class RunnerModule(Protocol):
    """What a runner's module offers."""

    @property
    def Options(self) -> type[BaseModel]:  # noqa: N802 - it is a class
        """The `[runner]` table without `kind`; unknown fields are refused."""

    @property
    def measures(self) -> frozenset[str]:
        """The limits that this runner can measure; any other limit of that sort is an error in the agent's file."""

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What this runner can do; what an agent's file asks for beyond it, `swarmd check` names."""

    def make(self, host: Host) -> Runner:
        """The runner, at this host."""


@runtime_checkable
class Closing(Protocol):
    """A runner that holds something beyond its sessions, and gives it back when the daemon stops."""

    async def close(self) -> None:
        """Give it back."""
        ...


def kinds() -> list[str]:
    """Every value that `runner.kind` may have here."""
    return sorted({*BUILT_IN, *_installed()})


def load(kind: str) -> RunnerModule:
    """The runner's module, or BadInput where there is none or where it cannot be imported."""
    if kind in BUILT_IN:
        return cast(RunnerModule, import_module(BUILT_IN[kind]))
    point = _installed().get(kind)
    if point is None:
        raise BadInput(f"no runner is named {kind!r}; there are: {', '.join(kinds())}")
    try:
        module = point.load()
    except Exception as error:  # a stranger's code: whatever it raises must not take the others down
        raise BadInput(f"the runner {kind!r} ({point.value}) cannot be loaded: {error!r}") from error
    missing = [name for name in ("Options", "measures", "capabilities", "make") if not hasattr(module, name)]
    if missing:
        raise BadInput(f"the runner {kind!r} ({point.value}) lacks {', '.join(missing)}")
    return cast(RunnerModule, module)


def told(kind: str, module: RunnerModule) -> str:
    """What a runner can and cannot do, in a sentence."""
    can = [name for name in get_args(Capability) if name in module.capabilities]
    cannot = [name for name in get_args(Capability) if name not in module.capabilities]
    lists = [f"{word}: {', '.join(names)}" for word, names in (("can", can), ("cannot", cannot)) if names]
    return f"{kind} {'; '.join(lists)}"


def _installed() -> dict[str, EntryPoint]:
    # A package cannot take a built-in runner's name: what `command` means does not depend on what is installed.
    return {point.name: point for point in entry_points(group=GROUP) if point.name not in BUILT_IN}
