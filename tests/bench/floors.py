"""What is measured beside swarmd, on the same disk in the same run: the least that such a thing can cost."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

HELLO = """#!{python}
import click


@click.command()
@click.option("--name", default="world")
def hello(name):
    click.echo(f"hello {{name}}")


hello()
"""
SWARMD = """#!{python}
from swarmd.__main__ import entry
entry()
"""


class Commits:
    """A bare connection to a database of its own: WAL, synchronous=FULL."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._connection = sqlite3.connect(folder / "floor.db", isolation_level=None)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")
        self._connection.execute(
            "CREATE TABLE IF NOT EXISTS floor (id INTEGER PRIMARY KEY, at REAL, text TEXT)"
        )

    def one(self) -> float:
        """The time of a durable commit of ten rows."""
        rows = [(time.time(), "x" * 100)] * 10
        start = time.perf_counter()
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany("INSERT INTO floor (at, text) VALUES (?,?)", rows)
        self._connection.execute("COMMIT")
        return time.perf_counter() - start

    def close(self) -> None:
        self._connection.close()


def replace(folder: Path, data: bytes = b"x" * 1000) -> float:
    """The time of a durable replacement of one small file: write, fsync, rename, fsync of the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    fd = os.open(folder / "part", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.write(fd, data)
    os.fsync(fd)
    os.close(fd)
    os.rename(folder / "part", folder / "file")
    at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    os.fsync(at)
    os.close(at)
    return time.perf_counter() - start


async def spawned(*command: str) -> float:
    """The time of one program under asyncio, from its start to its end."""
    start = time.perf_counter()
    process = await asyncio.create_subprocess_exec(*command)
    await process.wait()
    return time.perf_counter() - start


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """One run of a program, in seconds."""

    elapsed: float
    cpu: float
    """Of the program and its own children: what the machine does beside it hardly changes this."""


def program(command: Sequence[str | Path], env: Mapping[str, str]) -> Ran:
    """Run a program that must succeed."""
    start = time.perf_counter()
    process = subprocess.Popen(
        list(command), env=dict(env), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    assert process.stderr is not None
    with process.stderr as file:
        said = file.read()
    _, status, usage = os.wait4(process.pid, 0)
    elapsed = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise AssertionError(
            f"{' '.join(map(str, command))} ended with {process.returncode}: {said.decode()}"
        )
    return Ran(elapsed=elapsed, cpu=usage.ru_utime + usage.ru_stime)


def script(folder: Path, name: str, text: str) -> Path:
    """A Python program as pip would install it."""
    path = folder / name
    path.write_text(text.format(python=sys.executable))
    path.chmod(0o755)
    return path
