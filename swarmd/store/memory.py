"""The memory folders of all agents: adopt what people edit, publish what is committed, recover after whatever happened.

Calls block, for files and for the writer's thread. Calls for one agent follow one another; different agents go on side
by side.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import threading
from collections import defaultdict
from collections.abc import Callable, Container, Iterator
from datetime import datetime
from pathlib import Path

from swarmd.core.owners import agent_of_owner, owner_problem, subject_of
from swarmd.core.wire import MemoryTree
from swarmd.store import documents, marks, meta
from swarmd.store.adopt import adopt
from swarmd.store.adoption import Adopted
from swarmd.store.connections import Connection
from swarmd.store.database import Writer
from swarmd.store.disk import Disk, boot_id
from swarmd.store.documents import head, heads, revision, write_revision
from swarmd.store.healing import heal
from swarmd.store.publish import publish
from swarmd.store.recover import BOOT, revalidate
from swarmd.store.shelf import Shelf
from swarmd.store.stable import File
from swarmd.store.stirred import Looks, looks_of

__all__ = ["Adopted", "MemoryFolders", "head", "heads", "revision", "write_revision"]

ROUNDS = 20
"""How often a person may come in between before the rest is left to the next call."""


class MemoryFolders:
    """`ROOT/OWNER/PATH`, the published copy of the store's memory. Whoever makes one holds the store's lock.

    What is called `agent` here and in the steps is the owner of a folder (core.owners): an agent, a subject of one, or
    `@NAME` of a shared folder.
    """

    def __init__(
        self,
        root: Path,
        writer: Writer,
        reader: Callable[[], Connection],
        clock: Callable[[], datetime],
        operator: str,
        *,
        disk: Disk | None = None,
        boot: Callable[[], str] = boot_id,
    ) -> None:
        self._shelf = Shelf(
            root=root, writer=writer, reader=reader, clock=clock, operator=operator, disk=disk or Disk()
        )
        self._boot = boot
        self._locks: dict[str, threading.Lock] = defaultdict(threading.Lock)
        self._locks_lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._begun: dict[str, int] = {}
        """By owner, when its last finished `settle` began, as a number."""
        self._looks: dict[str, Looks] = {}
        """By owner, how its folder looked before it was last settled, for those that are asked for by their looks."""
        self._recovering = threading.RLock()
        self._recovered = False

    def adopt(self, agent: str) -> list[Adopted]:
        """Take in what people have done to the files; what may not be taken raises attention."""
        self.recover()
        with self._alone(agent):
            return adopt(self._shelf, agent)

    def publish(self, agent: str) -> list[Adopted]:
        """Bring the files to the heads unless a person comes in between; the answer: what was saved at that instant."""
        self.recover()
        with self._alone(agent):
            return publish(self._shelf, agent)[1]

    def settle(self, agent: str) -> list[Adopted]:
        """Adopt and publish until nothing is pending that could be done: before a snapshot, and around a commit.

        Who waits for another's `settle` of the same folder to end shares the next one with all who wait with him.
        """
        self.recover()
        asked = next(self._numbers)
        with self._alone(agent):
            if self._begun.get(agent, 0) > asked:
                return []
            begun = next(self._numbers)
            adopted = self._settle(agent)
            self._begun[agent] = begun
            return adopted

    def settle_if_stirred(self, owner: str) -> None:
        """`settle`, where anything has changed in the folder since this was last asked, or a file is to be published:
        for folders that many sessions read, and few write.
        """
        looks = looks_of(self._shelf.root / owner)
        same = looks.settled and looks == self._looks.get(owner)
        if same and not self._shelf.read(lambda c: marks.waits(c, owner)):
            return
        self.settle(owner)
        # As it was before: what came meanwhile, be it a person's or our own, is looked at once more.
        self._looks[owner] = looks

    def heal(self, agent: str) -> bool:
        """Look at every text of the agent's, and put back from its files what the store has lost."""
        with self._alone(agent):
            return heal(self._shelf, agent, thorough=True)

    def checkpoint(self) -> int:
        """Make all finished swaps durable with one flush; the number of them."""
        self.recover()
        swaps = self._shelf.read(marks.done_swaps)
        if not swaps:
            return 0
        with contextlib.suppress(FileNotFoundError):
            fd = os.open(self._shelf.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                self._shelf.disk.sync(fd)
            finally:
                os.close(fd)
        self._shelf.writer.do(lambda c: marks.forget_swaps(c, swaps), durable=False)
        return len(swaps)

    def recover(self) -> list[Adopted]:
        """Bring all folders to rights, once a process; every other call does it first. It may be repeated."""
        if self._recovered:
            return []
        with self._recovering:
            adopted = [] if self._recovered else self._recover()
            self._recovered = True
        return adopted

    def about_subjects(self, agents: Container[str]) -> list[str]:
        """The owners of the folders on disk that are about a subject of one of these agents."""
        return [
            name
            for name in self._names()
            if subject_of(name) is not None and agent_of_owner(name) in agents and owner_problem(name) is None
        ]

    def drop(self, agent: str) -> None:
        """Remove the folder of an agent that has no memory any more; files that the store does not know stay."""
        with self._alone(agent), self._shelf.folder(agent) as folder:
            if self._shelf.read(lambda c: marks.marks(c, agent)):
                return
            for name in folder.mend(folder.leftovers()):
                folder.discard(name)
            for path in folder.listing(()).files:
                found = folder.read(path)
                if isinstance(found, File) and self._is_kept(found.digest):
                    folder.remove(path)
            folder.remove_if_empty()

    def remove(self, owner: str) -> None:
        """Remove the folder of an owner that has no rows any more, with all that is in it."""
        with self._alone(owner):
            shutil.rmtree(self._shelf.root / owner, ignore_errors=True)

    def working_tree(self, agent: str) -> MemoryTree:
        """The agent's files as the store has them."""
        files = self._shelf.read(lambda c: documents.heads(c, agent))
        return MemoryTree.of({d.path: d.data for d in files if d.data is not None})

    def _recover(self) -> list[Adopted]:
        read, boot = self._shelf.read, self._boot()
        adopted: list[Adopted] = []
        if read(lambda c: meta.get(c, BOOT)) == boot:
            agents = {*read(marks.agents_to_publish), *self._with_leftovers()}
            for agent in sorted(agents):
                with self._alone(agent):
                    adopted += self._settle(agent)
            return adopted
        for agent in read(marks.agents_with_memory):
            with self._alone(agent):
                unsure = revalidate(self._shelf, agent)
                adopted += adopt(self._shelf, agent, unsure)
                adopted += self._settle(agent)
        self._shelf.writer.do(lambda c: meta.put(c, BOOT, boot))
        return adopted

    def _settle(self, agent: str) -> list[Adopted]:
        heal(self._shelf, agent)
        adopted: list[Adopted] = []
        for _ in range(ROUNDS):
            adopted += adopt(self._shelf, agent)
            again, displaced = publish(self._shelf, agent)
            adopted += displaced
            if not again:
                break
        if adopted:
            heal(self._shelf, agent)  # what a person saved may be in the place of a text that was lost
        return adopted

    def _is_kept(self, hash_: str) -> bool:
        return self._shelf.read(lambda c: marks.has_blob(c, hash_))

    def _names(self) -> list[str]:
        try:
            return sorted(os.listdir(self._shelf.root))
        except FileNotFoundError:
            return []

    def _with_leftovers(self) -> Iterator[str]:
        for name in self._names():
            with contextlib.suppress(OSError), self._shelf.folder(name) as folder:
                if folder.leftovers():
                    yield name

    @contextlib.contextmanager
    def _alone(self, agent: str) -> Iterator[None]:
        with self._locks_lock:
            lock = self._locks[agent]
        with lock:
            yield
