"""The daemon: everything is made and wired here, and each of its steps can be called by itself."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any

from swarmd.core.slots import clock_jump
from swarmd.core.wire import Runner
from swarmd.daemon import slotting, upkeep
from swarmd.daemon.logs import about, log
from swarmd.daemon.notify import Notifier
from swarmd.daemon.operators import OperatorSocket
from swarmd.daemon.remote import LoopControl
from swarmd.daemon.scheduler import Scheduler
from swarmd.daemon.starter import Starter
from swarmd.errors import SwarmdError
from swarmd.places import SYSTEM_RUNTIME, Places, make_runtime
from swarmd.runners import cgroup, registry
from swarmd.service.acting import Service
from swarmd.service.loading import Loader
from swarmd.service.reading import session_read
from swarmd.service.rows import held_by
from swarmd.session import flow
from swarmd.session.checks import success_check
from swarmd.session.flow import Order, order_of
from swarmd.session.machine import host_of
from swarmd.session.ports import Clock, Ports
from swarmd.session.recovery import recover
from swarmd.session.tokens import TokenCounter
from swarmd.store import audit, opening, queries, sessions, slots, trees
from swarmd.store.database import Connection, OutcomeUnknown
from swarmd.store.store import Store, open_store, raise_attention

TICK_SECONDS = 1.0
HANDOFF_BLOCK = 100
CALLS_AT_ONCE = 128
CLOCK_JUMP = "clock-jump"


class Daemon:
    """One daemon on one state. `open`, then `start`; `stop` ends it. `scheduling` False: it fires no schedule
    (what `swarmd run` is without a daemon)."""

    def __init__(self, places: Places, clock: Clock, notifier: Notifier, *, scheduling: bool = True) -> None:
        self.places = places
        self.clock = clock
        self._notifier = notifier
        self._scheduling = scheduling
        self._members: dict[str, list[str]] = {}
        self._awake_since: datetime | None = None
        self._missed_because = "the daemon was down"
        self._hold_until: float | None = None
        self._last_tick: tuple[datetime, float] | None = None
        self._runners: dict[str, Runner] = {}
        self._claiming = asyncio.Lock()
        self._dead: frozenset[int] = frozenset()
        self._tasks: set[asyncio.Task[Any]] = set()
        self.failed: BaseException | None = None
        self.done = asyncio.Event()

    # -- opening and closing --------------------------------------------------------------------------------

    def open(self) -> None:
        """Take the state, mend what a dead daemon left, load the agent files. Blocking; raises StoreUnusable."""
        make_runtime(self.places, os.getuid())
        self.store: Store = open_store(
            self.places.state, self.clock.now, operator="unknown", thorough=True, handoff_block=HANDOFF_BLOCK
        )
        self.host = host_of(self.places)
        if self.host.cgroup is not None:
            cgroup.end_leftovers(self.host.cgroup)
        for id in recover(self.store, self.host, self.clock.now()):
            log.warning("session %d was lost with the daemon before", id)
        self.loader = Loader(self.places, self.store)
        self.loader.look()
        counter = TokenCounter(None, os.environ, log.warning)
        self.executor = ThreadPoolExecutor(CALLS_AT_ONCE, thread_name_prefix="swarmd-call")
        reader = self.store.reader()
        self.reader = reader
        self.ports = Ports(
            reader=reader, writer=self.store.writer, folders=self.store.folders, clock=self.clock, count=counter.count,
            runner=self.runner, check=success_check(self.host), read=session_read(self.places, reader),
            reserve=self.store.reserve, sessions_dir=self.places.state / "sessions",
        )  # fmt: skip
        self.starter = Starter(
            self._run, self.clock.now, may_start=self._may_start, drop=self._drop, ended=self._ended
        )
        self.scheduler = Scheduler(self._fire, self.clock.now)
        self.control = LoopControl(self)
        self.service = Service(self.store, self.places, self.control, self.clock.now, self._facts)
        seq, head = audit.head(reader)
        log.info("the store is open: audit row %d, head %s", seq, head)

    def runner(self, kind: str) -> Runner:
        """The runner of a kind, made once."""
        if kind not in self._runners:
            self._runners[kind] = registry.load(kind).make(self.host)
        return self._runners[kind]

    async def start(self) -> None:
        """Queue what waited, settle the slots of the time it was down, listen and fire."""
        self.control.loop = asyncio.get_running_loop()
        self.started = self.clock.now()
        self._awake_since = self.started
        for row in queries.live(self.reader):
            self._add(row)
        self.apply_settings()
        self.operators = OperatorSocket(
            self.places.runtime, self.places.state, self.service.call, self.executor,
            shared=self.places.runtime_is_named or self.places.runtime == SYSTEM_RUNTIME,
        )  # fmt: skip
        await self.operators.open()
        if self._scheduling:
            self.set_schedules()
            self.scheduler.start()
            await self.claim(list(trees.tree_of(self.reader)))
        self.starter.pump()

    async def stop(self, drain_seconds: float) -> None:
        """Start nothing new, let sessions end, cancel the rest, close."""
        self._notifier.stopping()
        self.scheduler.stop()
        for task in list(self._tasks):
            task.cancel()
        await self.starter.drain(drain_seconds, "daemon stopped")
        await self.operators.close()
        self.executor.shutdown(wait=False, cancel_futures=True)
        await asyncio.to_thread(self.close)

    def close(self) -> None:
        """Give the state back."""
        self.store.folders.checkpoint()
        self.store.close()

    # -- slots ----------------------------------------------------------------------------------------------

    def set_schedules(self) -> None:
        """Tell the scheduler what there is to watch."""
        by_key, self._members = slotting.schedules(trees.tree_of(self.reader))
        self.scheduler.set(by_key)

    def _fire(self, key: str) -> None:
        self.spawn(self.claim(self._members.get(key, [])))

    async def claim(self, names: list[str]) -> None:
        """Settle all slots of these agents up to now: rows first, durable, then the sessions."""
        async with self._claiming:
            if self._hold_until is not None:
                return
            now = self.clock.now()
            tree = trees.tree_of(self.reader)
            decided = slotting.decide(
                self.reader, tree, names, now, {name: self.starter.busy(name) for name in names},
                awake_since=self._awake_since, missed_because=self._missed_because,
            )  # fmt: skip
            if decided.claims:
                ids = await self.store.writer.run(
                    lambda connection: slots.claim(connection, decided.claims, now)
                )
                self._log_claims(decided)
                for row in queries.by_ids(self.reader, ids):
                    self._add(row)
        for id in decided.cancel:
            self.spawn(self.starter.cancel(id, "its next slot was due (overlap = cancel_running)"))
        self.starter.pump()

    def _log_claims(self, decided: slotting.Decided) -> None:
        others = [claim for claim in decided.claims if claim.decision != "started"]
        for claim in others[:20]:
            log.info(
                "slot %s %s: %s",
                claim.slot.isoformat(),
                claim.decision,
                claim.reason,
                extra=about(claim.agent),
            )
        if len(others) > 20:
            log.info("and %d more slots that start nothing: swarmd log", len(others) - 20)

    def _add(self, row: Mapping[str, Any]) -> None:
        not_before = row["not_before"]
        self.starter.add(order_of(row), None if not_before is None else datetime.fromisoformat(not_before))

    # -- sessions -------------------------------------------------------------------------------------------

    async def _run(self, order: Order, why_cancelled: Any) -> str:
        log.info("starts (%s)", order.trigger, extra=about(order.agent, order.id))
        try:
            return await flow.run(self.ports, order, why_cancelled)
        except OutcomeUnknown as error:
            self.fail(error)
            raise
        except SwarmdError as error:
            log.error("could not be ended: %s", error, extra=about(order.agent, order.id))
            raise

    def _may_start(self, order: Order) -> str | None:
        tree = trees.tree_of(self.reader)
        agent = order.definition or tree.agent(order.agent)
        if agent is None:
            return f"the agent {order.agent!r} is not in force any more"
        if order.trigger == "manual":
            return None
        if not agent.enabled:
            return "the agent was disabled before it started"
        held = held_by(order.agent, tree.above(order.agent), queries.pauses(self.reader))
        if held:
            return f"paused at {held[0]} before it started"
        count = 0 if order.cause_handoff is None else queries.caused(self.reader, order.cause_handoff)
        if count >= agent.limits.sessions_per_cause:
            return f"handoff {order.cause_handoff} has caused {count} sessions, the most it may (sessions_per_cause)"
        return None

    async def _drop(self, order: Order, reason: str) -> None:
        def work(connection: Connection) -> None:
            sessions.end(connection, order.id, outcome="cancelled", reason=reason, now=self.clock.now())
            slots.redecide(connection, order.id, "skipped", reason)

        await self.store.writer.run(work)
        log.info("cancelled before it started: %s", reason, extra=about(order.agent, order.id))
        self.control.ended(order.id)

    def _ended(self, order: Order, outcome: str) -> None:
        level = log.info if outcome in ("committed", "no_change", "dry_run", "cancelled") else log.warning
        row = sessions.row(self.reader, order.id) if not self.failed else None
        reason = f": {row['reason']}" if row is not None and row["reason"] else ""
        level("%s%s", outcome, reason, extra=about(order.agent, order.id))
        self.control.ended(order.id)
        for found in [] if self.failed else queries.retries_of(self.reader, order.id):
            self._add(found)
        self.starter.pump()

    # -- time -----------------------------------------------------------------------------------------------

    async def tick(self) -> None:
        """Once a second: compare the clocks, start what became ready, tell systemd that all is well."""
        now, steady = self.clock.now(), self.clock.monotonic()
        if self._last_tick is not None:
            await self._look_at_clocks(*self._last_tick, now, steady)
        self._last_tick = (now, steady)
        if self._hold_until is not None and steady >= self._hold_until:
            self._hold_until = None
            self.starter.holding = None
            await self.claim(list(trees.tree_of(self.reader)))
        self.starter.pump()
        self._notifier.alive()

    async def _look_at_clocks(
        self, before: datetime, steady_before: float, now: datetime, steady: float
    ) -> None:
        jump = clock_jump(before, steady_before, now, steady)
        if jump.kind == "steady":
            return
        log.warning("%s", jump.reason)
        self._missed_because = jump.reason
        if jump.kind in ("forward", "far_forward"):
            self._awake_since = now
        if jump.kind == "far_forward":
            self._hold_until = steady + jump.hold_seconds
            self.starter.holding = jump.reason
            text = f"{jump.reason}: nothing starts for a minute, in which it can be set right"
            await self.store.writer.run(lambda connection: raise_attention(
                connection, id=CLOCK_JUMP, kind="clock", agent=None, text=text,
                next_step="check the clock (timedatectl), then swarmd attention ack clock-jump", now=now,
            ))  # fmt: skip
            return
        self.scheduler.wake()
        await self.claim(list(trees.tree_of(self.reader)))

    async def minute(self) -> None:
        """Once a minute: what ends by time, and all slots once more, should a timer ever have been lost."""
        await upkeep.expire(self.store, self.clock.now())
        await asyncio.to_thread(self.store.folders.checkpoint)
        self._dead = upkeep.reap(self._dead)
        if self._scheduling:
            await self.claim(list(trees.tree_of(self.reader)))
        free = opening.free_bytes(self.places.state)
        self._notifier.status(
            f"{len(self.starter.running)} sessions run, {self.starter.waiting} wait, {len(trees.tree_of(self.reader))} "
            f"agents, {free // 2**20} MiB free"
        )

    # -- files ----------------------------------------------------------------------------------------------

    async def reload(
        self, *, allow_empty: bool = False, by: str = "system", force: bool = False
    ) -> Mapping[str, Any]:
        """Look at the agent files; what has changed is in force from the next session on."""
        loaded = await asyncio.to_thread(self.loader.look, allow_empty=allow_empty, by=by, force=force)
        if loaded is None:
            return {"added": [], "changed": [], "removed": [], "problems": []}
        self.apply_settings()
        if loaded.written:
            found = loaded.reload
            log.info(
                "agents: %d added, %d changed, %d removed",
                len(found.added),
                len(found.changed),
                len(found.removed),
            )
            if self._scheduling:
                self.set_schedules()
        for problem in loaded.as_json()["problems"]:
            log.warning("%s", problem["message"])
        self.starter.pump()
        return loaded.as_json()

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
        return {"pid": os.getpid(), "started": self.started.isoformat(), "running": len(self.starter.running),
                "waiting": self.starter.waiting, "holding": self.starter.holding}  # fmt: skip

    def fail(self, error: BaseException) -> None:
        """Something that only a restart can answer: stop at once, with failure."""
        self.failed = self.failed or error
        self.starter.holding = str(error)
        self.done.set()

    def spawn(self, work: Any) -> asyncio.Task[Any]:
        """A task that lives as long as the daemon; its fault ends the daemon."""
        task: asyncio.Task[Any] = asyncio.ensure_future(work)
        self._tasks.add(task)

        def over(finished: asyncio.Task[Any]) -> None:
            self._tasks.discard(finished)
            if not finished.cancelled() and (error := finished.exception()) is not None:
                log.error("a step of the daemon failed", exc_info=error)
                self.fail(error)

        task.add_done_callback(over)
        return task
