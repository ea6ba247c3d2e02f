"""The runner `script`: plays part.py in the daemon's own process, with the working copy that a program would have.

So every call that a session costs is the daemon's, and comes in the same order each time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from swarmd.core.wire import Desk, Message, Reply, Request, Result
from swarmd.runners.host import Host
from swarmd.runners.memory_copy import read_memory
from swarmd.runners.memory_desk import MemoryDesk
from swarmd.runners.workspace import Workspace, clear_but_memory, places, prepare
from tests.crash import part, parts

kind = "script"
measures: frozenset[str] = frozenset()
capabilities: frozenset[str] = frozenset()
PARTS: Mapping[str, Callable[[Path, part.Told], Iterator[tuple[str, Any]]]] = {
    "history": lambda folder, _: part.history(folder), "work": part.work, **parts.PARTS,
}  # fmt: skip
SAYS = frozenset({"text", "tool_call", "tool_result"})
"""Events, which nobody answers."""


class Options(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    part: str = "work"
    told: str = "/dev/null"


def make(host: Host) -> Script:
    return Script(host)


class Script:
    def __init__(self, host: Host) -> None:
        self._host = host

    async def run(self, request: Request, desk: Desk) -> Result:
        options = Options.model_validate(dict(request.options))
        return await self.play(request, desk, options.part, part.teller(options.told))

    async def play(self, request: Request, desk: Desk, name: str, tell: part.Told) -> Result:
        """The part of that name, at a working copy of the memory."""
        where = places(self._host, str(request.session))
        try:
            return await self._play(request, desk, where, name, tell)
        finally:
            await asyncio.to_thread(clear_but_memory, where)

    async def _play(
        self, request: Request, desk: Desk, where: Workspace, name: str, tell: part.Told
    ) -> Result:
        await asyncio.to_thread(
            prepare, self._host, str(request.session), prompt=request.user.encode(), memory=request.memory,
            read_only=request.read_only,
        )  # fmt: skip
        own = MemoryDesk(owner=request.owner, folder=where.memory, base=request.memory,
                         read_only=request.read_only, desk=desk)  # fmt: skip
        for number, (call, args) in enumerate(PARTS[name](Path(where.memory), tell)):
            message = Message(id=str(number), call=call, args=args)
            if call in SAYS:
                desk.event(call, args)
            elif call == "checkpoint":
                must(await own.checkpoint(message))
            elif call == "refused":
                reply = await desk.call(Message(id=str(number), call=args["call"], args=args["args"]))
                assert reply.kind == "refused", reply
            else:
                must(await desk.call(message))
        memory, problems = await asyncio.to_thread(
            read_memory, where.memory, request.memory, request.read_only
        )
        return Result(outcome="success", exit=0, memory=memory, memory_problems=problems)


def must(reply: Reply) -> None:
    assert reply.error is None, reply.error
