"""The runner `script`: plays part.py in the daemon's own process, with the working copy that a program would have.

So every call that a session costs is the daemon's, and comes in the same order each time.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from swarmd.core.wire import Desk, Message, Request, Result
from swarmd.runners.host import Host
from swarmd.runners.memory_copy import read_memory
from swarmd.runners.memory_desk import MemoryDesk
from swarmd.runners.workspace import Workspace, clear_but_memory, places, prepare
from tests.crash import part

kind = "script"
measures: frozenset[str] = frozenset()
capabilities: frozenset[str] = frozenset()


class Options(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    part: Literal["history", "work"] = "work"
    told: str = "/dev/null"


def make(host: Host) -> Script:
    return Script(host)


class Script:
    def __init__(self, host: Host) -> None:
        self._host = host

    async def run(self, request: Request, desk: Desk) -> Result:
        where = places(self._host, str(request.session))
        try:
            return await self._run(request, desk, where)
        finally:
            await asyncio.to_thread(clear_but_memory, where)

    async def _run(self, request: Request, desk: Desk, where: Workspace) -> Result:
        await asyncio.to_thread(
            prepare, self._host, str(request.session), prompt=request.user.encode(), memory=request.memory,
            read_only=request.read_only,
        )  # fmt: skip
        own = MemoryDesk(owner=request.owner, folder=where.memory, base=request.memory,
                         read_only=request.read_only, desk=desk)  # fmt: skip
        options = Options.model_validate(dict(request.options))
        folder = Path(where.memory)
        played = (
            part.history(folder)
            if options.part == "history"
            else part.work(folder, part.teller(options.told))
        )
        for number, (call, args) in enumerate(played):
            message = Message(id=str(number), call=call, args=args)
            reply = await (own.checkpoint(message) if call == "checkpoint" else desk.call(message))
            assert reply.error is None, reply.error
        memory, problems = await asyncio.to_thread(
            read_memory, where.memory, request.memory, request.read_only
        )
        return Result(outcome="success", exit=0, memory=memory, memory_problems=problems)
