"""The runner `command`: any program, given the prompt on standard input; its exit status decides the outcome."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Protocol, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from swarmd.core.agent import Agent
from swarmd.core.wire import Desk, MemoryTree, Request, Result, Runner
from swarmd.errors import Failed, SwarmdError
from swarmd.runners import cgroup
from swarmd.runners.host import Host, program
from swarmd.runners.memory_copy import read_memory
from swarmd.runners.memory_desk import MemoryDesk
from swarmd.runners.outcomes import RunCancelled, one_line, outcome
from swarmd.runners.process import Cancelled, Ended, Start, run_process
from swarmd.runners.registry import Capability
from swarmd.runners.sandbox import Policy, describe, missing_problems, policy, write_problems
from swarmd.runners.socket import DeskSocket
from swarmd.runners.workspace import OutputLog, Workspace, clear, clear_but_memory, places, prepare

kind = "command"
measures: frozenset[str] = frozenset()
capabilities: frozenset[Capability] = frozenset()
CHECK_SECONDS = 60.0
CANCELLED = "cancelled, and ended with all its processes"
T = TypeVar("T")


def _variable(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name, re.ASCII):
        raise ValueError(f"{name!r} cannot name an environment variable")
    if name.startswith("SWARMD_"):
        raise ValueError(f"{name} cannot be set: SWARMD_* are swarmd's own")
    return name


def _no_nul(text: str) -> str:
    if "\0" in text:
        raise ValueError("a NUL character cannot be given to a program")
    return text


Text = Annotated[str, AfterValidator(_no_nul)]
Variable = Annotated[str, AfterValidator(_variable)]


class Options(BaseModel):
    """The `[runner]` table of kind `command`."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    command: list[Text] = Field(min_length=1, description="the program and its arguments; no shell")
    workdir: Text | None = Field(default=None, description="the working folder; left out: the agent's home")
    env: dict[Variable, Text] = Field(default_factory=dict, description="variables to set")
    pass_env: list[Variable] = Field(default_factory=list, description="variables to take from the daemon")


def make(host: Host) -> Runner:
    """The runner, at this host."""
    return Command(host)


class Command:
    """Runs one session as a program under a supervisor (process.py), at its desk by a socket."""

    def __init__(self, host: Host) -> None:
        self._host = host

    async def run(self, request: Request, desk: Desk) -> Result:
        """Run to the end or the deadline; on cancellation raise RunCancelled when every process is dead."""
        where = places(self._host, str(request.session))
        steps = _Steps()
        try:
            result = await self._session(request, desk, where, steps)
        except (SwarmdError, OSError) as error:
            result = Result(outcome="failed", reason=_sentence(error))
        finally:
            await steps.through(asyncio.to_thread(clear_but_memory, where))
        if steps.cancelled:
            raise RunCancelled(replace(result, outcome="cancelled", reason=CANCELLED))
        return result

    async def _session(self, request: Request, desk: Desk, where: Workspace, steps: _Steps) -> Result:
        options = Options.model_validate(dict(request.options))
        prompt = _prompt(request)
        await steps.through(asyncio.to_thread(
            prepare, self._host, str(request.session), prompt=prompt, memory=request.memory,
            read_only=request.read_only,
        ))  # fmt: skip
        start = await steps.through(asyncio.to_thread(_start, request, self._host, where, options, prompt))
        if steps.cancelled:
            raise asyncio.CancelledError
        async with _at_the_desk(request, desk, where, steps):
            ended, cancelled = await _run(start, request.timeout_seconds, where)
            steps.cancelled |= cancelled
        desk.event("ended", {"exit": ended.exit, "signal": ended.signal, "leftovers": ended.leftovers})
        return await steps.through(asyncio.to_thread(_result, ended, start, request, where))


class _Steps:
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


def _sentence(error: SwarmdError | OSError) -> str:
    if isinstance(error, OSError):
        where = f" ({error.filename})" if error.filename else ""
        return f"the session could not be set up: {error.strerror}{where}"
    return str(error)


