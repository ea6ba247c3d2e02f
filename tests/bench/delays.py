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
LEAD_SECONDS = 2.0
LOAD_SECONDS = 0.004
"""A generous guess of what an agent's file costs to load: the minute is chosen so far ahead."""


class _Late(Exception):
    """The daemon was not ready before the minute came."""


def run(scale: Scale) -> None:
    for count in scale.due:
        heap = Series("heapq and bare coroutines", asyncio.run(_heap(count)))
        stock = Series("APScheduler, a CronTrigger job each", asyncio.run(_stock(count)))
        rows = [heap, stock]
        for cap, words in ((count, "no cap"), (DEFAULT_CAP, f"{DEFAULT_CAP} at once")):
            begun, called = _swarmd(scale.folder, count, cap)
            rows += [Series(f"swarmd, {words}: claimed, begun", begun), Series(f"swarmd, {words}: runner called", called)]
        show(f"c. start delay, {count} agents due", rows, [heap.name, stock.name])


async def _heap(count: int) -> list[float]:
    due = time.time() + LEAD_SECONDS
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


async def _stock(count: int) -> list[float]:
    found: list[float] = []
    all_called = asyncio.Event()
    # The second of the minute at which they are due; adding ten thousand jobs takes a while.
    due = int(time.time() + LEAD_SECONDS + count * 0.0005) + 1

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


def _swarmd(folder: Path, count: int, cap: int) -> tuple[list[float], list[float]]:
    lead = LEAD_SECONDS + count * LOAD_SECONDS
    while True:
        try:
            return asyncio.run(_delays(folder / f"due-{count}-{cap}-{lead:.0f}", count, cap, lead))
        except _Late:
            lead *= 2


async def _delays(root: Path, count: int, cap: int, lead: float) -> tuple[list[float], list[float]]:
    """The delays until each session was begun (its slot is durable and it has a place), and until its runner was called."""
    # One minute of the hour: what is not done within it must not meet the next fire.
    due = (time.time() + lead) // 60 * 60 + 60
    minute = datetime.fromtimestamp(due, UTC).minute
    schedule = f'schedule = {{ cron = "{minute} * * * *", timezone = "UTC" }}\n'
    write_agents(root, count, schedule=schedule, sessions=cap)
    begun: list[float] = []
    found: list[float] = []
    all_called = asyncio.Event()

    def called(_: object) -> None:
        found.append(time.time() - due)
        if len(found) == count:
            all_called.set()

    async with daemon_in(root, Noop(called), scheduling=True) as daemon:
        begin = daemon.starter._run

        def noted(order, why_cancelled):
            begun.append(time.time() - due)
            return begin(order, why_cancelled)

        daemon.starter._run = noted
        if time.time() > due - LEAD_SECONDS / 2:
            raise _Late
        await asyncio.wait_for(all_called.wait(), lead + 120 + count * 0.05)
    return begun, found
