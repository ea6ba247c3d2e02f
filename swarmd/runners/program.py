"""Runs a session as a program under the supervisor: workspace, desk, sandbox, deadline, memory read back.

What the program is, and what its output means, is told by an adapter; `command` is the one that reads nothing.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol, TypeVar

from swarmd.core.wire import Desk, Request, Result
from swarmd.errors import SwarmdError
from swarmd.runners import cgroup
from swarmd.runners.confinement import environment, make_home, secrets, session_policy
from swarmd.runners.host import Host, program
from swarmd.runners.memory_copy import read_memory
from swarmd.runners.memory_desk import MemoryDesk
from swarmd.runners.outcomes import CANCELLED, RunCancelled, outcome
from swarmd.runners.process import Cancelled, Ended, Follow, Start, run_process
from swarmd.runners.reading import Final, Reading, Say, judged
from swarmd.runners.socket import DeskSocket
from swarmd.runners.workspace import OutputLog, Workspace, clear_but_memory, places, prepare

AFTER_RESULT_SECONDS = 3.0
"""How long a client may go on after its final event, before it is ended."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be started for a session, as an adapter has it from the request."""

    program: str
    """As the agent's file names it."""
    argv: Sequence[str]
    stdin: bytes = field(default=b"", repr=False)
    workdir: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    pass_env: Sequence[str] = ()
    own: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Variables that stand above all others."""
    files: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    """Private files that it needs, by their absolute path inside the session's folder."""
    home: str = ""
    """A folder among those files that it may write, too."""
    for_start: Sequence[str] = ()
    """Those of them that go when the program has begun: what they hold is no business of what it starts."""
    secrets: Sequence[str] = field(default=(), repr=False)
    facts: Mapping[str, str] = field(default_factory=dict)
    """What the transcript says of it beside what the program says itself."""


class Adapter(Protocol):
    """What a kind of program is."""

    @property
    def desk(self) -> Literal["socket", "mcp"]:
        """How it speaks to the desk."""

    def plan(self, request: Request, host: Host, where: Workspace, url: str) -> Plan:
        """What to start; `url` is where MCP is served. Raises Failed where it cannot be. Not on the loop."""
        ...

    def reading(self, request: Request, say: Say, plan: Plan) -> Reading | None:
        """What follows its output, where it can be followed."""
        ...


class ProgramRunner:
    """Runs sessions of one kind."""

    def __init__(self, host: Host, adapter: Adapter) -> None:
        self._host = host
        self._adapter = adapter

    async def run(self, request: Request, desk: Desk) -> Result:
        """Run to the end or the deadline; on cancellation raise RunCancelled when every process is dead."""
        where = places(self._host, str(request.session))
        steps = Steps()
        try:
            result = await self._session(request, desk, where, steps)
        except (SwarmdError, OSError) as error:
            result = not_set_up(error)
        finally:
            await steps.through(asyncio.to_thread(clear_but_memory, where))
        if steps.cancelled:
            raise RunCancelled(replace(result, outcome="cancelled", reason=CANCELLED))
        return result

    async def _session(self, request: Request, desk: Desk, where: Workspace, steps: Steps) -> Result:
        await steps.through(asyncio.to_thread(
            prepare, self._host, str(request.session), prompt=prompt_of(request), memory=request.memory,
            read_only=request.read_only,
        ))  # fmt: skip
        async with self._at_the_desk(request, desk, where, steps) as url:
            start, plan = await steps.through(asyncio.to_thread(self._start, request, where, url))
            if steps.cancelled:
                raise asyncio.CancelledError
            reading = self._adapter.reading(request, desk.event, plan)
            ended, cancelled = await run(
                start,
                request.timeout_seconds,
                where,
                reading,
                plan.for_start,
                {"stdout": request.output_limit, "stderr": request.errors_limit},
            )
            steps.cancelled |= cancelled
        desk.event("ended", {"exit": ended.exit, "signal": ended.signal, "leftovers": ended.leftovers})
        result, final = await steps.through(asyncio.to_thread(_result, ended, start, request, where, reading))
        if reading is not None:
            told = "cancelled" if steps.cancelled else final.outcome
            reading.say("result", outcome=told, reason=final.reason, text=final.text)
        return result

    @asynccontextmanager
    async def _at_the_desk(
        self, request: Request, desk: Desk, where: Workspace, steps: Steps
    ) -> AsyncIterator[str]:
        """While it lasts, the session's token speaks at the desk; what was begun by then is done to its end."""
        if not request.acts:
            yield ""
            return
        memory = MemoryDesk.of(request, where.memory, desk)
        if self._adapter.desk == "mcp":
            url = await self._host.mcp.admit(request.token, memory)
            try:
                yield url
            finally:
                await steps.through(self._host.mcp.dismiss(request.token))
            return
        socket = DeskSocket(where.socket, token=request.token, memory=memory)
        await socket.open()
        try:
            yield ""
        finally:
            await steps.through(socket.close())

    def _start(self, request: Request, where: Workspace, url: str) -> tuple[Start, Plan]:
        """Everything decided before the program starts; Failed where it cannot."""
        host = self._host
        make_home(request, host)
        plan = self._adapter.plan(request, host, where, url)
        for path, data in plan.files.items():
            _write(path, data)
        # Without a token in it, `swarmd` refuses what is started here, and does not take it for an operator.
        said = {
            **request.about_itself,
            "SWARMD_PROMPT": where.prompt,
            "SWARMD_MEMORY": where.memory,
        }
        start = Start(
            program=program(plan.program, request.folder),
            argv=plan.argv,
            workdir=host.workdir(request, plan.workdir),
            env=environment(request, host, where, env=plan.env, pass_env=plan.pass_env)
            | dict(plan.own)
            | said,
            stdin=plan.stdin,
            policy=session_policy(
                request, host, where, plan.workdir, read=_made(where.client), own=_made(plan.home)
            ),
            marker=where.socket if self._adapter.desk == "socket" else where.temp,
            cgroup=cgroup.create(host.cgroup, str(request.session)) if host.cgroup else None,
            secrets=(*secrets(request, host, plan.pass_env), *plan.secrets),
            python=host.python,
        )
        return start, plan