def _prompt(request: Request) -> bytes:
    parts = [part for part in (request.system, request.user) if part]
    return "\n\n".join(parts).encode("utf-8", "replace")


@asynccontextmanager
async def _at_the_desk(request: Request, desk: Desk, where: Workspace, steps: _Steps) -> AsyncIterator[None]:
    memory = MemoryDesk(
        agent=request.agent, folder=where.memory, base=request.memory, read_only=request.read_only, desk=desk
    )
    socket = DeskSocket(where.socket, token=request.token, memory=memory)
    await socket.open()
    try:
        yield
    finally:
        await steps.through(socket.close())


async def _run(start: Start, timeout_seconds: float, where: Workspace) -> tuple[Ended, bool]:
    log = OutputLog(where.log)
    try:
        return await run_process(start, timeout_seconds=timeout_seconds, follow=log.write), False
    except Cancelled as cancelled:
        return cancelled.ended, True
    finally:
        log.close()


def _result(ended: Ended, start: Start, request: Request, where: Workspace) -> Result:
    memory, problems = read_memory(where.memory, request.memory, request.read_only)
    what, reason, status = outcome(ended, start, request.timeout_seconds)
    return Result(
        outcome=what,
        reason=reason,
        exit=status,
        memory=memory,
        memory_problems=problems,
        stdout=ended.stdout,
        stderr=ended.stderr,
    )


def _start(request: Request, host: Host, where: Workspace, options: Options, prompt: bytes) -> Start:
    """Everything decided before the program starts; Failed where it cannot."""
    _make_home(request, host)
    own = {
        "SWARMD_AGENT": request.agent,
        "SWARMD_SESSION": str(request.session),
        "SWARMD_SOCKET": where.socket,
        "SWARMD_TOKEN": request.token,
        "SWARMD_PROMPT": where.prompt,
        "SWARMD_MEMORY": where.memory,
    }
    return Start(
        program=program(options.command[0], request.folder),
        argv=options.command,
        workdir=host.workdir(request, options.workdir),
        env=environment(request, host, where, env=options.env, pass_env=options.pass_env) | own,
        stdin=prompt,
        policy=session_policy(request, host, where, options.workdir),
        marker=where.socket,
        cgroup=cgroup.create(host.cgroup, str(request.session)) if host.cgroup else None,
        secrets=secrets(request, host, options.pass_env),
        python=host.python,
    )


def _make_home(request: Request, host: Host) -> None:
    if _has_private_home(request):
        os.makedirs(host.home(request), mode=0o700, exist_ok=True)


def environment(
    request: Request, host: Host, where: Workspace, *, env: Mapping[str, str], pass_env: Sequence[str]
) -> dict[str, str]:
    """A session's environment, from nothing; what swarmd itself says to it (SWARMD_*) comes on top."""
    passed = {name: host.environ[name] for name in pass_env if name in host.environ}
    return {
        "PATH": f"{where.bin}:{host.path}",
        "HOME": host.home(request),
        "USER": host.user,
        "LANG": host.lang,
        "TZ": request.timezone,
        "TMPDIR": where.temp,
        "TERM": "dumb",
        "NO_COLOR": "1",
        **env,
        **passed,
    }


def secrets(request: Request, host: Host, pass_env: Sequence[str]) -> tuple[str, ...]:
    """What is masked in the session's output: what the request names, its token, and what it is passed."""
    passed = (host.environ[name] for name in pass_env if name in host.environ)
    return (*request.secrets, request.token, *passed)


def session_policy(request: Request, host: Host, where: Workspace, workdir: str | None) -> Policy:
    """The sandbox of a session as its agent's file asks for it; Failed where it cannot be had here and now."""
    home = host.home(request)
    write = [str(path) for path in request.sandbox.get("write", ())]
    chosen = write if _has_private_home(request) else [*write, home]
    problems = [
        f"sandbox: {problem}" for problem in write_problems(chosen, host.forbidden)
    ] or missing_problems(chosen)
    if problems:
        raise Failed("; ".join(problems))
    return policy(
        level=str(request.sandbox.get("level", "auto")),
        network=bool(request.sandbox.get("network", True)),
        hidden=host.hidden,
        read=(where.prompt, where.bin),
        write=(where.memory, where.temp, home, *write),
        workdir=host.workdir(request, workdir),
    )


