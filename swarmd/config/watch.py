"""The one file that knows watchdog: says that something under some folders may have changed, never what.

Events only hurry a scan that is due every few seconds anyway. They get lost (links, a folder put in place of
another, a full queue, no inotify left), so nothing may depend on them.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import stat
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from watchdog.events import (
    DirAttribEvent,
    DirCreatedEvent,
    DirDeletedEvent,
    DirMovedEvent,
    FileAttribEvent,
    FileClosedEvent,
    FileCreatedEvent,
    FileDeletedEvent,
    FileModifiedEvent,
    FileMovedEvent,
    FileSystemEvent,
    FileSystemEventHandler,
)
from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver, ObservedWatch

DEBOUNCE_SECONDS = 0.3
LONGEST_WAIT_SECONDS = 2.0
SCAN_SECONDS = 4.0
"""How often callers scan, and call `renew`, whether or not there were events."""

# Not among them: that a file was opened or closed unwritten. Our own reading does that, and would feed itself.
_EVENTS: list[type[FileSystemEvent]] = [
    DirAttribEvent,
    DirCreatedEvent,
    DirDeletedEvent,
    DirMovedEvent,
    FileAttribEvent,
    FileClosedEvent,
    FileCreatedEvent,
    FileDeletedEvent,
    FileModifiedEvent,
    FileMovedEvent,
]
_LIMITS = {errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.ENOMEM}


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """A folder to watch, with all below it where `recursive`."""

    path: Path
    recursive: bool = False


class FolderWatch:
    """Calls `on_dirty` on the event loop, 300 ms after the last of a burst of events.

    Folders that are missing are no error: `renew`, to be called with each scan, takes up what has come or was put in
    another's place. `on_warning` gets one sentence, once, where the system has no watches left; scans go on then.
    """

    def __init__(
        self,
        watched: Iterable[Watched],
        on_dirty: Callable[[], None],
        on_warning: Callable[[str], None],
        *,
        make_observer: Callable[[], BaseObserver] = Observer,
    ) -> None:
        self._watched = tuple(watched)
        self._on_dirty = on_dirty
        self._on_warning = on_warning
        self._make_observer = make_observer
        self._observer: BaseObserver | None = None
        self._watches: dict[Watched, _Watch] = {}
        self._debounce: _Debounce | None = None
        self._renewing = asyncio.Lock()
        self._is_warned = False

    async def start(self) -> None:
        """Begin to watch."""
        # watchdog warns on its own thread when a folder is made in one that is just being taken up. It is harmless;
        # but where warnings are errors it would end that thread, and with it every watch of the process.
        warnings.filterwarnings("ignore", message="Callback with id", category=RuntimeWarning)
        self._debounce = _Debounce(asyncio.get_running_loop(), self._on_dirty)
        await self.renew()

    async def renew(self) -> None:
        """Watch what is there now: folders that have come, or come back, or stand in another's place."""
        async with self._renewing:
            if self._debounce is None:
                return
            # In a thread: a large tree takes long to walk, and a dead watcher up to a second to join.
            failures = await asyncio.to_thread(self._renew, self._debounce)
        if failures and not self._is_warned:
            self._is_warned = True
            self._on_warning(
                f"the system has no file watches left ({failures[0]}): changes are noticed by scanning, every "
                f"{SCAN_SECONDS:g} seconds (to mend it, raise fs.inotify.max_user_instances and max_user_watches)"
            )

    async def stop(self) -> None:
        """End; once this has returned, `on_dirty` is not called any more."""
        async with self._renewing:
            if self._debounce is not None:
                self._debounce.close()
                self._debounce = None
            observer, self._observer, self._watches = self._observer, None, {}
            if observer is not None:
                await asyncio.to_thread(_stop, observer)

    def _renew(self, debounce: _Debounce) -> list[str]:
        """What the system refused for want of watches."""
        failures: list[str] = []
        for watched in self._watched:
            identity = _identity(watched.path)
            known = self._watches.get(watched)
            if known is not None and known.identity == identity and self._lives(known):
                continue
            if known is not None:
                self._forget(watched, known)
            if identity is None:
                continue
            try:
                self._watches[watched] = self._watch(watched, identity, debounce)
            except OSError as error:
                if error.errno in _LIMITS:
                    failures.append(error.strerror or str(error))
                # Anything else (gone again, not ours to read) is the scan's to tell.
        return failures

    def _watch(self, watched: Watched, identity: _Identity, debounce: _Debounce) -> _Watch:
        if self._observer is None:
            observer = self._make_observer()
            observer.start()
            self._observer = observer
        # By its real path, since inotify says nothing of a folder behind a link; links below are not followed.
        watch = self._observer.schedule(
            _Handler(debounce),
            os.path.realpath(watched.path),
            recursive=watched.recursive,
            event_filter=_EVENTS,
        )
        return _Watch(watch=watch, identity=identity)

    def _lives(self, known: _Watch) -> bool:
        """A watcher ends without a word when its folder is deleted, and a new folder may get the old one's inode."""
        emitters = self._observer.emitters if self._observer is not None else set()
        return any(emitter.watch == known.watch and emitter.is_alive() for emitter in emitters)

    def _forget(self, watched: Watched, known: _Watch) -> None:
        del self._watches[watched]
        if self._observer is not None and all(other.watch != known.watch for other in self._watches.values()):
            self._observer.unschedule(known.watch)


_Identity = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Watch:
    watch: ObservedWatch
    identity: _Identity
    """Device and inode of the folder that is watched under this name."""


def _identity(path: Path) -> _Identity | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return (status.st_dev, status.st_ino) if stat.S_ISDIR(status.st_mode) else None


def _stop(observer: BaseObserver) -> None:
    observer.stop()
    observer.join()


class _Handler(FileSystemEventHandler):
    """Runs on watchdog's thread; which event it was does not matter."""

    def __init__(self, debounce: _Debounce) -> None:
        super().__init__()
        self._debounce = debounce

    def on_any_event(self, event: FileSystemEvent) -> None:
        self._debounce.touch()


class _Debounce:
    """Makes one call out of a burst: when it has been quiet for a while, and in a long burst every two seconds."""

    def __init__(self, loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
        self._loop = loop
        self._call = call
        self._is_waiting = False
        self._first = 0.0
        self._last = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False

    def touch(self) -> None:
        """Note an event; from any thread. Thousands may come at once, and only the first wakes the loop."""
        self._last = self._loop.time()
        if not self._is_waiting:
            self._is_waiting = True
            with contextlib.suppress(RuntimeError):  # the loop has been closed: nobody waits for us
                self._loop.call_soon_threadsafe(self._begin)

    def close(self) -> None:
        """Call nothing any more."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()

    def _begin(self) -> None:
        self._first = self._loop.time()
        self._wait()

    def _wait(self) -> None:
        if not self._is_closed:
            due = min(self._last + DEBOUNCE_SECONDS, self._first + LONGEST_WAIT_SECONDS)
            self._timer = self._loop.call_at(due, self._tell)

    def _tell(self) -> None:
        now = self._loop.time()
        if now < min(self._last + DEBOUNCE_SECONDS, self._first + LONGEST_WAIT_SECONDS):
            self._wait()
            return
        # Before the call: an event that comes during it must lead to another.
        self._is_waiting = False
        self._call()
