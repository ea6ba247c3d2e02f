"""Sessions that wait and sessions that run: fair order, one an agent, never more than the caps allow."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from swarmd.core.sessions import UPKEEP
from swarmd.daemon.slotting import Busy
from swarmd.session.flow import Order

Run = Callable[[Order, Callable[[], str]], Awaitable[str]]
AGAIN = timedelta(seconds=30)
"""When one that could not be dropped is looked at again."""
END_SECONDS = 30.0
"""How long sessions may take to end when they are cancelled; a runner that takes longer is left behind."""


@dataclass(slots=True, kw_only=True)
class Running:
    """A session that runs."""

    order: Order
    task: asyncio.Task[None]
    cancel_reason: str = "cancelled"


@dataclass(slots=True, kw_only=True, order=True)
class _Delayed:
    not_before: datetime
    number: int
    order: Order = field(compare=False)


class Starter:
    """Starts waiting sessions in the order in which they became ready. It lives on the loop.

    `run` runs one to its end and never raises; `may_start` says why one must not start after all (it was paused,
    removed), or None; `drop` ends such a one, and says False where that could not be written; `ended` is told of
    each end.
    """

    def __init__(
        self,
        run: Run,
        now: Callable[[], datetime],
        *,
        may_start: Callable[[Order], str | None],
        drop: Callable[[Order, str], Awaitable[bool]],
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
        self.stuck: Callable[[], str | None] = lambda: None
        """Asked why no start could be written down at present."""
        self.running: dict[int, Running] = {}
        self._stopping: str | None = None
        self._ready: dict[int, Order] = {}
        self._delayed: list[_Delayed] = []
        self._numbers = itertools.count()
        self._by_agent: dict[str, int] = {}
        self._waits: dict[str, int] = {}
        self._drops: set[asyncio.Task[None]] = set()

    # -- who waits ------------------------------------------------------------------------------------------

    def add(self, order: Order, not_before: datetime | None = None) -> None:
        """A session that waits for its start; `pump` starts it."""
        if order.trigger not in UPKEEP:
            self._waits[order.agent] = self._waits.get(order.agent, 0) + 1
        if not_before is not None and not_before > self._now():
            heapq.heappush(
                self._delayed, _Delayed(not_before=not_before, number=next(self._numbers), order=order)
            )
        else:
            self._ready[order.id] = order

    @contextmanager
    def expecting(self, agent: str) -> Iterator[None]:
        """While a session of the agent is being queued, it counts as one that waits."""
        self._waits[agent] = self._waits.get(agent, 0) + 1
        try:
            yield
        finally:
            self._waits_no_more(agent)

    def busy(self, agent: str) -> Busy:
        """What the agent's sessions are like. One that waits to look after its memory is no work: it does not count."""
        running = self._by_agent.get(agent)
        upkeep = running is not None and self.running[running].order.trigger in UPKEEP
        return Busy(running=running, waiting=self._waits.get(agent, 0) > 0, upkeep=upkeep)

    def starts_soon(self, agent: str) -> bool:
        """Whether a session of the agent is being queued, or waits for nothing but a place."""
        delayed = sum(one.order.agent == agent and one.order.trigger not in UPKEEP for one in self._delayed)
        return self._waits.get(agent, 0) > delayed

    @property
    def waiting(self) -> int:
        """How many sessions wait for a place."""
        return len(self._ready)

    def next_delayed(self) -> datetime | None:
        """When the first delayed session becomes ready."""
        return self._delayed[0].not_before if self._delayed else None

    def take_all(self) -> list[Order]:
        """Forget whoever waits; their rows stay."""
        orders = [*self._ready.values(), *(one.order for one in self._delayed)]
        self._ready.clear()
        self._delayed.clear()
        self._waits.clear()
        return orders

    # -- starting -------------------------------------------------------------------------------------------

    def pump(self) -> None:
        """Start what may start now."""
        now = self._now()
        while self._delayed and self._delayed[0].not_before <= now:
            order = heapq.heappop(self._delayed).order
            self._ready[order.id] = order
        if self.holding is not None or self.stuck() is not None or self._stopping is not None:
            return
        while len(self.running) < self.cap:
            # Those before it wait for their own agent: they are few, or else each agent waits for itself.
            id = next((id for id, order in self._ready.items() if order.agent not in self._by_agent), None)
            if id is None:
                return
            self._start(self._take(id))

    def _take(self, id: int) -> Order:
        order = self._ready.pop(id)
        self._left(order)
        return order

    def _left(self, order: Order) -> None:
        if order.trigger not in UPKEEP:
            self._waits_no_more(order.agent)

    def _waits_no_more(self, agent: str) -> None:
        left = self._waits.get(agent, 0) - 1
        if left > 0:
            self._waits[agent] = left
        else:
            self._waits.pop(agent, None)

    def _start(self, order: Order) -> None:
        reason = self._may_start(order)
        if reason is not None:
            task = asyncio.ensure_future(self._dropped(order, reason))
            self._drops.add(task)
            task.add_done_callback(self._drops.discard)
            return
        self.running[order.id] = Running(order=order, task=asyncio.ensure_future(self._life(order)))
        self._by_agent[order.agent] = order.id

    async def _life(self, order: Order) -> None:
        outcome = "lost"
        try:
            outcome = await self._run(order, lambda: self.running[order.id].cancel_reason)
        finally:
            del self.running[order.id]
            del self._by_agent[order.agent]
            self._ended(order, outcome)

    async def _dropped(self, order: Order, reason: str) -> None:
        if not await self._drop(order, reason) and self._stopping is None:
            self.add(order, self._now() + AGAIN)

    # -- ending ---------------------------------------------------------------------------------------------

    async def cancel(self, id: int, reason: str) -> bool:
        """End a running session and wait for it, or forget a waiting one; False when there is no such session."""
        running = self.running.get(id)
        if running is not None:
            _cancel(running, reason)
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
            self._left(order)
        await self._dropped(order, reason)
        return True

    def close(self, reason: str) -> None:
        """Nothing starts any more, for good."""
        self._stopping = self._stopping or reason

    async def drain(self, seconds: float, reason: str) -> list[int]:
        """Start nothing more, let what runs end for that long, then cancel it. Returns what would not end."""
        self.close(reason)
        if self.running and seconds > 0:
            await asyncio.wait([r.task for r in self.running.values()], timeout=seconds)
        return await self.cancel_all(reason)

    async def cancel_all(self, reason: str, *, patience_seconds: float = END_SECONDS) -> list[int]:
        """Cancel everything that runs, and wait until it has ended; the ids of those that would not. Called while it
        is under way already, it takes the sessions' grace away.
        """
        tasks = {running.task for running in self.running.values()}
        for running in self.running.values():
            _cancel(running, reason)
        if tasks:
            await asyncio.wait(tasks, timeout=patience_seconds)
        if self._drops:
            await asyncio.wait(list(self._drops), timeout=patience_seconds)
        return sorted(self.running)


def _cancel(running: Running, reason: str) -> None:
    """Not at once: a task that is cancelled before its first step never takes one, also not to write its end."""
    running.cancel_reason = reason
    asyncio.get_running_loop().call_soon(running.task.cancel)
