"""An agent's hooks where an operator approves what was held of it: asked and told as for a session's own commit."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from swarmd.core.agent import Agent
from swarmd.core.approvals import Approval
from swarmd.places import Places, make_runtime
from swarmd.session import known_secrets
from swarmd.session.hooks import Facts, HookPorts, Outside, hook_runner, of_approval
from swarmd.session.machine import host_of
from swarmd.store.commit import Committed
from swarmd.store.store import Store

T = TypeVar("T")
Secrets = tuple[str, ...]


async def ask(ports: Outside, secrets: Secrets, agent: Agent, found: Approval, by: str) -> str | None:
    """What its `before_commit` says against it, or None."""
    hooks = of_approval(ports, agent, found, secrets)
    return await hooks.before(found.actor, found.changes, _facts(found, by), approved=True)


async def tell(
    ports: Outside, secrets: Secrets, agent: Agent, found: Approval, by: str, done: Committed
) -> None:
    """Tell its `after_commit`."""
    await of_approval(ports, agent, found, secrets).after(done, _facts(found, by))


def _facts(found: Approval, by: str) -> Facts:
    return Facts(approval=found.id, approved_by=by)


def without_daemon(
    store: Store,
    places: Places,
    now: Callable[[], datetime],
    agent: Agent,
    use: Callable[[Outside, Secrets], Coroutine[Any, Any, T]],
) -> T:
    """What comes of using the hooks in this process, on a loop for that long."""
    make_runtime(places, os.getuid())
    host = host_of(places)
    ports = HookPorts(reader=store.reader(), own_reader=store.reader, writer=store.writer, clock=_Clock(now),
                      hook=hook_runner(host))  # fmt: skip
    return asyncio.run(use(ports, known_secrets.passed_by(host.environ)(agent.runner_options, agent.folder)))


@dataclass(frozen=True, slots=True)
class _Clock:
    """A command's clock, as sessions have one."""

    wall: Callable[[], datetime]

    def now(self) -> datetime:
        """The wall clock, UTC."""
        return self.wall()

    def monotonic(self) -> float:
        """Seconds that only grow."""
        return time.monotonic()
