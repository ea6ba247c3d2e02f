"""What tables hold, as sums that the writing connection keeps: a change made by anything else shows.

Triggers of that connection alone (TEMP ones: no other program has them) count every row in that comes, and out that
goes, in the transaction which does that. A sum is of the rows' digests, so that it costs a few bytes whatever a table
holds. It stops nobody who makes the sums anew; it tells of edits by hand and of lost rows.
"""

from __future__ import annotations

import hashlib
import sqlite3
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

AUDIT = "audit"
"""Its row in `sums` is the chain's head, which audit.write keeps: the chain has the rest."""
OTHERWISE: Mapping[str, frozenset[str] | None] = {
    AUDIT: None,
    "keys": None,  # each is the newest row of key_history: see row_checks
    "heads": None,  # likewise of revisions
    "blobs": None,  # each has its digest, and healing puts back what was lost: see soundness
}
"""Tables (None: all of it) and columns that have no sum, because verify compares them with something else."""
UNTOLD: Mapping[str, frozenset[str] | None] = {
    "agents": frozenset(
        {"handled_until"}
    ),  # written at each slot of each agent; a slot that is missed has its row
    "_sqlite_migrations": None,  # sqlite-utils writes it; verify looks only for names that it does not know
    "sqlite_sequence": None,  # SQLite's own, which takes no triggers
}
"""Tables (None: all of it) and columns whose change by hand verify cannot tell (docs/design.md names them)."""
WHEN: Mapping[str, str] = {
    # A session is written three times, with all that it was shown: once is enough, when it has ended.
    "sessions": "{0}state = 'ended'",
    # A slot gets its session right after its row, in the same transaction.
    "slots": "({0}session IS NOT NULL OR {0}decision NOT IN ('started', 'deferred'))",
}
"""Which rows of a table are counted; without an entry all are."""

