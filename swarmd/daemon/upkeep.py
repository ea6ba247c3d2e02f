"""What ends by time: handoffs that expire."""

from __future__ import annotations

import sqlite3
from datetime import datetime

from swarmd.core.changes import MoveHandoff
from swarmd.core.handoffs import Move
from swarmd.core.instants import to_text
from swarmd.core.world import Actor
from swarmd.store import commit, queries
from swarmd.store.store import Store

SYSTEM = Actor(by="system")


async def expire(store: Store, now: datetime) -> None:
    """End the handoffs whose time is over; a sender's next prompt shows it."""
    if not queries.expired(store.reader(), to_text(now)):
        return

    def work(connection: sqlite3.Connection) -> None:
        changes = [MoveHandoff(id=id, move=Move.EXPIRE) for id in queries.expired(connection, to_text(now))]
        commit.commit(connection, SYSTEM, changes, now, act="handoff_expire", target=f"{len(changes)} handoffs")

    await store.writer.run(work)
