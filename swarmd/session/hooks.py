"""The programs of `[hooks]`: asked before a commit, told after it; they see the change set as JSON, and no token."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from swarmd.core.agent import Agent
from swarmd.core.approvals import Approval
from swarmd.core.changes import Change, last_writes
from swarmd.core.hook_documents import change_set, concerns
from swarmd.core.judge import fold
from swarmd.core.staging import Folded
from swarmd.core.wire import MemoryTree, Request
from swarmd.core.world import Actor, World
from swarmd.errors import SwarmdError
from swarmd.runners.checking import run_check
from swarmd.runners.host import Host
from swarmd.runners.workspace import HOOK
from swarmd.session.ports import Clock, RunHook
from swarmd.session.requests import request_of
from swarmd.store import approvals, queries, sessions
from swarmd.store.commit import Committed
from swarmd.store.connections import Connection, StoreError, reading
from swarmd.store.database import Writer
from swarmd.store.raising import cure, raise_attention
from swarmd.store.world import SqlWorld

log = logging.getLogger("swarmd")
BEFORE, AFTER = "before_commit", "after_commit"


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a hook is told beside the changes. `checkpoint` is a checkpoint's number, `approval` what was approved, and
    by whom it is then.
    """

    checkpoint: int | None = None
    approval: int | None = None
    approved_by: str | None = None
    refusals: Sequence[Mapping[str, str]] = ()


def hook_runner(host: Host) -> RunHook:
    """Hooks at this host, run as a session's programs are."""

    async def ask(
        request: Request, name: str, command: tuple[str, ...], stdin: bytes, seconds: float, place: str
    ) -> str | None:
        checked = await run_check(
            command, request, host, memory=MemoryTree(), timeout_seconds=seconds, stdin=stdin, place=place
        )
        if checked.good:
            return None
        if checked.exit and not checked.timed_out and checked.message:
            return f"hooks.{name}: {checked.message}"
        return f"hooks.{name} {command[0]!r}: {checked.reason}"

    return ask


