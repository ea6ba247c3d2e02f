"""Where a session's things are on this machine, and how names in an agent's file become places; it starts nothing."""

from __future__ import annotations

import os
import pwd
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

from swarmd.core.wire import Request
from swarmd.runners.mcp_endpoint import McpEndpoint

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """This machine, as runners see it; all paths are absolute."""

    sessions_dir: str
    homes_dir: str
    runtime_dir: str
    hidden: tuple[str, ...]
    """Never readable in a session: state, runtime, credentials."""
    forbidden: tuple[str, ...] = ()
    """Never writable in a session: agents.d, state, runtime."""
    swarmd: str | None = None
    """The `swarmd` program, put on the PATH of every session."""
    python: str = sys.executable
    path: str = SYSTEM_PATH
    user: str = "nobody"
    lang: str = "C.UTF-8"
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The daemon's own environment: only what an agent's `pass_env` names is taken from it."""
    cgroup: str | None = None
    """The folder of a delegated control group (cgroup.delegated), where there is one."""
    mcp: McpEndpoint = field(default_factory=McpEndpoint, repr=False, compare=False)
    """Where sessions may speak over MCP: one for all, made when the first runner admits a session there."""

    @classmethod
    def here(
        cls,
        *,
        state: str,
        runtime: str,
        agents: str,
        credentials: str | None = None,
        cgroup: str | None = None,
    ) -> Host:
        """This process's own machine, user and environment."""
        hidden = (state, runtime, *([credentials] if credentials else []))
        return cls(
            sessions_dir=os.path.join(state, "sessions"),
            homes_dir=os.path.join(state, "homes"),
            runtime_dir=runtime,
            hidden=hidden,
            forbidden=(agents, *hidden),
            swarmd=_swarmd(),
            path=os.environ.get("PATH") or SYSTEM_PATH,
            user=_user(),
            lang=os.environ.get("LANG") or "C.UTF-8",
            environ=dict(os.environ),
            cgroup=cgroup,
        )

    def home(self, request: Request) -> str:
        """The session's HOME: a folder under state of the agent's own, or of the agent's about the session's subject;
        or the path that its file names.
        """
        chosen = str(request.sandbox.get("home", "private"))
        return os.path.join(self.homes_dir, request.owner) if chosen == "private" else chosen

    def workdir(self, request: Request, chosen: str | None) -> str:
        """`workdir` as the agent's file means it (a relative one starts at that file), else the home."""
        return self.home(request) if chosen is None else os.path.join(request.folder, chosen)


def program(name: str, folder: str) -> str:
    """The program that `name` means: a relative path starts at the agent's file, a bare name stays for the PATH."""
    return os.path.join(folder, name.removeprefix("./")) if "/" in name else name


def _swarmd() -> str | None:
    beside = os.path.join(os.path.dirname(sys.executable), "swarmd")
    return beside if os.access(beside, os.X_OK) else shutil.which("swarmd")


def _user() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())
