"""`swarmd run` and `swarmd memory compact` without a daemon: a daemon without schedules, for one session's length."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Mapping
from typing import Any

from swarmd.daemon import logs
from swarmd.daemon.clock import RealClock
from swarmd.daemon.daemon import INDEXING, TICK_SECONDS, Daemon
from swarmd.daemon.notify import Notifier
from swarmd.daemon.process import be_subreaper
from swarmd.errors import StoreUnusable
from swarmd.places import Places
from swarmd.service.caller import this_operator
from swarmd.store.indexing import SEARCH_SECONDS


def run_local(
    places: Places, args: Mapping[str, Any], as_agent: str | None = None, *, name: str = "run"
) -> Any:
    """The document of the call that is named: one that waits for a session's end."""
    logs.setup("text", "error")
    be_subreaper()
    daemon = Daemon(places, RealClock(), Notifier({}), scheduling=False)
    daemon.open()
    try:
        return asyncio.run(_run_local(daemon, name, args, as_agent))
    finally:
        logs.flush()


async def _run_local(daemon: Daemon, name: str, args: Mapping[str, Any], as_agent: str | None) -> Any:
    try:
        await daemon.start()
    except BaseException:
        daemon.close()
        raise
    loop = asyncio.get_running_loop()
    caller = this_operator(as_agent)
    call = loop.run_in_executor(daemon.executor, lambda: daemon.service.call(caller, name, args))
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    stopping = asyncio.ensure_future(stopped.wait())
    indexing = asyncio.ensure_future(_keep_index(daemon))
    try:
        await asyncio.wait({call, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not call.done():
            await daemon.starter.cancel_all("interrupted")
        document = await call
        indexing.cancel()
        await _finish_index(daemon, stopping)
    finally:
        indexing.cancel()
        stopping.cancel()
        await daemon.stop(0.0)
    if daemon.failed is not None:
        raise StoreUnusable(str(daemon.failed))
    return document


async def _keep_index(daemon: Daemon) -> None:
    """What a daemon's tick does for the search index: the session may search."""
    while daemon.failed is None:
        daemon.look_at_index()
        await asyncio.sleep(TICK_SECONDS)


async def _finish_index(daemon: Daemon, stopping: asyncio.Future[Any]) -> None:
    """Put in what the session has said and done, which nobody else does before the next; a signal ends it."""
    if daemon.failed is not None or stopping.done():
        return
    finishing = daemon.soon(INDEXING, lambda: daemon.indexing.finish(SEARCH_SECONDS))
    await asyncio.wait({finishing, stopping}, return_when=asyncio.FIRST_COMPLETED)
