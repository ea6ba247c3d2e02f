"""A section's room in tokens: which items stand whole, which in a shorter form, where a long text is cut."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from swarmd.core.fences import SAMPLE_CODE, Pieces, render, text_of

Count = Callable[[str], int]

CHARS_PER_TOKEN = 16
"""No text that is read has more characters to a token. What is longer than its room by this measure is not
counted at all: counting a megabyte costs most of a second."""
COUNTED_ROOMS = 4
"""Texts that turn out not to fit are counted for nothing: at most this many rooms full of them a section."""
NOTE_TOKENS = 60
"""Kept free in each section for the line that says what was left out."""
REST_COUNTED = 64_000
"""Characters up to which what was left out is counted (some tens of milliseconds), not estimated."""
_CHUNK = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """What found room: the pieces, their tokens, how many items are shown, how many of these not in full."""

    pieces: Pieces
    tokens: int
    shown: int
    reduced: int


def corrected(count: Count, ratio: float) -> Count:
    """The counter with the agent's ratio applied, rounded up."""
    return lambda text: math.ceil(count(text) * ratio) if text else 0


def fill(items: Iterable[Sequence[Pieces]], room: int, count: Count, *, most: int | None = None) -> Filled:
    """Items in order, each in the fullest of its forms that has room, up to the first that has none.

    A form that needs more than `most` tokens is passed over, so that one item does not take the room of all.
    """
    pieces: list[Pieces] = []
    used = reduced = 0
    patience = room * CHARS_PER_TOKEN * COUNTED_ROOMS
    for forms in items:
        left = min(room - used, room if most is None else most)
        for number, form in enumerate(forms):
            length = sum(len(text_of(piece)) for piece in form)
            last = number == len(forms) - 1
            if length > left * CHARS_PER_TOKEN or (length > patience and not last):
                continue
            patience -= length
            size = count(render(form, SAMPLE_CODE))
            if size <= (room - used if last else left):
                used += size
                reduced += number > 0
                pieces.append(form)
                break
        else:
            break
    return Filled(
        pieces=tuple(piece for form in pieces for piece in form),
        tokens=used,
        shown=len(pieces),
        reduced=reduced,
    )


def head(text: str, room: int, count: Count) -> str:
    """As much of the text's beginning as has room, ended at a line's end where that costs less than half of it."""
    limit = max(room, 0) * CHARS_PER_TOKEN
    if len(text) <= limit and count(text) <= room:
        return text
    used = end = 0
    for start, stop in _chunks(min(len(text), limit)):
        size = count(text[start:stop])
        if used + size > room:
            end = start + _fitting(text[start:stop], room - used, count)
            break
        used, end = used + size, stop
    line_end = text.rfind("\n", 0, end) + 1
    return text[:line_end] if line_end * 2 >= end else text[:end]


def remaining(text: str, shown: str, count: Count) -> int:
    """The tokens of what `head` left out; by the proportion of what it shows where that is too long to count."""
    rest = text[len(shown) :]
    if len(rest) <= REST_COUNTED:
        return count(rest)
    sample = shown[-_CHUNK:] or rest[:_CHUNK]
    return math.ceil(count(sample) * len(rest) / len(sample))


def _chunks(length: int) -> Iterator[tuple[int, int]]:
    return ((start, min(start + _CHUNK, length)) for start in range(0, length, _CHUNK))


def _fitting(text: str, room: int, count: Count) -> int:
    """How many characters of the text have room, by halving."""
    low, high = 0, len(text)
    while high - low > 1:
        middle = (low + high) // 2
        if count(text[:middle]) <= room:
            low = middle
        else:
            high = middle
    return low
