"""From which revision a person's text was made: an editor may have loaded an older one than the file had last.

Merged from the wrong base, a stale text would take back what was written since, without a word. Read too eagerly, it
would bring back what the person has just removed. So an older base needs evidence, and a text that is exactly an
older revision is the person's word: the file is as they want it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from difflib import SequenceMatcher

from swarmd.core.deltas import same_end, same_start
from swarmd.core.merge import keys_of, lines_of, matches

ALIKE = 0.6
"""From here on two lines at one place are one line and its correction."""
READ_SECONDS = 10.0
"""Nobody has read a line and corrected it so soon after it came, but for who wrote it."""
WORD_BYTES = 40
"""What is corrected within a line is no longer than this."""
LONGEST_BEFORE_SECONDS = 3600.0
"""What was saved longer before that is a copy with an old date, or a clock was set."""
COMPARED = 50
_Knows = Callable[[Iterable[tuple[list[bytes], list[bytes]]]], bool]
_DIGIT = re.compile(rb"\d")
_BEGUN, _REST = re.compile(rb"\w+$"), re.compile(rb"\w*")
_WORD = re.compile(rb"\w+|[^\x00-\x7f]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A revision, its text and who made it. `at` is since when the file holds it, where that is known."""

    rev: int
    data: bytes
    at: datetime | None = None
    by: str = ""


def base_of(
    text: bytes,
    seen: Known | None,
    others: Sequence[Known],
    saved: datetime | None = None,
    by: str | None = None,
) -> Known | None:
    """The revision that `text` was made from; `seen` is what the file was last known to hold (None: not known), `saved`
    when the text was saved, `by` whom.

    Where that is not known, the nearest counts; None where there is no revision at all.
    """
    lines = bag(text)
    unread = saved is not None and seen is not None and seen.at is not None and _is_unread(saved, seen.at)
    # Who saves twice in a few seconds has the first text; so has nobody else, though two may have one name.
    knows = (_goes_on if seen is not None and by == seen.by else None) if unread else _corrects
    takes_out = seen is not None and by == seen.by and lines <= bag(seen.data)
    if seen is None:
        return min(others, key=lambda known: (_distance(lines, bag(known.data)), -known.rev), default=None)
    if any(known.data == text for known in others):
        return seen
    best, least = seen, _distance(lines, bag(seen.data))
    for known in sorted(others, key=lambda known: -known.rev):
        away = _distance(lines, bag(known.data))
        is_older = known.rev < seen.rev
        nearer = away < least or (unread and is_older and best is seen and away == least and not takes_out)
        if nearer and (not is_older or _is_stale(text, known, seen, knows)):
            best, least = known, away
    return best


def kept_lines(text: bytes, seen: bytes, base: bytes, merged: bytes) -> int:
    """How many lines of `seen` a merge from the older `base` has kept that the person's text does not have: whether
    they took them out, or never saw them, nobody can tell.
    """
    had = (bag(seen) - bag(base)) - bag(text)
    return sum(count for line, count in (had & bag(merged)).items() if line.strip())


def removed_lines(text: bytes, seen: bytes, before: bytes) -> tuple[str, ...]:
    """What `seen` had added to `before` and `text` has no more: what is said when a person's save removes it."""
    lines = (bag(seen) - bag(before)) - bag(text)
    return tuple(key.decode("utf-8", errors="backslashreplace") for key in lines if key.strip())


def _is_unread(saved: datetime, came: datetime) -> bool:
    return -LONGEST_BEFORE_SECONDS < (saved - came).total_seconds() < READ_SECONDS


def _is_stale(text: bytes, older: Known, seen: Known, knows: _Knows | None) -> bool:
    """Whether the text grew from `older`: most of that is in it, nothing added since, and nothing that shows that who
    wrote it `knows` what was added (None: they cannot).
    """
    lines, old, new = bag(text), bag(older.data), bag(seen.data)
    # An empty line shows nothing: every text has some.
    added = Counter({line: count for line, count in (new - old).items() if line.strip()})
    if not added or added & lines:
        return False
    if 2 * (old & lines).total() < max(old.total(), 1):
        return False
    return knows is None or not knows(_places(text, seen.data, own=lines - old, added=added))


def _places(
    text: bytes, seen: bytes, *, own: Collection[bytes], added: Collection[bytes]
) -> Iterator[tuple[list[bytes], list[bytes]]]:
    """Between each two lines that both have: the added lines that are gone there, and the text's own."""
    a, b = keys_of(lines_of(seen)), keys_of(lines_of(text))
    at_a = at_b = 0
    for i, j in [*matches(a, b), (len(a), len(b))]:
        yield [line for line in a[at_a:i] if line in added], [line for line in b[at_b:j] if line in own]
        at_a, at_b = i + 1, j + 1


def _corrects(places: Iterable[tuple[list[bytes], list[bytes]]]) -> bool:
    """Whether lines of its own stand in the place of ones that were added, alike and not fewer."""
    compared = 0
    for gone, mine in places:
        if len(gone) <= len(mine) and compared < COMPARED:
            compared += len(gone)
            if any(_alike(one, other) for one in mine[:COMPARED] for other in gone[:COMPARED]):
                return True
    return False


def _goes_on(places: Iterable[tuple[list[bytes], list[bytes]]]) -> bool:
    """Whether of all that was added each line stands in its place as its writer goes on with it."""
    found = [(one, mine[:COMPARED]) for gone, mine in places for one in gone]
    return 0 < len(found) <= COMPARED and all(
        any(_is_the_same(one, other) for other in mine) for one, mine in found
    )


def _alike(a: bytes, b: bytes) -> bool:
    words_a, words_b = Counter(_WORD.findall(a)), Counter(_WORD.findall(b))
    total = words_a.total() + words_b.total()
    return total > 0 and 2 * (words_a & words_b).total() >= ALIKE * total


def _is_the_same(a: bytes, b: bytes) -> bool:
    """Whether one is the other with its end written or taken off, or with a word corrected: of lines that differ by a
    number, as those of a list do, each is one of its own.
    """
    start, least = same_start(a, b), min(len(a), len(b))
    if start == least:  # a bullet or an empty line begins every other
        return len(_WORD.findall(a[:start])) > 1
    end = same_end(a, b, least - start)
    one, other = _words_at(a, start, len(a) - end), _words_at(b, start, len(b) - end)
    if max(len(one), len(other)) > WORD_BYTES or _DIGIT.search(one + other):
        return False
    return SequenceMatcher(None, one, other, autojunk=False).ratio() >= ALIKE


def _words_at(line: bytes, start: int, end: int) -> bytes:
    """That part of the line, to the ends of the words that it cuts."""
    begin, rest = _BEGUN.search(line[:start]), _REST.match(line, end)
    return line[begin.start() if begin else start : rest.end() if rest else end]


def bag(data: bytes) -> Counter[bytes]:
    """Which lines a text has, and how often."""
    return Counter(keys_of(lines_of(data)))


def _distance(a: Counter[bytes], b: Counter[bytes]) -> int:
    return (a - b).total() + (b - a).total()
