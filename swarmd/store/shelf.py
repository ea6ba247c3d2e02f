"""What the steps of the folder protocol share: the root of the folders, the writer, the clock, and the disk."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from swarmd.store import marks
from swarmd.store.connections import Connection, reading
from swarmd.store.database import Writer
from swarmd.store.disk import Disk, user_name
from swarmd.store.folder import Folder
from swarmd.store.stable import Look

T = TypeVar("T")
CANNOT_EXCHANGE = (
    "the file system of the memory folders cannot exchange names: a file saved at the very instant of publishing may be"
    " displaced; move the state to a local file system"
)


@dataclass(slots=True, kw_only=True)
class Shelf:
    """Where memory folders stand, and who acts on them."""

    root: Path
    writer: Writer
    reader: Callable[[], Connection]
    """The calling thread's reading connection: what need not be written need not wait for the writer."""
    clock: Callable[[], datetime]
    operator: str
    disk: Disk
    exchanges: bool | None = None
    """Whether the file system can exchange names; None: not yet known."""
    looks: dict[str, dict[str, tuple[Look, str]]] = field(default_factory=dict)
    """Of files that have not changed for long, by agent and path: how they look, and the digest of what they hold. A
    folder of a thousand older texts is not read at each session."""

    def read(self, work: Callable[[Connection], T]) -> T:
        """What the store says now, in one view."""
        with reading(self.reader()) as connection:
            return work(connection)

    def folder(self, agent: str) -> Folder:
        """The agent's folder, to be opened by `with`."""
        return Folder(self.root, agent, self.disk)

    def person(self, uid: int | None) -> str:
        """The `by` of a person's edit: the file's owner, or the operator where that is the daemon's own user."""
        own = uid is None or uid == os.geteuid()
        return f"operator:{self.operator if own or uid is None else user_name(uid)}"

    def raise_problems(
        self, kind: str, agent: str, problems: Mapping[str, str], known: Mapping[str, str],
        sort: tuple[str, str] = marks.MEMORY,
    ) -> None:  # fmt: skip
        """Make the agent's attention items of this kind these (path to reason); `known` are the ones there are."""
        prefix = f"{kind}:{agent}:"
        sentences = {
            shown(path): f"memory of {agent}: {_sentence(path, why)}" for path, why in problems.items()
        }
        if {prefix + path: text for path, text in sentences.items()} != known:
            self.writer.do(
                lambda c: marks.raise_problems(c, prefix, agent, sentences, self.clock, sort), durable=False
            )

    def note_exchange(self, works: bool) -> None:
        """Raise or cure the warning that names cannot be exchanged here."""
        if works != self.exchanges:
            self.exchanges = works
            problems = {} if works else {"exchange": CANNOT_EXCHANGE}
            self.writer.do(
                lambda c: marks.raise_problems(c, "memory-disk:", None, problems, self.clock), durable=False
            )


def shown(path: str) -> str:
    """A path as it can be stored and printed, whatever bytes it holds."""
    return os.fsencode(path).decode("utf-8", errors="backslashreplace")


def _sentence(path: str, why: str) -> str:
    return f"{shown(path)}: {why}" if path else why
