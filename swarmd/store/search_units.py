"""The rows of the search index: put in, replaced and taken out source by source, a transaction for many of them.

A row's number begins with its second, so that the index gives the newest first and a span of time is a span of
numbers. Its `scope` is a word for whoever may see it (core.authority decides who that is, at each search).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from swarmd.core.acts import SEARCH_KINDS
from swarmd.core.instants import from_text
from swarmd.core.searching import indexed
from swarmd.store.search_file import PART_ROWS, add_part, drop_part

SECOND = 1 << 16
"""Numbers of rows that one second has; more of them spill into the next."""
BATCH_ROWS = 2000
KINDS = {kind: kind[0] for kind in SEARCH_KINDS}
"""What is searched, and the letter that each kind has in a scope."""
BY_MEMORY = ("memory", "archive")
"""The kinds that are seen by who may read the owner's memory; the others by who may read its keys and sessions."""


def first_number(at: str) -> int:
    """The lowest number of a row of that second."""
    return int(from_text(at).timestamp()) * SECOND


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """A piece of a source. `owner` is whose it is, `other` a second party; `place` a line, a number of an entry or of
    an event.
    """

    kind: str
    owner: str
    place: int
    at: str
    by: str
    text: str
    other: str | None = None
    hidden: bool = False
    """Of a session in quarantine: for operators alone."""


