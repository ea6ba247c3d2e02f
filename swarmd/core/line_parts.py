"""Cuts a line that has no room as a whole: where a sentence ends, else before a date, with which an entry may begin,
else at a space, else between characters.

Never inside of a date, since half of one reads like another day, nor between a date and the word behind it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from swarmd.core.dates import dated
from swarmd.core.room import CHARS_PER_TOKEN, Count, head

_SENTENCE = re.compile(
    "[.!?\N{HORIZONTAL ELLIPSIS}][\"')\\]*_`]*\\s+|[\u3002\uff01\uff1f\uff61\r\v\f\x85\u2028\u2029]"
)
_SPACE = re.compile(r"\s+")
_BEHIND = re.compile(r"[^\w\n]{0,4}\w{0,40}")
"""What belongs to the date before it."""
_AHEAD = 100
"""So many characters after a place may be of a date that begins before it."""
_NEAR = 4_000
"""A sentence that is longer than so many characters is none."""
_GLUED = 40
"""From inside a number or a composed character it is at most so far to its beginning."""
_JOINER = "\u200d"


def parts_of(line: str, room: int, count: Count) -> Iterator[tuple[str, int]]:
    """The line in parts with room, each with its tokens; it ends early where one character has no room. Each part is
    counted by itself, so that a line of twice the length costs twice as much.
    """
    at = 0
    while at < len(line):
        part, size = _first(line, at, room, count)
        if not part:
            return
        yield part, size
        at += len(part)


def _first(line: str, at: int, room: int, count: Count) -> tuple[str, int]:
    limit = at + room * CHARS_PER_TOKEN + 1
    fits = head(line[at:limit], room, count)
    while fits:
        end = at + len(fits)
        part = fits if end == len(line) else fits[: _place(fits, line[end : end + _AHEAD])]
        size = count(part)
        if size <= room:
            return part, size
        fits = fits[: len(part) - max(len(part) // 20, 1)]  # the sum over its chunks was smaller: it is rare
    return "", 0


def _place(text: str, ahead: str) -> int:
    """Where to cut the text, which has room and is followed by `ahead`: in its second half, and near its end, if there
    is a good place.
    """
    low = max(len(text) // 2, len(text) - _NEAR)
    dates = list(_dates(text + ahead, max(low - _AHEAD, 0)))
    sentences, spaces = ([found.end() for found in kind.finditer(text, low)] for kind in (_SENTENCE, _SPACE))
    entries = sorted(first for first, _ in dates if low < first <= len(text))
    for places in (sentences, entries, spaces):
        for place in reversed(places):
            if not any(first < place < last for first, last in dates):
                return place
    begun = [first for first, last in dates if 0 < first < len(text) < last]
    return min(begun) if begun else _unglued(text, ahead)


def _dates(text: str, low: int) -> Iterator[tuple[int, int]]:
    """From where to where dates stand, with the words behind them, from that place on."""
    near = text[low:]
    for found, _ in dated(near):
        behind = _BEHIND.match(near, found.end())
        yield low + found.start(), low + (behind or found).end()


def _unglued(text: str, ahead: str) -> int:
    """The end of the text, or before it the beginning of the number or composed character that goes on behind it."""
    both = text + ahead
    for place in range(len(text), max(len(text) - _GLUED, 0), -1):
        before, after = both[place - 1], both[place : place + 1]
        if not (before.isdigit() and after.isdigit()) and not _joins(before, after):
            return place
    return len(text)


def _joins(before: str, after: str) -> bool:
    """Whether the two are parts of one character as people see it."""
    return bool(after) and (unicodedata.category(after) in ("Mn", "Mc", "Me") or _JOINER in (before, after))
