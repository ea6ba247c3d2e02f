"""The daemon as the service's acts see it: calls from other threads, carried out on the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from concurrent.futures import Future
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakValueDictionary

from swarmd.core.changes import SendHandoff
from swarmd.core.world import Actor
from swarmd.daemon.logs import log
from swarmd.errors import Busy, Failed, Refused, StoreUnusable, SwarmdError
from swarmd.service import hooking
from swarmd.service.control import RunWish
from swarmd.service.loading import edited
from swarmd.session.flow import order_of
from swarmd.store import commit as committing
from swarmd.store import meta, sessions, slots
from swarmd.store.connections import Connection

if TYPE_CHECKING:
    from swarmd.core.agent import Agent
    from swarmd.core.approvals import Approval
    from swarmd.daemon.daemon import Daemon
    from swarmd.store.commit import Committed

T = TypeVar("T")
RUNS_AT_ONCE = 64
"""Each waits in a thread of its own; the rest of the threads stays for calls that end at once."""


def _note(wish: RunWish, handoff: int | None) -> str:
    """Why it was started, for its prompt and the log."""
    if wish.from_session is not None:
        return f"what if: as session {wish.from_session} was started"
    if wish.text is None:
        return ""
    return f"{wish.by} asks: {wish.text}" if handoff is None else f"handoff {handoff}"


class LoopControl:
    """service.control.Control over a running daemon."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self.loop: asyncio.AbstractEventLoop | None = None
        self._waiters: dict[int, Future[None]] = {}
        self._turns: WeakValueDictionary[int, asyncio.Lock] = WeakValueDictionary()

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        if self.loop is None:
            work.close()
            raise Refused("the daemon is not ready yet; try again")
        return asyncio.run_coroutine_threadsafe(work, self.loop).result()

    def cancel(self, session: int, reason: str) -> None:
        """As Control."""
        self._do(self._daemon.starter.cancel(session, reason))

    def reload(self, *, allow_empty: bool, by: str) -> Mapping[str, Any]:
        """As Control."""
        return self._do(self._daemon.reload(allow_empty=allow_empty, by=by, force=True))

    def wake(self) -> None:
        """As Control."""
        if self.loop is not None:
            self.loop.call_soon_threadsafe(self._daemon.starter.pump)

    def wake_index(self) -> None:
        """As Control."""
        self._daemon.indexing.wake()

    def ask_hook(self, agent: Agent, found: Approval, by: str) -> str | None:
        """As Control."""
        ports = self._daemon.ports
        secrets = ports.secrets(agent.runner_options, agent.folder)
        return self._do(self._in_turn(found.id, hooking.ask(ports, secrets, agent, found, by)))

    def tell_hook(self, agent: Agent, found: Approval, by: str, done: Committed) -> None:
        """As Control."""
        ports = self._daemon.ports
        secrets = ports.secrets(agent.runner_options, agent.folder)
        self._do(self._in_turn(found.id, hooking.tell(ports, secrets, agent, found, by, done)))

    async def _in_turn(self, approval: int, work: Coroutine[Any, Any, T]) -> T:
        """Work of an approval's hooks, which have one folder: one after another. The daemon's stop cancels it."""
        turn = self._turns.setdefault(approval, asyncio.Lock())

        async def alone() -> T:
            try:
                async with turn:
                    return await work
            finally:
                work.close()

        task = asyncio.ensure_future(alone())
        self._daemon.until_stop(task)
        try:
            return await task
        except asyncio.CancelledError:
            raise Failed("the daemon stops; try again when it runs") from None

    def run(self, wish: RunWish) -> int:
        """As Control."""
        id, ended = self._do(self._queue(wish))
        ended.result()
        if self._daemon.failed is not None:
            raise self._stopped(id)
        return id

    async def _queue(self, wish: RunWish) -> tuple[int, Future[None]]:
        """Queue the session and start it. All checks and the claim of the agent are one step of the loop."""
        daemon = self._daemon
        starter = daemon.starter
        self._must_be_free(wish.agent)
        with starter.expecting(wish.agent):
            definition = await asyncio.to_thread(self._definition, wish)
            id = await daemon.store.writer.run(lambda connection: self._rows(connection, wish))
            ended: Future[None] = Future()
            self._waiters[id] = ended
            order = order_of(sessions.row(daemon.reader, id), definition, wish.from_session)
            starter.add(replace(order, summary=wish.summary))
        starter.pump()
        log.info("queued by %s", wish.by, extra={"agent": wish.agent, "session": id})
        if daemon.stopping:
            # The stop did not see it any more.
            await daemon.end_waiting()
        return id, ended

    def _must_be_free(self, agent: str) -> None:
        starter = self._daemon.starter
        if self._daemon.stopping or starter.holding is not None:
            raise Busy(f"nothing starts at present: {starter.holding or 'the daemon stops'}")
        running = starter.busy(agent).running
        if running is not None or starter.starts_soon(agent):
            which = f"session {running}" if running is not None else "a session that waits for a place"
            raise Busy(
                f"{agent} already runs ({which}); wait for it, or cancel it with swarmd session cancel {agent}"
            )
        if len(self._waiters) >= RUNS_AT_ONCE:
            raise Busy(f"{RUNS_AT_ONCE} runs that were asked for wait for their end already; try again later")

    def _definition(self, wish: RunWish) -> Agent | None:
        if wish.file_text is None:
            return None
        loader = self._daemon.loader
        return edited(
            self._daemon.places, wish.agent, wish.file_text, wish.file_path, loader.rules, loader.settings
        )

    def _rows(self, connection: Connection, wish: RunWish) -> int:
        """The operator's handoff, where there is a text, and the session that is to do it."""
        now = self._daemon.clock.now()
        handoff = None
        if wish.text is not None and wish.mode == "commit":
            handoff = meta.bump(connection, "handoffs")
            change = SendHandoff(id=handoff, to=wish.agent, text=wish.text)
            done = committing.commit(connection, Actor(by=wish.by), [change], now, asked=True, act="handoff_send",
                                     target=wish.agent)  # fmt: skip
            if done.refusals:
                raise Refused("; ".join(done.refusals))
        return slots.queue(
            connection, agent=wish.agent, trigger=wish.trigger, now=now, by=wish.by, mode=wish.mode,
            note=_note(wish, handoff),
            cause_handoff=handoff, depth=1 if handoff is not None else 0, subject=wish.subject,
        )  # fmt: skip

    def ended(self, id: int) -> None:
        """A session has ended: whoever waits for it goes on."""
        waiter = self._waiters.pop(id, None)
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def give_up(self) -> None:
        """The daemon ends: nobody waits any longer."""
        for id in list(self._waiters):
            waiter = self._waiters.pop(id)
            if not waiter.done():
                waiter.set_exception(self._stopped(id))

    def _stopped(self, id: int) -> SwarmdError:
        """Why nobody can say here how a session ended."""
        if self._daemon.failed is not None:
            return StoreUnusable(f"the daemon stopped: {self._daemon.failed}")
        return Failed(f"the daemon stopped; swarmd session show {id} tells what became of it")
