"""The worker processes, from the daemon's side: started when they are needed, watched, and given up when they fail.

Sessions that use the same credential go to the same worker, so that they share what is known of it. A worker that dies,
or has not answered for a while, loses its sessions; the daemon goes on, and the next session gets a new one.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import signal
import socket
import subprocess
import zlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from swarmd.core.wire import Message, Reply
from swarmd.runners.frames import Broken, Frames
from swarmd.runners.host import Host
from swarmd.runners.model.job import Done, Job

PASSED = (
    "PATH", "LANG", "LC_ALL", "TZ", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
    "SSL_CERT_FILE", "SSL_CERT_DIR",
)  # fmt: skip
"""Of the daemon's environment a worker gets these, and none that says where a model is or who pays."""
START_SECONDS = 60.0
PING_SECONDS, SILENT_SECONDS = 5.0, 30.0
CANCEL_SECONDS = 15.0
"""From a session's end by the clock to the moment where its worker counts as stalled."""

Answer = Callable[[Message], Awaitable[Reply]]
Event = Callable[[str, Mapping[str, Any]], None]


class WorkerLost(Exception):
    """The worker died or stalled, and its sessions with it."""


@dataclass(slots=True, kw_only=True)
class _Session:
    answer: Answer
    event: Event
    done: asyncio.Future[Done]
    calls: set[asyncio.Task[None]] = field(default_factory=set)


class Workers:
    """A fixed number of them, for one event loop."""

    def __init__(self, host: Host, count: int = 1) -> None:
        self._host = host
        self._workers: list[_Worker | None] = [None] * count
        self._starting = asyncio.Lock()

    async def run(self, job: Job, answer: Answer, event: Event) -> Done:
        """Run a session in a worker. Raises WorkerLost; on cancellation the worker is told, and waited for."""
        worker = await self._worker(zlib.crc32(job.key.encode()) % len(self._workers))
        return await worker.run(job, answer, event)

    async def _worker(self, place: int) -> _Worker:
        async with self._starting:
            worker = self._workers[place]
            if worker is None or worker.gone:
                worker = self._workers[place] = await _Worker.start(self._host)
            return worker

    async def close(self) -> None:
        """End them all."""
        for place, worker in enumerate(self._workers):
            if worker is not None:
                await worker.close()
            self._workers[place] = None


