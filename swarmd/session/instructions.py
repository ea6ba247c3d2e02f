"""Files of the working folder that an agent's file names as instructions: they stand in the system part of its prompt.

A client would read such files by itself, and with them whatever else a hostile folder holds; so it reads none, and
these are read here, by the daemon. The folder may be the agent's to write: no link is followed, or the agent could
have the daemon show it what is closed to the agent itself.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from typing import Any

from swarmd.core.agent import Agent
from swarmd.core.standing import standing_for
from swarmd.errors import Failed

FILE_BYTES = 64 * 1024
_STEP = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY


def standing(agent: Agent, state: str) -> str:
    """The rules for the agent's kind of runner, then its instructions. Raises Failed where one cannot be read."""
    options: Mapping[str, Any] = agent.runner_options
    rules = standing_for(agent.runner_kind, persistent=agent.memory.persistent)
    named = options.get("instructions") or ()
    if not named:
        return rules
    workdir = options.get("workdir")
    home = agent.sandbox.home if agent.sandbox.home != "private" else os.path.join(state, "homes", agent.name)
    folder = home if workdir is None else os.path.join(agent.folder, workdir)
    return "\n".join(
        [rules, *(f"# From {path} in the working folder\n\n{_read(folder, path)}" for path in named)]
    )


def _read(folder: str, path: str) -> str:
    """The text of a regular file inside the folder."""
    place = os.path.join(folder, path)
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        *above, name = path.split("/")
        for part, flags in [*((part, _STEP | os.O_DIRECTORY) for part in above), (name, _STEP)]:
            outer = fd
            try:
                fd = os.open(part, flags, dir_fd=outer)
            finally:
                os.close(outer)
    except OSError as error:
        raise Failed(f"runner.instructions: {place}: {error.strerror}") from None
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
            raise Failed(f"runner.instructions: {place} is no regular file with one name")
        data = os.read(fd, FILE_BYTES + 1)
    finally:
        os.close(fd)
    if len(data) > FILE_BYTES:
        raise Failed(f"runner.instructions: {place} has more than {FILE_BYTES} bytes")
    return data.decode("utf-8", "replace")
