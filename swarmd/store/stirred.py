"""What `stat` says of a memory folder: whether anything may have changed in it since it was last looked at.

It reads no file, so that a folder which many sessions share need not be read for each of them.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

DEPTH = 5
FRESH_NS = 50_000_000
"""A file that changed so shortly before the look may change once more with the same times: clocks of files are coarse,
some tick every 10 ms."""


@dataclass(frozen=True, slots=True)
class Looks:
    """How a folder looked. Equal looks that are `settled` mean that nobody has changed anything in between."""

    names: tuple[tuple[str, int, int, int, int, int], ...] = ()
    settled: bool = True


def looks_of(folder: Path) -> Looks:
    """How the folder looks now; one that is not there looks like an empty one."""
    now = time.time_ns()
    found: list[tuple[str, int, int, int, int, int]] = []
    newest = _walk(os.fspath(folder), "", DEPTH, found)
    return Looks(tuple(sorted(found)), settled=newest < now - FRESH_NS)


def _walk(folder: str, below: str, depth: int, found: list[tuple[str, int, int, int, int, int]]) -> int:
    """The newest change in it."""
    newest = 0
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                name = f"{below}{entry.name}"
                try:
                    if entry.is_dir(follow_symlinks=False):
                        if depth > 1:
                            newest = max(newest, _walk(entry.path, f"{name}/", depth - 1, found))
                        continue
                    status = entry.stat(follow_symlinks=False)
                except OSError:
                    continue  # gone again
                newest = max(newest, status.st_ctime_ns, status.st_mtime_ns)
                found.append((name, status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size,
                              status.st_mode))  # fmt: skip
    except OSError:
        pass
    return newest
