"""Lines that a person's save did not have and that are kept all the same, since an editor may have loaded an older
text: told to a person, who alone knows whether they are to go.
"""

from __future__ import annotations

import shlex
import sqlite3
from datetime import datetime
from typing import TYPE_CHECKING

from swarmd.core.counts import counted
from swarmd.core.memory import FIRST_FILE
from swarmd.store.raising import cure, raise_attention

if TYPE_CHECKING:
    from swarmd.store.adoption import Adopted

KIND = "memory_kept"


def note(connection: sqlite3.Connection, adopted: Adopted, now: datetime) -> None:
    """Raise what this save is thought to have missed, or what an earlier one was has been seen by now."""
    if not adopted.kept:
        over(connection, adopted.agent, adopted.path)
        return
    of_file = "" if adopted.path == FIRST_FILE else f" --file {shlex.quote(adopted.path)}"
    raise_attention(
        connection, id=_id(adopted.agent, adopted.path), kind=KIND, agent=adopted.agent, now=now,
        text=f"{adopted.by} saved {adopted.path} of {adopted.agent} without {counted(adopted.kept, 'line')} that had "
        f"come into it; that was taken for an edit of revision {adopted.base}, and what had come since was kept",
        next_step=f"swarmd memory diff {adopted.agent} {adopted.rev} {adopted.head}{of_file} shows it; where it is to "
        "go, take it out once more",
    )  # fmt: skip


def over(connection: sqlite3.Connection, agent: str, path: str) -> None:
    """A person has written the file again."""
    cure(connection, _id(agent, path))


def _id(agent: str, path: str) -> str:
    return f"{KIND}:{agent}:{path}"