def _has_private_home(request: Request) -> bool:
    return bool(request.sandbox.get("home", "private") == "private")


class Places(Protocol):
    """Where a daemon's things are."""

    @property
    def state(self) -> Path:
        """The state folder."""

    @property
    def runtime(self) -> Path:
        """The folder of sockets."""

    @property
    def agents(self) -> Path:
        """The folder of agent files."""


def fence(agent: Agent, of: Places) -> tuple[str, list[str]]:
    """The level in force for an agent's sessions here, and in words what they may reach; nothing is made."""
    host = Host.here(state=str(of.state), runtime=str(of.runtime), agents=str(of.agents))
    request = Request(
        agent=agent.name,
        session=0,
        epoch=0,
        attempt=0,
        trigger="",
        system="",
        user="",
        memory=MemoryTree(),
        read_only=(),
        options=agent.runner_options,
        folder=agent.folder,
        sandbox=asdict(agent.sandbox),
        timezone="UTC",
        timeout_seconds=0,
        token="",
    )
    try:
        what = session_policy(request, host, places(host, "ID"), agent.runner_options.get("workdir"))
    except Failed as error:
        return "none", [f"no session can start: {error}"]
    return what.level, describe(what)


def command_line(request: Request, host: Host) -> list[str]:
    """What would be started, for people to see: the program's place (its bare name if not found), then arguments."""
    options = Options.model_validate(dict(request.options))
    name = program(options.command[0], request.folder)
    return [shutil.which(name, path=host.path) or name, *options.command[1:]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """How a check (`[success] command`) ended; `reason` is empty where it is good."""

    good: bool
    exit: int | None = None
    last_line: str = ""
    reason: str = ""


async def run_check(
    command: Sequence[str],
    request: Request,
    host: Host,
    *,
    memory: MemoryTree | None = None,
    timeout_seconds: float = CHECK_SECONDS,
) -> Checked:
    """Run a check as the session ran (environment, workdir, sandbox, a copy of `memory`), but without a token."""
    session = os.path.join(str(request.session), "check")
    where = places(host, session)
    options: Mapping[str, Any] = request.options
    kept = memory or request.memory
    try:
        await asyncio.to_thread(prepare, host, session, prompt=b"", memory=kept, read_only=())
        start = await asyncio.to_thread(_check_start, command, request, host, where, options)
        ended, cancelled = await _run(start, timeout_seconds, where)
    except (SwarmdError, OSError) as error:
        return Checked(good=False, reason=_sentence(error))
    finally:
        await asyncio.to_thread(clear, where)
    if cancelled:
        raise asyncio.CancelledError
    what, reason, status = outcome(ended, start, timeout_seconds)
    said = one_line(ended.stderr.head + ended.stderr.tail) or one_line(ended.stdout.head + ended.stdout.tail)
    return Checked(good=what == "success", exit=status, last_line=said, reason=reason)


def _check_start(
    command: Sequence[str], request: Request, host: Host, where: Workspace, options: Mapping[str, Any]
) -> Start:
    _make_home(request, host)
    workdir, pass_env = options.get("workdir"), options.get("pass_env", ())
    env = environment(request, host, where, env=options.get("env", {}), pass_env=pass_env)
    # SWARMD_SESSION without a token: `swarmd` refuses, and does not take the check for an operator.
    own = {
        "SWARMD_AGENT": request.agent,
        "SWARMD_SESSION": str(request.session),
        "SWARMD_MEMORY": where.memory,
    }
    return Start(
        program=program(command[0], request.folder),
        argv=list(command),
        workdir=host.workdir(request, workdir),
        env=env | own,
        policy=session_policy(request, host, where, workdir),
        marker=where.temp,
        cgroup=cgroup.create(host.cgroup, f"{request.session}-check") if host.cgroup else None,
        secrets=secrets(request, host, pass_env),
        python=host.python,
    )
