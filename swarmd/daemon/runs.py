"""Sessions as the starter asks for them: may it start, run it, drop it, tell of its end. None of it raises."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING

from swarmd.core.counts import counted
from swarmd.core.instants import maybe_instant
from swarmd.core.sessions import GOOD
from swarmd.daemon.logs import about, log
from swarmd.errors import NotFound, Refused
from swarmd.service.rows import held_by
from swarmd.session import flow
from swarmd.session.flow import Order, order_of
from swarmd.store import queries, session_reads, sessions, slots, trees, windows
from swarmd.store.connections import Connection
from swarmd.store.database import OutcomeUnknown

if TYPE_CHECKING:
    from swarmd.daemon.daemon import Daemon


class Runs:
    """The life of sessions in a daemon."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon

    async def run(self, order: Order, why_cancelled: Callable[[], str]) -> str:
        """Run it to its end and return its outcome; `lost` where that could not be written."""
        log.info("starts (%s)", order.trigger, extra=about(order.agent, order.id))
        try:
            return await flow.run(self._daemon.ports, order, why_cancelled)
        except OutcomeUnknown as error:
            self._daemon.fail(error)
        except Exception as error:  # noqa: BLE001 - a boundary: the others go on, whatever this one met
            log.error("could not be ended", exc_info=error, extra=about(order.agent, order.id))
        return "lost"

    def may_start(self, order: Order) -> str | None:
        """Why it must not start after all, or None."""
        reader = self._daemon.reader
        tree = trees.tree_of(reader)
        agent = order.definition or tree.agent(order.agent)
        if agent is None:
            return f"the agent {order.agent!r} is not in force any more"
        if order.is_asked_for:
            return None
        if not agent.enabled:
            return "the agent was disabled before it started"
        pauses = queries.pauses(reader)
        held = held_by(order.agent, tree.above(order.agent), pauses) if pauses else []
        if held:
            return f"paused at {held[0]} before it started"
        count = 0 if order.cause_handoff is None else session_reads.caused(reader, order.cause_handoff)
        if count >= agent.limits.sessions_per_cause:
            sessions = counted(count, "session")
            return (
                f"handoff {order.cause_handoff} has caused {sessions}, the most it may (sessions_per_cause)"
            )
        return None

    async def drop(self, order: Order, reason: str) -> bool:
        """End one that has not started; False where the store did not take it."""
        now = self._daemon.clock.now()

        def work(connection: Connection) -> None:
            sessions.end(connection, order.id, outcome="cancelled", reason=reason, now=now)
            slots.redecide(connection, order.id, "skipped", reason)

        try:
            await self._daemon.store.writer.run(work)
        except OutcomeUnknown as error:
            self._daemon.fail(error)
            return False
        except (Refused, NotFound):
            pass  # it has ended already: nothing is left to be done
        except Exception as error:  # noqa: BLE001 - a full disk, a held lock: it is tried again
            log.warning("could not be cancelled: %s", error, extra=about(order.agent, order.id))
            return False
        log.info("cancelled before it started: %s", reason, extra=about(order.agent, order.id))
        self._daemon.compactions.dropped(order)
        self._daemon.control.ended(order.id)
        self._daemon.adapting.touch([order.agent])
        return True

    def ended(self, order: Order, outcome: str) -> None:
        """Tell the log and whoever waits, queue the retry, start the next."""
        daemon = self._daemon
        try:
            if daemon.failed is None:
                self._tell(order, outcome)
                daemon.consolidations.ended(order.agent)
        except Exception as error:  # noqa: BLE001 - a read that fails must not keep the others from starting
            log.error("its end could not be read", exc_info=error, extra=about(order.agent, order.id))
        self._look_at_memory(order, outcome)
        daemon.control.ended(order.id)
        daemon.adapting.touch([order.agent])
        daemon.indexing.wake()
        daemon.starter.pump()

    def _look_at_memory(self, order: Order, outcome: str) -> None:
        try:
            if self._daemon.failed is None:
                self._daemon.compactions.ended(order, outcome)
        except Exception as error:  # noqa: BLE001 - as above
            log.error("its memory could not be looked at", exc_info=error, extra=about(order.agent, order.id))

    def _tell(self, order: Order, outcome: str) -> None:
        reader = self._daemon.reader
        row = sessions.row(reader, order.id)
        reason = f": {row['reason']}" if row["reason"] else ""
        level = log.info if outcome in GOOD or outcome == "cancelled" else log.warning
        level("%s%s", outcome, reason, extra=about(order.agent, order.id))
        if outcome not in GOOD and self._daemon.scheduling:
            for found in session_reads.retries_of(reader, order.id):
                self.add(found)

    def add(self, row: windows.Row) -> None:
        """Let a queued row wait for its start."""
        self._daemon.starter.add(*waiting(row))


def waiting(row: windows.Row) -> tuple[Order, datetime | None]:
    """What a queued row means: a session, and before when it does not start."""
    return order_of(row), maybe_instant(row["not_before"])
