"""What the daemon stands on: the store's files are those that it opened, and take what is written."""

from __future__ import annotations

import functools
import os
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from swarmd.store.connections import Connection
from swarmd.store.database import StoreGone
from swarmd.store.opening import DATABASE
from swarmd.store.raising import raise_attention

if TYPE_CHECKING:
    from swarmd.daemon.daemon import Daemon

STORE = "store"
"""The id of what is raised, and its kind."""
AGAIN_SECONDS = 5.0
SECONDS = "%Y-%m-%dT%H:%M:%SZ"
_PAST = (
    (" is full", " was full"),
    (" holds a lock", " held a lock"),
    (" cannot be written", " could not be written"),
)


class Files:
    """Which folder and which database were opened. Any thread may ask."""

    def __init__(self, state: Path) -> None:
        self._opened = {path: _identity(path) for path in (state, state / DATABASE)}

    def must_be_there(self) -> None:
        """Raises StoreGone where the state folder or the database was removed, moved away or replaced."""
        for path, opened in self._opened.items():
            try:
                found = _identity(path)
            except (FileNotFoundError, NotADirectoryError):
                found = None
            except OSError:
                continue  # it cannot be told now: a network that is away is no other file
            if found != opened:
                what = "is gone" if found is None else "is not the one any more that the daemon opened"
                raise StoreGone(
                    f"{path} {what} (removed, moved or replaced while the daemon ran); nothing more is written: "
                    f"put it back or restore a backup, then start swarmd serve again"
                )


def _identity(path: Path) -> tuple[int, int]:
    status = os.stat(path)
    return status.st_dev, status.st_ino


def past(why: str) -> str:
    """Why the store could not be written, as one says it afterwards."""
    text = why.partition("; nothing was")[0]
    for now, then in _PAST:
        text = text.replace(now, then)
    return text


class Ground:
    """Looks at the store once a second."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self._files = Files(daemon.places.state)
        self._since: datetime | None = None
        """Since when the store has not taken what was to be written."""
        self._why = ""
        self._again_at = 0.0
        self._trying = False
        daemon.store.writer.guard = self._files.must_be_there
        daemon.starter.stuck = lambda: daemon.store.writer.trouble

    def holds(self) -> bool:
        """Whether the store's files are there. If not, the daemon stops at once."""
        try:
            self._files.must_be_there()
        except StoreGone as gone:
            # Also what is under way writes nothing any more.
            self._daemon.store.writer.broken = self._daemon.store.writer.broken or gone
            self._daemon.fail(gone)
            return False
        return True

    def look(self) -> None:
        """Whether the store takes what is written. While it does not, nothing starts, and a small write tries it
        every few seconds: a note of that time to whoever looks after it.
        """
        daemon = self._daemon
        why = daemon.store.writer.trouble
        if why is not None:
            self._since, self._why = self._since or daemon.clock.now(), why
        if self._since is not None and not self._trying and daemon.clock.monotonic() >= self._again_at:
            self._again_at = daemon.clock.monotonic() + AGAIN_SECONDS
            self._trying = True
            daemon.soon("writing to the store", functools.partial(self._try, self._since))

    async def _try(self, since: datetime) -> None:
        now = self._daemon.clock.now()
        text = f"from {since:{SECONDS}} to {now:{SECONDS}} nothing could be written to the store: {past(self._why)}"

        def work(connection: Connection) -> None:
            raise_attention(connection, id=STORE, kind="store", agent=None, text=text, now=now,
                            next_step="make room, or see swarmd doctor; then swarmd attention ack store")  # fmt: skip

        try:
            await self._daemon.store.writer.run(work)
        finally:
            self._trying = False
        self._since = None
        self._daemon.starter.pump()
