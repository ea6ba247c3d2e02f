"""Tools that are programs: a shell, and the files of the working folder. Each call is a program of its own under the
session's sandbox and supervisor, dead with all that it started when the call returns.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from swarmd.core.wire import Captured
from swarmd.runners import cgroup
from swarmd.runners.bubblewrap import wrapped
from swarmd.runners.model.answers import JSON
from swarmd.runners.model.job import ProgramsJob
from swarmd.runners.model.loop import Called
from swarmd.runners.process import Cancelled, Ended, Start, run_process

BASH_SECONDS, LONGEST_SECONDS = 120.0, 3600.0
FILE_SECONDS = 60.0
COMMAND_BYTES = 100_000
"""One argument of a program may have 128 KiB."""
_FILE_TOOL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "file_tool.py")


class Programs:
    """Starts the programs of one session, one at a time."""

    def __init__(self, job: ProgramsJob) -> None:
        self._job = job
        self._number = 0
        self._turn = asyncio.Lock()

    async def run(self, argv: Sequence[str], *, stdin: bytes = b"", timeout_seconds: float) -> Ended:
        """Run it in the session's working folder to its end, or to the deadline."""
        return await self._run(self.start(argv, stdin=stdin), timeout_seconds)

    def start(self, argv: Sequence[str], *, stdin: bytes = b"", channel: int | None = None,
              env: Mapping[str, str] | None = None) -> Start:  # fmt: skip
        """What is to be started; `channel`: a socket that is its standard input and output."""
        job = self._job
        self._number += 1
        group = cgroup.create(job.cgroup, f"{job.session}-{self._number}") if job.cgroup else None
        return Start(
            program=argv[0], argv=argv, workdir=job.workdir, env={**job.env, **(env or {})}, stdin=stdin,
            policy=job.policy, marker=job.marker, cgroup=group, secrets=job.secrets, python=job.python,
            channel=channel,
        )  # fmt: skip

    async def shell(self, argv: Sequence[str], *, timeout_seconds: float) -> Ended:
        """As `run`, where it can be had in a process namespace of its own."""
        job = self._job
        if job.bubblewrap is None:
            return await self.run(argv, timeout_seconds=timeout_seconds)
        start = self.start(wrapped(job.bubblewrap, argv, job.policy, job.python))
        # Bubblewrap itself needs its hands free; what it starts is confined inside.
        start = replace(start, policy=replace(job.policy, level="none"))
        return await self._run(start, timeout_seconds)

    async def _run(self, start: Start, timeout_seconds: float) -> Ended:
        async with self._turn:
            try:
                return await run_process(start, timeout_seconds=timeout_seconds)
            except Cancelled:
                # A plain one, since asyncio.timeout takes no other for its own.
                raise asyncio.CancelledError from None

    @property
    def python(self) -> str:
        """The interpreter for swarmd's own small programs."""
        return self._job.python


class BashKit:
    """The tool `bash`."""

    def __init__(self, programs: Programs) -> None:
        self._programs = programs

    @property
    def definitions(self) -> list[JSON]:
        """As the Messages API takes it."""
        return [{
            "name": "bash",
            "description": "Run a command with bash in your working folder. Each call is a new shell: folders and "
            "variables do not carry over, and nothing that it starts outlives it.",
            "input_schema": {
                "type": "object",
                "properties": {
                    "command": {"type": "string", "description": "the command"},
                    "timeout": {"type": "number", "description": f"seconds it may take; {BASH_SECONDS:g} where "
                                "left out"},
                },
                "required": ["command"],
                "additionalProperties": False,
            },
        }]  # fmt: skip

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Called:
        """Run it."""
        command, seconds = arguments.get("command"), arguments.get("timeout", BASH_SECONDS)
        if not isinstance(command, str) or not command.strip() or "\0" in command:
            return Called(text="bash: command is missing, or is no text", error=True)
        if (
            isinstance(seconds, bool)
            or not isinstance(seconds, int | float)
            or not 0 < seconds <= LONGEST_SECONDS
        ):
            return Called(text=f"bash: timeout is a number of seconds up to {LONGEST_SECONDS:g}", error=True)
        script = command.encode("utf-8", "replace").decode()
        if len(script.encode()) > COMMAND_BYTES:
            text = (
                f"bash: a command may have {COMMAND_BYTES} bytes; write a longer one to a file and run that"
            )
            return Called(text=text, error=True)
        ended = await self._programs.shell(["bash", "-c", script], timeout_seconds=seconds)
        return Called(text=_told(ended, seconds), error=ended.exit != 0)


