"""The runner `command`: any program, given the prompt on standard input; its exit status decides the outcome."""

from __future__ import annotations

import re
import shutil
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from swarmd.core.wire import Request, Runner
from swarmd.runners.host import Host, program
from swarmd.runners.program import Plan, ProgramRunner, prompt_of
from swarmd.runners.reading import Say
from swarmd.runners.registry import Capability
from swarmd.runners.workspace import Workspace

kind = "command"
measures: frozenset[str] = frozenset()
capabilities: frozenset[Capability] = frozenset({"offline"})


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
    return ProgramRunner(host, Command())


class Command:
    """The program as the agent's file names it; nothing of its output is read."""

    desk: Literal["socket", "mcp"] = "socket"

    def plan(self, request: Request, host: Host, where: Workspace, url: str) -> Plan:
        """The command, with the whole prompt; in its environment the desk's socket and the token, if it may act."""
        options = Options.model_validate(dict(request.options))
        own = {"SWARMD_SOCKET": where.socket, "SWARMD_TOKEN": request.token} if request.acts else {}
        return Plan(
            program=options.command[0],
            argv=options.command,
            stdin=prompt_of(request),
            workdir=options.workdir,
            env=options.env,
            pass_env=options.pass_env,
            own=own,
        )

    def reading(self, request: Request, say: Say, plan: Plan) -> None:
        """What it prints means nothing to swarmd."""


def command_line(request: Request, host: Host) -> list[str]:
    """What would be started, for people to see: the program's place (its bare name if not found), then arguments."""
    options = Options.model_validate(dict(request.options))
    name = program(options.command[0], request.folder)
    return [shutil.which(name, path=host.path) or name, *options.command[1:]]
