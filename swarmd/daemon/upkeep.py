"""What is looked after now and then: handoffs that expire, dead children that nobody waits for, damage of the store."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from contextlib import closing, suppress
from datetime import datetime
from pathlib import Path

from swarmd.core.changes import MoveHandoff
from swarmd.core.counts import counted
from swarmd.core.handoffs import Move
from swarmd.core.instants import to_text
from swarmd.core.world import Actor
from swarmd.daemon.logs import about, log
from swarmd.session.ports import Clock
from swarmd.store import approvals, commit, damage, queries
from swarmd.store.connections import Connection, StoreError, open_reading
from swarmd.store.opening import DATABASE
from swarmd.store.store import Store

SYSTEM = Actor(by="system")
DAY_SECONDS, HOUR_SECONDS = 86400.0, 3600.0
WORK_SECONDS = 0.005
RESTS = 4
"""A look for damage works so long at a time, and then rests so many times as long: it takes a fifth of a core."""
STOP_SECONDS, STOP_TRIES = 5.0, 100


async def expire(store: Store, now: datetime) -> None:
    """End the handoffs whose time is over; a sender's next prompt shows it."""
    if not queries.expired(store.reader(), to_text(now)):
        return

    def work(connection: Connection) -> None:
        changes = [MoveHandoff(id=id, move=Move.EXPIRE) for id in queries.expired(connection, to_text(now))]
        commit.commit(
            connection, SYSTEM, changes, now, act="handoff_expire", target=counted(len(changes), "handoff")
        )

    await store.writer.run(work)


async def expire_approvals(store: Store, now: datetime) -> None:
    """End what has waited too long for an operator's yes; the agent's next prompt says so."""
    if approvals.overdue(store.reader(), now):
        await store.writer.run(lambda connection: approvals.expire(connection, now))


def reap(seen: frozenset[int]) -> frozenset[int]:
    """Reap dead children that were dead at the last look already, and return those that are dead now.

    The daemon takes in what outlives a session's supervisor. Its own children are waited for at once, so that a child
    which stays dead from one look to the next is a stranger's.
    """
    dead = {pid for pid in _children() if _is_dead(pid)}
    for pid in dead & seen:
        with suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
    return frozenset(dead - seen)


def _children() -> set[int]:
    found: set[int] = set()
    for task in Path("/proc/self/task").iterdir():
        with suppress(OSError):
            found.update(map(int, (task / "children").read_text().split()))
    return found


def _is_dead(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return False


class _Stopped(Exception):
    """The daemon stops: the look is given up."""


class DamageWatch:
    """Looks by itself for damage that nobody has met yet: after the start, daily, and hourly while there is some. In a
    thread, on a connection of its own, resting for most of the time.
    """

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._due = clock.monotonic()
        self._stop = threading.Event()
        self._idle = threading.Event()
        self._idle.set()
        self._connection: Connection | None = None
        self._working_since = 0.0

    def is_due(self) -> bool:
        """Whether it is time to look, and nobody does."""
        return not self._stop.is_set() and self._idle.is_set() and self._clock.monotonic() >= self._due

    async def look(self) -> None:
        """Look once, raise what is found and cure what is over."""
        self._due = self._clock.monotonic() + HOUR_SECONDS
        self._idle.clear()
        if await asyncio.to_thread(self._look):
            self._due += DAY_SECONDS - HOUR_SECONDS

    async def stop(self) -> None:
        """Look no more; what is under way ends, or is waited for no longer than a moment."""
        self._stop.set()
        for _ in range(STOP_TRIES):
            # Again and again: the next statement may begin right after one was interrupted.
            if (connection := self._connection) is not None:
                with suppress(StoreError):  # closed in this very instant
                    connection.interrupt()
            if await asyncio.to_thread(self._idle.wait, STOP_SECONDS / STOP_TRIES):
                return

    def _look(self) -> bool:
        """Whether all is well."""
        try:
            with closing(open_reading(self._store.state / DATABASE)) as self._connection:
                return self._look_with(self._connection)
        except _Stopped:
            return True
        except StoreError:
            if self._stop.is_set():  # the statement that ran was interrupted
                return True
            raise
        finally:
            self._connection = None
            self._idle.set()

    def _look_with(self, connection: Connection) -> bool:
        self._working_since = time.monotonic()
        found = damage.look(connection, self._rest)
        for agent in sorted(found.to_heal | damage.to_look_at_again(connection)):
            self._rest()
            if self._store.folders.heal(agent):
                log.warning("a lost text was put back from its file", extra=about(agent))
        if not damage.is_told(connection, found):
            for item in found.items.values():
                log.error("%s", item.text, extra=about(item.agent) if item.agent else None)
            now = self._clock.now()
            self._store.writer.do(lambda writing: damage.tell(writing, found, now))
        return not found.items

    def _rest(self) -> None:
        worked = time.monotonic() - self._working_since
        if worked < WORK_SECONDS and not self._stop.is_set():
            return
        if self._stop.wait(min(worked * RESTS, 1.0)):
            raise _Stopped
        self._working_since = time.monotonic()
