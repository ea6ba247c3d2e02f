"""`swarmd serve`: the loops around the daemon's steps, signals, the exit status."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable

from swarmd.config.watch import SCAN_SECONDS, FolderWatch, Watched
from swarmd.core.counts import counted
from swarmd.core.owners import shared_owner
from swarmd.daemon import logs
from swarmd.daemon.clock import RealClock
from swarmd.daemon.daemon import TICK_SECONDS, Daemon
from swarmd.daemon.hand_edits import HandEdits
from swarmd.daemon.local import run_local
from swarmd.daemon.logs import log
from swarmd.daemon.notify import Notifier
from swarmd.daemon.process import allow_open_files, be_subreaper, open_standard_files
from swarmd.errors import StoreUnusable
from swarmd.places import Places
from swarmd.store.trees import tree_of

__all__ = ["run_local", "serve"]

MINUTE_SECONDS = 60.0
ADOPT_SECONDS = 1.0


class Wishes:
    """What signals have asked for. From the first moment on: also while the store is still being opened."""

    def __init__(self) -> None:
        self.stops = 0
        self.reload = False
        self.changed: Callable[[], None] = lambda: None
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda number, _frame: self.came(number))

    def came(self, number: int) -> None:
        """A signal has come."""
        if number == signal.SIGHUP:
            self.reload = True
        else:
            self.stops += 1
        self.changed()

    def on(self, loop: asyncio.AbstractEventLoop, changed: Callable[[], None]) -> None:
        """From now on signals wake the loop, and `changed` is called on it."""
        self.changed = changed
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(number, self.came, number)
        changed()


def serve(places: Places, *, log_format: str = "text", log_level: str = "info") -> int:
    """Run until SIGTERM or SIGINT; the exit status. Raises StoreUnusable when the state cannot be taken."""
    open_standard_files()
    logs.setup(log_format, log_level)
    wishes = Wishes()
    notifier = Notifier(os.environ)
    be_subreaper()
    allow_open_files()
    daemon = Daemon(places, RealClock(), notifier)
    try:
        daemon.open()
        asyncio.run(_served(daemon, notifier, wishes))
    finally:
        logs.flush()
    if daemon.failed is not None:
        raise StoreUnusable(f"the daemon stopped: {daemon.failed}")
    return 0


async def _served(daemon: Daemon, notifier: Notifier, wishes: Wishes) -> None:
    await _serve(daemon, notifier, wishes)
    if daemon.left:
        # asyncio would wait for them for ever. All that matters is in the store, and it is closed.
        logs.flush()
        os._exit(0 if daemon.failed is None else StoreUnusable.exit_status)


async def _serve(daemon: Daemon, notifier: Notifier, wishes: Wishes) -> None:
    hurry = asyncio.Event()
    reload = asyncio.Event()

    def changed() -> None:
        if wishes.stops:
            daemon.done.set()
        if wishes.stops > 1:
            hurry.set()
        if wishes.reload:
            wishes.reload = False
            reload.set()

    wishes.on(asyncio.get_running_loop(), changed)
    if not daemon.done.is_set():
        await daemon.start()
        watches = await _loops(daemon, notifier, reload)
        notifier.ready()
        where = daemon.places
        agents = counted(len(tree_of(daemon.reader)), "agent")
        log.info("ready: %s of %s, state %s", agents, where.agents, where.state)
        await daemon.done.wait()
        for watch in watches:
            await watch.stop()
        if daemon.failed is None:
            log.info("stopping: sessions may end for %g s", daemon.loader.settings.drain_timeout_seconds)
        await _stop(daemon, hurry)
    else:
        daemon.close()
    log.info("stopped")


async def _stop(daemon: Daemon, hurry: asyncio.Event) -> None:
    """A second signal ends the drain at once."""
    seconds = 0.0 if daemon.failed is not None else daemon.loader.settings.drain_timeout_seconds
    stopping = asyncio.ensure_future(daemon.stop(seconds))
    hurried = asyncio.ensure_future(hurry.wait())
    await asyncio.wait({stopping, hurried}, return_when=asyncio.FIRST_COMPLETED)
    if not stopping.done():
        await daemon.starter.cancel_all("daemon stopped")
    hurried.cancel()
    await stopping


async def _loops(daemon: Daemon, notifier: Notifier, reload: asyncio.Event) -> list[FolderWatch]:
    dirty = asyncio.Event()
    memory = asyncio.Event()
    places = daemon.places
    watch = FolderWatch(
        [Watched(path=places.agents), Watched(path=places.config.parent)], dirty.set, log.warning
    )
    edits = FolderWatch([Watched(path=places.state / "memory", recursive=True)], memory.set, log.warning)
    await watch.start()
    await edits.start()
    daemon.spawn(_ticking(daemon))
    daemon.spawn(_each(MINUTE_SECONDS, daemon.minute))
    daemon.spawn(_scanning(daemon, watch, dirty))
    daemon.spawn(_hanging_up(daemon, notifier, reload))
    daemon.spawn(_adopting(daemon, edits, memory))
    return [watch, edits]


async def _ticking(daemon: Daemon) -> None:
    while True:
        await daemon.tick()
        await asyncio.sleep(TICK_SECONDS)


async def _each(seconds: float, step: Callable[[], Awaitable[None]]) -> None:
    while True:
        await step()
        await asyncio.sleep(seconds)


async def _scanning(daemon: Daemon, watch: FolderWatch, dirty: asyncio.Event) -> None:
    """Look at the agent files when something stirs, and every few seconds whether or not."""
    while True:
        await _woken(dirty, SCAN_SECONDS)
        await daemon.attempt("watching the agent files", watch.renew())
        if daemon.auto_reload:
            await daemon.attempt("loading the agent files", daemon.reload())


async def _hanging_up(daemon: Daemon, notifier: Notifier, reload: asyncio.Event) -> None:
    """SIGHUP: look at the agent files now, whatever `reload` says."""
    while True:
        await reload.wait()
        reload.clear()
        notifier.reloading()
        await daemon.attempt("loading the agent files", daemon.reload(force=True))
        notifier.ready()


async def _adopting(daemon: Daemon, edits: FolderWatch, memory: asyncio.Event) -> None:
    """Take over hand edits of memory files soon after they were made; before a session they always are."""
    found = HandEdits(daemon.places.state / "memory", daemon.store.folders)
    while True:
        await daemon.attempt("watching memory files", edits.renew())
        owners = _owners(daemon)
        await daemon.attempt("adopting hand edits", asyncio.to_thread(found.look, owners))
        await asyncio.sleep(ADOPT_SECONDS)
        await _woken(memory, MINUTE_SECONDS)


def _owners(daemon: Daemon) -> list[str]:
    """Whose folders people may edit: agents', shared ones, and those about subjects."""
    tree = tree_of(daemon.reader)
    return [
        *tree, *map(shared_owner, tree.shared_folders()), *daemon.store.folders.about_subjects(tree),
    ]  # fmt: skip


async def _woken(event: asyncio.Event, seconds: float) -> None:
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except TimeoutError:
        return
    event.clear()