_SUMS = "sums"
_PRIME = 2**61 - 1
_PAIR, _LONG = struct.Struct(">QQ"), struct.Struct(">Q")
_NAME_CHARACTERS = 200
_TRIGGERS = (
    ("INSERT", "NEW", "rows + 1", "swarmd_in"),
    ("DELETE", "OLD", "rows - 1", "swarmd_out"),
    ("UPDATE", "OLD", "rows - 1", "swarmd_out"),
    ("UPDATE", "NEW", "rows + 1", "swarmd_in"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Table:
    name: str
    key: tuple[str, ...]
    columns: tuple[str, ...]
    """All that are counted, the key's first."""

    def when(self, row: str = "") -> str:
        return WHEN.get(self.name, "1").format(row)


def keep(connection: sqlite3.Connection) -> None:
    """From here on whatever this connection writes is counted."""
    # Without it the row that REPLACE pushes out would go unseen.
    connection.execute("PRAGMA recursive_triggers = ON")
    connection.execute("PRAGMA temp_store = MEMORY")
    connection.create_function("swarmd_in", -1, _counted(1), deterministic=True)
    connection.create_function("swarmd_out", -1, _counted(-1), deterministic=True)
    counted = kept(connection)
    for table in _tables(connection):
        if table.name not in counted:
            continue  # somebody else's, or one whose sum was lost: verify tells both
        for event, row, rows, function in _TRIGGERS:
            of = f" OF {', '.join(table.columns)}" if event == "UPDATE" else ""
            cells = ", ".join(f"{row}.{column}" for column in table.columns)
            connection.execute(
                f'CREATE TEMP TRIGGER sum_{table.name}_{event}_{row} AFTER {event}{of} ON main."{table.name}" '
                f"WHEN {table.when(f'{row}.')} BEGIN UPDATE {_SUMS} SET rows = {rows}, "
                f"sum = {function}(sum, {len(table.key)}, {cells}) WHERE name = '{table.name}'; END"
            )


def _counted(sign: int) -> Callable[..., bytes]:
    """The function that the triggers call, in one piece: it is called for each row that is written."""

    def counted(data: bytes, keys: int, *cells: object) -> bytes:
        try:
            plain, placed = _PAIR.unpack(data)
        except (struct.error, TypeError):
            return data  # somebody has spoilt it, as verify tells; what is written is written all the same
        row = sign * _row(cells)
        return _PAIR.pack((plain + row) % _PRIME, (placed + row * _place(cells[:keys])) % _PRIME)

    return counted


def _row(cells: Sequence[object]) -> int:
    """A row's digest. ascii() of such values is the same in every Python, and tells 1 from '1' and from x'31'."""
    return int(_LONG.unpack_from(hashlib.sha256(ascii(cells).encode()).digest())[0])


def _place(key: Sequence[object]) -> int:
    """A row's place: a second sum, of digests times places, is what a single wrong row can be found by."""
    return 1 + zlib.crc32(ascii(key).encode())


def take(connection: sqlite3.Connection) -> None:
    """Count all rows as they are: at the end of a migration, in its transaction, which no trigger has counted."""
    for table in _tables(connection):
        rows, sum_ = _sum(connection, table)
        connection.execute(
            f"INSERT OR REPLACE INTO {_SUMS} (name, rows, sum) VALUES (?,?,?)", (table.name, rows, sum_)
        )


def kept(connection: sqlite3.Connection) -> dict[str, sqlite3.Row]:
    """The sums as they were kept, by table; none where their own table is gone, as row_checks says."""
    sql = "SELECT 1 FROM main.sqlite_schema WHERE type = 'table' AND name = ?"
    if connection.execute(sql, (_SUMS,)).fetchone() is None:
        return {}
    return {row["name"]: row for row in connection.execute(f"SELECT name, rows, sum FROM {_SUMS}")}


def tables(connection: sqlite3.Connection) -> list[str]:
    """The tables that have a sum."""
    return [table.name for table in _tables(connection)]


def faults(
    connection: sqlite3.Connection, only: str | None = None, pause: Callable[[], None] = lambda: None
) -> Iterator[str]:
    """Tables (or one) that hold something else than was written, a sentence each. Call it in one read transaction;
    `pause` is called after each row.
    """
    known = kept(connection)
    for table in _tables(connection):
        if only not in (None, table.name):
            continue
        row = known.get(table.name)
        if row is None or not _is_sum(row["sum"]):
            yield f"the sum of the table {table.name} is gone"
            continue
        rows, sum_ = _sum(connection, table, pause)
        if (rows, sum_) != (row["rows"], row["sum"]):
            yield _fault(connection, table, rows - row["rows"], _difference(sum_, row["sum"]))


def _is_sum(data: object) -> bool:
    return isinstance(data, bytes) and len(data) == _PAIR.size


def _difference(one: bytes, other: bytes) -> tuple[int, int]:
    (plain, placed), (less, placed_less) = _PAIR.unpack(one), _PAIR.unpack(other)
    return (plain - less) % _PRIME, (placed - placed_less) % _PRIME


def _fault(connection: sqlite3.Connection, table: _Table, more: int, difference: tuple[int, int]) -> str:
    """What can be told of the difference: where it is of one row, which that is."""
    if more < 0:
        return f"the table {table.name} lacks {-more} of the rows that swarmd wrote"
    name = _culprit(connection, table, *difference)
    if more > 0:
        which = f"{more} of its rows were" if name is None else f"the row {name} was"
        return f"the table {table.name} holds what swarmd did not write: {which} put in by something else"
    which = "rows were" if name is None else f"the row {name} was"
    return f"the table {table.name} is not what swarmd wrote: {which} changed by something else"


def _culprit(connection: sqlite3.Connection, table: _Table, plain: int, placed: int) -> str | None:
    """The key of the one row that makes the difference; None: several do."""
    if not plain:
        return None
    place = placed * pow(plain, -1, _PRIME) % _PRIME
    for row in connection.execute(f'SELECT {", ".join(table.key)} FROM main."{table.name}"'):
        if _place(tuple(row)) == place:
            return "/".join(map(str, row))[:_NAME_CHARACTERS]
    return None


def _sum(
    connection: sqlite3.Connection, table: _Table, pause: Callable[[], None] = lambda: None
) -> tuple[int, bytes]:
    rows, plain, placed, keys = 0, 0, 0, len(table.key)
    columns = ", ".join(table.columns)
    for row in connection.execute(f'SELECT {columns} FROM main."{table.name}" WHERE {table.when()}'):
        cells = tuple(row)
        digest = _row(cells)
        rows, plain = rows + 1, (plain + digest) % _PRIME
        placed = (placed + digest * _place(cells[:keys])) % _PRIME
        pause()
    return rows, _PAIR.pack(plain, placed)


def _tables(connection: sqlite3.Connection) -> list[_Table]:
    """The tables that have sums, with the columns that they have now, which need not be those that they should."""
    columns: dict[str, list[tuple[int, str]]] = {}
    for name, column, key in connection.execute(
        "SELECT m.name, c.name, c.pk FROM main.sqlite_schema m JOIN pragma_table_info(m.name) c "
        "WHERE m.type = 'table' ORDER BY m.name, c.cid"
    ):
        columns.setdefault(name, [])
        left_out = [which[name] for which in (OTHERWISE, UNTOLD) if name in which]
        if None not in left_out and not any(column in which for which in left_out if which is not None):
            columns[name].append((key, f'"{column}"'))
    if columns.pop(_SUMS, None) is None:
        return []  # a store of before they were kept, or one that has lost them, as row_checks says
    return [_table(name, found) for name, found in columns.items() if found and name.isidentifier()]


def _table(name: str, columns: Sequence[tuple[int, str]]) -> _Table:
    """One without a key has all its columns as its key."""
    key = tuple(column for number, column in sorted(columns) if number)
    rest = tuple(column for number, column in columns if not number)
    return _Table(name=name, key=key or rest, columns=(*key, *rest))
