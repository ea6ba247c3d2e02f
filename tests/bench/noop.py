"""The runner `noop`: it does nothing, or sets one key; and a daemon process that has it (`python -m tests.bench.noop`).

It is registered in this process alone, as a package's entry point would be.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from swarmd.core.wire import Desk, Message, Request, Result
from swarmd.runners import registry
from swarmd.runners.host import Host

kind = "noop"
measures: frozenset[str] = frozenset()
capabilities: frozenset[str] = frozenset()


class Options(BaseModel):
    """The `[runner]` table of kind `noop`."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    key: str | None = None
    """A key that each session sets to its own number, so that it has something to commit."""
    handoff_to: str | None = None
    """An agent below that each session sends a handoff to."""


class Noop:
    """Ends at once. `called` is told of each session when its turn comes."""

    def __init__(self, called: Callable[[Request], None] = lambda _: None) -> None:
        self.called = called

    async def run(self, request: Request, desk: Desk) -> Result:
        self.called(request)
        if key := request.options.get("key"):
            await _act(desk, "ctx_set", key=key, value=str(request.session))
        if to := request.options.get("handoff_to"):
            await _act(desk, "handoff_send", to=to, text=f"of session {request.session}")
        return Result(outcome="success", exit=0, memory=request.memory)


async def _act(desk: Desk, call: str, **args: str) -> None:
    reply = await desk.call(Message(id=call, call=call, args=args))
    if reply.error is not None:
        raise AssertionError(f"{call}: {reply.error}")


def make(host: Host) -> Noop:
    """The runner, for daemons of other processes."""
    return Noop()


def register() -> None:
    """Let agent files of this process name the kind."""
    registry.BUILT_IN = {**registry.BUILT_IN, kind: "tests.bench.noop"}


def serve(root: Path) -> int:
    """`swarmd serve` on the places of `root`, with this runner."""
    from swarmd.daemon.main import serve as run
    from tests.bench.swarm import places_in

    register()
    return run(places_in(root), log_level="info")


if __name__ == "__main__":
    sys.exit(serve(Path(sys.argv[1])))
