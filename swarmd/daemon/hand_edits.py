"""Hand edits of memory files: found by what `stat` says, adopted soon, also while sessions run; nothing feeds itself.

Before a snapshot and at a commit they are adopted anyway; this is for the person who looks at the history meanwhile,
and for what is saved and then overwritten by somebody else.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from swarmd.daemon.logs import about, log
from swarmd.errors import SwarmdError
from swarmd.store.connections import StoreError
from swarmd.store.database import OutcomeUnknown
from swarmd.store.memory import MemoryFolders
from swarmd.store.stirred import Looks, looks_of


class HandEdits:
    """Remembers how each agent's folder looked when it was settled last. Its calls block."""

    def __init__(self, root: Path, folders: MemoryFolders) -> None:
        self._root = root
        self._folders = folders
        self._known: dict[str, Looks] = {}

    def look(self, agents: Iterable[str]) -> list[str]:
        """Settle the folders of these owners that have changed; names those it settled."""
        settled = []
        for agent in agents:
            found = looks_of(self._root / agent)
            if found.names == self._known.get(agent, Looks()).names:
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
