"""When agents' memory is put in order: due moments are worked out of the rows, and a session is queued at each.

Nothing is kept but the rows: a restart works out the same moments, and one that was due meanwhile comes once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from swarmd.core.agent import Agent
from swarmd.core.consolidation import is_asked
from swarmd.core.sessions import CONSOLIDATE
from swarmd.core.tree import Tree
from swarmd.daemon.logs import about, log
from swarmd.service.quiet import next_consolidation
from swarmd.service.rows import held_by
from swarmd.store import consolidated, queries, sessions, slots, trees, windows
from swarmd.store.connections import Connection

if TYPE_CHECKING:
    from swarmd.daemon.daemon import Daemon

AGAIN = timedelta(seconds=60)
"""When an agent that is paused or runs is looked at again."""


class Consolidations:
    """Lives on the loop. `changed` says that the agents in force are others; `ended` that one's session has ended."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self._due: dict[str, datetime] = {}
        self._earliest: datetime | None = None
        self._asked: frozenset[str] = frozenset()
        """Whose file asks for it, by the last look: the end of anybody else's session costs nothing here."""
        self._stale = True

    def changed(self) -> None:
        """The next tick looks at all agents."""
        self._stale = True

    def ended(self, name: str) -> None:
        """A session of this agent has ended: its quiet begins anew."""
        if name not in self._asked or self._stale:
            return
        agent = trees.tree_of(self._daemon.reader).agent(name)
        if agent is not None:
            self._note([(name, self._next(self._daemon.reader, agent))])

    async def look(self) -> None:
        """Work out when each agent is due. Off the loop: some have many agents."""
        self._stale = False
        found = await asyncio.to_thread(self._all)
        self._due = {}
        self._asked = frozenset(name for name, _ in found)
        self._note(found)

    async def tick(self) -> None:
        """Queue a session of each agent that is due and may have one."""
        if self._stale:
            await self.look()
        now = self._daemon.clock.now()
        if self._earliest is None or self._earliest > now:
            return
        names = [name for name, moment in self._due.items() if moment <= now]
        tree, pauses = trees.tree_of(self._daemon.reader), queries.pauses(self._daemon.reader)
        later = [(name, now + AGAIN) for name in names if not self._may(name, tree, pauses)]
        held = {name for name, _ in later}
        self._note(later)
        await self._queue([name for name in names if name not in held])

    def _may(self, name: str, tree: Tree, pauses: dict[str, windows.Row]) -> bool:
        agent, busy = tree.agent(name), self._daemon.starter.busy(name)
        if agent is None or not agent.enabled or busy.running is not None or busy.waiting:
            return False
        return not (pauses and held_by(name, tree.above(name), pauses))

    async def _queue(self, names: list[str]) -> None:
        if not names:
            return
        daemon = self._daemon

        def work(connection: Connection) -> dict[str, int]:
            """By the rows as they are in this very transaction: each comes once, whatever was thought before."""
            now, tree = daemon.clock.now(), trees.tree_of(connection)
            queued: dict[str, int] = {}
            for name in names:
                agent = tree.agent(name)
                found = None if agent is None else next_consolidation(connection, agent)
                if (
                    found is None
                    or found.at is None
                    or found.at > now
                    or consolidated.is_live(connection, name)
                ):
                    continue
                queued[name] = slots.queue(connection, agent=name, trigger=CONSOLIDATE, now=now, by="system",
                                           note=found.reason)  # fmt: skip
            return queued

        queued = await daemon.store.writer.run(work)
        tree = trees.tree_of(daemon.reader)
        for name in names:
            agent = tree.agent(name)
            self._note([(name, None if agent is None else self._next(daemon.reader, agent))])
        for name, id in queued.items():
            log.info("its memory is put in order", extra=about(name, id))
            daemon.runs.add(dict(sessions.row(daemon.reader, id)))

    def _all(self) -> list[tuple[str, datetime | None]]:
        reader = self._daemon.store.reader()
        agents = trees.tree_of(reader).agents
        return [(name, self._next(reader, a)) for name, a in agents.items() if is_asked(a.consolidate)]

    def _next(self, connection: Connection, agent: Agent) -> datetime | None:
        if consolidated.is_live(connection, agent.name):
            return None  # its end tells
        found = next_consolidation(connection, agent)
        return None if found is None else found.at

    def _note(self, moments: Iterable[tuple[str, datetime | None]]) -> None:
        for name, moment in moments:
            if moment is None:
                self._due.pop(name, None)
            else:
                self._due[name] = moment
        self._earliest = min(self._due.values(), default=None)