class _Worker:
    """One process."""

    def __init__(self, process: subprocess.Popen[bytes], frames: Frames) -> None:
        self._process = process
        self._frames = frames
        self._sessions: dict[int, _Session] = {}
        self._heard = asyncio.get_running_loop().time()
        self._numbers = itertools.count(1)
        self.gone: str | None = None
        """Why it is no more."""
        self._tasks = [asyncio.ensure_future(self._listen()), asyncio.ensure_future(self._watch())]

    @classmethod
    async def start(cls, host: Host) -> _Worker:
        """A new one, ready for sessions. Raises WorkerLost."""
        ours, theirs = socket.socketpair()
        with theirs:
            process = subprocess.Popen(  # noqa: ASYNC220 - vfork: some milliseconds, once
                [host.python, "-P", "-m", "swarmd", "worker", str(theirs.fileno())],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, pass_fds=(theirs.fileno(),), cwd="/",
                env={name: host.environ[name] for name in PASSED if name in host.environ}, start_new_session=True,
            )  # fmt: skip
        reader, writer = await asyncio.open_unix_connection(sock=ours)
        frames = Frames(reader, writer)
        try:
            async with asyncio.timeout(START_SECONDS):
                await frames.receive()
        except (Broken, TimeoutError) as error:
            process.kill()
            frames.close()
            await asyncio.to_thread(process.wait)
            raise WorkerLost(f"the worker for model loops did not start ({_how(process)})") from error
        return cls(process, frames)

    async def run(self, job: Job, answer: Answer, event: Event) -> Done:
        done: asyncio.Future[Done] = asyncio.get_running_loop().create_future()
        session = self._sessions[job.session] = _Session(answer=answer, event=event, done=done)
        try:
            self._send({"is": "start", "session": job.session, "job": job.as_json()})
            return await self._ended(job, done)
        finally:
            del self._sessions[job.session]
            for call in session.calls:
                call.cancel()

    async def _ended(self, job: Job, done: asyncio.Future[Done]) -> Done:
        """Its end. Some seconds after the deadline the worker is stalled, whatever it answers to pings."""
        cancelled = False
        left = job.timeout_seconds + CANCEL_SECONDS
        while True:
            try:
                await asyncio.wait({done}, timeout=left)
            except asyncio.CancelledError:
                cancelled, left = True, CANCEL_SECONDS
                with contextlib.suppress(WorkerLost):
                    self._send({"is": "cancel", "session": job.session})
                continue
            if not done.done():
                await self._give_up("it did not end a session in time")
            if cancelled:
                done.exception()  # it has been looked at
                raise asyncio.CancelledError
            return done.result()

    def _send(self, message: dict[str, Any]) -> None:
        if self.gone is not None:
            raise WorkerLost(self.gone)
        try:
            self._frames.send(message)
        except Broken as error:
            raise WorkerLost(str(error)) from error

    # -- listening ------------------------------------------------------------------------------------------

    async def _listen(self) -> None:
        try:
            while True:
                message = await self._frames.receive()
                self._heard = asyncio.get_running_loop().time()
                self._take(message)
        except (Broken, LookupError, TypeError, ValueError) as error:
            await self._give_up(str(error))

    def _take(self, message: Mapping[str, Any]) -> None:
        session = self._sessions.get(message.get("session", 0))
        if session is None:
            return
        match message.get("is"):
            case "call":
                task = asyncio.ensure_future(self._answer(session, message))
                session.calls.add(task)
                task.add_done_callback(session.calls.discard)
            case "event":
                session.event(str(message["kind"]), message["detail"])
            case "done":
                if not session.done.done():
                    session.done.set_result(Done.of(message["done"]))
            case _:
                pass

    async def _answer(self, session: _Session, message: Mapping[str, Any]) -> None:
        number = message["number"]
        wish = Message(id=f"w{number}", call=str(message["call"]), args=message["args"])
        reply = await session.answer(wish)
        with contextlib.suppress(WorkerLost):
            self._send(
                {"is": "reply", "session": message["session"], "number": number, "reply": reply.as_json()}
            )

    async def _watch(self) -> None:
        """Give it up where it is silent for too long."""
        loop = asyncio.get_running_loop()
        while True:
            asked = loop.time()
            try:
                self._send({"is": "ping", "number": next(self._numbers)})
            except WorkerLost:
                return
            await asyncio.sleep(PING_SECONDS)
            # What this process itself has slept through does not count against the worker.
            overslept = loop.time() - asked - PING_SECONDS
            if overslept < PING_SECONDS and loop.time() - self._heard > SILENT_SECONDS:
                await self._give_up(f"it has not answered for {SILENT_SECONDS:g} seconds")
                return

    async def _give_up(self, why: str) -> None:
        if self.gone is not None:
            return
        self.gone = why
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._process.pid, signal.SIGKILL)
        await asyncio.to_thread(self._process.wait)
        self.gone = f"the worker that ran the model's loop is gone ({_how(self._process)}): {why}"
        self._frames.close()
        for session in self._sessions.values():
            if not session.done.done():
                session.done.set_exception(WorkerLost(self.gone))

    async def close(self) -> None:
        """No more sessions: it ends by itself when the channel closes."""
        self.gone = self.gone or "it was closed"
        self._frames.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        try:
            await asyncio.to_thread(self._process.wait, CANCEL_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            await asyncio.to_thread(self._process.wait)


def _how(process: subprocess.Popen[bytes]) -> str:
    code = process.returncode
    if code is None:
        return "still alive"
    return f"killed by signal {-code}" if code < 0 else f"exit status {code}"