class FileKit:
    """The tools on files of the working folder."""

    def __init__(self, programs: Programs) -> None:
        self._programs = programs

    @property
    def definitions(self) -> list[JSON]:
        """As the Messages API takes them."""
        return [_definition(name, *rest) for name, rest in _FILES.items()]

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Called:
        """Have it done by the program that the sandbox holds."""
        request = json.dumps({"tool": name, "args": dict(arguments)}).encode()
        argv = [self._programs.python, "-I", "-S", _FILE_TOOL]
        ended = await self._programs.run(argv, stdin=request, timeout_seconds=FILE_SECONDS)
        try:
            answer = json.loads(_joined(ended.stdout))
        except ValueError:
            return Called(text=f"{name} did not come to an end: {_told(ended, FILE_SECONDS)}", error=True)
        if "error" in answer:
            return Called(text=f"{name}: {answer['error']}", error=True)
        return Called(text=str(answer.get("text")))


_PATH = {"type": "string", "description": "a path in the working folder"}
_GLOB = {"type": "string", "description": "names as *.md, or from the working folder on as docs/*.md"}
_FILES: Mapping[str, tuple[str, dict[str, JSON], tuple[str, ...]]] = {
    "file_read": (
        "Read a text file of your working folder, with line numbers.",
        {"path": _PATH, "offset": {"type": "integer", "description": "the first line"},
         "limit": {"type": "integer", "description": "how many lines"}},
        ("path",),
    ),
    "file_write": (
        "Write a whole file of your working folder; its folder is made where it is missing.",
        {"path": _PATH, "text": {"type": "string", "description": "the whole new text"}},
        ("path", "text"),
    ),
    "file_edit": (
        "Replace a piece of a file of your working folder, which must stand in it just so, and once.",
        {"path": _PATH, "old": {"type": "string", "description": "the text that is there"},
         "new": {"type": "string", "description": "the text to put in its place"},
         "all": {"type": "boolean", "description": "replace it wherever it stands"}},
        ("path", "old", "new"),
    ),
    "file_find": ("List the files of your working folder.", {"pattern": _GLOB}, ()),
    "file_search": (
        "Find lines in the files of your working folder.",
        {"regex": {"type": "string", "description": "a regular expression"}, "pattern": _GLOB},
        ("regex",),
    ),
}  # fmt: skip


def _definition(name: str, description: str, properties: JSON, required: Sequence[str]) -> JSON:
    schema = {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }
    return {"name": name, "description": description, "input_schema": schema}


def _joined(captured: Captured) -> str:
    return (captured.head + captured.tail).decode("utf-8", "replace")


def _shown(captured: Captured) -> str:
    head, tail = captured.head.decode("utf-8", "replace"), captured.tail.decode("utf-8", "replace")
    return f"{head}\n[... {captured.dropped} bytes left out ...]\n{tail}" if captured.dropped else head + tail


def _told(ended: Ended, seconds: float) -> str:
    """How a program ended, for the model: its output, then what is not plain success."""
    parts = [_shown(ended.stdout).rstrip()]
    if errors := _shown(ended.stderr).rstrip():
        parts.append(f"[stderr]\n{errors}")
    if ended.problem is not None:
        why = os.strerror(ended.problem.errno) if ended.problem.errno else ended.problem.detail
        parts.append(f"[it could not be started: {ended.problem.stage}: {why}]")
    elif ended.timed_out:
        parts.append(f"[ended after {seconds:g} seconds, with all that it had started]")
    elif ended.signal is not None:
        parts.append(f"[killed by signal {ended.signal}]")
    elif ended.exit:
        parts.append(f"[exit status {ended.exit}]")
    return "\n".join(part for part in parts if part) or "(no output)"
