"""The runner `play`: does in this process what a test says, and counts how many do so at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from pydantic import BaseModel, ConfigDict

from swarmd.core.wire import Desk, Message, Request, Result

kind = "play"
measures: frozenset[str] = frozenset()
capabilities: frozenset[str] = frozenset()

Part = Callable[[Request, Desk], Awaitable[Result]]


class Options(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    part: str = "succeed"


async def succeed(request: Request, desk: Desk) -> Result:
    return Result(outcome="success", exit=0, memory=request.memory)


async def fail(request: Request, desk: Desk) -> Result:
    return Result(outcome="failed", reason="exit status 1", exit=1)


async def break_down(request: Request, desk: Desk) -> Result:
    raise KeyError("a fault of the plug-in")


async def set_key(request: Request, desk: Desk) -> Result:
    args = {"key": "last", "value": str(request.session)}
    assert (await desk.call(Message(id="1", call="ctx_set", args=args))).error is None
    return await succeed(request, desk)


class Stage:
    """All sessions of a test. `hold`: they wait for `release` before they play their part."""

    def __init__(self) -> None:
        self.parts: dict[str, Part] = {
            "succeed": succeed, "fail": fail, "break_down": break_down, "set_key": set_key,
        }  # fmt: skip
        self.played: list[Request] = []
        self.now = 0
        self.most = 0
        self.seconds = 0.0
        self._open = asyncio.Event()
        self._open.set()

    def hold(self) -> None:
        self._open.clear()

    def release(self) -> None:
        self._open.set()

    def agents(self) -> list[str]:
        return [request.agent for request in self.played]

    async def run(self, request: Request, desk: Desk) -> Result:
        self.played.append(request)
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            await self._open.wait()
            await asyncio.sleep(self.seconds)
            return await self.parts[str(request.options.get("part", "succeed"))](request, desk)
        finally:
            self.now -= 1


stage = Stage()


def make(host) -> Stage:
    return stage
