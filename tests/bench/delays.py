"""c. From a slot's instant to the moment when its session's runner is called, for many agents due in one minute."""

from __future__ import annotations

import asyncio
import heapq
import time
from datetime import UTC, datetime
from pathlib import Path

from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.cron import CronTrigger

from tests.bench.noop import Noop
from tests.bench.scale import Scale
from tests.bench.swarm import daemon_in, write_agents
from tests.bench.table import Series, show

DEFAULT_CAP = 8
QUICK_SECONDS = 1
LOAD_SECONDS = 0.004
"""A generous guess of what an agent's file costs to load: the minute is chosen so far ahead."""


class _Late(Exception):
    """The daemon was not ready before the minute came."""


def run(scale: Scale) -> None:
    for count in scale.due:
        heap = Series("heapq and bare coroutines", asyncio.run(_heap(count, _lead(scale))))
        stock = Series("APScheduler, a CronTrigger job each", asyncio.run(_stock(count, _lead(scale))))
        rows = [heap, stock]
        for cap, words in ((count, "no cap"), (DEFAULT_CAP, f"{DEFAULT_CAP} at once")):
            begun, called = _swarmd(scale, count, cap)
            rows += [
                Series(f"swarmd, {words}: claimed, begun", begun),
                Series(f"swarmd, {words}: runner called", called),
            ]
        show(f"c. start delay, {count} agents due", rows, [heap.name, stock.name])


def _lead(scale: Scale) -> float:
    """What is set up must be ready so long before it is due."""
    return 2.0 if scale.minutes else 0.3


async def _heap(count: int, lead: float) -> list[float]:
    due = time.time() + lead
    heap = [(due, number) for number in range(count)]
    heapq.heapify(heap)
    found: list[float] = []
    tasks = []

    async def called() -> None:
        found.append(time.time() - due)

    while heap:
        await asyncio.sleep(max(0.0, heap[0][0] - time.time()))
        while heap and heap[0][0] <= time.time():
            heapq.heappop(heap)
            tasks.append(asyncio.ensure_future(called()))
    await asyncio.gather(*tasks)
    return found


async def _stock(count: int, lead: float) -> list[float]:
    found: list[float] = []
    all_called = asyncio.Event()
    # The second of the minute at which they are due; adding ten thousand jobs takes a while.
    due = int(time.time() + lead + count * 0.0005) + 1

    async def called() -> None:
        found.append(time.time() - due)
        if len(found) == count:
            all_called.set()

    scheduler = AsyncIOScheduler(timezone="UTC")
    when = datetime.fromtimestamp(due, UTC)
    for number in range(count):
        trigger = CronTrigger(hour=when.hour, minute=when.minute, second=when.second, timezone="UTC")
        scheduler.add_job(called, trigger, id=str(number), misfire_grace_time=None)
    scheduler.start()
    await asyncio.wait_for(all_called.wait(), 60 + count * 0.01)
    scheduler.shutdown(wait=False)
    return found


def _swarmd(scale: Scale, count: int, cap: int) -> tuple[list[float], list[float]]:
    """The delays until each session was begun (its slot is durable, it has a place), and until its runner was called."""
    lead = _lead(scale) + count * LOAD_SECONDS
    while True:
        try:
            return asyncio.run(
                _delays(scale.folder / f"due-{count}-{cap}-{lead:.0f}", count, cap, lead, scale.minutes)
            )
        except _Late:
            lead *= 2


async def _delays(
    root: Path, count: int, cap: int, lead: float, minutes: bool
) -> tuple[list[float], list[float]]:
    period = 60 if minutes else QUICK_SECONDS
    due = (time.time() + lead) // period * period + period
    # One minute of the hour: what is not done within it must not meet the next fire.
    cron = f'{{ cron = "{datetime.fromtimestamp(due, UTC).minute} * * * *", timezone = "UTC" }}'
    schedule = cron if minutes else f'{{ every = "{QUICK_SECONDS}s" }}'
    write_agents(root, count, schedule=f"schedule = {schedule}\n", sessions=cap)
    begun, called = _Calls(due, count), _Calls(due, count)
    async with daemon_in(root, Noop(lambda request: called.note(request.agent)), scheduling=True) as daemon:
        begin = daemon.starter._run

        def noted(order, why_cancelled):
            begun.note(order.agent)
            return begin(order, why_cancelled)

        daemon.starter._run = noted
        if time.time() > due:
            raise _Late
        await asyncio.wait_for(called.all.wait(), lead + 120 + count * 0.05)
    return begun.delays, called.delays


class _Calls:
    """How long after `due` each agent was called first."""

    def __init__(self, due: float, count: int) -> None:
        self._due = due
        self._count = count
        self._seen: set[str] = set()
        self.delays: list[float] = []
        self.all = asyncio.Event()

    def note(self, agent: str) -> None:
        delay = time.time() - self._due
        if delay >= 0 and agent not in self._seen:
            self._seen.add(agent)
            self.delays.append(delay)
            if len(self._seen) == self._count:
                self.all.set()
