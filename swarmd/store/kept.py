"""Lines that a person's save did not have and that are kept all the same, since an editor may have loaded an older
text: told to a person, who alone knows whether they are to go.
"""

from __future__ import annotations

import shlex
import sqlite3
from collections import Counter
from datetime import datetime
from typing import TYPE_CHECKING

from swarmd.core.ancestry import bag
from swarmd.core.counts import counted
from swarmd.core.memory import FIRST_FILE
from swarmd.core.world import Document
from swarmd.store import marks, texts
from swarmd.store.raising import cure, raise_attention

if TYPE_CHECKING:
    from swarmd.store.adoption import Adopted

KIND = "memory_kept"


def note(connection: sqlite3.Connection, adopted: Adopted, now: datetime) -> None:
    """Raise what this save is thought to have missed; the same lines once."""
    if not adopted.kept:
        return
    agent, path, rev = adopted.agent, adopted.path, adopted.rev
    lines = _lines(connection, agent, path, rev)
    if any(_lines(connection, agent, path, known) == lines for known in _open(connection, agent, path)):
        return
    of_file = "" if path == FIRST_FILE else f" --file {shlex.quote(path)}"
    raise_attention(
        connection, id=_id(agent, path, rev), kind=KIND, agent=agent, now=now,
        text=f"{adopted.by} saved {path} of {agent} without {counted(adopted.kept, 'line')} that had come into it; "
        f"that was taken for an edit of revision {adopted.base}, and what had come since was kept",
        next_step=f"swarmd memory diff {agent} {rev} {adopted.head}{of_file} shows it; where it is to go, take it out "
        "once more",
    )  # fmt: skip


def look(connection: sqlite3.Connection, document: Document) -> None:
    """Cure what of the file was raised and is not in its new text any more."""
    for rev in _open(connection, document.agent, document.path):
        if not _lines(connection, document.agent, document.path, rev) & bag(document.data or b""):
            cure(connection, _id(document.agent, document.path, rev))


def _open(connection: sqlite3.Connection, agent: str, path: str) -> list[int]:
    """The saves of the file that are raised, by their revisions."""
    prefix = _id(agent, path, "")
    ends = [id.removeprefix(prefix) for id in marks.raised(connection, prefix)]
    return [int(end) for end in ends if end.isdigit()]  # else of a file whose name goes on


def _lines(connection: sqlite3.Connection, agent: str, path: str, rev: int) -> Counter[bytes]:
    """The lines that the merge after the save `rev` has kept."""
    saved, merged = (texts.of_revision(connection, agent, path, one) for one in (rev, rev + 1))
    lines = bag(merged or b"") - bag(saved or b"")
    return Counter({line: count for line, count in lines.items() if line.strip()})


def _id(agent: str, path: str, rev: int | str) -> str:
    return f"{KIND}:{agent}:{path}:{rev}"
