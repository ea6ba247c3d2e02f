"""Runs one program to its end under a supervisor: input fed, output captured, a deadline, and nobody left alive.

It knows nothing of agents and prompts (command.py does), and decides no outcome.
"""

from __future__ import annotations

import asyncio
import contextlib
import marshal
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Literal

from swarmd.core.wire import Captured
from swarmd.runners import cgroup
from swarmd.runners.capture import Capture
from swarmd.runners.leftovers import kill_leftovers
from swarmd.runners.sandbox import Policy

PACKAGE_ROOT = str(Path(__file__).resolve().parents[2])
# Imported as a module, so that its compiled form is used; -I -S: nothing of the user's or of site-packages runs.
_LAUNCH = "import sys; sys.path.append(sys.argv[4]); import swarmd.runners.launch as it; it.main()"
CHUNK = 64 * 1024
DRAIN_SECONDS = 2.0
"""How long output is still read after the end, where a process that got away holds it open."""
NUDGE_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """What is to be run, and how."""

    program: str
    """An absolute path, or a bare name that is looked for on env's PATH."""
    argv: Sequence[str]
    workdir: str
    env: Mapping[str, str] = field(repr=False)
    stdin: bytes = field(default=b"", repr=False)
    policy: Policy
    marker: str
    """Names the session to kill_leftovers: its socket's path, as in its environment (or its temp folder's)."""
    cgroup: str | None = None
    """A control group of its own (cgroup.create)."""
    grace_seconds: float = 3.0
    """From a polite stop (TERM) to the end of everything (KILL)."""
    secrets: Sequence[str] = field(default=(), repr=False)
    python: str = sys.executable
    channel: int | None = None
    """A socket of the caller's that is standard input and output, in place of `stdin` and the captured output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Why the program did not start: at which stage (workdir, sandbox, cgroup, program, setup), with which errno."""

    stage: str
    errno: int
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How it ended; every descendant is dead."""

    exit: int | None = None
    signal: int | None = None
    problem: Problem | None = None
    timed_out: bool = False
    leftovers: int = 0
    """How many processes were alive, beside the program, when it had ended."""
    stdout: Captured = field(default_factory=Captured)
    stderr: Captured = field(default_factory=Captured)


Follow = Callable[[Literal["stdout", "stderr"], bytes], None]


class Cancelled(asyncio.CancelledError):
    """Cancelled, and every process is dead; `ended` is what there was until then."""

    def __init__(self, ended: Ended) -> None:
        super().__init__()
        self.ended = ended


async def run_process(start: Start, *, timeout_seconds: float, follow: Follow | None = None) -> Ended:
    """Run it to its end or the deadline. On cancellation everything is ended first, then Cancelled is raised.

    A second cancellation takes the grace away; nothing makes it return while a process is alive.
    """
    running = _Running(start, follow)
    attending = asyncio.ensure_future(running.attend())
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_seconds
    timed_out = cancelled = False
    while not attending.done():
        stopping = timed_out or cancelled
        try:
            left = NUDGE_SECONDS if stopping else max(deadline - loop.time(), 0)
            await asyncio.wait({attending}, timeout=left)
        except asyncio.CancelledError:
            running.end_now() if cancelled else running.stop()
            cancelled = True
            continue
        if attending.done():
            break
        if stopping:
            running.nudge()
        else:
            timed_out = True
            running.stop()
    ended = replace(attending.result(), timed_out=timed_out)
    if cancelled:
        raise Cancelled(ended)
    return ended


class _Running:
    """A started supervisor and its pipes."""

    def __init__(self, start: Start, follow: Follow | None) -> None:
        self._start = start
        with contextlib.ExitStack() as undo, contextlib.ExitStack() as theirs:
            # All that is ever opened is opened here: later, want of descriptors could cost the grip on a session.
            spec = _opened(theirs, _spec_file(start))
            stdin, self._stdin = _pipe(undo, theirs, we_read=False)
            stdout, self._stdout = _pipe(undo, theirs, we_read=True)
            stderr, self._stderr = _pipe(undo, theirs, we_read=True)
            status, self._status = _pipe(undo, theirs, we_read=True)
            control, self._control = _pipe(undo, theirs, we_read=False)
            argv = [str(spec), str(control), str(status), PACKAGE_ROOT, start.marker]
            self._supervisor = subprocess.Popen(
                [start.python, "-I", "-S", "-c", _LAUNCH, *argv],
                stdin=stdin if start.channel is None else start.channel,
                stdout=stdout if start.channel is None else start.channel,
                stderr=stderr,
                pass_fds=(spec, control, status),
                env={},
                cwd="/",
                start_new_session=True,
            )
            self._handle = _Fd(os.pidfd_open(self._supervisor.pid))
            undo.pop_all()
        self._outputs = [
            (self._stdout, Capture(start.secrets, follow and partial(follow, "stdout"))),
            (self._stderr, Capture(start.secrets, follow and partial(follow, "stderr"))),
        ]

    def stop(self) -> None:
        """Ask it to end; after the grace it is ended."""
        if self._control.number is not None:
            with contextlib.suppress(OSError):
                os.write(self._control.number, b"T")
        self.nudge()

    def end_now(self) -> None:
        """End everything at once."""
        self._control.close()
        self.nudge()

    def nudge(self) -> None:
        """Wake the supervisor, should the session have stopped it (without Landlock it can)."""
        if self._supervisor.returncode is None:
            self._supervisor.send_signal(signal.SIGCONT)

    async def attend(self) -> Ended:
        """Feed, read and wait until all is over."""
        feeding = asyncio.ensure_future(_feed(self._stdin, self._start.stdin))
        reading = [asyncio.ensure_future(_drain(fd, capture.feed)) for fd, capture in self._outputs]
        status = bytearray()
        try:
            await _drain(self._status, status.extend)
            await _ready(self._handle, writing=False)
            self._supervisor.wait()
            ended = _parse(status.decode("utf-8", "replace"))
            await self._end_what_got_away(sure=ended.problem is None or ended.problem.stage != "supervisor")
            await asyncio.wait(reading, timeout=DRAIN_SECONDS)
        finally:
            await _cancel(feeding, *reading)
            for fd in (self._stdin, self._stdout, self._stderr, self._status, self._control, self._handle):
                fd.close()
        stdout, stderr = (capture.close() for _fd, capture in self._outputs)
        return replace(ended, stdout=stdout, stderr=stderr)

    async def _end_what_got_away(self, *, sure: bool) -> None:
        """The supervisor's word is enough; where it was killed itself, look for what it left."""
        if not sure:
            await asyncio.to_thread(kill_leftovers, self._start.marker)
        if self._start.cgroup is not None and not (sure and cgroup.remove(self._start.cgroup)):
            await asyncio.to_thread(cgroup.end, self._start.cgroup)


