"""Measures swarmd, each number beside a floor or a peer of the same run: `python -m tests.bench [GROUP...] [--quick]`.

Nothing here passes or fails: docs/performance.md says what the numbers mean.
"""

from __future__ import annotations

import argparse
import importlib
import io
import os
import platform
import shutil
import sqlite3
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from swarmd.daemon import logs
from tests.bench.scale import Scale, quick

GROUPS = {
    "a": "sessions",
    "b": "programs",
    "c": "delays",
    "d": "commands",
    "e": "history",
    "f": "loading",
    "g": "crowd",
    "h": "models",
    "i": "notes",
    "j": "searching",
}


def main() -> int:
    options = _options()
    # As the daemon logs, but into nothing: a line costs its making, not the terminal.
    logs.setup("text", "info", io.StringIO())
    folder = Path(tempfile.mkdtemp(prefix="swb-", dir=options.dir))
    try:
        scale = _scale(options, folder)
        print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, Python {platform.python_version()}, "
              f"SQLite {sqlite3.sqlite_version}, Linux {platform.release().split('-')[0]}, {_disk(folder)}")  # fmt: skip
        for letter in options.groups or GROUPS:
            start = time.monotonic()
            importlib.import_module(f"tests.bench.{GROUPS[letter]}").run(scale)
            print(f"   ({letter} took {time.monotonic() - start:.0f} s)", flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__.splitlines()[0])
    parser.add_argument(
        "groups", nargs="*", metavar="GROUP", help=", ".join(f"{k} {v}" for k, v in GROUPS.items())
    )
    parser.add_argument("--quick", action="store_true", help="the least of everything, to see that it works")
    parser.add_argument(
        "--dir", help="a folder on the disk to measure (a short path); the temp folder by default"
    )
    for name, what in (("runs", "sessions of each sort"), ("processes", "starts of each program"),
                       ("agents", "agent files to load")):  # fmt: skip
        parser.add_argument(f"--{name}", type=int, help=what)
    for name, what in (
        ("due", "agents due in one minute"),
        ("history", "rows of history"),
        ("notes", "at which sessions that note something"),
    ):
        parser.add_argument(f"--{name}", type=_numbers, help=f"{what}, for example 100,1000")
    options = parser.parse_args()
    if unknown := set(options.groups) - set(GROUPS):
        parser.error(f"there is no group {', '.join(sorted(unknown))}; there are {', '.join(GROUPS)}")
    return options


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part.replace("_", "")) for part in text.split(","))


def _scale(options: argparse.Namespace, folder: Path) -> Scale:
    base = quick(folder) if options.quick else Scale(folder=folder)
    names = ("runs", "processes", "agents", "due", "history", "notes")
    given = {name: getattr(options, name) for name in names}
    return replace(base, **{name: value for name, value in given.items() if value is not None})


def _disk(folder: Path) -> str:
    """The file system that the folder lies on, as /proc/mounts names it."""
    lines = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    within = [(len(at), kind) for _, at, kind, *_ in lines if folder.resolve().is_relative_to(at)]
    return max(within)[1] if within else "an unknown disk"


if __name__ == "__main__":
    sys.exit(main())
