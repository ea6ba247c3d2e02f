"""What ends by time: handoffs that expire, and dead children that nobody waits for."""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from swarmd.core.changes import MoveHandoff
from swarmd.core.handoffs import Move
from swarmd.core.instants import to_text
from swarmd.core.world import Actor
from swarmd.store import commit, queries
from swarmd.store.connections import Connection
from swarmd.store.store import Store

SYSTEM = Actor(by="system")


async def expire(store: Store, now: datetime) -> None:
    """End the handoffs whose time is over; a sender's next prompt shows it."""
    if not queries.expired(store.reader(), to_text(now)):
        return

    def work(connection: Connection) -> None:
        changes = [MoveHandoff(id=id, move=Move.EXPIRE) for id in queries.expired(connection, to_text(now))]
        commit.commit(
            connection, SYSTEM, changes, now, act="handoff_expire", target=f"{len(changes)} handoffs"
        )

    await store.writer.run(work)


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
