"""The bytes of memory texts, by digest: the one place that knows how they lie in the table `blobs`.

A text of some size that another revision has followed is kept as its difference from that one: a mebibyte that grows by
a line a session would else be kept whole a thousand times. The text in force is whole, and of older ones every 64th, so
that no text hangs on many others. What is told by others counts only where it has its digest.
"""

from __future__ import annotations

import sqlite3
from collections import OrderedDict
from collections.abc import Collection, Iterator

from swarmd.core.deltas import told, told_by
from swarmd.core.digests import digest

PACKED_FROM = 4096
"""Shorter texts stay whole: they cost little."""
WHOLE_EVERY = 64
REMEMBERED = 4


def put(connection: sqlite3.Connection, hash_: str, data: bytes) -> None:
    """Keep a text whole, whatever is kept under its digest."""
    connection.execute(
        "INSERT INTO blobs (hash, data) VALUES (?, ?) ON CONFLICT (hash) DO UPDATE SET data = excluded.data, "
        "base = NULL WHERE base IS NOT NULL OR data IS NOT excluded.data",
        (hash_, data),
    )


def pack(connection: sqlite3.Connection, hash_: str, by: str, base: bytes) -> None:
    """Keep a text as its difference from the one of digest `by`, which is whole and has the bytes `base`, if that is
    worth it.
    """
    row = connection.execute(
        "SELECT data FROM blobs WHERE hash = ? AND base IS NULL AND typeof(data) = 'blob' AND length(data) >= ?",
        (hash_, PACKED_FROM),
    ).fetchone()
    difference = None if row is None or hash_ == by else told_by(row[0], base)
    if difference is not None and told(difference, base) == row[0]:
        connection.execute("UPDATE blobs SET data = ?, base = ? WHERE hash = ?", (difference, by, hash_))


def of_digest(connection: sqlite3.Connection, hash_: str | None) -> bytes | None:
    """The text of that digest; None where it is gone. What was kept whole is not looked at: rows.is_text does that."""
    return Texts(connection).of_digest(hash_)


def start_of(connection: sqlite3.Connection, hash_: str, size: int) -> bytes:
    """The first bytes of a text, for a listing; nothing where it is gone."""
    # What SQLite cuts out of an empty blob is NULL.
    row = connection.execute(
        "SELECT substr(data, 1, ?) FROM blobs WHERE hash = ? AND base IS NULL AND typeof(data) = 'blob'",
        (size, hash_),
    ).fetchone()
    return bytes(row[0] or b"") if row is not None else (of_digest(connection, hash_) or b"")[:size]


def of_revision(connection: sqlite3.Connection, agent: str, path: str, rev: int) -> bytes | None:
    """The text of a revision; None for one that never was, for a deletion, and where it is gone."""
    row = connection.execute(
        "SELECT hash FROM revisions WHERE agent = ? AND path = ? AND rev = ?", (agent, path, rev)
    ).fetchone()
    return None if row is None else of_digest(connection, row[0])


class Texts:
    """Many texts, one after another: of a file's revisions the newest first, each costs one step."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._kept: OrderedDict[str, bytes] = OrderedDict()

    def of_digest(self, hash_: str | None) -> bytes | None:
        """As the function of this name."""
        differences: list[bytes] = []
        at = hash_
        while (text := self._kept.get(at or "")) is None:
            row = self._connection.execute(
                "SELECT data, base FROM blobs WHERE hash = ? AND typeof(data) = 'blob'", (at,)
            ).fetchone()
            if row is None:
                return None
            if row[1] is None:
                text = bytes(row[0])
                break
            differences.append(row[0])
            at = row[1]
        for difference in reversed(differences):
            text = told(difference, text)
            if text is None:
                return None
        if differences and digest(text) != hash_:
            return None
        if hash_ is not None:
            self._kept[hash_] = text
            if len(self._kept) > REMEMBERED:
                self._kept.popitem(last=False)
        return text


def forget(connection: sqlite3.Connection, hashes: Collection[str]) -> None:
    """Remove these texts; others that are told by them are made whole first."""
    for hash_ in hashes:
        for other in list(_hanging_on(connection, hash_)):
            text = None if other in hashes else of_digest(connection, other)
            if text is not None:
                put(connection, other, text)
    connection.executemany("DELETE FROM blobs WHERE hash = ?", [(hash_,) for hash_ in hashes])


def _hanging_on(connection: sqlite3.Connection, hash_: str) -> Iterator[str]:
    """The texts that are kept as differences from this one."""
    return (row[0] for row in connection.execute("SELECT hash FROM blobs WHERE base = ?", (hash_,)))