class _Fd:
    """A descriptor that is closed once."""

    def __init__(self, number: int) -> None:
        self.number: int | None = number

    def close(self) -> None:
        if self.number is not None:
            os.close(self.number)
            self.number = None


def _opened(stack: contextlib.ExitStack, fd: int) -> int:
    stack.callback(os.close, fd)
    return fd


def _pipe(undo: contextlib.ExitStack, theirs: contextlib.ExitStack, *, we_read: bool) -> tuple[int, _Fd]:
    """Their end, and ours, which does not block."""
    reading, writing = os.pipe()
    ours, other = (reading, writing) if we_read else (writing, reading)
    os.set_blocking(ours, False)
    fd = _Fd(ours)
    undo.callback(fd.close)
    return _opened(theirs, other), fd


def _spec_file(start: Start) -> int:
    """What launch.main reads, in a file that has no name: it holds the session's environment."""
    spec = {
        "program": os.fsencode(start.program),
        "argv": [os.fsencode(arg) for arg in start.argv],
        "env": {os.fsencode(name): os.fsencode(value) for name, value in start.env.items()},
        "workdir": os.fsencode(start.workdir),
        "landlock": start.policy.as_spec(),
        "cgroup": start.cgroup,
        "grace": float(start.grace_seconds),
    }
    data = memoryview(marshal.dumps(spec))
    fd = os.memfd_create("swarmd-session", os.MFD_CLOEXEC)
    while data:
        data = data[os.write(fd, data) :]
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _parse(status: str) -> Ended:
    lines = status.splitlines()
    last = lines[-1].split(" ", 3) if lines else [""]
    if last[0] == "failed":
        return Ended(problem=Problem(stage=last[1], errno=int(last[2]), detail=" ".join(last[3:])))
    if last[0] == "ended":
        value = int(last[2])
        return Ended(
            exit=value if last[1] == "exit" else None,
            signal=value if last[1] != "exit" else None,
            leftovers=int(last[3]),
        )
    return Ended(problem=Problem(stage="supervisor", errno=0))


async def _ready(fd: _Fd, *, writing: bool) -> int:
    """The descriptor's number, when it can be read or written."""
    assert fd.number is not None
    number = fd.number
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()

    def wake() -> None:
        if not ready.done():
            ready.set_result(None)

    add, remove = (loop.add_writer, loop.remove_writer) if writing else (loop.add_reader, loop.remove_reader)
    add(number, wake)
    try:
        await ready
    finally:
        remove(number)
    return number


async def _feed(fd: _Fd, data: bytes) -> None:
    """Write all of it, then the end; a program that does not want it may close its input."""
    left = memoryview(data)
    with contextlib.suppress(OSError):
        while left:
            left = left[os.write(await _ready(fd, writing=True), left[:CHUNK]) :]
    fd.close()


async def _drain(fd: _Fd, sink: Callable[[bytes], object]) -> None:
    # Waiting before each chunk lets others have their turn, however fast the output comes.
    while chunk := os.read(await _ready(fd, writing=False), CHUNK):
        sink(chunk)


async def _cancel(*tasks: asyncio.Future[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
