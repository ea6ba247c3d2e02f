"""The worker: a process in which the loops of many sessions run, apart from the daemon, which only judges and commits.

It is told of sessions by the channel that it was started with, asks each session's desk by it, and ends when the other
side does. A session that fails here fails alone; a worker that dies loses its sessions, and the daemon none but those.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import resource
import signal
import socket
from collections.abc import Mapping
from typing import Any

from swarmd.core.wire import Reply
from swarmd.runners import landlock
from swarmd.runners.frames import Broken, Frames
from swarmd.runners.model.job import Done, Job
from swarmd.runners.model.running import run_session
from swarmd.runners.model.shared import SharedModels

PR_SET_PDEATHSIG = 1
MEMORY_BYTES = 8 * 1024**3
"""A worker that grows beyond it fails in what it asks for, rather than taking the host's memory."""
ENDING_SECONDS = 10.0


def main(channel: int) -> None:
    """Serve the sessions that come by this descriptor, a socket, until it is closed."""
    landlock.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # it ends with the daemon, which hears these too
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = MEMORY_BYTES if hard == resource.RLIM_INFINITY else min(MEMORY_BYTES, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
    asyncio.run(_serve(socket.socket(fileno=channel)))


async def _serve(channel: socket.socket) -> None:
    reader, writer = await asyncio.open_unix_connection(sock=channel)
    worker = Worker(Frames(reader, writer))
    await worker.serve()


class Worker:
    """All sessions of this process."""

    def __init__(self, frames: Frames) -> None:
        self._frames = frames
        self._sessions: dict[int, asyncio.Task[None]] = {}
        self._desks: dict[int, _Desk] = {}
        self._models = SharedModels()

    async def serve(self) -> None:
        """Until the daemon closes the channel."""
        self._frames.send({"is": "ready"})
        try:
            while True:
                self._take(await self._frames.receive())
        except Broken:
            pass  # the daemon is gone, or wants no more: so do the sessions
        for task in self._sessions.values():
            task.cancel()
        if self._sessions:
            await asyncio.wait(self._sessions.values(), timeout=ENDING_SECONDS)
        await self._models.close()

    def _take(self, message: Mapping[str, Any]) -> None:
        session = message.get("session", 0)
        match message.get("is"):
            case "start":
                job = Job.of(message["job"])
                self._desks[job.session] = _Desk(self._frames, job.session)
                self._sessions[job.session] = asyncio.ensure_future(self._run(job))
            case "reply":
                if session in self._desks:
                    self._desks[session].take(message)
            case "cancel":
                if session in self._sessions:
                    self._sessions[session].cancel()
            case "ping":
                self._frames.send({"is": "pong", "number": message.get("number")})
            case _:
                pass

    async def _run(self, job: Job) -> None:
        desk = self._desks[job.session]
        try:
            done = await run_session(job, desk, self._models)
        except asyncio.CancelledError:
            done = Done(outcome="cancelled", reason="cancelled")
        except Broken:
            return
        except Exception as error:  # noqa: BLE001 - one session's fault must not be the others'
            done = Done(outcome="failed", reason=f"the model's loop broke: {error!r}"[:500])
        finally:
            self._sessions.pop(job.session, None)
            self._desks.pop(job.session, None)
        with contextlib.suppress(Broken):
            self._frames.send({"is": "done", "session": job.session, "done": done.as_json()})


class _Desk:
    """The session's desk, by the channel: calls are numbered, so that none is done twice."""

    def __init__(self, frames: Frames, session: int) -> None:
        self._frames = frames
        self._session = session
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Reply]] = {}

    async def ask(self, call: str, args: Mapping[str, Any]) -> Reply:
        """One call."""
        number = next(self._numbers)
        answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        try:
            self._send("call", number=number, call=call, args=dict(args))
            return await answer
        finally:
            del self._waiting[number]

    def event(self, kind: str, detail: Mapping[str, Any]) -> None:
        """Tell what has happened."""
        self._send("event", kind=kind, detail=dict(detail))

    def take(self, message: Mapping[str, Any]) -> None:
        """An answer that has come."""
        waiting = self._waiting.get(message.get("number", 0))
        if waiting is not None and not waiting.done():
            reply = message["reply"]
            waiting.set_result(Reply(**reply) if "error" in reply else Reply(value=reply.get("value")))

    def _send(self, what: str, **fields: Any) -> None:
        self._frames.send({"is": what, "session": self._session, **fields})