class Steps:
    """Steps that are done to their end, whoever cancels the waiter: else what a session did would be lost with it."""

    def __init__(self) -> None:
        self.cancelled = False
        """Whether somebody did."""

    async def through(self, step: Awaitable[T]) -> T:
        """The step's value."""
        task = asyncio.ensure_future(step)
        while not task.done():
            try:
                await asyncio.wait({task})
            except asyncio.CancelledError:
                self.cancelled = True
        return task.result()


SCARCE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN})
"""What the machine has too little of just now, through no fault of the agent's."""


def not_set_up(error: SwarmdError | OSError) -> Result:
    """The end of a session that could not be set up: `unavailable` where the machine lacks something for a while."""
    scarce = isinstance(error, OSError) and error.errno in SCARCE
    return Result(outcome="unavailable" if scarce else "failed", reason=sentence(error))


def sentence(error: SwarmdError | OSError) -> str:
    """Why a session could not be set up."""
    if isinstance(error, OSError):
        where = f" ({error.filename})" if error.filename else ""
        return f"the session could not be set up: {error.strerror}{where}"
    return str(error)


def prompt_of(request: Request) -> bytes:
    """The whole prompt, as it stands in the file of it."""
    parts = [part for part in (request.system, request.user) if part]
    return "\n\n".join(parts).encode("utf-8", "replace")


def _made(folder: str) -> list[str]:
    return [folder] if folder and os.path.isdir(folder) else []


def _write(path: str, data: bytes) -> None:
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(data)


async def run(
    start: Start,
    timeout_seconds: float,
    where: Workspace,
    reading: Reading | None = None,
    for_start: Sequence[str] = (),
    limits: Mapping[str, int | None] | None = None,
) -> tuple[Ended, bool]:
    """Run it, its output logged and read; how it ended, and whether somebody has cancelled it. One that prints more
    than the limit of its standard output or error is ended.
    """
    log = OutputLog(where.log)
    over = asyncio.Event()
    follow: Follow = log.write if reading is None else _following(reading, log, for_start, over.set)
    bounds = {stream: limit for stream, limit in (limits or {}).items() if limit is not None}
    if bounds:
        follow = _bounded(follow, bounds, over.set)
    running = asyncio.ensure_future(_to_its_end(start, timeout_seconds, follow))
    ending = asyncio.ensure_future(over.wait())
    ending.add_done_callback(lambda _: running.cancel())
    cancelled = False
    try:
        while not running.done():
            try:
                await asyncio.wait({running})
            except asyncio.CancelledError:
                cancelled = True
                running.cancel()
        return running.result(), cancelled
    finally:
        ending.cancel()
        if reading is not None:
            log.write("stdout", reading.close())
        log.close()


async def _to_its_end(start: Start, timeout_seconds: float, follow: Follow) -> Ended:
    try:
        return await run_process(start, timeout_seconds=timeout_seconds, follow=follow)
    except Cancelled as cancelled:
        return cancelled.ended


def _bounded(follow: Follow, bounds: Mapping[str, int], end: Callable[[], object]) -> Follow:
    """Calls `end` once more bytes were printed on a stream than it may have."""
    left = dict(bounds)

    def bounded(stream: Literal["stdout", "stderr"], chunk: bytes) -> None:
        follow(stream, chunk)
        if stream in left:
            left[stream] -= len(chunk)
            if left[stream] < 0:
                end()

    return bounded


def _following(
    reading: Reading, log: OutputLog, for_start: Sequence[str], end: Callable[[], object]
) -> Follow:
    """Reads standard output as it comes; `end` is called once the program has no business to go on."""
    loop = asyncio.get_running_loop()
    gone = asked = False

    def follow(stream: Literal["stdout", "stderr"], chunk: bytes) -> None:
        nonlocal gone, asked
        if stream == "stderr":
            log.write(stream, chunk)
            return
        log.write(stream, reading.feed(chunk))
        if reading.started and not gone:
            gone = True
            for path in for_start:
                with suppress(OSError):
                    os.unlink(path)
        if (reading.stop or reading.final is not None) and not asked:
            asked = True
            loop.call_later(0.0 if reading.stop else AFTER_RESULT_SECONDS, end)

    return follow


def _result(
    ended: Ended, start: Start, request: Request, where: Workspace, reading: Reading | None
) -> tuple[Result, Final]:
    memory, problems = read_memory(where.memory, request.memory, request.read_only)
    if reading is None:
        what, reason, status = outcome(ended, start, request.timeout_seconds)
        final = Final(outcome=what, reason=reason)
    else:
        final, status = judged(reading, ended, start, request.timeout_seconds)
    result = Result(
        outcome=final.outcome,
        reason=final.reason,
        exit=status,
        memory=memory,
        memory_problems=problems,
        stdout=ended.stdout,
        stderr=ended.stderr,
        usage=final.usage,
        by_model=final.by_model,
    )
    return result, final
