"""Which revision brought each line of a text: from the newest backwards, until every line has been found.

Only what differs between a revision and the ones that it was made from is looked at line by line, so that a long text
that grew by a thousand small edits costs little more than being read a thousand times.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from swarmd.core.deltas import same_end, same_start
from swarmd.core.merge import keys_of, lines_of, matches

MOVED_CHARACTERS = 5
"""A line of fewer characters that comes up at another place is a line of its own: most of them are punctuation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """What is known of a revision without its text. `parent`: as history has it; `hash` None: a deletion."""

    rev: int
    parent: int
    hash: str | None
    by: str
    how: str


@dataclass(frozen=True, slots=True)
class _Span:
    """Lines of a revision from `at` on, and where they stand in the newest text."""

    at: int
    final: int
    count: int


def origins(rows: Sequence[Revision], text_of: Callable[[int], bytes]) -> list[int]:
    """Of each line of the newest of `rows` (all revisions of one file) the revision that brought it."""
    if not rows:
        return []
    known = {row.rev: row for row in rows}
    newest = max(known)
    made_from = _ancestry(known)
    texts = _Texts(text_of)
    total = _count(texts.of(newest))
    found = [newest] * total
    waiting: dict[int, list[_Span]] = {newest: [_Span(0, 0, total)]} if total else {}
    turns = [-newest]
    while waiting:
        rev = -heapq.heappop(turns)
        spans = waiting.pop(rev)
        for parent in made_from[rev]:
            if not spans:
                break
            passed, spans = _passed_on(texts.of(rev), texts.of(parent), spans)
            if passed:
                if parent not in waiting:
                    heapq.heappush(turns, -parent)
                waiting.setdefault(parent, []).extend(passed)
        for span in spans:
            found[span.final : span.final + span.count] = [rev] * span.count
    return found


def all_origins(rows: Sequence[Revision], text_of: Callable[[int], bytes]) -> dict[int, list[int]]:
    """As `origins`, of every revision of the file, in one pass from the oldest on."""
    known = {row.rev: row for row in rows}
    made_from = _ancestry(known)
    texts = _Texts(text_of)
    found: dict[int, list[int]] = {}
    for rev in sorted(known):
        text = texts.of(rev)
        total = _count(text)
        found[rev] = [rev] * total
        spans = [_Span(0, 0, total)] if total else []
        for parent in made_from[rev]:
            if not spans:
                break
            passed, spans = _passed_on(text, texts.of(parent), spans)
            for span in passed:
                found[rev][span.final : span.final + span.count] = found[parent][
                    span.at : span.at + span.count
                ]
    return found


def changed(new: bytes, old: bytes) -> bytes:
    """The lines of the new text between those that both begin with and those that both end with."""
    start = _same_start(new, old)
    return new[start : len(new) - _same_end(new, old, min(len(new), len(old)) - start)]


def _ancestry(known: dict[int, Revision]) -> dict[int, tuple[int, ...]]:
    """Of each revision those that its text was made of, by which its lines are known first."""
    first_with: dict[str, int] = {}
    found: dict[int, tuple[int, ...]] = {}
    for rev in sorted(known):
        row = known[rev]
        before = [rev - 1] if rev - 1 in known else []
        if row.hash is not None and row.hash in first_with:
            before = [first_with[row.hash]]  # restored, or undone by hand
        elif row.how == "adopt" and row.parent != rev - 1 and row.parent in known:
            before = [row.parent, *before]  # a person saved what had been read before the newest was written
        elif _merges_a_save(row, known.get(rev - 1)) and rev - 2 in known:
            before = [rev - 1, rev - 2]
        if row.hash is not None:
            first_with.setdefault(row.hash, rev)
        found[rev] = tuple(before)
    return found


def _merges_a_save(row: Revision, before: Revision | None) -> bool:
    """Whether it joins a person's save, the revision before it, with what had been written meanwhile, the one before
    that.
    """
    return row.how == "merge" and before is not None and before.how == "adopt" and before.by == row.by


