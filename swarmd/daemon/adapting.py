"""Adaptive schedules as time goes by: whose next moment is to be chosen anew, and choosing it, durable.

A moment is chosen when a session of the agent has ended, when a slot started nothing, and when what is pending has
changed. The last is looked for once a second, and only where something was committed since; it costs two reads,
whoever committed what.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from swarmd.core.adaptive import Pace, Work
from swarmd.core.agent import Adaptive
from swarmd.core.tree import Tree
from swarmd.store import adaptive
from swarmd.store.connections import Connection, reading

if TYPE_CHECKING:
    from swarmd.daemon.daemon import Daemon

MANY = 200
"""So many agents are looked at off the loop."""
WHAT = "choosing the next moments of adaptive schedules"


class Adapting:
    """Chooses for the agents of the tree in force that have such a schedule. It lives on the loop."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self._lock = asyncio.Lock()
        self._rules: dict[str, Adaptive] = {}
        self._wanted = adaptive.Wanted.of({})
        self._work: Mapping[str, Work] = {}
        self._dirty: set[str] = set()
        self._version: object = None

    def take(self, tree: Tree) -> None:
        """These agents are in force from now on; each is looked at."""
        self._rules = {
            name: agent.when.adaptive
            for name, agent in tree.agents.items()
            if agent.when.adaptive is not None
        }
        self._wanted = adaptive.Wanted.of({name: rule.work for name, rule in self._rules.items()})
        self._work, self._version = {}, None
        self._dirty = set(self._rules)

    def touch(self, names: Iterable[str] | None = None) -> None:
        """Something has happened to these agents (None: to all): they are looked at soon."""
        wanted = self._rules.keys() if names is None else self._rules.keys() & set(names)
        if wanted and not self._daemon.stopping:
            self._dirty |= wanted
            self._daemon.soon(WHAT, self.look)

    async def tick(self) -> None:
        """Look at those of whom something was heard, and at all of them where work may have come or gone."""
        if self._rules and (self._dirty or self._version != adaptive.version(self._daemon.reader)):
            await self.look()

    async def look(self) -> None:
        """Choose anew for whom that is due, and write it down."""
        async with self._lock:
            self._look_for_work()
            # What is touched from here on is looked at once more.
            names, self._dirty = self._dirty, set()
            try:
                await self._choose(sorted(names))
            except BaseException:
                self._dirty |= names
                raise

    def _look_for_work(self) -> None:
        """Whose pending work is another than it was at the last look is dirty."""
        reader = self._daemon.reader
        version = adaptive.version(reader)
        if version == self._version:
            return
        found = adaptive.work(reader, self._wanted)
        for name in found.keys() | self._work.keys():
            if found.get(name) != self._work.get(name):
                self._dirty.add(name)
        self._work, self._version = found, version

    async def _choose(self, names: list[str]) -> None:
        if not names:
            return
        off = len(names) > MANY
        known, moved = await asyncio.to_thread(self._read, names) if off else self._read(names)
        if moved:
            # Judged once more where it is written: what was read may have changed since.
            moved = await self._daemon.store.writer.run(
                lambda connection: self._write(connection, list(moved))
            )
        book = self._daemon.claiming.book
        # Those that stay are told too: a book that was made meanwhile may have an older moment.
        book.choose({name: pace.next for name, pace in {**known, **moved}.items()})
        self._daemon.scheduler.once(*book.first_chosen())

    def _read(self, names: list[str]) -> tuple[dict[str, Pace], dict[str, Pace]]:
        """What was chosen for these, and what is to be chosen anew."""
        reader = self._daemon.store.reader()  # of the thread that asks
        with reading(reader):
            return adaptive.paces(reader, names), self._moved(reader, names)

    def _write(self, connection: Connection, names: list[str]) -> dict[str, Pace]:
        moved = self._moved(connection, names)
        for name, pace in moved.items():
            adaptive.put(connection, name, pace, self._daemon.clock.now())
        return moved

    def _moved(self, connection: Connection, names: list[str]) -> dict[str, Pace]:
        """Who of these has another moment, or another reason, than the rows say."""
        rules = {name: self._rules[name] for name in names if name in self._rules}
        return adaptive.moved(connection, rules, self._work, self._daemon.clock.now())
