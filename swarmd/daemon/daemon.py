"""The daemon: everything is made and wired here, and each of its steps can be called by itself."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from swarmd.core.instants import from_text
from swarmd.core.sessions import COMPACT
from swarmd.core.wire import Runner
from swarmd.daemon import logs, restart, upkeep
from swarmd.daemon.adapting import WHAT as CHOOSING
from swarmd.daemon.adapting import Adapting
from swarmd.daemon.claiming import Claiming
from swarmd.daemon.compactions import WHAT, Compactions
from swarmd.daemon.consolidations import Consolidations
from swarmd.daemon.ground import Ground
from swarmd.daemon.indexing import Indexing
from swarmd.daemon.logs import log
from swarmd.daemon.notify import Notifier
from swarmd.daemon.numbers import Numbers
from swarmd.daemon.operators import OperatorSocket
from swarmd.daemon.remote import LoopControl
from swarmd.daemon.runs import Runs
from swarmd.daemon.scheduler import Scheduler
from swarmd.daemon.slotting import Book
from swarmd.daemon.starter import END_SECONDS, Starter
from swarmd.daemon.steps import Steps
from swarmd.errors import SwarmdError
from swarmd.places import SYSTEM_RUNTIME, Places, make_runtime
from swarmd.runners import cgroup, registry
from swarmd.service.acting import Service
from swarmd.service.caller import hand_of
from swarmd.service.loading import Loaded, Loader
from swarmd.service.reading import session_read
from swarmd.session import known_secrets
from swarmd.session.checks import success_check
from swarmd.session.hooks import hook_runner
from swarmd.session.machine import host_of
from swarmd.session.ports import Clock, Ports
from swarmd.session.recovery import recover
from swarmd.session.tokens import TokenCounter
from swarmd.store import adaptive, audit, opening, queries, session_reads, trees
from swarmd.store.connections import StoreError
from swarmd.store.database import StoreGone
from swarmd.store.store import Store, open_store

TICK_SECONDS = 1.0
COMMAND_SECONDS = 5.0
CALLS_AT_ONCE = 128
THREADS = 32
STOPPED = "daemon stopped"
INDEXING = "keeping the search index"


class Daemon(Steps):
    """One daemon on one state. `open`, then `start`; `stop` ends it. `scheduling` False: it fires no schedule, and
    starts only what it is asked for (what `swarmd run` is without a daemon).
    """

    def __init__(self, places: Places, clock: Clock, notifier: Notifier, *, scheduling: bool = True) -> None:
        super().__init__(clock)
        self.places = places
        self.scheduling = scheduling
        self.stopping = False
        self.failed: BaseException | None = None
        self.left: list[int] = []
        """Sessions that would not end when it stopped: their tasks cannot be waited for."""
        self.done = asyncio.Event()
        self._notifier = notifier
        self._runners: dict[str, Runner] = {}
        self._reloading = asyncio.Lock()
        self._told: frozenset[str] = frozenset()
        self._dead: frozenset[int] = frozenset()

    # -- opening and closing --------------------------------------------------------------------------------

    def open(self) -> None:
        """Take the state, mend what a dead daemon left, load the agent files. Blocking; raises StoreUnusable."""
        make_runtime(self.places, os.getuid())
        # A command may hold the lock for the moment that its act takes.
        self.store: Store = open_store(
            self.places.state, self.clock.now, operator=hand_of(os.geteuid()), thorough=True,
            wait_seconds=COMMAND_SECONDS,
        )  # fmt: skip
        try:
            self._open()
        except BaseException:
            self.store.close()
            raise

    def _open(self) -> None:
        self.reader = self.store.reader()
        self.host = host_of(self.places)
        if self.host.cgroup is not None:
            cgroup.end_leftovers(self.host.cgroup)
        for id in recover(self.store, self.host, self.clock.now()):
            log.warning("session %d was lost with the daemon before", id)
        self.loader = Loader(self.places, self.store, self.clock.now)
        self._tell_problems(self.loader.look())
        self.numbers = Numbers(self.store.writer)
        self.executor = ThreadPoolExecutor(CALLS_AT_ONCE, thread_name_prefix="swarmd-call")
        self.ports = Ports(
            reader=self.reader, own_reader=self.store.reader, writer=self.store.writer, folders=self.store.folders,
            clock=self.clock, count=TokenCounter(None, os.environ, log.warning).count, runner=self.runner,
            check=success_check(self.host), hook=hook_runner(self.host),
            read=session_read(self.places, self.reader), reserve=self.numbers.take,
            sessions_dir=self.places.state / "sessions", secrets=known_secrets.passed_by(self.host.environ),
            make_index=lambda: self.service.make_index(),  # noqa: PLW0108 - the service is made below
        )  # fmt: skip
        self.runs = Runs(self)
        self.starter = Starter(self.runs.run, self.clock.now, may_start=self.runs.may_start, drop=self.runs.drop,
                               ended=self.runs.ended)  # fmt: skip
        self.damage = upkeep.DamageWatch(self.store, self.clock)
        self.compactions = Compactions(self)
        self.adapting = Adapting(self)
        self.claiming = Claiming(self)
        self.consolidations = Consolidations(self)
        self.ground = Ground(self)
        self.scheduler = Scheduler(self.claiming.fire, self.clock.now)
        self.control = LoopControl(self)
        self.service = Service(self.store, self.places, self.control, self.clock.now, self._facts)
        self.indexing = Indexing(self.service.index, self.clock)
        seq, head = audit.head(self.reader)
        log.info("the store is open: audit row %d, head %s", seq, head)

    def runner(self, kind: str) -> Runner:
        """The runner of a kind, made once."""
        if kind not in self._runners:
            self._runners[kind] = registry.load(kind).make(self.host)
        return self._runners[kind]

    async def start(self) -> None:
        """Queue what waited, settle the slots of the time it was down, listen and fire."""
        loop = asyncio.get_running_loop()
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="swarmd-work")
        loop.set_default_executor(self._threads)
        self.control.loop = loop
        self.started = self.clock.now()
        self.apply_settings()
        self.operators = OperatorSocket(
            self.places.runtime, self.places.state, self.service.call, self.executor, group=self.host.cgroup,
            shared=self.places.runtime_is_named or self.places.runtime == SYSTEM_RUNTIME,
        )  # fmt: skip
        await self.operators.open()
        if self.scheduling:
            await self._queue_what_waited()
            self._put(await asyncio.to_thread(self._book))
            self.scheduler.start()
            await self.attempt("claiming slots", self.claim())
            await self.attempt(CHOOSING, self.adapting.look())
            await self.attempt("looking at the clock", self.claiming.watch_behind())
            self.compactions.start()
        self.starter.pump()

    async def _queue_what_waited(self) -> None:
        rows = session_reads.live(self.reader)
        late = restart.late_ones(
            rows, trees.tree_of(self.reader), queries.handled_until(self.reader), self.clock.now()
        )
        if late:
            await self.store.writer.run(lambda connection: restart.settle(connection, late, self.clock.now()))
            restart.tell(late)
            rows = session_reads.live(self.reader)
        for row in rows:
            self.runs.add(row)

    async def stop(self, drain_seconds: float) -> None:
        """Start nothing new, let sessions end, cancel the rest, close."""
        self.stopping = True
        self._notifier.stopping(drain_seconds + 2 * END_SECONDS)
        self.scheduler.stop()
        self.starter.close(STOPPED)
        for task in list(self._tasks):
            task.cancel()
        feeding = asyncio.ensure_future(self._feed_watchdog())
        self.left = await self.starter.drain(drain_seconds, STOPPED)
        if self.left:
            log.error(
                "sessions %s would not end: the next start will find them lost",
                ", ".join(map(str, self.left)),
            )
        left = await self.end_waiting()
        if left:
            log.info("sessions that still wait: %d; the next start decides what becomes of them", left)
        self.control.give_up()
        await self.damage.stop()
        await self.indexing.stop()
        await self.operators.close()
        await self.host.mcp.close()
        for runner in self._runners.values():
            if isinstance(runner, registry.Closing):
                await runner.close()
        self.executor.shutdown(wait=False, cancel_futures=True)
        with suppress(TimeoutError):
            # Whoever is still at the store gets its answer from it before it closes.
            await asyncio.wait_for(asyncio.to_thread(self.executor.shutdown, wait=True), 5.0)
        feeding.cancel()
        self.store.reader.close_own()  # the loop's: nothing reads here after this
        await asyncio.to_thread(self.close)

    async def end_waiting(self) -> int:
        """What somebody waits for, and what could not wait for the next start, ends now; how many sessions are left."""
        left = 0
        for order in self.starter.take_all():
            if order.is_asked_for or order.trigger == COMPACT or order.mode != "commit":
                await self.runs.drop(order, STOPPED)
            else:
                left += 1
        return left

    async def _feed_watchdog(self) -> None:
        while True:
            self._notifier.alive()
            await asyncio.sleep(TICK_SECONDS)

    def close(self) -> None:
        """Give the state back."""
        try:
            if not isinstance(self.failed, StoreGone):
                self.store.folders.checkpoint()
        except (SwarmdError, StoreError, OSError) as error:
            log.warning("memory files were not made durable, which the next start does: %s", error)
        finally:
            self.store.close()

    # -- steps ----------------------------------------------------------------------------------------------

    async def claim(self, names: Iterable[str] | None = None) -> None:
        """Settle all slots of these agents (None: of all) up to now: rows first, durable, then the sessions."""
        await self.claiming.claim(names)

    async def tick(self) -> None:
        """Once a second: look at store and clocks, claim and start what became ready, tell systemd that all is well."""
        if not self.ground.holds():
            return
        self.ground.look()
        if self.scheduling:
            await self.attempt("claiming slots", self.claiming.tick())
            await self.attempt(CHOOSING, self.adapting.tick())
            await self.attempt("putting memory in order", self.consolidations.tick())
        self.starter.pump()
        self.look_at_index()
        self._pump_when_next_is_ready()
        self._notifier.alive()
        logs.sum_up()

    def _pump_when_next_is_ready(self) -> None:
        """Delayed sessions start at their moment, not at the next tick."""
        upcoming = self.starter.next_delayed()
        if upcoming is not None:
            seconds = (upcoming - self.clock.now()).total_seconds()
            if 0 < seconds < TICK_SECONDS:
                asyncio.get_running_loop().call_later(seconds, self.starter.pump)

    async def minute(self) -> None:
        """Once a minute: what ends by time, and all slots once more, should a timer ever have been lost."""
        await self.attempt("ending handoffs that expire", upkeep.expire(self.store, self.clock.now()))
        await self.attempt(
            "ending approvals that expire", upkeep.expire_approvals(self.store, self.clock.now())
        )
        await self.attempt("flushing memory", asyncio.to_thread(self.store.folders.checkpoint))
        self._dead = upkeep.reap(self._dead)
        if self.damage.is_due():
            self.soon("looking for damage", self.damage.look)
        if self.scheduling:
            await self.attempt("claiming slots", self.claim())
            self.adapting.touch()
            await self.attempt("looking at the clock", self.claiming.watch_behind())
            self.consolidations.changed()
            await self.attempt(WHAT, self.compactions.minute())
        self._notifier.status(
            f"sessions: {len(self.starter.running)} run, {self.starter.waiting} wait; agents: "
            f"{len(trees.tree_of(self.reader))}; {opening.free_bytes(self.places.state) // 2**20} MiB free"
        )

    def look_at_index(self) -> None:
        """Begin a round of the search index where one is due."""
        if self.indexing.is_due():
            self.soon(INDEXING, self.indexing.round)

    # -- files ----------------------------------------------------------------------------------------------

    async def reload(
        self, *, allow_empty: bool = False, by: str = "system", force: bool = False
    ) -> Mapping[str, Any]:
        """Look at the agent files; what has changed is in force from the next session on."""
        async with self._reloading:
            loaded = await asyncio.to_thread(self.loader.look, allow_empty=allow_empty, by=by, force=force)
            if loaded is None:
                return {"added": [], "changed": [], "removed": [], "problems": []}
            self.apply_settings()
            self._tell_problems(loaded)
            if loaded.written:
                found = loaded.reload
                log.info("agents: %d added, %d changed, %d removed", len(found.added), len(found.changed),
                         len(found.removed))  # fmt: skip
                if self.scheduling:
                    self._put(await asyncio.to_thread(self._book))
                    await self.attempt(CHOOSING, self.adapting.look())
            self.starter.pump()
            return loaded.as_json()

    def _book(self) -> Book:
        """The tree in force as who is due when. Off the loop: reading ten thousand definitions takes seconds."""
        reader = self.store.reader()
        handled = queries.handled_until(reader)
        moments = {text: from_text(text) for text in set(handled.values())}
        chosen = {name: pace.next for name, pace in adaptive.paces(reader).items()}
        return Book(trees.tree_of(reader), {name: moments[text] for name, text in handled.items()}, chosen)

    def _put(self, book: Book) -> None:
        self.claiming.book = book
        self.consolidations.changed()
        self.scheduler.set(book.schedules)
        self.scheduler.once(*book.first_chosen())
        self.adapting.take(trees.tree_of(self.reader))

    def _tell_problems(self, loaded: Loaded | None) -> None:
        """Each problem of a file is said once, and again when it comes back."""
        if loaded is None:
            return
        found = [str(problem["message"]) for problem in loaded.as_json()["problems"]]
        for message in [*found, *loaded.reload.attention]:
            if message not in self._told:
                log.warning("%s", message)
        self._told = frozenset([*found, *loaded.reload.attention])

    def apply_settings(self) -> None:
        """Take over the caps of swarmd.toml."""
        settings = self.loader.settings
        self.starter.cap = min(settings.max_sessions, settings.max_processes)

    @property
    def auto_reload(self) -> bool:
        """Whether changes are taken up by themselves."""
        return self.loader.settings.reload == "auto"

    # -- small things ---------------------------------------------------------------------------------------

    def _facts(self) -> Mapping[str, Any]:
        return {"pid": os.getpid(), "started": self.started.isoformat(), "waiting": self.starter.waiting,
                "holding": self.starter.holding, "problem": self.store.writer.trouble}  # fmt: skip

    def fail(self, error: BaseException) -> None:
        """Something that only a restart can answer: stop at once, with failure."""
        if self.failed is None:
            self.failed = error
            log.error("stops at once: %s", error)
        self.starter.close(str(error))
        self.done.set()
