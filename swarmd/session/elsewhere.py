"""What a session's writes outside its own memory are made from, so that a merge loses nothing that others wrote.

Its own folder is a working copy, whose bases are known. A shared folder it writes by calls: a whole text replaces what
the session has read of the file, and what others have committed since is merged with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from swarmd.core.changes import AppendMemory, Change, WriteMemory
from swarmd.core.digests import digest
from swarmd.core.staging import MemoryWritten, Verdict
from swarmd.core.world import World
from swarmd.session.journal import base_after

_File = tuple[str, str]
"""Owner and path."""


class Elsewhere:
    """Of one session. `made_from` is what core.asking.build goes by: revision, and digest where it is none."""

    def __init__(self, own: str, shown: Mapping[_File, int]) -> None:
        self._own = own
        self.made_from: dict[_File, tuple[int, str | None]] = {
            file: (rev, None) for file, rev in shown.items()
        }
        self._written: set[_File] = set()
        """Files that it has written since its last checkpoint: what it reads of them is its own text, and names no
        revision of the store."""

    def note_read(self, call: str, args: Mapping[str, Any], value: Any) -> None:
        """The session has read the newest text of a file: what it writes next is made from that."""
        if call != "memory_show" or args.get("rev") is not None or not isinstance(value, dict):
            return
        file = str(value.get("agent")), str(value.get("path"))
        if file[0] != self._own and file not in self._written:
            self.made_from[file] = int(value["rev"]), None

    def wrote(self, change: Change, world: World) -> None:
        """It has staged this change, beside which `world` is what the store has."""
        if not isinstance(change, WriteMemory | AppendMemory) or change.agent == self._own:
            return
        file = change.agent, change.path
        self._written.add(file)
        if isinstance(change, WriteMemory):
            self.made_from[file] = (-1, digest(change.data)) if change.data is not None else (0, None)
        else:
            # A text that it writes after this one holds what it had read, and perhaps the addition: both merge.
            head = world.document(*file)
            self.made_from.setdefault(file, (head.rev if head is not None else 0, None))

    def saved(self, changes: Sequence[Change], verdicts: Sequence[Verdict]) -> None:
        """A checkpoint has committed these: it goes on from there."""
        for change, verdict in zip(changes, verdicts, strict=True):
            if isinstance(change, WriteMemory) and change.agent != self._own:
                self.made_from[change.agent, change.path] = base_after(change, verdict)
        # What is held is in no revision: the session goes on reading it as its own.
        held = [
            effect for verdict in verdicts for effect in verdict.withheld if isinstance(effect, MemoryWritten)
        ]
        self._written = {(effect.document.agent, effect.document.path) for effect in held}

    def texts(self, changes: Iterable[Change]) -> dict[str, bytes]:
        """The texts that these changes wish for elsewhere, by digest: what it goes on from after a checkpoint."""
        return {
            digest(change.data): change.data
            for change in changes
            if isinstance(change, WriteMemory) and change.data is not None and change.agent != self._own
        }
