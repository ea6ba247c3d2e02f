"""Sessions that wait and sessions that run: fair order, one an agent, never more than the caps allow."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime

from swarmd.daemon.slotting import Busy
from swarmd.session.flow import Order

Run = Callable[[Order, Callable[[], str]], Awaitable[str]]


@dataclass(slots=True, kw_only=True)
class Running:
    """A session that runs."""

    order: Order
    task: asyncio.Task[str]
    cancel_reason: str = "cancelled"


@dataclass(slots=True, kw_only=True, order=True)
class _Delayed:
    not_before: datetime
    number: int
    order: Order = field(compare=False)


class Starter:
    """Starts waiting sessions in the order in which they became ready. It lives on the loop.

    `run` runs one to its end; `may_start` says why one must not start after all (it was paused, removed), or None;
    `drop` ends such a one; `ended` is told of each end.
    """

    def __init__(
        self,
        run: Run,
        now: Callable[[], datetime],
        *,
        may_start: Callable[[Order], str | None],
        drop: Callable[[Order, str], Awaitable[None]],
        ended: Callable[[Order, str], None],
    ) -> None:
        self._run = run
        self._now = now
        self._may_start = may_start
        self._drop = drop
        self._ended = ended
        self.cap = 1
        self.holding: str | None = None
        """Why nothing starts at present, or None."""
        self._ready: dict[int, Order] = {}
        self._delayed: list[_Delayed] = []
        self._numbers = itertools.count()
        self.running: dict[int, Running] = {}
        self._by_agent: dict[str, int] = {}
        self._waits: dict[str, int] = {}
        self._drops: set[asyncio.Task[None]] = set()
        self._idle = asyncio.Event()
        self._idle.set()

    def add(self, order: Order, not_before: datetime | None = None) -> None:
        """A session that waits for its start; `pump` starts it."""
        self._waits[order.agent] = self._waits.get(order.agent, 0) + 1
        if not_before is not None and not_before > self._now():
            heapq.heappush(
                self._delayed, _Delayed(not_before=not_before, number=next(self._numbers), order=order)
            )
        else:
            self._ready[order.id] = order

    def busy(self, agent: str) -> Busy:
        """What the agent's sessions are like."""
        return Busy(running=self._by_agent.get(agent), waiting=self._waits.get(agent, 0) > 0)

    @property
    def waiting(self) -> int:
        """How many sessions wait for a place."""
        return len(self._ready)

    def next_delayed(self) -> datetime | None:
        """When the first delayed session becomes ready."""
        return self._delayed[0].not_before if self._delayed else None

    def pump(self) -> None:
        """Start what may start now."""
        now = self._now()
        while self._delayed and self._delayed[0].not_before <= now:
            order = heapq.heappop(self._delayed).order
            self._ready[order.id] = order
        if self.holding is not None:
            return
        for id in list(self._ready):
            if len(self.running) >= self.cap:
                return
            order = self._ready[id]
            if order.agent not in self._by_agent:
                self._start(self._take(id))

    def _take(self, id: int) -> Order:
        order = self._ready.pop(id)
        self._waits[order.agent] -= 1
        if not self._waits[order.agent]:
            del self._waits[order.agent]
        return order

    def _start(self, order: Order) -> None:
        reason = self._may_start(order)
        if reason is not None:
            task = asyncio.ensure_future(self._drop(order, reason))
            self._drops.add(task)
            task.add_done_callback(self._drops.discard)
            return
        running = Running(order=order, task=asyncio.ensure_future(self._life(order)))
        self.running[order.id] = running
        self._by_agent[order.agent] = order.id
        self._idle.clear()

    async def _life(self, order: Order) -> str:
        outcome = "lost"
        try:
            outcome = await self._run(order, lambda: self.running[order.id].cancel_reason)
            return outcome
        finally:
            del self.running[order.id]
            del self._by_agent[order.agent]
            if not self.running:
                self._idle.set()
            self._ended(order, outcome)

    async def cancel(self, id: int, reason: str) -> bool:
        """End a running session and wait for it, or forget a waiting one; False when there is no such session."""
        running = self.running.get(id)
        if running is not None:
            running.cancel_reason = reason
            running.task.cancel()
            await asyncio.wait([running.task])
            return True
        order = self._ready.get(id)
        if order is not None:
            self._take(id)
        else:
            delayed = next((d for d in self._delayed if d.order.id == id), None)
            if delayed is None:
                return False
            self._delayed.remove(delayed)
            heapq.heapify(self._delayed)
            order = delayed.order
            self._ready[id] = order
            self._take(id)
        await self._drop(order, reason)
        return True

    async def drain(self, seconds: float, reason: str) -> None:
        """Start nothing more, let what runs end for that long, then cancel it; returns when nothing runs."""
        self.holding = reason
        if self.running and seconds > 0:
            await asyncio.wait([r.task for r in self.running.values()], timeout=seconds)
        await self.cancel_all(reason)

    async def cancel_all(self, reason: str) -> None:
        """Cancel everything that runs, and wait until it has ended."""
        tasks = [running.task for running in self.running.values()]
        for running in self.running.values():
            running.cancel_reason = reason
            running.task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        if self._drops:
            await asyncio.wait(list(self._drops))
