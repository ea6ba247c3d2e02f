"""Damage that nobody has met yet: looked for piece by piece, and raised to a person for as long as it lasts."""

from __future__ import annotations

import shlex
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

from swarmd.store import audit, healing, marks, row_checks, soundness, sums
from swarmd.store.connections import reading
from swarmd.store.raising import cure, raise_attention
from swarmd.store.soundness import BrokenText

KIND = "damage"
PAGES, ROWS, TEXTS = f"{KIND}:pages", f"{KIND}:rows", f"{KIND}:text"
"""The ids of what is raised; that of a text goes on with whose it is."""
NAMED = 3
"""As many faults as an item names; verify names more."""
RESTORE = (
    "stop the daemon, keep a copy of the state, and restore a backup into an empty one with swarmd --state DIR "
    "restore FILE"
)
_BROKEN = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_ERROR)
T = TypeVar("T")
Pause = Callable[[], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """What is to be raised."""

    text: str
    next_step: str
    agent: str | None = None


@dataclass(slots=True, kw_only=True)
class Found:
    """What a look has found: items by id, and the agents whose newest texts are lost, which may be healed."""

    items: dict[str, Item] = field(default_factory=dict)
    to_heal: set[str] = field(default_factory=set)
    texts_seen: bool = True
    """False: damaged pages were in the way, and what is known of texts stands."""


def look(connection: sqlite3.Connection, pause: Pause) -> Found:
    """Look at every page, row and text. `pause` is called often, and may raise to end it. Raises sqlite3.Error for
    what is no damage.
    """
    found = Found()
    pages: list[str] = []
    rows: list[str] = []
    broken: list[BrokenText] = []
    unread = _gather(_pages(connection, pause), pages) + _gather(_rows(connection, pause), rows)
    found.texts_seen = not (texts_unread := _gather(_texts(connection, pause), broken))
    unread += texts_unread
    if pages or unread:
        found.items[PAGES] = Item(
            text=f"the database is damaged: {_some([*pages, *unread])}", next_step=RESTORE
        )
    if rows:
        found.items[ROWS] = Item(
            text=f"rows are not as swarmd wrote them: {_some(rows)}",
            next_step="swarmd verify names them all; put back what was there, or restore a backup",
        )
    found.to_heal = {text.agent for text in broken if text.head and text.agent is not None}
    found.items.update(_old_texts([text for text in broken if not text.head]))
    return found


def _gather(step: Iterable[T], into: list[T]) -> list[str]:
    """Take what a step finds; the answer: why it came to no end, where damage was in its way."""
    try:
        into.extend(step)
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", None)  # none: a text that is no UTF-8
        if code is not None and code & 0xFF not in _BROKEN:
            raise
        return [str(error)]
    except (ValueError, LookupError, TypeError) as error:
        return [f"a row cannot be read: {error}"]
    return []


def _pages(connection: sqlite3.Connection, pause: Pause) -> Iterator[str]:
    """Table by table, so that no read lasts long."""
    for table in soundness.tables(connection):
        yield from soundness.integrity(connection, table)
        pause()


def _rows(connection: sqlite3.Connection, pause: Pause) -> Iterator[str]:
    with reading(connection):
        yield from row_checks.faults(connection, pause)
    with reading(connection):
        yield from audit.faults(connection, pause=pause)
    for table in sums.tables(connection):
        with reading(connection):
            yield from sums.faults(connection, table, pause)


def _texts(connection: sqlite3.Connection, pause: Pause) -> Iterator[BrokenText]:
    with reading(connection):
        yield from soundness.broken_texts(connection, pause)


def _some(faults: Sequence[str]) -> str:
    known = list(dict.fromkeys(faults))
    more = f"; and {len(known) - NAMED} more" if len(known) > NAMED else ""
    return "; ".join(known[:NAMED]) + more


def _old_texts(broken: Sequence[BrokenText]) -> dict[str, Item]:
    """An item a file: what is lost of its past stays lost, and is told once."""
    files: dict[str, list[BrokenText]] = {}
    for text in broken:
        name = text.hash[:12] if text.agent is None else f"{text.agent}:{text.path}"
        files.setdefault(f"{TEXTS}:{name}", []).append(text)
    return {
        id: Item(
            text=texts[0].told() + (f", and {len(texts) - 1} before it" if len(texts) > 1 else ""),
            next_step=f"sessions go on without it; a backup may have it: swarmd attention ack {shlex.quote(id)}",
            agent=texts[-1].agent,
        )
        for id, texts in files.items()
    }


def to_look_at_again(connection: sqlite3.Connection) -> set[str]:
    """The agents of whom a lost text was raised: perhaps it is cured."""
    return {id.split(":")[1] for id in marks.raised(connection, f"{healing.KIND}:")}


def is_told(connection: sqlite3.Connection, found: Found) -> bool:
    """Whether `tell` would change nothing."""
    return _known(connection, found) == {id: item.text for id, item in found.items.items()}


def tell(connection: sqlite3.Connection, found: Found, now: datetime) -> None:
    """Raise what was found, and cure what was not found again."""
    for id in _known(connection, found).keys() - found.items.keys():
        cure(connection, id)
    for id, item in found.items.items():
        raise_attention(connection, id=id, kind=KIND, agent=item.agent, text=item.text, next_step=item.next_step,
                        now=now)  # fmt: skip


def _known(connection: sqlite3.Connection, found: Found) -> Mapping[str, str]:
    known = marks.raised(connection, f"{KIND}:")
    if found.texts_seen:
        return known
    return {id: text for id, text in known.items() if not id.startswith(TEXTS)}
