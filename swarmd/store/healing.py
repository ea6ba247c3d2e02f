"""Texts that the store has lost: put back from the published file where it still holds them, else told to a person.

A head whose text is gone or wrong is damage. It is never taken as an empty file: reads of it raise
rows.DamagedText, so that no session starts from it and nothing is committed or published over it.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from swarmd.store import audit, marks, texts
from swarmd.store.rows import is_text
from swarmd.store.shelf import Shelf
from swarmd.store.stable import File

KIND = "memory-damage"
LOST = "the store has lost its text, and the file does not hold it: the agent's sessions fail until that is put right"
NEXT_STEP = (
    "save the file in the memory folder: its old text heals the store, any other is a new revision; then the item "
    "closes by itself"
)
SORT = ("damage", NEXT_STEP)
"""What is raised: only what no file holds, since all else is put back without a person."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """A head whose text is gone or wrong."""

    path: str
    rev: int
    hash: str


def heal(shelf: Shelf, agent: str, *, thorough: bool = False) -> bool:
    """Put back what the files still hold; the rest raises attention. The answer: whether anything was put back.

    `thorough` also finds texts of the right length that are not what their digests say.
    """
    lost, raised = shelf.read(lambda c: _look(c, agent, thorough))
    problems: dict[str, str] = {}
    healed = False
    if lost:
        found = _in_files(shelf, agent, lost)
        for item in lost:
            data = found.get(item.hash)
            if data is None:
                problems[item.path] = LOST
            else:
                shelf.writer.do(lambda c, item=item, data=data: _put_back(c, shelf, agent, item, data))  # type: ignore[misc]
                healed = True
    shelf.raise_problems(KIND, agent, problems, raised, SORT)
    return healed


def lost_texts(connection: sqlite3.Connection, agent: str, *, thorough: bool) -> list[Lost]:
    """The agent's heads whose text is gone, is no bytes, has another length, or (`thorough`) another digest."""
    rows = connection.execute(
        "SELECT h.path, h.rev, h.hash FROM heads h LEFT JOIN blobs b ON b.hash = h.hash "
        "LEFT JOIN revisions r ON r.agent = h.agent AND r.path = h.path AND r.rev = h.rev "
        "WHERE h.agent = ? AND h.hash IS NOT NULL "
        "AND (? OR typeof(b.data) != 'blob' OR length(b.data) IS NOT r.size) ORDER BY h.path",
        (agent, thorough),
    ).fetchall()
    return [Lost(path=row["path"], rev=row["rev"], hash=row["hash"]) for row in rows
            if not is_text(texts.of_digest(connection, row["hash"]), row["hash"])]  # fmt: skip


def _look(connection: sqlite3.Connection, agent: str, thorough: bool) -> tuple[list[Lost], dict[str, str]]:
    """What is lost, and what was raised of it; where anything was, a quick look would not see whether it is cured."""
    raised = marks.raised(connection, f"{KIND}:{agent}:")
    return lost_texts(connection, agent, thorough=thorough or bool(raised)), raised


def _in_files(shelf: Shelf, agent: str, lost: list[Lost]) -> dict[str, bytes]:
    """The texts that the published files still hold, by digest."""
    found: dict[str, bytes] = {}
    try:
        with shelf.folder(agent) as folder:
            for item in lost:
                file = folder.read(item.path)
                if isinstance(file, File) and file.digest == item.hash:
                    found[item.hash] = file.data
    except OSError:
        return found  # why it cannot be read is raised by adopt
    return found


def _put_back(connection: sqlite3.Connection, shelf: Shelf, agent: str, item: Lost, data: bytes) -> None:
    texts.put(connection, item.hash, data)
    audit.write(
        connection, at=shelf.clock(), by="system", act="memory_heal", target=f"{agent}:{item.path}",
        detail={"rev": item.rev, "hash": item.hash, "from": "the published file"},
    )  # fmt: skip