class Outside(Protocol):
    """What hooks need of the world; session.ports.Ports has it."""

    @property
    def reader(self) -> Connection:
        """A reading connection for the loop's thread."""

    @property
    def own_reader(self) -> Callable[[], Connection] | None:
        """The reading connection of the thread that asks."""

    @property
    def writer(self) -> Writer:
        """The store's."""

    @property
    def clock(self) -> Clock:
        """The time."""

    @property
    def hook(self) -> RunHook:
        """Runs a hook."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookPorts:
    """As much of the outside where there are no sessions."""

    reader: Connection
    own_reader: Callable[[], Connection] | None
    writer: Writer
    clock: Clock
    hook: RunHook


class Hooks:
    """The hooks of one session, or of what was held of one and is approved."""

    def __init__(self, *, agent: Agent, request: Request, ports: Outside, place: str = HOOK) -> None:
        self.agent = agent
        self.request = request
        self.ports = ports
        self.place = place
        self._asking: asyncio.Future[str | None] | None = None
        self._stopped = False

    def stop(self) -> None:
        """The session is cancelled: a hook that runs is ended, and none is asked any more."""
        self._stopped = True
        if self._asking is not None:
            self._asking.cancel()

    def asked_about(self, changes: Sequence[Change]) -> list[Change]:
        """The changes that are to be committed where a hook is asked: without the writes of a key that a later one
        makes void, so that a session can mend what a hook does not like.
        """
        return last_writes(changes) if self.agent.hooks.before_commit else list(changes)

    async def before(
        self, actor: Actor, changes: Sequence[Change], facts: Facts, *, approved: bool = False
    ) -> str | None:
        """Why the change set may not be committed, or None. Nothing is asked about one that writes nothing, or that
        is refused anyway.
        """
        command = self.agent.hooks.before_commit
        if not command or not changes:
            return None
        document = await asyncio.to_thread(self._before, actor, changes, facts, approved)
        return None if document is None else await self._asked(BEFORE, command, document)

    def _before(self, actor: Actor, changes: Sequence[Change], facts: Facts, approved: bool) -> bytes | None:
        connection = self._reader()
        with reading(connection):
            world = SqlWorld(connection, self.ports.clock.now())
            if not approved:
                changes = approvals.rebased(connection, actor, changes, world)
            folded = fold(actor, changes, world, approved=approved)
            if folded.refusals or not concerns(folded.verdicts):
                return None
            return self._document(BEFORE, changes, folded, world, facts)

    async def after(self, done: Committed, facts: Facts) -> None:
        """Tell the hook of a commit. That it fails cannot undo anything: it is raised to a person's attention, and
        cured by the next that goes well. Cancelled, it is ended, and that is raised; the caller goes on.
        """
        command = self.agent.hooks.after_commit
        if not command or done.refusals or not concerns(done.folded.verdicts):
            return
        try:
            document = await asyncio.to_thread(self._after, done, facts)
            problem = await self._asked(AFTER, command, document)
        except asyncio.CancelledError:
            problem = f"hooks.{AFTER} {command[0]!r}: it was ended before it had done"
        try:
            await self._tell(problem)
        except (SwarmdError, StoreError, OSError) as error:
            log.warning("what became of a hook could not be kept: %s", error, extra=self._about())

    def _after(self, done: Committed, facts: Facts) -> bytes:
        connection = self._reader()
        with reading(connection):
            world = SqlWorld(connection, self.ports.clock.now())
            return self._document(AFTER, done.changes, done.folded, world, facts)

    def _reader(self) -> Connection:
        return self.ports.own_reader() if self.ports.own_reader else self.ports.reader

    async def _asked(self, name: str, command: tuple[str, ...], document: bytes) -> str | None:
        seconds = self.agent.hooks.timeout_seconds
        ended = f"hooks.{name} {command[0]!r} was ended: its session was cancelled"
        if self._is_stopped():
            return ended
        self._asking = asyncio.ensure_future(
            self.ports.hook(self.request, name, command, document, seconds, self.place)
        )
        try:
            return await self._asking
        except asyncio.CancelledError:
            if self._is_stopped():
                return ended
            raise
        except Exception as error:  # noqa: BLE001 - whatever keeps it from being asked: it has not said yes
            return f"hooks.{name} {command[0]!r} could not be run: {error}"
        finally:
            self._asking = None

    def _is_stopped(self) -> bool:
        return self._stopped

    async def _tell(self, problem: str | None) -> None:
        id = f"hook:{self.agent.name}"
        if problem is None:
            if any(row["id"] == id for row in queries.raised(self.ports.reader)):
                await self.ports.writer.run(lambda connection: cure(connection, id))
            return
        log.warning("%s", problem, extra=self._about())
        text = f"after session {self.request.session} was saved: {problem}"
        step = f"mend the hook; this closes when it goes well, or with swarmd attention ack {id}"
        now = self.ports.clock.now()
        await self.ports.writer.run(
            lambda connection: raise_attention(
                connection, id=id, kind="hook", agent=self.agent.name, text=text, next_step=step, now=now
            )
        )

    def _about(self) -> dict[str, Any]:
        return {"agent": self.agent.name, "session": self.request.session}

    def _document(
        self, name: str, changes: Sequence[Change], folded: Folded, world: World, facts: Facts
    ) -> bytes:
        found = {
            "hook": name, "agent": self.agent.name, "session": self.request.session, "trigger": self.request.trigger,
            "checkpoint": facts.checkpoint, "approval": facts.approval, "approved_by": facts.approved_by,
            "changes": change_set(changes, folded.verdicts, world), "refusals": list(facts.refusals),
        }  # fmt: skip
        return json.dumps(found, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"


def of_approval(ports: Outside, agent: Agent, found: Approval, secrets: tuple[str, ...]) -> Hooks:
    """The hooks of the agent, for what was held of a session of its and is approved now."""
    session = found.session or 0
    row = sessions.row(ports.reader, session)
    request = request_of(
        agent, session=session, trigger=str(row["trigger"]), secrets=secrets, subject=row["subject"]
    )
    return Hooks(agent=agent, request=request, ports=ports, place=f"approval-{found.id}")
