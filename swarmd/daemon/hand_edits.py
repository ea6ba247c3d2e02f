"""Hand edits of memory files while no session runs: found by what `stat` says, adopted soon; nothing feeds itself.

Before a snapshot and at a commit they are adopted anyway; this is for the person who looks at the history meanwhile.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from swarmd.daemon.logs import about, log
from swarmd.errors import SwarmdError
from swarmd.store.connections import StoreError
from swarmd.store.database import OutcomeUnknown
from swarmd.store.memory import MemoryFolders

DEPTH = 5
_Print = tuple[tuple[str, int, int, int, int], ...]


class HandEdits:
    """Remembers how each agent's folder looked when it was settled last. Its calls block."""

    def __init__(self, root: Path, folders: MemoryFolders, is_busy: Callable[[str], bool]) -> None:
        self._root = root
        self._folders = folders
        self._is_busy = is_busy
        self._known: dict[str, _Print] = {}

    def look(self, agents: Iterable[str]) -> list[str]:
        """Settle the folders that have changed, but for those of agents whose session runs; names those it settled."""
        settled = []
        for agent in agents:
            found = _looks(self._root / agent)
            if found == self._known.get(agent, ()) or self._is_busy(agent):
                continue
            try:
                self._folders.settle(agent)
            except OutcomeUnknown:
                raise
            except (SwarmdError, StoreError, OSError) as error:
                log.warning("its memory files could not be looked at: %s", error, extra=about(agent))
                continue
            # As it was before: what came meanwhile, be it a person's or our own, is looked at once more.
            self._known[agent] = found
            settled.append(agent)
        return settled


def _looks(folder: Path) -> _Print:
    found: list[tuple[str, int, int, int, int]] = []
    _walk(os.fspath(folder), "", DEPTH, found)
    return tuple(sorted(found))


def _walk(folder: str, below: str, depth: int, found: list[tuple[str, int, int, int, int]]) -> None:
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                name = f"{below}{entry.name}"
                try:
                    if entry.is_dir(follow_symlinks=False):
                        if depth > 1:
                            _walk(entry.path, f"{name}/", depth - 1, found)
                        continue
                    status = entry.stat(follow_symlinks=False)
                except OSError:
                    continue  # gone again
                found.append((name, status.st_ino, status.st_mtime_ns, status.st_size, status.st_mode))
    except OSError:
        return
