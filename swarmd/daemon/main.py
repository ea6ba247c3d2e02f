"""`swarmd serve`: the loops around the daemon's steps, signals, the exit status; and `swarmd run` without a daemon."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from swarmd.config.watch import SCAN_SECONDS, FolderWatch, Watched
from swarmd.daemon import logs
from swarmd.daemon.clock import RealClock
from swarmd.daemon.daemon import TICK_SECONDS, Daemon
from swarmd.daemon.logs import log
from swarmd.daemon.notify import Notifier
from swarmd.errors import StoreUnusable
from swarmd.places import Places
from swarmd.service.caller import this_operator
from swarmd.store.trees import tree_of

MINUTE_SECONDS = 60.0
ADOPT_SECONDS = 5.0
_PR_SET_CHILD_SUBREAPER = 36


def serve(places: Places, *, log_format: str = "text", log_level: str = "info") -> int:
    """Run until SIGTERM or SIGINT; the exit status. Raises StoreUnusable when the state cannot be taken."""
    logs.setup(log_format, log_level)
    notifier = Notifier(os.environ)
    _be_subreaper()
    daemon = Daemon(places, RealClock(), notifier)
    daemon.open()
    asyncio.run(_serve(daemon, notifier))
    if daemon.failed is not None:
        raise StoreUnusable(f"the daemon stopped: {daemon.failed}")
    return 0


def _be_subreaper() -> None:
    """Whatever outlives a session's supervisor becomes the daemon's child, and is found."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


async def _serve(daemon: Daemon, notifier: Notifier) -> None:
    loop = asyncio.get_running_loop()
    hurry = asyncio.Event()

    def stop() -> None:
        if daemon.done.is_set():
            hurry.set()
        daemon.done.set()

    reload = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    loop.add_signal_handler(signal.SIGHUP, reload.set)
    await daemon.start()
    await _loops(daemon, notifier, reload)
    notifier.ready()
    log.info(
        "ready: %d agents of %s, state %s",
        len(tree_of(daemon.reader)),
        daemon.places.agents,
        daemon.places.state,
    )
    await daemon.done.wait()
    log.info("stopping: sessions may end for %g s", daemon.loader.settings.drain_timeout_seconds)
    await _stop(daemon, hurry)
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


async def _loops(daemon: Daemon, notifier: Notifier, reload: asyncio.Event) -> None:
    dirty = asyncio.Event()
    memory = asyncio.Event()
    watch = FolderWatch([Watched(path=daemon.places.agents), Watched(path=daemon.places.config.parent)], dirty.set,
                        log.warning)  # fmt: skip
    edits = FolderWatch(
        [Watched(path=daemon.places.state / "memory", recursive=True)], memory.set, log.warning
    )
    await watch.start()
    await edits.start()
    daemon.spawn(_ticking(daemon))
    daemon.spawn(_each(MINUTE_SECONDS, daemon.minute))
    daemon.spawn(_scanning(daemon, watch, dirty))
    daemon.spawn(_hanging_up(daemon, notifier, reload))
    daemon.spawn(_adopting(daemon, edits, memory))


async def _ticking(daemon: Daemon) -> None:
    while True:
        await daemon.tick()
        await asyncio.sleep(TICK_SECONDS)


async def _each(seconds: float, step: Any) -> None:
    while True:
        await step()
        await asyncio.sleep(seconds)


async def _scanning(daemon: Daemon, watch: FolderWatch, dirty: asyncio.Event) -> None:
    """Look at the agent files when something stirs, and every few seconds whether or not."""
    while True:
        with suppress(TimeoutError):
            await asyncio.wait_for(dirty.wait(), SCAN_SECONDS)
        dirty.clear()
        await watch.renew()
        if daemon.auto_reload:
            await daemon.reload()


async def _hanging_up(daemon: Daemon, notifier: Notifier, reload: asyncio.Event) -> None:
    """SIGHUP: look at the agent files now, whatever `reload` says."""
    while True:
        await reload.wait()
        reload.clear()
        notifier.reloading()
        await daemon.reload(force=True)
        notifier.ready()


async def _adopting(daemon: Daemon, edits: FolderWatch, memory: asyncio.Event) -> None:
    """Take over hand edits of memory files soon after they were made; before a session they always are."""
    while True:
        await memory.wait()
        memory.clear()
        await edits.renew()
        await asyncio.to_thread(_settle_all, daemon, list(tree_of(daemon.reader)))
        await asyncio.sleep(ADOPT_SECONDS)


def _settle_all(daemon: Daemon, agents: list[str]) -> None:
    for agent in agents:
        daemon.store.folders.settle(agent)


def run_local(places: Places, args: Mapping[str, Any], as_agent: str | None = None) -> Any:
    """`swarmd run` where no daemon runs: a daemon without schedules for that long. The session's document."""
    logs.setup("text", "warning")
    _be_subreaper()
    daemon = Daemon(places, RealClock(), Notifier({}), scheduling=False)
    daemon.open()
    return asyncio.run(_run_local(daemon, args, as_agent))


async def _run_local(daemon: Daemon, args: Mapping[str, Any], as_agent: str | None) -> Any:
    await daemon.start()
    loop = asyncio.get_running_loop()
    caller = this_operator(as_agent)
    call = loop.run_in_executor(daemon.executor, lambda: daemon.service.call(caller, "run", args))
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    stopping = asyncio.ensure_future(stopped.wait())
    try:
        await asyncio.wait({call, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not call.done():
            await daemon.starter.cancel_all("interrupted")
        return await call
    finally:
        stopping.cancel()
        await daemon.stop(0.0)
