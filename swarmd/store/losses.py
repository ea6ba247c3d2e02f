"""Rewrites that lost most of a memory file: noted with the revision that did it, and the one that still has the text.

A note goes by itself when the text is there again. One a file: what is written over a loss loses no more.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from swarmd.core.losses import WANTED, loss_of
from swarmd.core.staging import Effect, MemoryWritten
from swarmd.core.world import Document
from swarmd.store import texts


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """A revision that was just written, the one that it stands in place of, and the text of that (None: none)."""

    document: Document
    before: int
    over: bytes | None
    how: str = "write"


def note_written(connection: sqlite3.Connection, effects: Sequence[Effect], how: str) -> None:
    """Note what a change set has lost, all its revisions being written."""
    written = [effect for effect in effects if isinstance(effect, MemoryWritten)]
    for effect in written:
        document = effect.document
        if document.rev == effect.parent:
            continue
        beside = [
            other.document.data for other in written
            if other.document.agent == document.agent and other.document.path != document.path and other.document.data
        ]  # fmt: skip
        note(connection, Rewrite(document=document, before=effect.parent, over=effect.over, how=how), beside)


def note(connection: sqlite3.Connection, rewrite: Rewrite, beside: Iterable[bytes] = ()) -> None:
    """Note what one revision has lost, or that what was lost is there again."""
    document = rewrite.document
    place = (document.agent, document.path)
    known = connection.execute("SELECT before FROM losses WHERE agent = ? AND path = ?", place).fetchone()
    if known is not None:
        before = texts.of_revision(connection, *place, known[0])
        if before is None or _is_back(document, before):
            connection.execute("DELETE FROM losses WHERE agent = ? AND path = ?", place)
        return
    if rewrite.over is None or rewrite.how in WANTED:
        return
    lost = loss_of(document.path, rewrite.over, document.data, beside)
    if lost is not None:
        connection.execute(
            "INSERT INTO losses (agent, path, rev, before, lines, kept) VALUES (?, ?, ?, ?, ?, ?)",
            (*place, document.rev, rewrite.before, lost.lines, lost.left),
        )


def _is_back(document: Document, before: bytes) -> bool:
    """Whether most of the text stands in the file again, or as much other text."""
    if document.data is None:
        return False
    return len(document.data) >= len(before) or loss_of(document.path, before, document.data) is None


def open_losses(connection: sqlite3.Connection) -> list[dict[str, Any]]:
    """Every loss that is not made good, oldest first, with whose revision it was and how large the file is since."""
    rows = connection.execute(
        "SELECT l.*, r.at, r.by, r.size, b.size AS size_before, r.hash IS NULL AS deleted FROM losses l "
        "JOIN revisions r ON r.agent = l.agent AND r.path = l.path AND r.rev = l.rev "
        "JOIN revisions b ON b.agent = l.agent AND b.path = l.path AND b.rev = l.before ORDER BY r.at LIMIT 1000"
    )
    return [dict(row) for row in rows]
