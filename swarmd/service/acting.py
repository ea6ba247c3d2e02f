"""Every act of an operator, for the one process that holds the store's lock: the daemon, or a command without one."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any

from swarmd.core import acts, asking
from swarmd.core.authority import unread_memory
from swarmd.core.changes import Change, WriteMemory, owners_of, target_of
from swarmd.core.documents import memory_doc, written_doc
from swarmd.core.owners import agent_of_owner, owner_problem, shared_name
from swarmd.core.world import Actor
from swarmd.errors import NO_UTF8, BadInput, NotFound, Refused
from swarmd.places import Places
from swarmd.service import operating
from swarmd.service.caller import Operator
from swarmd.service.control import Control
from swarmd.service.reading import READS, read
from swarmd.service.view import JSON, View
from swarmd.store import commit as committing
from swarmd.store import meta, opening, queries
from swarmd.store.connections import Connection, StoreError, reading
from swarmd.store.indexing import SEARCH_SECONDS, SearchIndex
from swarmd.store.store import Store
from swarmd.store.world import SqlWorld

MEMORY_WRITES = frozenset({
    "memory_write", "memory_append", "memory_restore", "memory_take", "memory_import", "memory_compact",
})  # fmt: skip
"""What an operator does so that an agent reads it."""


class Service:
    """Reads and acts by name. Blocking: the daemon calls it in threads, each with its own reading connection."""

    def __init__(
        self,
        store: Store,
        places: Places,
        control: Control,
        now: Callable[[], datetime],
        daemon: Callable[[], Mapping[str, Any]] = dict,
        count: Callable[[str], int] = len,
    ) -> None:
        self.store = store
        self.places = places
        self.control = control
        self.now = now
        self._daemon = daemon
        self._count = count
        self.index = SearchIndex(places.state, now)

    def call(self, caller: Operator, name: str, args: Mapping[str, Any]) -> JSON:
        """The call's document. Raises SwarmdError."""
        try:
            return self._call(caller, name, args)
        except StoreError as error:
            raise opening.unusable(self.places.state / opening.DATABASE, error) from error
        except UnicodeEncodeError:
            raise BadInput(NO_UTF8) from None

    def _call(self, caller: Operator, name: str, args: Mapping[str, Any]) -> JSON:
        if name in READS:
            return self._read(caller, name, args)
        if name in acts.ACTS:
            return self._warned(name, args, self._act(caller, name, args))
        if name in operating.ACTS:
            if caller.as_agent is not None:
                raise Refused(
                    f"{name.replace('_', ' ')} is for operators only; leave out --as {caller.as_agent}"
                )
            done = operating.ACTS[name](self, caller, args)
            self.control.wake_index()  # of many rows of it at once the owner, or who may see them, may have changed
            return self._warned(name, args, done)
        raise NotFound(f"there is no call {name!r}")

    def _warned(self, name: str, args: Mapping[str, Any], document: JSON) -> JSON:
        """The document, with a `warning` where what was written is for nobody to read."""
        owner = args.get("agent")
        if name not in MEMORY_WRITES or not isinstance(owner, str):
            return document
        agent = SqlWorld(self.store.reader(), self.now()).tree.agent(agent_of_owner(owner) or "")
        if agent is None or agent.memory.persistent:
            return document
        return {**document, "warning": unread_memory(agent.name)}

    def view(self, caller: Operator) -> View:
        """The caller's look at the store as it is now."""
        reader = self.store.reader()
        world = SqlWorld(reader, self.now())
        return View(connection=reader, world=world, actor=caller.actor(world.tree), places=self.places,
                    daemon=self._daemon)  # fmt: skip

    def _read(self, caller: Operator, name: str, args: Mapping[str, Any]) -> JSON:
        if name in acts.SEARCHES:
            # What cannot be done is left out: what there is is searched, and the answer says until when.
            with suppress(StoreError, OSError):
                if self.make_index():
                    self.index.bring_up_to_date(SEARCH_SECONDS)
        with opening.telling_damage(self.places.state), reading(self.store.reader()):
            return read(self.view(caller), name, args)

    def make_index(self) -> bool:
        """Whether the search index was made already; else it is made now, as far as a search can wait for that, and
        the rest by whoever keeps it. Raises StoreError and OSError where it cannot be written.
        """
        if self.index.is_made:
            return True
        self.control.wake_index()
        self.index.make(SEARCH_SECONDS)
        return False

    def _act(self, caller: Operator, name: str, args: Mapping[str, Any]) -> JSON:
        """One act is a change set of one; what it touches is judged and written in one transaction."""
        actor = caller.actor(SqlWorld(self.store.reader(), self.now()).tree)
        owner = args.get("agent") or actor.owner
        if name.startswith("memory_") and isinstance(owner, str) and self._may_have_files(owner):
            self.store.folders.settle(owner)
        documents, memory_of = self.store.writer.do(
            lambda connection: self._commit(connection, actor, name, args)
        )
        self.publish(memory_of)
        self.control.wake()
        return {"items": documents, "next": None} if args.get("to") == "children" else documents[0]

    def _may_have_files(self, owner: str) -> bool:
        """Whether it is an owner of those in force; a name that is none must not become a path."""
        if owner_problem(owner) is not None:
            return False
        reader, folder = self.store.reader(), shared_name(owner)
        if folder is not None:
            return bool(SqlWorld(reader, self.now()).tree.sharers(folder))
        return queries.is_in_force(reader, agent_of_owner(owner) or "")

    def _commit(
        self, connection: Connection, actor: Actor, name: str, args: Mapping[str, Any]
    ) -> tuple[list[JSON], frozenset[str]]:
        now = self.now()
        world = SqlWorld(connection, now)
        wanted = dict(args)
        base = wanted.pop("base", None) if name == "memory_write" else None
        changes = asking.build(name, wanted, actor, world, reserve=lambda: meta.bump(connection, "handoffs"))
        if base is not None:
            changes = [_from_base(change, base) for change in changes]
        done = committing.commit(
            connection, actor, changes, now, asked=True, act=name, target=_target(changes)
        )
        done.must_stand()
        after = SqlWorld(connection, now)
        return [
            written_doc(change, verdict, after, actor)
            for change, verdict in zip(changes, done.folded.verdicts, strict=True)
        ], done.memory_of

    def commit(
        self, actor: Actor, changes: list[Change], *, act: str, target: str, part: int = 0,
        also: Callable[[Connection], None] = lambda _connection: None, approver: str | None = None,
    ) -> committing.Committed:  # fmt: skip
        """A change set in an operator's name, or in a session's to which the operator `approver` has said yes, with
        `also` in the same transaction. Raises Refused, and writes nothing, when any change is refused.
        """
        for owner in owners_of(changes):
            self.store.folders.settle(owner)

        def work(connection: Connection) -> committing.Committed:
            done = committing.commit(connection, actor, changes, self.now(), act=act, target=target, part=part,
                                     always_told=True, approver=approver)  # fmt: skip
            done.must_stand()
            also(connection)
            return done

        done = self.store.writer.do(work)
        self.publish(done.memory_of)
        self.control.wake()
        return done

    def publish(self, agents: frozenset[str]) -> None:
        """Bring memory files up to what the store has."""
        for agent in agents:
            self.store.folders.settle(agent)

    def memory_head(self, agent: str, path: str) -> JSON:
        """The document of a memory file as it stands now."""
        document = SqlWorld(self.store.reader(), self.now()).document(agent, path)
        if document is None:
            raise NotFound(f"{agent} has no memory file {path!r}")
        return memory_doc(document)


def _from_base(change: Change, base: Any) -> Change:
    """An edit of a copy is merged from the revision that the copy was made of."""
    if isinstance(base, bool) or not isinstance(base, int) or base < 0:
        raise BadInput(f"base: a revision's number is expected, not {base!r:.40}")
    if not isinstance(change, WriteMemory):
        return change
    if base > change.base:
        have = f"it is at revision {change.base}" if change.base else "it is not there"
        raise BadInput(f"base: {change.agent} has no revision {base} of {change.path}: {have}")
    return dataclasses.replace(change, base=base)


def _target(changes: list[Change]) -> str:
    return ", ".join(target_of(change) for change in changes[:5])
