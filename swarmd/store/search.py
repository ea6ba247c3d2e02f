"""Reading the search index: the newest texts that have all the words, within what the asker may see."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from swarmd.core.instants import to_text
from swarmd.core.searching import CLOSE, OPEN, Place, Query, indexed
from swarmd.store import search_due, texts
from swarmd.store.search_units import BY_MEMORY, KINDS, SECOND, first_number

CANDIDATES = 200
"""Of so many texts, the newest that fit, the best are chosen."""
SECONDS = 0.25
"""A search that has taken as long ends with what it has found, and says where it goes on."""
SCOPE_WORDS = 80
"""As many owners are asked for in the index itself; of more the rows are looked at one by one, and most are theirs."""
FEW_WORDS = 8
"""Of as few owners the rows are asked for at once: they lead to less than most words do."""
FEW = 100
"""Rows of a part that are looked at without asking whose they are first."""
_STEPS = 5000
_LAST_SECOND = 253402300799
"""Of the year 9999."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """Whose rows there are; several numbers may have one name."""

    id: int
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What the asker may see, by the owners' numbers: those whose memory, and those whose keys, handoffs and sessions.
    `hidden`: those whose sessions in quarantine.
    """

    memory: frozenset[int]
    rest: frozenset[int]
    hidden: frozenset[int] = frozenset()

    @property
    def words(self) -> list[str]:
        """As words of a scope."""
        return [
            f"{letter}{id}"
            for letter, ids in (("m", self.memory), ("k", self.rest), ("q", self.hidden))
            for id in sorted(ids)
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What is searched for. `seen` None: all, quarantine included. `kinds` None: of every kind."""

    query: Query
    seen: Seen | None = None
    kinds: Sequence[str] | None = None
    since: str | None = None
    until: str | None = None
    begin: Place | None = None
    """Where it goes on; None: it begins."""

    @property
    def highest(self) -> str | None:
        """The newest second that may have something."""
        return self.until if self.begin is None else self.begin.second


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A text that has all the words, with OPEN and CLOSE around them. `name` is that of the file, key, handoff or
    session.
    """

    kind: str
    owner: str
    other: str | None
    name: str
    version: str
    place: int
    at: str
    by: str
    marked: str
    hidden: bool


@dataclass(slots=True)
class Found:
    """The hits of one window, newest first; its own place, and that of the next; None: there is none."""

    hits: list[Hit] = field(default_factory=list)
    window: Place | None = None
    rest: Place | None = None


def owners(connection: sqlite3.Connection) -> list[Owner]:
    """Everybody who has rows in the index."""
    return [
        Owner(id=row["id"], name=row["name"]) for row in connection.execute("SELECT id, name FROM owners")
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Complete:
    """How far the index has everything, as it says itself."""

    until: str | None
    acts: str | None

    def stands(self, store: sqlite3.Connection) -> str | None:
        """The moment up to which it has everything; None: it is still being made, or what it has is not yet where it
        is now, as after a rename.
        """
        return None if search_due.moved_since(store, self.acts) else self.until


def complete_until(connection: sqlite3.Connection) -> Complete:
    """What the index says; to be asked before the search, and judged after it."""
    return Complete(until=search_due.get(connection, "complete"), acts=search_due.get(connection, "acts"))


def search(connection: sqlite3.Connection, wish: Wish) -> Found:
    """One window of the newest CANDIDATES that fit. What reaches up to where it begins is always looked through;
    older parts of the index while there is time, or as far as they were the first time.
    """
    if wish.seen is not None and not wish.seen.words:
        return Found()
    begin, deadline = wish.begin, time.monotonic() + SECONDS
    low = 0 if wish.since is None else first_number(wish.since)
    high = 2**62 if wish.highest is None else first_number(wish.highest) + SECOND - 1
    parts = connection.execute(
        "SELECT part, last, min(last, ?2) AS top FROM parts WHERE rows > 0 AND last >= ?1 AND first <= ?2 "
        "ORDER BY top DESC, part DESC",
        (low, high),
    ).fetchall()
    most = CANDIDATES + 1 + (0 if begin is None else begin.skip)
    known = begin.skip + begin.width if begin is not None and begin.width else most
    rows: list[sqlite3.Row] = []
    cut: int | None = None
    for part in parts:
        if len(rows) >= known and rows[known - 1]["id"] > part["last"]:
            # All that the window had the first time, when there was no time to look further.
            cut = part["top"] if known < most else None
            break
        # All parts of the first second are looked at, so that whoever goes on gets further each time.
        must = part["top"] // SECOND == parts[0]["top"] // SECOND or (begin is not None and begin.shown > 0)
        look = _Look(wish=wish, span=(low, high), most=most, deadline=None if must else deadline)
        more = _in_part(connection, part["part"], look)
        if more is None:
            cut = part["top"]
            break
        rows = sorted([*rows, *more], key=lambda row: int(row["id"]), reverse=True)[:most]
    return _window(rows, wish, cut)


def _window(rows: list[sqlite3.Row], wish: Wish, cut: int | None) -> Found:
    """The window, of the newest rows from its second on. `cut`: the number from which on there was no time to look."""
    begin = wish.begin
    if cut is not None:
        rows = [row for row in rows if row["id"] > cut]
    skip, width = (0, 0) if begin is None else (begin.skip, begin.width)
    end = min(skip + (width or CANDIDATES), len(rows))
    left = rows[end]["id"] if end < len(rows) else cut
    if not rows[skip:end]:
        return Found(rest=_rest(rows, wish, left))
    own = Place(
        second=_second(rows[0]["id"]) if begin is None else begin.second, skip=skip,
        width=width if cut is None else end - skip, until=wish.until,
    )  # fmt: skip
    return Found(hits=_hits(rows[skip:end], wish), window=own, rest=_rest(rows[:end], wish, left))


def _rest(before: Sequence[sqlite3.Row], wish: Wish, left: int | None) -> Place | None:
    """Where the window begins that has the row `left`, behind those `before` it; None: there is none."""
    if left is None:
        return None
    skip = sum(row["id"] // SECOND == left // SECOND for row in before)
    return Place(second=_second(left), skip=skip, until=wish.until)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """What is looked for in a part: numbers within `span`, `most` rows, before the deadline where there is one."""

    wish: Wish
    span: tuple[int, int]
    most: int
    deadline: float | None


def _in_part(connection: sqlite3.Connection, part: int, look: _Look) -> list[sqlite3.Row] | None:
    """The newest of one part, one more than are wanted; None where the time was over."""
    deadline = look.deadline
    if deadline is not None:
        if time.monotonic() > deadline:
            return None
        connection.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS)
    try:
        return _newest(connection, part, look)
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
            raise
        return None
    finally:
        connection.set_progress_handler(None, 0)


def _newest(connection: sqlite3.Connection, part: int, look: _Look) -> list[sqlite3.Row]:
    wish = look.wish
    if wish.seen is None:
        return _rows(connection, part, _expression(wish), look)
    alone, words = _expression(wish), wish.seen.words
    scoped = f"{alone} AND {{scope}} : ({' OR '.join(words)})"
    if len(words) <= FEW_WORDS:
        return _rows(connection, part, scoped, look)
    # First whether there is anything at all: what has a rare word costs nothing to look at, and to ask for many owners
    # costs much.
    few = connection.execute(
        f"SELECT rowid FROM part_{part} WHERE part_{part} MATCH ? AND rowid BETWEEN ? AND ? "
        "ORDER BY rowid DESC LIMIT ?",
        (_expression(wish, apart=True), *look.span, FEW + 1),
    ).fetchall()
    if not few:
        return []
    if len(few) <= FEW:
        return [row for row in _rows(connection, part, alone, look) if _is_seen(row, wish.seen)]
    if len(words) <= SCOPE_WORDS:
        return _rows(connection, part, scoped, look)
    return _rows(connection, part, alone, look, wish.seen)


def _rows(
    connection: sqlite3.Connection,
    part: int,
    expression: str,
    look: _Look,
    seen: Seen | None = None,
) -> list[sqlite3.Row]:
    condition, values = _condition(seen)
    # The order of the joins is ours to say: the words lead to few rows.
    return connection.execute(
        "SELECT u.id, u.kind, u.place, u.at, u.by, u.scope, u.owner AS owner_id, u.other AS other_id, s.name, "
        "s.version, o.name AS owner, p.name AS other, "
        f"highlight(part_{part}, 1, ?, ?) AS marked FROM part_{part} CROSS JOIN units u ON u.id = part_{part}.rowid "
        "CROSS JOIN sources s ON s.id = u.source CROSS JOIN owners o ON o.id = u.owner "
        f"LEFT JOIN owners p ON p.id = u.other WHERE part_{part} MATCH ? AND part_{part}.rowid BETWEEN ? AND ?"
        f"{condition} ORDER BY part_{part}.rowid DESC LIMIT ?",
        (OPEN, CLOSE, expression, *look.span, *values, look.most),
    ).fetchall()


def _expression(wish: Wish, *, apart: bool = False) -> str:
    """The query in the index's language. All that was typed stands in it as quoted strings. `apart`: words of phrases
    may stand anywhere.
    """
    text = f"{{text}} : ({wish.query.apart if apart else wish.query.expression})"
    if wish.kinds is None:
        return text
    return f"{text} AND {{scope}} : ({' OR '.join(f'z{KINDS[kind]}' for kind in wish.kinds)})"


def _condition(seen: Seen | None) -> tuple[str, list[str]]:
    """What `_is_seen` says, as SQL."""
    if seen is None:
        return "", []
    each = "IN (SELECT value FROM json_each(?))"
    by_memory = ", ".join(repr(kind) for kind in BY_MEMORY)
    sql = (
        f" AND CASE WHEN u.scope LIKE 'q%' THEN u.owner {each} WHEN u.kind IN ({by_memory}) THEN u.owner {each} "
        f"ELSE u.owner {each} OR u.other {each} END"
    )
    hidden, memory, rest = (json.dumps(sorted(ids)) for ids in (seen.hidden, seen.memory, seen.rest))
    return sql, [hidden, memory, rest, rest]


def _is_seen(row: sqlite3.Row, seen: Seen) -> bool:
    """Whether a row is one of those."""
    if row["scope"].startswith("q"):
        return row["owner_id"] in seen.hidden
    if row["kind"] in BY_MEMORY:
        return row["owner_id"] in seen.memory
    return row["owner_id"] in seen.rest or row["other_id"] in seen.rest


def _hits(rows: Sequence[sqlite3.Row], wish: Wish) -> list[Hit]:
    return [
        Hit(kind=row["kind"], owner=row["owner"], other=row["other"], name=row["name"], version=row["version"],
            place=row["place"], at=row["at"], by=row["by"], marked=row["marked"], hidden=row["scope"].startswith("q"))
        for row in rows
        if (wish.since is None or row["at"] >= wish.since) and (wish.until is None or row["at"] < wish.until)
    ]  # fmt: skip


def _second(number: int) -> str:
    return to_text(datetime.fromtimestamp(min(number // SECOND, _LAST_SECOND), UTC))


# -- what has become of it -----------------------------------------------------------------------------------


def session_of(store: sqlite3.Connection, hit: Hit) -> sqlite3.Row | None:
    """Whose session it was and what about, in the store as it is now; None where it is gone."""
    found: sqlite3.Row | None = store.execute(
        "SELECT id, agent, subject, quarantined FROM sessions WHERE id = ?", (int(hit.name),)
    ).fetchone()
    return found


def is_current(store: sqlite3.Connection, hit: Hit) -> bool:
    """Whether a memory file still says what was found, or the key has that very value: the index may lag behind."""
    if hit.kind == "key":
        row = store.execute(
            "SELECT version FROM keys WHERE agent = ? AND key = ? AND value IS NOT NULL",
            (hit.owner, hit.name),
        ).fetchone()
        return row is not None and str(row["version"]) == hit.version
    row = store.execute(
        "SELECT h.rev, h.hash FROM heads h WHERE h.agent = ? AND h.path = ? AND h.hash IS NOT NULL",
        (hit.owner, hit.name),
    ).fetchone()
    if row is None or str(row["rev"]) == hit.version:
        return row is not None
    data = texts.of_digest(store, row["hash"])
    return data is not None and holds(data, hit)


def holds(data: bytes, hit: Hit) -> bool:
    """Whether the text of a file has what was found, as the index has it."""
    lines = indexed(data.decode("utf-8", "replace")).splitlines()
    return hit.marked.replace(OPEN, "").replace(CLOSE, "") in "\n".join(lines)
