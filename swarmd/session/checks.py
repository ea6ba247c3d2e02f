"""The check that a `[success] command` makes, as a session's flow asks for it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from swarmd.core.wire import MemoryTree, Request
from swarmd.runners.checking import run_check
from swarmd.runners.host import Host


def success_check(
    host: Host,
) -> Callable[[Request, tuple[str, ...], MemoryTree | None], Awaitable[str | None]]:
    """A check at this host: None when the command exits 0, else a sentence."""

    async def check(request: Request, command: tuple[str, ...], memory: MemoryTree | None) -> str | None:
        checked = await run_check(command, request, host, memory=memory)
        if checked.good:
            return None
        said = f": {checked.last_line}" if checked.last_line else ""
        return f"success.command {command[0]!r} did not succeed ({checked.reason}){said}"

    return check
