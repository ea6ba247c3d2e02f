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
from swarmd.core.owners import agent_of_owner, subject_of
from swarmd.core.room import corrected
from swarmd.core.sessions import COMPACT, GOOD
from swarmd.core.tree import Tree
from swarmd.daemon.logs import about, log
from swarmd.service.rows import held_by
from swarmd.session.flow import Order, order_of
from swarmd.store import compactions, queries, sessions, slots, trees, usage, windows
from swarmd.store.connections import Connection
from swarmd.store.world import SqlWorld

if TYPE_CHECKING:
    from swarmd.daemon.daemon import Daemon

WHAT = "looking for memories to be compacted"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """Whose memory was looked at (core.owners): its revision, and its tokens where they are too many."""

    owner: str
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
        daemon, owner = self._daemon, order.owner
        if not daemon.scheduling or daemon.stopping:
            return
        if order.trigger == COMPACT:
            self._queued.discard(owner)
            if outcome not in GOOD:
                if order.by != compactions.BY:
                    return  # a person's own try changes nothing of what was to come
                self._look_soon([owner])  # which finds out when it is tried again
                return
        if owner in self._queued or owner in self._later:
            return
        definition = trees.tree_of(daemon.reader).agent(order.agent)
        if definition is None or not compaction.is_automatic(definition):
            return  # most agents: no thread is asked for them
        rev = compactions.revision(daemon.reader, owner)
        if rev and self._looked.get(owner) != rev:
            self._look_soon([owner])

    async def minute(self) -> None:
        """Those whose time has come after one that did not succeed."""
        now = self._daemon.clock.now()
        due = [owner for owner, moment in self._later.items() if moment <= now]
        for owner in due:
            del self._later[owner]
        if due:
            await self._look(due)

    # -- looking --------------------------------------------------------------------------------------------

    def _look_soon(self, owners: Iterable[str] | None) -> None:
        self._daemon.soon(WHAT, lambda: self._look(owners))

    async def _look(self, owners: Iterable[str] | None) -> None:
        for found in await asyncio.to_thread(self._found, owners):
            if found.tokens is None:
                self._looked[found.owner] = found.rev
                if found.told:
                    await self._daemon.store.writer.run(
                        lambda connection, owner=found.owner: compactions.over(connection, owner)  # type: ignore[misc]
                    )
            elif found.not_before is not None and found.not_before > self._daemon.clock.now():
                self._later[found.owner] = found.not_before
                await self._put_off(found.owner, found.not_before)
            elif found.owner not in self._queued:
                await self._queue(found.owner, found.tokens)

    async def _put_off(self, owner: str, until: datetime) -> None:
        now = self._daemon.clock.now()
        await self._daemon.store.writer.run(
            lambda connection: compactions.put_off(connection, owner, until, now)
        )

    def _found(self, owners: Iterable[str] | None) -> list[_Found]:
        """Those that were looked at (None: of all). In a thread."""
        reader = self._daemon.store.reader()
        tree, pauses = trees.tree_of(reader), queries.pauses(reader)
        if owners is None:
            sizes = compactions.sizes(reader)
        else:
            sizes = {owner: size for owner in owners if (size := compactions.size(reader, owner)) is not None}
        found = []
        for owner, size in sizes.items():
            # A folder that several share is nobody's to make small.
            agent = tree.agent(agent_of_owner(owner) or "")
            if agent is not None and self._may(agent, tree, pauses):
                found.append(self._counted(reader, agent, owner, *size))
        return found

    def _may(self, agent: Agent, tree: Tree, pauses: Mapping[str, windows.Row]) -> bool:
        if not agent.enabled or not compaction.is_automatic(agent):
            return False
        return not (pauses and held_by(agent.name, tree.above(agent.name), pauses))

    def _counted(self, reader: Connection, agent: Agent, owner: str, rev: int, size: int) -> _Found:
        due = compaction.due_at(agent.memory)
        tokens = 0
        if compaction.may_be_due(agent.memory, size):
            document = SqlWorld(reader, self._daemon.clock.now()).document(owner, FIRST_FILE)
            text = (document.data if document is not None else None) or b""
            ratio = usage.learnt(reader, agent.name, measured_as(agent)).ratio
            tokens = corrected(self._daemon.ports.count, ratio)(text.decode("utf-8", "replace"))
        if tokens < due:
            told = compactions.is_told(reader, owner)
            return _Found(owner=owner, rev=rev, tokens=None, told=told)
        count, last = compactions.failures(reader, owner)
        later = None if last is None else last + compaction.delay_after(count)
        return _Found(owner=owner, rev=rev, tokens=tokens, not_before=later)

    # -- queueing -------------------------------------------------------------------------------------------

    async def _queue(self, owner: str, tokens: int) -> None:
        daemon, now = self._daemon, self._daemon.clock.now()
        agent, subject = agent_of_owner(owner) or "", subject_of(owner)
        self._queued.add(owner)
        note = f"{FIRST_FILE} has {tokens:,} tokens"
        try:
            with daemon.starter.expecting(agent):
                id = await daemon.store.writer.run(lambda connection: slots.queue(
                    connection, agent=agent, trigger=COMPACT, now=now, by="system", note=note,
                    subject=subject,
                ))  # fmt: skip
                daemon.starter.add(order_of(sessions.row(daemon.reader, id)))
        except BaseException:
            self._queued.discard(owner)
            raise
        log.info("%s: it is to be compacted", note, extra=about(agent, id))
        daemon.starter.pump()

    def dropped(self, order: Order) -> None:
        """One that waited will not start after all."""
        if order.trigger == COMPACT:
            self._queued.discard(order.owner)
