"""Of a text in which something was found: the part that shows it best, and how well it fits."""

from __future__ import annotations

import re
from dataclasses import dataclass

from swarmd.core.searching import CLOSE, GAP, OPEN

ROOM = 240
"""Characters of a snippet, its marks apart."""
MARK = "**"
"""Stands on both sides of what was found."""
USUAL = 1000.0
"""Characters of a usual text: in a longer one each hit says less."""
_HIT = re.compile(f"{OPEN}([^{CLOSE}]*){CLOSE}")
_EDGE = 24
"""So far a snippet's edge moves to stand between words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snippet:
    """`fit` is between 0 and 2: how much of what was asked for stands close together, and how often it is said."""

    text: str
    fit: float


def snippet_of(marked: str, wanted: int) -> Snippet:
    """Of a text with OPEN and CLOSE around each hit. `wanted`: how many words and phrases were asked for."""
    marked = marked.replace(GAP, "")
    plain, hits = _parted(marked)
    if not hits:
        return Snippet(text=_shown(plain, 0, min(ROOM, len(plain)), []), fit=0.0)
    first, last, different = _closest(plain, hits)
    near = min(1.0, different / max(1, wanted))
    often = len(hits) / (len(hits) + 1.5 * (0.25 + 0.75 * len(plain) / USUAL))
    start = max(0, hits[first][0] - max(0, ROOM - (hits[last][1] - hits[first][0])) // 2)
    end = min(len(plain), max(start + ROOM, min(hits[last][1], hits[first][0] + ROOM)))
    start = _between_words(plain, max(0, min(start, end - ROOM)), -1)
    return Snippet(text=_shown(plain, start, _between_words(plain, end, 1), hits), fit=near + often)


def _parted(marked: str) -> tuple[str, list[tuple[int, int]]]:
    """The text without marks, and where the hits are in it."""
    parts: list[str] = []
    hits: list[tuple[int, int]] = []
    size = at = 0
    for found in _HIT.finditer(marked):
        before, hit = marked[at : found.start()], found[1]
        parts += [before, hit]
        hits.append((size + len(before), size + len(before) + len(hit)))
        size += len(before) + len(hit)
        at = found.end()
    return "".join([*parts, marked[at:]]), hits


def _closest(plain: str, hits: list[tuple[int, int]]) -> tuple[int, int, int]:
    """First and last hit of the window that has the most different words, then the most hits; how many of them."""
    words = [plain[start:end].casefold() for start, end in hits]
    inside: dict[str, int] = {}
    best, first = (0, 0, 0, 0), 0
    for last, word in enumerate(words):
        inside[word] = inside.get(word, 0) + 1
        while first < last and hits[last][1] - hits[first][0] > ROOM:
            inside[words[first]] -= 1
            if not inside[words[first]]:
                del inside[words[first]]
            first += 1
        if (len(inside), last - first + 1) > best[:2]:
            best = (len(inside), last - first + 1, first, last)
    return best[2], best[3], best[0]


def _between_words(plain: str, at: int, step: int) -> int:
    """The nearest place from `at` on, outwards, that is between two words; `at` where there is none near."""
    for place in range(at, at + step * _EDGE, step):
        if place <= 0 or place >= len(plain):
            return max(0, min(place, len(plain)))
        if plain[place - 1].isspace() or plain[place].isspace():
            return place
    return at


def _shown(plain: str, start: int, end: int, hits: list[tuple[int, int]]) -> str:
    """That part in one line, with marks around the hits and dots where it is cut."""
    parts: list[str] = []
    at = start
    for first, last in hits:
        if first < at or last > end:
            continue
        parts += [plain[at:first], MARK, plain[first:last], MARK]
        at = last
    text = " ".join("".join([*parts, plain[at:end]]).split())
    return f"{'...' if plain[:start].strip() else ''}{text}{'...' if plain[end:].strip() else ''}"
