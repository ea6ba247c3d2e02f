"""Runs a `[success] command` or a hook, as the session ran but without a token: its exit status is the answer."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from swarmd.core.wire import MemoryTree, Request
from swarmd.errors import SwarmdError
from swarmd.runners import cgroup
from swarmd.runners.confinement import environment, make_home, secrets, session_policy
from swarmd.runners.host import Host, program
from swarmd.runners.outcomes import last_lines, one_line, outcome
from swarmd.runners.process import Start
from swarmd.runners.program import run, sentence
from swarmd.runners.workspace import CHECK, Workspace, clear, places, prepare

CHECK_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """How a check (`[success] command`) or a hook ended; `reason` is empty where it is good, `message` is what it
    said last, in a line.
    """

    good: bool
    exit: int | None = None
    last_line: str = ""
    reason: str = ""
    message: str = ""
    timed_out: bool = False


async def run_check(
    command: Sequence[str],
    request: Request,
    host: Host,
    *,
    memory: MemoryTree | None = None,
    timeout_seconds: float = CHECK_SECONDS,
    stdin: bytes = b"",
    place: str = CHECK,
) -> Checked:
    """Run a check as the session ran (environment, workdir, sandbox, a copy of `memory`), but without a token. `place`
    is its folder in the session's: no two may run in one at the same time.
    """
    session = os.path.join(str(request.session), place)
    where = places(host, session)
    kept = memory if memory is not None else request.memory
    try:
        await asyncio.to_thread(prepare, host, session, prompt=b"", memory=kept, read_only=())
        start = await asyncio.to_thread(_start, command, request, host, where, place)
        ended, cancelled = await run(replace(start, stdin=stdin), timeout_seconds, where)
    except (SwarmdError, OSError) as error:
        return Checked(good=False, reason=sentence(error))
    finally:
        await asyncio.to_thread(clear, where)
    if cancelled:
        raise asyncio.CancelledError
    what, reason, status = outcome(ended, start, timeout_seconds)
    printed = [stream.head + stream.tail for stream in (ended.stderr, ended.stdout)]
    said = one_line(printed[0]) or one_line(printed[1])
    return Checked(good=what == "success", exit=status, last_line=said, reason=reason,
                   message=last_lines(printed[0]) or last_lines(printed[1]), timed_out=ended.timed_out)  # fmt: skip


def _start(command: Sequence[str], request: Request, host: Host, where: Workspace, place: str) -> Start:
    make_home(request, host)
    options: Mapping[str, Any] = request.options
    workdir, pass_env = options.get("workdir"), options.get("pass_env", ())
    env = environment(request, host, where, env=options.get("env", {}), pass_env=pass_env)
    # SWARMD_SESSION without a token: `swarmd` refuses, and does not take the check for an operator.
    own = {**request.about_itself, "SWARMD_MEMORY": where.memory}
    return Start(
        program=program(command[0], request.folder),
        argv=list(command),
        workdir=host.workdir(request, workdir),
        env=env | own,
        policy=session_policy(request, host, where, workdir),
        marker=where.temp,
        cgroup=cgroup.create(host.cgroup, f"{request.session}-{place}") if host.cgroup else None,
        secrets=secrets(request, host, pass_env),
        python=host.python,
    )
