"""Slots as time goes by: the clocks are compared, who is due gets its rows, durable, and only then its sessions."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING

from swarmd.core.counts import counted
from swarmd.core.instants import from_text, to_text
from swarmd.core.slots import ClockJump
from swarmd.daemon.clock import Heartbeat
from swarmd.daemon.ground import AGAIN_SECONDS, past
from swarmd.daemon.logs import about, log
from swarmd.daemon.runs import waiting
from swarmd.daemon.slotting import Book, Decided, Look, decide
from swarmd.session.flow import Order
from swarmd.store import adaptive, queries, session_reads, slots, trees
from swarmd.store.connections import Connection
from swarmd.store.raising import cure, raise_attention

if TYPE_CHECKING:
    from swarmd.daemon.daemon import Daemon

CLOCK_JUMP = "clock-jump"
CLOCK_BEHIND = "clock-behind"
BEHIND_SECONDS = 60.0
MANY = 200
"""So many agents are judged off the loop."""


class Claiming:
    """Settles slots. One claim at a time; what it decided is in the store before any of it starts."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self._lock = asyncio.Lock()
        self._claimed: list[int] = []
        """Queued by a claim, and not handed to the starter yet."""
        self._again_at: float | None = None
        self._held_up: str | None = None
        """Why the last claim was not written."""
        self._fired: set[str] = set()
        self._fired_meanwhile = False
        self._behind: bool | None = None
        self.heartbeat = Heartbeat(daemon.clock)
        self.book = Book(trees.tree_of(daemon.reader), {})

    def fire(self, key: str) -> None:
        """A schedule is due: its agents are claimed together with those of all that are due at this moment."""
        if not self._fired:
            asyncio.get_running_loop().call_soon(self._claim_fired)
        self._fired.update(self.book.members.get(key, ()))

    def _claim_fired(self) -> None:
        names, self._fired = self._fired, set()
        if self._lock.locked():
            # Not one after the other, each with a wait of its own for a store that somebody holds: one for all.
            self._fired_meanwhile = True
        else:
            self._spawn(names)

    def _spawn(self, names: Iterable[str] | None) -> None:
        self._daemon.soon("claiming slots", lambda: self.claim(names))

    async def tick(self) -> None:
        """Compare the clocks; claim what no timer has claimed."""
        jumped = await self._look()
        steady = self._daemon.clock.monotonic()
        if self.heartbeat.hold_is_over():
            self._daemon.starter.holding = None
            jumped = True
        waits = self._lock.locked() or (self._again_at is not None and steady < self._again_at)
        if jumped or self._claimed or (not waits and self.book.is_due(self._daemon.clock.now())):
            await self.claim()

    async def claim(self, names: Iterable[str] | None = None) -> None:
        """Settle all slots up to now of these agents, or of all."""
        async with self._lock:
            if await self._look() or self._again_at is not None:
                names = None
            if self.heartbeat.holds:
                return
            try:
                decided = await self._settle(names)
            except BaseException as error:
                if isinstance(error, Exception):
                    self.heartbeat.missed_because = self._held_up = past(str(error))
                    self._again_at = self._daemon.clock.monotonic() + AGAIN_SECONDS
                raise
            self._again_at = self._held_up = None
            if names is None:
                self.heartbeat.settled()
        for id in decided.cancel:
            self._daemon.spawn(
                self._daemon.starter.cancel(id, "its next slot was due (overlap = cancel_running)")
            )
        self._daemon.starter.pump()
        if self._fired_meanwhile:
            self._fired_meanwhile = False
            self._spawn(None)

    async def _settle(self, names: Iterable[str] | None) -> Decided:
        await self._hand_on()
        daemon, now = self._daemon, self._daemon.clock.now()
        due = self.book.due(now)
        if names is not None:
            wanted = set(names)
            due = [name for name in due if name in wanted]
        if not due:
            return Decided()
        decided = await asyncio.to_thread(self._judge, due) if len(due) > MANY else self._judge(due)
        if decided.claims:
            self._claimed += await daemon.store.writer.run(
                lambda connection: slots.claim(connection, decided.claims, now)
            )
            self._tell(decided)
        self.book.handled(decided.handled)
        daemon.adapting.touch(decided.handled)
        await self._hand_on()
        return decided

    def _judge(self, due: list[str]) -> Decided:
        daemon, reader = self._daemon, self._daemon.store.reader()
        handled = {name: from_text(text) for name, text in queries.handled_until(reader, due).items()}
        reasons = {
            name: pace.reason for name, pace in adaptive.paces(reader, self.book.adaptive(due)).items()
        }
        look = Look(now=daemon.clock.now(), grace_seconds=self.heartbeat.grace_seconds,
                    missed_because=self.heartbeat.missed_because, handled=handled, pauses=queries.pauses(reader),
                    busy=daemon.starter.busy, held_up=self._held_up, reasons=reasons)  # fmt: skip
        return decide(trees.tree_of(reader), due, self.book, look)

    async def _hand_on(self) -> None:
        """Let the sessions of claimed slots wait for their start. Should a read fail, the next tick does it."""
        ids = self._claimed
        if not ids:
            return
        found = await asyncio.to_thread(self._orders, ids) if len(ids) > MANY else self._orders(ids)
        self._claimed = []
        for number, (order, not_before) in enumerate(found, 1):
            self._daemon.starter.add(order, not_before)
            if number % MANY == 0:
                self._daemon.starter.pump()
                await asyncio.sleep(0)

    def _orders(self, ids: list[int]) -> list[tuple[Order, datetime | None]]:
        rows = session_reads.by_ids(self._daemon.store.reader(), ids)
        return [waiting(row) for row in rows if row["state"] == "queued"]

    def _tell(self, decided: Decided) -> None:
        for claim in decided.claims:
            if claim.decision != "started":
                # Some reasons begin with the decision.
                log.info("slot %s %s: %s", to_text(claim.slot), claim.decision,
                         claim.reason.removeprefix(f"{claim.decision}: "), extra=about(claim.agent))  # fmt: skip

    # -- clocks ---------------------------------------------------------------------------------------------

    async def _look(self) -> bool:
        """Whether the clock has jumped since the last look, with all that follows from it."""
        jump = self.heartbeat.look()
        if jump.kind == "steady":
            return False
        log.warning("%s", jump.reason)
        held = self._daemon.starter.holding is not None
        self._daemon.starter.holding = jump.reason if self.heartbeat.holds else None
        self._daemon.scheduler.wake()
        self._daemon.adapting.touch()
        if jump.kind == "far_forward":
            await self._hold(jump)
        elif held:
            await self._daemon.store.writer.run(lambda connection: cure(connection, CLOCK_JUMP))
        await self.watch_behind()
        return True

    async def _hold(self, jump: ClockJump) -> None:
        now = self._daemon.clock.now()
        text = f"{jump.reason}: nothing starts for a minute, in which it can be set right"
        await self._daemon.store.writer.run(lambda connection: raise_attention(
            connection, id=CLOCK_JUMP, kind="clock", agent=None, text=text,
            next_step="check the clock (timedatectl), then swarmd attention ack clock-jump", now=now,
        ))  # fmt: skip

    async def watch_behind(self) -> None:
        """Say so where agents had their slots settled by a clock that was ahead: they wait until it is there again."""
        now = self._daemon.clock.now()
        count, until = self.book.ahead_of(now)
        behind = until is not None and (until - now).total_seconds() > BEHIND_SECONDS
        if self._behind is None:
            self._behind = any(row["id"] == CLOCK_BEHIND for row in queries.raised(self._daemon.reader))
        if behind == self._behind:
            return

        def work(connection: Connection) -> None:
            if until is None or not behind:
                cure(connection, CLOCK_BEHIND)
                return
            text = (
                f"the clock is behind: {counted(count, 'agent has', 'agents have')} had all slots up to "
                f"{to_text(until)} already: none of them starts by schedule before it has come so far"
            )
            raise_attention(connection, id=CLOCK_BEHIND, kind="clock", agent=None, text=text, now=now,
                            next_step="check the clock (timedatectl)")  # fmt: skip

        await self._daemon.store.writer.run(work)
        self._behind = behind
