"""What a person's text makes of the revisions that there are: planned outside of transactions, since merging
may take long.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from swarmd.core.ancestry import Known, base_of, kept_lines, removed_lines
from swarmd.core.judge_memory import conflicts_of
from swarmd.core.merge import Merged, merge
from swarmd.core.staging import Conflict
from swarmd.core.world import Document, agent_of
from swarmd.store import documents, texts
from swarmd.store.marks import Mark
from swarmd.store.shelf import Shelf
from swarmd.store.stable import File


@dataclass(frozen=True, slots=True, kw_only=True)
class Adopted:
    """A person's edit that became revision `rev`; `head` is what the file is to be now.

    `removed` are lines that the file's last agent had added and that the edit takes away; `conflicts` counts pieces of
    what was committed meanwhile that had to stand aside. `kept` counts lines that the text did not have, of what the
    file had held before: it was taken for an edit of the older revision `base`.
    """

    agent: str
    path: str
    rev: int
    head: int
    by: str
    deleted: bool = False
    conflicts: int = 0
    removed: tuple[str, ...] = ()
    base: int = 0
    kept: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The revisions that a person's text makes, over the head that they were planned for, and that one's text."""

    over: int
    head: bytes | None
    documents: tuple[tuple[Document, int], ...]
    conflicts: tuple[Conflict, ...]
    adopted: Adopted


def planned(shelf: Shelf, agent: str, path: str, file: File, seen: Mark | None) -> Plan | None:
    """What a person's text makes of the head; None: it is the head's text. Merging is done outside of transactions."""
    head, known, last = shelf.read(lambda c: _ancestors(c, agent, path, seen))
    if head is not None and head.data == file.data:
        return None
    by, at = shelf.person(file.uid), shelf.clock()
    base = base_of(file.data, known, last, file.saved, by)
    over = head.rev if head is not None else 0
    first = Document(agent=agent, path=path, rev=over + 1, data=file.data, at=at, by=by)
    revisions = [(first, base.rev if base is not None else 0)]
    merged = Merged(data=file.data)
    if head is not None and head.data is not None:
        merged = merge(base.data if base is not None else b"", head.data, file.data)
    if merged.data != file.data:
        second = Document(agent=agent, path=path, rev=over + 2, data=merged.data, at=at, by=by)
        revisions.append((second, over + 1))
    conflicts = conflicts_of(merged, path, head.by if head is not None else None)
    adopted = Adopted(
        agent=agent, path=path, rev=over + 1, head=revisions[-1][0].rev, by=by, conflicts=len(conflicts),
        removed=_removed(head, merged.data, last), base=base.rev if base is not None else 0,
        kept=_kept(file.data, known, base, merged),
    )  # fmt: skip
    return Plan(
        over=over, head=head.data if head is not None else None, documents=tuple(revisions), conflicts=conflicts,
        adopted=adopted,
    )  # fmt: skip


def _kept(text: bytes, known: Known | None, base: Known | None, merged: Merged) -> int:
    if known is None or base is None or base.rev >= known.rev:
        return 0
    return kept_lines(text, known.data, base.data, merged.data)


def _removed(head: Document | None, text: bytes, last: list[Known]) -> tuple[str, ...]:
    if head is None or head.data is None or agent_of(head.by) is None:
        return ()
    before = next((known.data for known in last if known.rev < head.rev), b"")
    return removed_lines(text, head.data, before)


def _ancestors(
    connection: sqlite3.Connection, agent: str, path: str, seen: Mark | None
) -> tuple[Document | None, Known | None, list[Known]]:
    head = documents.head(connection, agent, path)
    last = documents.last_revisions(connection, agent, path)
    known = None
    if seen is not None and seen.seen_hash is not None:
        text = texts.of_digest(connection, seen.seen_hash)
        at, by = next(((one.at, one.by) for one in last if one.rev == seen.seen_rev), (None, ""))
        known = None if text is None else Known(rev=seen.seen_rev, data=text, at=at, by=by)
    return head, known, last
