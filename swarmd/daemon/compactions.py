"""When memories are made small: after a session that wrote one, at the start, and again where it did not succeed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from swarmd.core import compaction
from swarmd.core.agent import Agent
from swarmd.core.calibration import measured_as
from swarmd.core.memory import FIRST_FILE
from swarmd.core.room import corrected
from swarmd.core.sessions import COMPACT, GOOD
from swarmd.core.tree import Tree
from swarmd.daemon.logs import about, log
from swarmd.service.rows import held_by
from swarmd.session.flow import Order, order_of
from swarmd.store import compactions, queries, sessions, slots, trees, usage
from swarmd.store.connections import Connection
from swarmd.store.world import SqlWorld

if TYPE_CHECKING:
    from swarmd.daemon.daemon import Daemon

WHAT = "looking for memories to be compacted"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """An agent whose memory was looked at: its revision, and its tokens where they are too many."""

    agent: str
    rev: int
    tokens: int | None
    not_before: datetime | None = None
    told: bool = False


class Compactions:
    """Queues a session of trigger `compact` for whoever needs one. It lives on the loop; what is read is read in
    threads. Of agents without a summarizer and without a log it knows nothing.
    """

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self._looked: dict[str, int] = {}
        """The revision of a memory that was looked at last, and needed nothing."""
        self._later: dict[str, datetime] = {}
        self._queued: set[str] = set()

    def start(self) -> None:
        """Look at all of them, soon: what was missed while no daemon ran."""
        self._look_soon(None)

    def ended(self, order: Order, outcome: str) -> None:
        """A session has ended: look at its agent's memory, where that is another than it was."""
        daemon, agent = self._daemon, order.agent
        if not daemon.scheduling or daemon.stopping:
            return
        if order.trigger == COMPACT:
            self._queued.discard(agent)
            if outcome not in GOOD:
                if order.by != compactions.BY:
                    return  # a person's own try changes nothing of what was to come
                self._look_soon([agent])  # which finds out when it is tried again
                return
        if agent in self._queued or agent in self._later:
            return
        definition = trees.tree_of(daemon.reader).agent(agent)
        if definition is None or not compaction.is_automatic(definition):
            return  # most agents: no thread is asked for them
        rev = compactions.revision(daemon.reader, agent)
        if rev and self._looked.get(agent) != rev:
            self._look_soon([agent])

    async def minute(self) -> None:
        """Those whose time has come after one that did not succeed."""
        now = self._daemon.clock.now()
        due = [agent for agent, moment in self._later.items() if moment <= now]
        for agent in due:
            del self._later[agent]
        if due:
            await self._look(due)

    # -- looking --------------------------------------------------------------------------------------------

    def _look_soon(self, agents: Iterable[str] | None) -> None:
        self._daemon.spawn(self._try_to_look(agents))

    async def _try_to_look(self, agents: Iterable[str] | None) -> None:
        await self._daemon.attempt(WHAT, self._look(agents))

    async def _look(self, agents: Iterable[str] | None) -> None:
        for found in await asyncio.to_thread(self._found, agents):
            if found.tokens is None:
                self._looked[found.agent] = found.rev
                if found.told:
                    await self._daemon.store.writer.run(
                        lambda connection, agent=found.agent: compactions.over(connection, agent)  # type: ignore[misc]
                    )
            elif found.not_before is not None and found.not_before > self._daemon.clock.now():
                self._later[found.agent] = found.not_before
                await self._put_off(found.agent, found.not_before)
            elif found.agent not in self._queued:
                await self._queue(found.agent, found.tokens)

    async def _put_off(self, agent: str, until: datetime) -> None:
        if not compactions.is_told(self._daemon.reader, agent):
            now = self._daemon.clock.now()
            await self._daemon.store.writer.run(
                lambda connection: compactions.put_off(connection, agent, until, now)
            )

    def _found(self, names: Iterable[str] | None) -> list[_Found]:
        """Those of the agents that were looked at. In a thread."""
        reader = self._daemon.store.reader()
        tree, pauses = trees.tree_of(reader), queries.pauses(reader)
        if names is None:
            sizes = compactions.sizes(reader)
        else:
            sizes = {name: size for name in names if (size := compactions.size(reader, name)) is not None}
        found = []
        for name, size in sizes.items():
            # An owner that is no agent's name is a folder that several share, or one about a subject.
            agent = tree.agent(name)
            if agent is not None and self._may(agent, tree, pauses):
                found.append(self._counted(reader, agent, *size))
        return found

    def _may(self, agent: Agent, tree: Tree, pauses: Mapping[str, queries.Row]) -> bool:
        if not agent.enabled or not compaction.is_automatic(agent):
            return False
        return not (pauses and held_by(agent.name, tree.above(agent.name), pauses))

    def _counted(self, reader: Connection, agent: Agent, rev: int, size: int) -> _Found:
        due = compaction.due_at(agent.memory)
        tokens = 0
        if compaction.may_be_due(agent.memory, size):
            document = SqlWorld(reader, self._daemon.clock.now()).document(agent.name, FIRST_FILE)
            text = (document.data if document is not None else None) or b""
            ratio = usage.learnt(reader, agent.name, measured_as(agent)).ratio
            tokens = corrected(self._daemon.ports.count, ratio)(text.decode("utf-8", "replace"))
        if tokens < due:
            told = compactions.is_told(reader, agent.name)
            return _Found(agent=agent.name, rev=rev, tokens=None, told=told)
        count, last = compactions.failures(reader, agent.name)
        later = None if last is None else last + compaction.delay_after(count)
        return _Found(agent=agent.name, rev=rev, tokens=tokens, not_before=later)

    # -- queueing -------------------------------------------------------------------------------------------

    async def _queue(self, agent: str, tokens: int) -> None:
        daemon, now = self._daemon, self._daemon.clock.now()
        self._queued.add(agent)
        note = f"{FIRST_FILE} has {tokens:,} tokens"
        try:
            with daemon.starter.expecting(agent):
                id = await daemon.store.writer.run(lambda connection: slots.queue(
                    connection, agent=agent, trigger=COMPACT, now=now, by="system", note=note,
                ))  # fmt: skip
                daemon.starter.add(order_of(sessions.row(daemon.reader, id)))
        except BaseException:
            self._queued.discard(agent)
            raise
        log.info("%s: it is to be compacted", note, extra=about(agent, id))
        daemon.starter.pump()

    def dropped(self, order: Order) -> None:
        """One that waited will not start after all."""
        if order.trigger == COMPACT:
            self._queued.discard(order.agent)
