"""Stands in for the runner `command`: what its program would do is played in the daemon's own process, so that every
call is the daemon's. A summarizer answers with its summary, any other program is a part by the name that it has.
"""

from __future__ import annotations

from swarmd.core.wire import Captured, Desk, Request, Result
from swarmd.runners.command import Options, capabilities, kind, measures
from swarmd.runners.host import Host
from tests.crash.script import Script
from tests.crash.summarize import SUMMARY

__all__ = ["Options", "Played", "capabilities", "kind", "make", "measures"]


def make(host: Host) -> Played:
    return Played(host)


class Played(Script):
    async def run(self, request: Request, desk: Desk) -> Result:
        options = Options.model_validate(dict(request.options))
        if not request.acts:
            return Result(outcome="success", exit=0, stdout=Captured(head=SUMMARY.encode()))
        return await self.play(request, desk, options.command[0], lambda _: None)