class _Texts:
    """The last few texts: each is asked for as a child and as a parent."""

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read = read
        self._kept: dict[int, bytes] = {}

    def of(self, rev: int) -> bytes:
        text = self._kept.pop(rev, None)
        if text is None:
            text = self._read(rev)
            while len(self._kept) >= 4:
                del self._kept[next(iter(self._kept))]
        self._kept[rev] = text
        return text


@dataclass(frozen=True, slots=True)
class _Difference:
    """What two texts have in common, as runs of lines (where in the new one, where in the old one, how many); and the
    lines between their common beginning and end, which are `before` lines long and begin after as many.
    """

    runs: list[tuple[int, int, int]]
    before: int
    new: list[bytes]
    old: list[bytes]


def _passed_on(new: bytes, old: bytes, spans: list[_Span]) -> tuple[list[_Span], list[_Span]]:
    """The spans, in the old text, of those lines that it has too; and the spans that are left in the new one."""
    difference = _difference(new, old)
    passed: list[_Span] = []
    left: list[_Span] = []
    for span in sorted(spans, key=lambda span: span.at):
        at, end = span.at, span.at + span.count
        for here, there, count in difference.runs:
            if here + count <= at or here >= end:
                continue
            low, high = max(at, here), min(end, here + count)
            if low > at:
                left.append(_Span(at, span.final + at - span.at, low - at))
            passed.append(_Span(there + low - here, span.final + low - span.at, high - low))
            at = high
        if at < end:
            left.append(_Span(at, span.final + at - span.at, end - at))
    moved, left = _moved(difference, left)
    return passed + moved, left


def _difference(new: bytes, old: bytes) -> _Difference:
    start = _same_start(new, old)
    end = _same_end(new, old, min(len(new), len(old)) - start)
    before = new.count(b"\n", 0, start)
    news, olds = (
        keys_of(lines_of(new[start : len(new) - end])),
        keys_of(lines_of(old[start : len(old) - end])),
    )
    runs = [(0, 0, before)] if before else []
    for here, there in matches(news, olds) if news and olds else ():
        last = runs[-1] if runs else (0, 0, 0)
        if (before + here, before + there) == (last[0] + last[2], last[1] + last[2]):
            runs[-1:] = [(last[0], last[1], last[2] + 1)]
        else:
            runs.append((before + here, before + there, 1))
    if end:
        runs.append((before + len(news), before + len(olds), _count(new[len(new) - end :])))
    return _Difference(runs=runs, before=before, new=news, old=olds)


def _same_start(a: bytes, b: bytes) -> int:
    """How many bytes of whole lines both begin with."""
    return a.rfind(b"\n", 0, same_start(a, b)) + 1


def _same_end(a: bytes, b: bytes, most: int) -> int:
    """How many bytes of whole lines both end with, `most` at most."""
    size = same_end(a, b, most)
    if size == 0 or (_begins_a_line(a, len(a) - size) and _begins_a_line(b, len(b) - size)):
        return size
    end_of_line = a.find(b"\n", len(a) - size)
    return 0 if end_of_line < 0 else len(a) - end_of_line - 1


def _begins_a_line(text: bytes, at: int) -> bool:
    return at == 0 or text[at - 1 : at] == b"\n"


def _moved(difference: _Difference, left: list[_Span]) -> tuple[list[_Span], list[_Span]]:
    """Lines that the new text has elsewhere than the old one: they stay their author's."""
    before, news, olds = difference.before, difference.new, difference.old
    free: dict[bytes, list[int]] = defaultdict(list)
    if left and olds:
        end = before + len(olds)
        kept = {
            line
            for _, there, count in difference.runs
            for line in range(max(there, before), min(there + count, end))
        }
        for line, key in enumerate(olds, before):
            if line not in kept and len(key.strip()) >= MOVED_CHARACTERS:
                free[key].append(line)
    if not free:
        return [], left
    moved: list[_Span] = []
    stay: list[_Span] = []
    for span in left:
        for n in range(span.count):
            places = free.get(news[span.at + n - before])
            if places:
                moved.append(_Span(places.pop(0), span.final + n, 1))
            else:
                stay.append(_Span(span.at + n, span.final + n, 1))
    return moved, stay


def _count(text: bytes) -> int:
    return text.count(b"\n") + (not text.endswith(b"\n") if text else 0)
