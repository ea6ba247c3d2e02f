"""The one file that knows APScheduler: it is told the next moment of each distinct schedule, and decides nothing.

One job for all agents of one (expression, zone): ten thousand agents due at once are one wake-up. No misfire rule, no
overlap rule and no crontab text of the library's is used (its readings differ from cron's).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime

from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.base import BaseTrigger

from swarmd.core.schedule import ChosenSchedule, Schedule, next_slot

Fire = Callable[[str], None]


class _NextSlot(BaseTrigger):  # type: ignore[misc]
    """Our schedules as the library asks for them: the next moment after the one before."""

    def __init__(self, schedule: Schedule, now: Callable[[], datetime]) -> None:
        self._schedule = schedule
        self._now = now

    def get_next_fire_time(self, previous: datetime | None, now: datetime) -> datetime | None:
        """The next slot. Counted in UTC, from the last one: the library's `now` may have lost its fold."""
        after = self._now() if previous is None else max(previous, self._now())
        return next_slot(self._schedule, after)


class Scheduler:
    """Calls `fire(key)` on the loop when the schedule of that key is due."""

    def __init__(self, fire: Fire, now: Callable[[], datetime]) -> None:
        self._fire = fire
        self._now = now
        self._scheduler = AsyncIOScheduler(timezone="UTC")
        self._keys: set[str] = set()
        self._once: dict[str, datetime | None] = {}

    def start(self) -> None:
        """Begin."""
        self._scheduler.start()

    def stop(self) -> None:
        """No more fires."""
        if self._scheduler.running:
            self._scheduler.shutdown(wait=False)

    def set(self, schedules: Mapping[str, Schedule]) -> None:
        """Watch exactly these schedules, by key."""
        for key in self._keys - schedules.keys():
            if self._scheduler.get_job(key) is not None:
                self._scheduler.remove_job(key)
        for key in schedules.keys() - self._keys:
            self._watch(key, schedules[key])
        self._keys = set(schedules)

    def once(self, key: str, moment: datetime | None) -> None:
        """Call for this key at that moment, and no more for an earlier one that it was told (None: not at all)."""
        if self._once.get(key) == moment:
            return
        self._once[key] = moment
        if self._scheduler.get_job(key) is not None:
            self._scheduler.remove_job(key)
        if moment is not None and moment > self._now():  # what is due already is found by the daemon's tick
            self._watch(key, ChosenSchedule(instant=moment))

    def _watch(self, key: str, schedule: Schedule) -> None:
        # Lateness is ours to judge: without these the library drops what is a second late.
        self._scheduler.add_job(self._on_loop, _NextSlot(schedule, self._now), args=(key,), id=key,
                                misfire_grace_time=None, coalesce=True, max_instances=1_000_000)  # fmt: skip

    async def _on_loop(self, key: str) -> None:
        """The library calls plain functions in threads, coroutines on the loop."""
        self._fire(key)

    def wake(self) -> None:
        """The clock was set, or the host slept: the library's timer counts on the steady clock and must look again."""
        if self._scheduler.running:
            for job in self._scheduler.get_jobs():
                job.reschedule(job.trigger)
            self._scheduler.wakeup()

    def keys(self) -> Iterable[str]:
        """The keys that are watched."""
        return frozenset(self._keys)