@dataclass(slots=True)
class Units:
    """Writes rows through one connection; what was put in is in the index after `flush`, and stays after a COMMIT."""

    connection: sqlite3.Connection
    _owners: dict[str, int] = field(default_factory=dict)
    _next: dict[int, int] = field(default_factory=dict)
    _waiting: list[tuple[int, int, Unit, int, int | None, str]] = field(default_factory=list)

    @property
    def is_full(self) -> bool:
        """Whether enough waits for a transaction of its own."""
        return len(self._waiting) >= BATCH_ROWS

    def source(self, kind: str, owner: str, name: str) -> int:
        """The number of a source, which is there afterwards."""
        self.connection.execute(
            "INSERT OR IGNORE INTO sources (kind, owner, name, version) VALUES (?, ?, ?, '')",
            (kind, owner, name),
        )
        row = self.connection.execute(
            "SELECT id FROM sources WHERE kind = ? AND owner = ? AND name = ?", (kind, owner, name)
        ).fetchone()
        return int(row["id"])

    def settle(self, source: int, version: str) -> None:
        """The source is indexed as it is in this version."""
        self.connection.execute("UPDATE sources SET version = ? WHERE id = ?", (version, source))

    def replace(self, source: int, units: Iterable[Unit]) -> None:
        """Make these the source's rows. One that has the same text and scope stays, with the moment it has: it is no
        newer than it was.
        """
        known: dict[tuple[str, str], list[sqlite3.Row]] = {}
        for row in self._rows(source):
            known.setdefault((row["scope"], row["text"]), []).append(row)
        for unit in units:
            owner, other, scope = self._scope(unit)
            text = indexed(unit.text)
            same = known.get((scope, text))
            if same:
                row = same.pop()
                if row["place"] != unit.place:
                    self.connection.execute(
                        "UPDATE units SET place = ? WHERE id = ?", (unit.place, row["id"])
                    )
                continue
            self._waiting.append((self._number(unit.at), source, unit, owner, other, scope))
        self._take_out([row for rows in known.values() for row in rows])

    def remove(self, source: int) -> None:
        """Take the source out, with its rows."""
        self.flush()
        self._take_out(self._rows(source))
        self.connection.execute("DELETE FROM sources WHERE id = ?", (source,))

    def forget(self, kind: str, owner: str, name: str) -> None:
        """Take the source out if it is there."""
        row = self.connection.execute(
            "SELECT id FROM sources WHERE kind = ? AND owner = ? AND name = ?", (kind, owner, name)
        ).fetchone()
        if row is not None:
            self.remove(row["id"])

    def flush(self) -> None:
        """Put in what waits, in the order of its numbers: the index would write a piece of its own for each step
        back.
        """
        rows = sorted(self._waiting, key=lambda row: row[0])
        self._waiting.clear()
        while rows:
            part, room = self._open_part(rows[0][0])
            self._put_in(part, rows[:room])
            rows = rows[room:]

    def _put_in(self, part: int, rows: Sequence[tuple[int, int, Unit, int, int | None, str]]) -> None:
        execute = self.connection.executemany
        texts = [indexed(unit.text) for _, _, unit, _, _, _ in rows]
        execute(
            "INSERT INTO units (id, part, source, kind, owner, other, place, at, by, scope, text) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [
                (id, part, source, unit.kind, owner, other, unit.place, unit.at, unit.by, scope, text)
                for (id, source, unit, owner, other, scope), text in zip(rows, texts, strict=True)
            ],
        )
        execute(
            f"INSERT INTO part_{part} (rowid, scope, text) VALUES (?, ?, ?)",
            [(row[0], row[5], text) for row, text in zip(rows, texts, strict=True)],
        )
        self.connection.execute(
            "UPDATE parts SET rows = rows + ?, first = min(first, ?), last = max(last, ?) WHERE part = ?",
            (len(rows), rows[0][0], rows[-1][0], part),
        )

    def _open_part(self, first: int) -> tuple[int, int]:
        """The newest part, and how many rows it has room for."""
        row = self.connection.execute("SELECT part, rows FROM parts ORDER BY part DESC LIMIT 1").fetchone()
        if row is not None and row["rows"] < PART_ROWS:
            return row["part"], PART_ROWS - row["rows"]
        part = 0 if row is None else row["part"] + 1
        add_part(self.connection, part, first)
        return part, PART_ROWS

    def _rows(self, source: int) -> list[sqlite3.Row]:
        return self.connection.execute(
            "SELECT id, part, place, scope, text FROM units WHERE source = ?", (source,)
        ).fetchall()

    def _take_out(self, rows: Sequence[sqlite3.Row]) -> None:
        for part in {row["part"] for row in rows}:
            gone = [row for row in rows if row["part"] == part]
            # The index must be told what stood there.
            self.connection.executemany(
                f"INSERT INTO part_{part} (part_{part}, rowid, scope, text) VALUES ('delete', ?, ?, ?)",
                [
                    (row["id"], row["scope"], row["text"])
                    for row in sorted(gone, key=lambda row: int(row["id"]))
                ],
            )
            self.connection.executemany("DELETE FROM units WHERE id = ?", [(row["id"],) for row in gone])
            self.connection.execute("UPDATE parts SET rows = rows - ? WHERE part = ?", (len(gone), part))
            left = self.connection.execute(
                "SELECT rows, part = (SELECT max(part) FROM parts) FROM parts WHERE part = ?", (part,)
            ).fetchone()
            if left[0] <= 0 and not left[1]:
                drop_part(self.connection, part)

    def _scope(self, unit: Unit) -> tuple[int, int | None, str]:
        owner, other = self._owner(unit.owner), None if unit.other is None else self._owner(unit.other)
        who = "q" if unit.hidden else "m" if unit.kind in BY_MEMORY else "k"
        words = [f"{who}{owner}", *([] if other is None else [f"{who}{other}"]), f"z{KINDS[unit.kind]}"]
        return owner, other, " ".join(words)

    def _owner(self, name: str) -> int:
        known = self._owners.get(name)
        if known is None:
            row = self.connection.execute(
                "SELECT id FROM owners WHERE name = ? ORDER BY id LIMIT 1", (name,)
            ).fetchone()
            if row is None:
                cursor = self.connection.execute("INSERT INTO owners (name) VALUES (?)", (name,))
                known = int(cursor.lastrowid or 0)
            else:
                known = int(row["id"])
            self._owners[name] = known
        return known

    def _number(self, at: str) -> int:
        """A number that no row has."""
        second = first_number(at) // SECOND
        while True:
            free = self._next.get(second)
            if free is None:
                row = self.connection.execute(
                    "SELECT max(id) FROM units WHERE id >= ? AND id < ?",
                    (second * SECOND, (second + 1) * SECOND),
                ).fetchone()
                free = second * SECOND if row[0] is None else row[0] + 1
            if free < (second + 1) * SECOND:
                self._next[second] = free + 1
                return free
            self._next[second] = free
            second += 1

    def rename(self, old: str, new: str) -> None:
        """What was `old`'s is `new`'s: agent, or owner of a folder."""
        self.flush()
        self._owners.clear()
        self.connection.execute("UPDATE owners SET name = ? WHERE name = ?", (new, old))
        self.connection.execute("UPDATE OR REPLACE sources SET owner = ? WHERE owner = ?", (new, old))
