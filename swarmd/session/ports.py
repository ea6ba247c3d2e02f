"""What a session needs of the world, handed in: the store, the runners, the clock. Tests make small ones."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from swarmd.core.agent import Agent
from swarmd.core.owners import shared_owner
from swarmd.core.wire import MemoryTree, Request, Runner
from swarmd.store.connections import Connection
from swarmd.store.database import Writer
from swarmd.store.memory import MemoryFolders

Read = Callable[..., Any]
"""A read of the service, on the world as the session sees it: (actor, world, name, arguments) -> document; from another
thread with its connection behind them."""
RunHook = Callable[[Request, str, tuple[str, ...], bytes, float, str], Awaitable[str | None]]
"""Runs a hook: its name, command, standard input, seconds, and where in the session's folder. None where it exits 0."""


async def no_hooks(
    request: Request, name: str, command: tuple[str, ...], stdin: bytes, seconds: float, place: str
) -> str | None:
    """Where none can be run, none has said yes."""
    return f"hooks.{name} {command[0]!r}: no program can be run here"


class Clock(Protocol):
    """The time, handed in."""

    def now(self) -> datetime:
        """The wall clock, UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds that only grow."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """The outside, as a session sees it."""

    reader: Connection
    """A reading connection for the loop's thread."""
    writer: Writer
    folders: MemoryFolders
    clock: Clock
    count: Callable[[str], int]
    """Tokens of a text."""
    runner: Callable[[str], Runner]
    """The runner of a kind."""
    check: Callable[[Request, tuple[str, ...], MemoryTree | None], Awaitable[str | None]]
    """Runs a `[success]` command as the session ran, beside the memory it left; a sentence when it did not succeed."""
    read: Read
    reserve: Callable[[], int]
    """A new handoff's id, never given twice."""
    sessions_dir: Path
    secrets: Callable[[Mapping[str, Any], str], tuple[str, ...]] = lambda _options, _folder: ()
    """Values to be masked, for these runner options of a file in this folder."""
    hook: RunHook = no_hooks
    make_index: Callable[[], object] = lambda: None
    """Makes the search index where there is none, from the thread that is about to search."""
    own_reader: Callable[[], Connection] | None = None
    """The reading connection of the thread that asks; None: `reader` serves all."""

    async def settle(self, *owners: str) -> None:
        """Take over hand edits of the memory files of these owners (core.owners) and publish what waits; not on the
        loop's thread.
        """
        for owner in sorted(set(owners)):
            await asyncio.to_thread(self.folders.settle, owner)

    async def settle_for(self, agent: Agent, owner: str) -> None:
        """Settle all that a session is shown: its own folder; and, where something has stirred in them, the shared
        ones and its agent's own.
        """
        others = [shared_owner(folder.name) for folder in agent.memory.shared]
        if owner != agent.name:
            others.append(agent.name)

        def work() -> None:
            self.folders.settle(owner)
            for other in others:
                self.folders.settle_if_stirred(other)

        await asyncio.to_thread(work)
