"""What the runners for agent clients (Claude Code, Codex) have in common: options, and what a machine may lack."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from swarmd.core.wire import Request
from swarmd.runners import credentials
from swarmd.runners.command import Text, Variable
from swarmd.runners.host import Host, program

Lack = tuple[tuple[str | int, ...], str]
"""A place in the `[runner]` table, and what the machine does not have for it."""


def _argument(text: str) -> str:
    """What stands on a client's command line must not pass for an option."""
    if not text or text.startswith("-") or not text.isprintable():
        raise ValueError("expected a text that is not empty and does not begin with a dash")
    return text


def _http(url: str) -> str:
    if not re.fullmatch(r"https?://[^\s\"']+", url, re.ASCII):
        raise ValueError("expected an address that begins with https:// (or http://)")
    return url.rstrip("/")


def _inside(path: str) -> str:
    if not path or path.startswith("/") or "\0" in path or {".", "..", ""} & set(path.split("/")):
        raise ValueError("expected the path of a file inside the working folder")
    return path


Argument = Annotated[str, AfterValidator(_argument)]
Address = Annotated[str, AfterValidator(_http)]
Inside = Annotated[str, AfterValidator(_inside)]


class ClientOptions(BaseModel):
    """What the `[runner]` table of every client may have."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    program: Text
    model: Argument | None = Field(
        default=None, description="the model's name; left out: the client's own choice"
    )
    credential: credentials.Reference
    base_url: Address | None = Field(default=None, description="another address of the model's API")
    instructions: list[Inside] = Field(
        default_factory=list,
        description="files of the working folder that are read into the system part; the client reads none itself",
    )
    workdir: Text | None = Field(default=None, description="the working folder; left out: the agent's home")
    env: dict[Variable, Text] = Field(default_factory=dict, description="variables to set")
    pass_env: list[Variable] = Field(default_factory=list, description="variables to take from the daemon")


def reserved(names: frozenset[str], instead: Mapping[str, str]) -> AfterValidator:
    """The rule for `env` and `pass_env` of a client: some variables are swarmd's to set."""

    def check(given: Any) -> Any:
        for name in given:
            if name in instead:
                raise ValueError(f"{name} cannot be set: the option is `{instead[name]}`")
            if name in names:
                raise ValueError(f"{name} cannot be set: swarmd sets it, so that the session stays its own")
        return given

    return AfterValidator(check)


def place_of(request: Request, host: Host, name: str, argv: Sequence[str]) -> list[str]:
    """A command line for people to see: the program's place (its bare name if not found), then arguments."""
    found = program(name, request.folder)
    return [shutil.which(found, path=host.path) or found, *argv]


def lacking(
    options: Mapping[str, Any], folder: str, environ: Mapping[str, str], unread: Mapping[str, str]
) -> Iterator[Lack]:
    """What would keep sessions with these options from going well, as far as all clients have it in common.

    `unread`: names in a working folder that the client would read by itself and here does not, and what to do.
    """
    for problem in credentials.problems(options["credential"], environ, folder):
        yield ("credential",), problem
    if options.get("workdir") is None:
        return
    workdir = os.path.normpath(os.path.join(folder, options["workdir"]))
    named = options.get("instructions") or ()
    for index, path in enumerate(named):
        if not os.path.isfile(os.path.join(workdir, path)):
            yield (
                ("instructions", index),
                f"there is no file {os.path.join(workdir, path)}; sessions fail without it",
            )
    for name, what in unread.items():
        if name not in named and os.path.lexists(os.path.join(workdir, name)):
            yield ("workdir",), f"{os.path.join(workdir, name)} is not read: {what}"
