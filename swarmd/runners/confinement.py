"""What a session's programs are given and may reach, by their agent's file: environment, home, sandbox, secrets."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Protocol

from swarmd.core.agent import Agent
from swarmd.core.wire import MemoryTree, Request
from swarmd.errors import Failed
from swarmd.runners import credentials
from swarmd.runners.host import Host
from swarmd.runners.sandbox import Policy, describe, missing_problems, policy, write_problems
from swarmd.runners.workspace import Workspace, places


def make_home(request: Request, host: Host) -> None:
    """The agent's own home, where it has one, is made with its first session."""
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


def session_policy(
    request: Request,
    host: Host,
    where: Workspace,
    workdir: str | None,
    *,
    read: Sequence[str] = (),
    own: Sequence[str] = (),
) -> Policy:
    """The sandbox of a session as its agent's file asks for it; Failed where it cannot be had here and now.

    `read` and `own`: further places inside hidden ones that it may read, and write. Files that hold the keys of its
    runner are hidden, too: what is started here is not to read them.
    """
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
        hidden=(*host.hidden, *credentials.files(request.options, request.folder)),
        read=(where.prompt, where.bin, *read),
        write=(where.memory, where.temp, home, *own, *write),
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
