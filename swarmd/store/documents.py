"""Memory documents as rows: revisions, heads and conflicts. Every function runs inside a transaction of the caller's.

A revision is never changed. Writing one also marks its file as to be published; the folder protocol (`memory`) does
that after the commit, and a commit never waits for it.
"""

from __future__ import annotations

import contextlib
import re
import sqlite3
from collections.abc import Iterator

from swarmd.core.ancestry import Known
from swarmd.core.digests import digest
from swarmd.core.instants import from_text, to_text
from swarmd.core.memory import is_archive
from swarmd.core.staging import Conflict, MemoryWritten
from swarmd.core.world import Document
from swarmd.store import kept, marks, texts
from swarmd.store.rows import DamagedText, document_of

BASES, BASES_BYTES, LEAST_BASES = 100, 8 * 1024 * 1024, 8
"""How many of the last revisions a person's text may have been made from: as many as have so many bytes together, and
never fewer than the last number. An editor may be open for hours, and a session save each minute.
"""
_HEADS = """
SELECT h.agent, h.path, h.rev, h.hash, r.at, r.by FROM heads h
JOIN revisions r ON r.agent = h.agent AND r.path = h.path AND r.rev = h.rev WHERE h.agent = ?"""

_SESSION = re.compile(r"[^#:]+#(\d+)", re.ASCII)


def head(connection: sqlite3.Connection, agent: str, path: str) -> Document | None:
    """The newest revision of the file, also a deletion; None if it never was. A damaged text counts as none: what a
    person saves takes its place.
    """
    row = connection.execute(f"{_HEADS} AND h.path = ?", (agent, path)).fetchone()
    if row is None:
        return None
    with contextlib.suppress(DamagedText):
        return document_of(connection, row)
    return Document(agent=agent, path=path, rev=row["rev"], data=None, at=from_text(row["at"]), by=row["by"])


def heads(connection: sqlite3.Connection, agent: str) -> list[Document]:
    """The newest revisions of the agent's files that exist, what is archived left out. Raises DamagedText."""
    rows = connection.execute(f"{_HEADS} AND h.hash IS NOT NULL ORDER BY h.path", (agent,))
    return [document_of(connection, row) for row in rows if not is_archive(row["path"])]


def revision(connection: sqlite3.Connection, agent: str, path: str, rev: int) -> bytes | None:
    """The bytes of a revision; None for revision 0, a deletion, or one that retention removed."""
    return texts.of_revision(connection, agent, path, rev)


def write_revision(
    connection: sqlite3.Connection,
    effect: MemoryWritten,
    session: int | None,
    how: str = "write",
    by: str = "",
) -> None:
    """Write what a verdict decided, and mark the file as to be published. `by`: whose conflicts are (else the
    document's).

    An effect whose data is the head's stores its conflicts only. `effect.parent` must be the head's revision, which
    holds where the verdict was reached in this transaction.
    """
    document = effect.document
    row = connection.execute(
        "SELECT rev, hash FROM heads WHERE agent = ? AND path = ?", (document.agent, document.path)
    ).fetchone()
    rev, hash_ = (row[0], row[1]) if row is not None else (0, None)
    if rev != effect.parent:
        raise ValueError(f"{document.path}: the head is revision {rev}, not {effect.parent}: judge it again")
    new = None if document.data is None else digest(document.data)
    if row is None or new != hash_:
        add_revision(connection, document, effect.parent, "merge" if effect.merged else how)
        marks.to_publish(connection, document.agent, document.path, document.rev)
    kept.look(connection, document)
    for conflict in effect.conflicts:
        add_conflict(connection, document, conflict, session, by)


def add_revision(connection: sqlite3.Connection, document: Document, parent: int, how: str) -> None:
    """Add the revision and make it the head. Whoever calls marks what is to become of the file."""
    data = document.data
    hash_ = None
    if data is not None:
        hash_ = digest(data)
        texts.put(connection, hash_, data)
        before = connection.execute(
            "SELECT hash FROM heads WHERE agent = ? AND path = ? AND hash IS NOT NULL AND rev % ? != 0",
            (document.agent, document.path, texts.WHOLE_EVERY),
        ).fetchone()
        if before is not None:
            texts.pack(connection, before[0], hash_, data)
    connection.execute(
        "INSERT INTO revisions (agent, path, rev, parent, hash, size, at, by, how) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (document.agent, document.path, document.rev, parent, hash_, len(data or b""), to_text(document.at),
         document.by, how),
    )  # fmt: skip
    connection.execute(
        "INSERT INTO heads (agent, path, rev, hash) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (agent, path) DO UPDATE SET rev = excluded.rev, hash = excluded.hash",
        (document.agent, document.path, document.rev, hash_),
    )


def add_conflict(
    connection: sqlite3.Connection, document: Document, conflict: Conflict, session: int | None, by: str = ""
) -> None:
    """Keep lines that were set aside beside that revision, by this session, which wrote them where the conflict names
    nobody else. The same lines, still open, are kept once.
    """
    # Where nothing but conflicts came of it the document is the head, which is somebody else's.
    by = conflict.by or by or document.by
    session = session if conflict.by is None else session_of(conflict.by)
    values = (document.agent, conflict.path, conflict.ours, conflict.theirs, by)
    known = connection.execute(
        "SELECT 1 FROM conflicts WHERE resolved IS NULL AND agent = ? AND path = ? AND ours = ? AND theirs = ?"
        " AND by = ?",
        values,
    ).fetchone()
    if known is None:
        connection.execute(
            "INSERT INTO conflicts (agent, path, ours, theirs, by, line, session, at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (*values, conflict.line, session, to_text(document.at)),
        )


def session_of(by: str) -> int | None:
    """The session that a `by` names: `AGENT#SESSION`."""
    found = _SESSION.fullmatch(by)
    return int(found[1]) if found else None


def last_revisions(connection: sqlite3.Connection, agent: str, path: str) -> list[Known]:
    """The last revisions that hold a text, newest first, from which a person's text may have been made."""
    found: list[Known] = []
    size = 0
    for rev, at, by, data in _newest_first(connection, agent, path):
        size += len(data or b"")
        if len(found) >= BASES or (size > BASES_BYTES and len(found) >= LEAST_BASES):
            break
        if data is not None:
            found.append(Known(rev=rev, data=data, at=from_text(at), by=by))
    return found


def is_start_of_a_revision(connection: sqlite3.Connection, agent: str, path: str, data: bytes) -> bool:
    """Whether a revision of the file is this text or starts with it."""
    return any(
        text is not None and text.startswith(data) for *_, text in _newest_first(connection, agent, path)
    )


def _newest_first(
    connection: sqlite3.Connection, agent: str, path: str
) -> Iterator[tuple[int, str, str, bytes | None]]:
    read = texts.Texts(connection)
    rows = connection.execute(
        "SELECT rev, at, by, hash FROM revisions WHERE agent = ? AND path = ? AND hash IS NOT NULL ORDER BY rev DESC",
        (agent, path),
    )
    return ((row[0], row[1], row[2], read.of_digest(row[3])) for row in rows)
