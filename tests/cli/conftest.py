"""A scripted client in place of store and daemon, and two ways to run the program: in here, and for real."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from swarmd.cli.invocation import Invocation
from swarmd.cli.main import run

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
PROGRAM = Path(__file__).with_name("scripted_program.py")
ROOT = Path(__file__).parents[2]
NO_STATE = {"SWARMD_STATE": "/nowhere/state"}
"""The machine's own swarmd, where it has one, is none of the tests'."""
IN_SESSION = {
    "SWARMD_SESSION": "7",
    "SWARMD_TOKEN": "t",
    "SWARMD_SOCKET": "/nowhere",
    "SWARMD_AGENT": "studio",
}


@dataclass
class Scripted:
    """Answers each call from `answers`: a document, an error to raise, or a list of them, one a call."""

    answers: dict[str, Any] = field(default_factory=dict)
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def call(self, name: str, args: Mapping[str, Any]) -> Any:
        self.calls.append((name, dict(args)))
        answer = self.answers.get(name, {})
        if isinstance(answer, list):
            answer = answer.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer


@dataclass(frozen=True)
class Ran:
    status: int
    out: bytes
    err: str
    calls: list[tuple[str, dict[str, Any]]]
    options: Any

    @property
    def text(self) -> str:
        return self.out.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class _Program:
    """What CliRunner runs: the program with its boundary."""

    name = "swarmd"

    def main(self, args: Any, prog_name: str, invocation: Invocation) -> None:
        sys.exit(run(list(args), invocation))


Swarmd = Callable[..., Ran]


@pytest.fixture
def swarmd() -> Swarmd:
    """Run one command with these answers; in a session where `session` is set."""

    def runs(
        *args: str,
        stdin: bytes | str = b"",
        session: bool = False,
        env: Mapping[str, str] = {},
        **answers: Any,
    ) -> Ran:
        client = Scripted(answers)
        environ = {**NO_STATE, **(IN_SESSION if session else {}), **env}
        invocation = Invocation(
            environ=environ, connect=lambda *_: client, now=lambda: NOW, wait=lambda _: None
        )
        result = CliRunner().invoke(_Program(), args, input=stdin, invocation=invocation)  # type: ignore[arg-type]
        return Ran(result.exit_code, result.stdout_bytes, result.stderr, client.calls, invocation.options)

    return runs


Real = Callable[..., subprocess.CompletedProcess[bytes]]


@pytest.fixture
def real(tmp_path: Path) -> Real:
    """Run one command as a program of its own, with answers from a file."""

    def runs(
        *args: str, answers: Mapping[str, Any] | None = None, env: Mapping[str, str] = {}, **kwargs: Any
    ) -> Any:
        command = command_of(tmp_path, answers, args)
        kwargs.setdefault("stdout", subprocess.PIPE)
        environ = {**os.environ, "PYTHONPATH": str(ROOT), **env}
        return subprocess.run(command, stderr=subprocess.PIPE, env=environ, timeout=60, check=False, **kwargs)

    return runs


def command_of(folder: Path, answers: Mapping[str, Any] | None, args: tuple[str, ...]) -> list[str]:
    if answers is None:
        return [sys.executable, "-m", "swarmd", *args]
    file = folder / "answers.json"
    file.write_text(json.dumps(answers))
    return [sys.executable, str(PROGRAM), str(file), *args]
