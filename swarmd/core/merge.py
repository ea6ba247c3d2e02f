"""Three-way merge of texts by line: both sides are kept where that is possible, and no added line is ever lost.

`theirs` is the text that stands (a person's, or what was committed first): where lines collide its lines stay and
those of `ours` become a conflict. The rules are git's, with two differences that suit notes. Changes of neighbouring
lines do not collide; only changes of the same lines, or two insertions at one place, do. And two different appends at
the end of the file are both kept, theirs first, without a conflict: it is what two writers of one log do all day.

Lines are matched by patience diff (lines that occur once in both texts are the anchors, in Markdown the headings and
most sentences), so a text of a mebibyte costs little; what has no anchors is compared by Myers' algorithm under a
budget, and taken as replaced where that is used up. Line ends are not compared, and kept as each side has them.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from swarmd.core.memory import ended_as

STEPS = 400_000
"""What Myers' algorithm may cost in one comparison: a fifth of a second."""

_LINE = re.compile(rb"[^\n]*\n|[^\n]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Lines of `ours` that were set aside; `theirs` stand in their place, from `line` (from 1) of the merged text."""

    line: int
    ours: str
    theirs: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """The merged text, and what of `ours` is not in it."""

    data: bytes
    conflicts: tuple[Piece, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Hunk:
    """Lines `low` to `high` of the base became `growth` lines more; `own`: in ours."""

    low: int
    high: int
    growth: int
    own: bool


def merge(base: bytes, ours: bytes, theirs: bytes) -> Merged:
    """Lay what `ours` changed since `base` over `theirs`."""
    if ours in (base, theirs):
        return Merged(data=theirs)
    if theirs == base:
        return Merged(data=ours)
    if not (_is_text(ours) and _is_text(theirs)):
        return Merged(data=theirs, conflicts=(Piece(line=1, ours=_shown([ours]), theirs=_shown([theirs])),))
    return _Merging(lines_of(base), lines_of(ours), lines_of(theirs)).merged()


def lines_of(data: bytes) -> list[bytes]:
    """The lines with their ends; only the last may have none."""
    return _LINE.findall(data)


def keys_of(lines: Sequence[bytes]) -> list[bytes]:
    """What lines are compared by: their text without the end."""
    return [line.rstrip(b"\r\n") for line in lines]


def added(part: bytes, whole: bytes) -> bytes:
    """What of the part a merge adds to the whole: its lines but those that stand there already."""
    ours, theirs = lines_of(part), lines_of(whole)
    if _is_within([key for key in keys_of(ours) if key.strip()], keys_of(theirs)):
        return b""
    rest = iter(theirs)
    line, new = next(rest, None), []
    for one in _appended(ours, theirs):
        if one == line:
            line = next(rest, None)
        else:
            new.append(one)
    return b"".join(new)


class _Merging:
    def __init__(self, base: list[bytes], ours: list[bytes], theirs: list[bytes]) -> None:
        self._base, self._ours, self._theirs = base, ours, theirs
        self._out: list[bytes] = []
        self._conflicts: list[Piece] = []
        self._at_ours = self._at_theirs = 0
        self._last_theirs: tuple[int, list[bytes]] = (-1, [])

    def merged(self) -> Merged:
        at = 0
        keys = keys_of(self._base)
        hunks = [
            *_hunks(keys, keys_of(self._ours), own=True),
            *_hunks(keys, keys_of(self._theirs), own=False),
        ]
        hunks.sort(key=lambda hunk: (hunk.low, hunk.high))
        groups = list(_groups(hunks))
        for group, following in zip(groups, [*groups[1:], []], strict=True):
            self._unchanged(at, group[0].low)
            at = max(hunk.high for hunk in group)
            self._changed(group[0].low, at, group, following)
        self._unchanged(at, len(self._base))
        return Merged(data=self._joined(), conflicts=tuple(self._conflicts))

    def _unchanged(self, low: int, high: int) -> None:
        """Lines that all three have: they may differ in their ends, which are merged as texts are."""
        base = self._base[low:high]
        ours, theirs = self._take(len(base), len(base))
        if ours == base:
            self._out += theirs
            return
        self._out += [
            mine if old == their else their for old, mine, their in zip(base, ours, theirs, strict=True)
        ]

    def _changed(self, low: int, high: int, group: list[_Hunk], following: list[_Hunk]) -> None:
        size = high - low
        ours, theirs = self._take(
            size + sum(hunk.growth for hunk in group if hunk.own),
            size + sum(hunk.growth for hunk in group if not hunk.own),
        )
        if any(not hunk.own for hunk in group):
            self._last_theirs = (high, theirs)
        if not any(hunk.own for hunk in group):
            self._out += theirs
        elif all(hunk.own for hunk in group):
            if low < high or not self._has_already(low, ours, following):
                self._out += ours
        elif low == high == len(self._base):
            self._out += _appended(ours, theirs)
        else:
            self._collide(low, high, ours, theirs)

    def _has_already(self, at: int, ours: list[bytes], following: list[_Hunk]) -> bool:
        """Whether the change of theirs that touches an insertion of ours holds its lines: it was merged before."""
        keys = keys_of(ours)
        end, theirs = self._last_theirs
        if end == at and _is_within(keys, keys_of(theirs)):
            return True
        if not following or following[0].low != at or all(hunk.own for hunk in following):
            return False
        size = max(hunk.high for hunk in following) - at + sum(h.growth for h in following if not h.own)
        return _is_within(keys, keys_of(self._theirs[self._at_theirs : self._at_theirs + size]))

    def _collide(self, low: int, high: int, ours: list[bytes], theirs: list[bytes]) -> None:
        start, end = _common_ends(keys_of(ours), keys_of(theirs))
        kept = theirs[start : len(theirs) - end]
        aside = ours[start : len(ours) - end]
        # A side that only removed lines has nothing to keep: then theirs stand, and nothing is said.
        new = Counter(keys_of(aside)) - Counter(keys_of(self._base[low:high])) - Counter(keys_of(kept))
        if new:
            line = len(self._out) + start + 1
            self._conflicts.append(Piece(line=line, ours=_shown(aside), theirs=_shown(kept)))
        self._out += theirs

    def _take(self, own: int, their: int) -> tuple[list[bytes], list[bytes]]:
        ours = self._ours[self._at_ours : self._at_ours + own]
        theirs = self._theirs[self._at_theirs : self._at_theirs + their]
        self._at_ours += own
        self._at_theirs += their
        return ours, theirs

    def _joined(self) -> bytes:
        """The lines, where a last line without an end that is no longer last is given one."""
        end = ended_as(b"\n", b"".join(self._theirs), b"".join(self._ours))
        out = self._out
        open_ended = [at for at, line in enumerate(out[:-1]) if not line.endswith(b"\n")]
        for at in open_ended:
            out[at] += end
        return b"".join(out)


def _groups(hunks: list[_Hunk]) -> Iterator[list[_Hunk]]:
    """Hunks that collide, together; hunks of one side never do."""
    group: list[_Hunk] = []
    high = 0
    for hunk in hunks:
        inserts = bool(group) and group[-1].low == group[-1].high == hunk.low == hunk.high
        if group and (hunk.low < high or inserts):
            group.append(hunk)
        else:
            if group:
                yield group
            group = [hunk]
            high = hunk.high
        high = max(high, hunk.high)
    if group:
        yield group


def _appended(ours: list[bytes], theirs: list[bytes]) -> list[bytes]:
    """Both appends, theirs first; what ours repeats of theirs only once."""
    own, their = keys_of(ours), keys_of(theirs)
    if _is_within(own, their):
        return theirs
    if _is_within(their, own):
        return _with(theirs, ours)
    same, _ = _common_ends(own, their)
    # What only ours has keeps the blank lines before it.
    while same and not own[same - 1].strip():
        same -= 1
    return theirs + ours[same:]


def _with(theirs: list[bytes], ours: list[bytes]) -> list[bytes]:
    """Our lines, of which theirs are a part: those stand as they have them."""
    out, rest = [], iter([*zip(keys_of(theirs), theirs, strict=True), (None, b"")])
    key, line = next(rest)
    for mine, own in zip(ours, keys_of(ours), strict=True):
        if own == key:
            out.append(line)
            key, line = next(rest)
        else:
            out.append(mine)
    return out


def _is_within(short: list[bytes], long: list[bytes]) -> bool:
    """Whether all of `short` stands in `long`, in its order."""
    rest = iter(long)
    return all(key in rest for key in short)


def _common_ends(a: Sequence[bytes], b: Sequence[bytes]) -> tuple[int, int]:
    """How many lines are the same at the start, and how many of the others at the end."""
    most = min(len(a), len(b))
    start = 0
    while start < most and a[start] == b[start]:
        start += 1
    end = 0
    while end < most - start and a[-1 - end] == b[-1 - end]:
        end += 1
    return start, end


def _hunks(base: list[bytes], side: list[bytes], *, own: bool) -> Iterator[_Hunk]:
    at_base = at_side = 0
    for i, j in [*matches(base, side), (len(base), len(side))]:
        if i > at_base or j > at_side:
            yield _Hunk(low=at_base, high=i, growth=(j - at_side) - (i - at_base), own=own)
        at_base, at_side = i + 1, j + 1


def matches(a: list[bytes], b: list[bytes]) -> list[tuple[int, int]]:
    """Pairs of positions of lines that are the same in both, in order."""
    found: list[tuple[int, int]] = []
    budget = STEPS
    regions = [(0, len(a), 0, len(b))]
    while regions:
        a0, a1, b0, b1 = regions.pop()
        start, end = _common_ends(a[a0:a1], b[b0:b1])
        found += [(a0 + n, b0 + n) for n in range(start)]
        found += [(a1 - 1 - n, b1 - 1 - n) for n in range(end)]
        a0, a1, b0, b1 = a0 + start, a1 - end, b0 + start, b1 - end
        if a0 == a1 or b0 == b1:
            continue
        anchors = _anchors(a, b, (a0, a1, b0, b1))
        if not anchors:
            pairs, cost = _myers(a[a0:a1], b[b0:b1], budget)
            budget -= cost
            found += [(a0 + i, b0 + j) for i, j in pairs]
            continue
        found += anchors
        last_a, last_b = a0, b0
        for i, j in [*anchors, (a1, b1)]:
            regions.append((last_a, i, last_b, j))
            last_a, last_b = i + 1, j + 1
    return sorted(found)


def _anchors(a: list[bytes], b: list[bytes], region: tuple[int, int, int, int]) -> list[tuple[int, int]]:
    """The longest rising run of lines that occur exactly once in both parts."""
    a0, a1, b0, b1 = region
    count_a, count_b = Counter(a[a0:a1]), Counter(b[b0:b1])
    where = {line: j for j, line in enumerate(b[b0:b1], b0) if count_b[line] == 1}
    pairs = [(i, where[line]) for i, line in enumerate(a[a0:a1], a0) if count_a[line] == 1 and line in where]
    ends: list[int] = []
    top: list[int] = []
    before: list[int] = []
    for n, (_, j) in enumerate(pairs):
        at = bisect_left(ends, j)
        before.append(top[at - 1] if at else -1)
        ends[at : at + 1] = [j]
        top[at : at + 1] = [n]
    run: list[tuple[int, int]] = []
    n = top[-1] if top else -1
    while n >= 0:
        run.append(pairs[n])
        n = before[n]
    return run[::-1]


def _myers(a: list[bytes], b: list[bytes], budget: int) -> tuple[list[tuple[int, int]], int]:
    """The pairs of a shortest edit script and what it cost; no pairs where it would cost more than `budget`."""
    reach = {1: 0}
    trace: list[dict[int, int]] = []
    cost = 0
    for edits in range(len(a) + len(b) + 1):
        trace.append(dict(reach))
        cost += 3 * edits + 1
        if cost > budget:
            break
        for k in range(-edits, edits + 1, 2):
            down = k == -edits or (k != edits and reach[k - 1] < reach[k + 1])
            x = reach[k + 1] if down else reach[k - 1] + 1
            y = x - k
            while x < len(a) and y < len(b) and a[x] == b[y]:
                x, y, cost = x + 1, y + 1, cost + 1
            reach[k] = x
            if x >= len(a) and y >= len(b):
                return _backtracked(trace, len(a), len(b)), cost
    return [], cost


def _backtracked(trace: list[dict[int, int]], x: int, y: int) -> list[tuple[int, int]]:
    pairs: list[tuple[int, int]] = []
    for edits in range(len(trace) - 1, -1, -1):
        reach, k = trace[edits], x - y
        down = k == -edits or (k != edits and reach[k - 1] < reach[k + 1])
        before = k + 1 if down else k - 1
        last_x = reach[before]
        last_y = last_x - before
        while x > max(last_x, 0) and y > max(last_y, 0):
            x, y = x - 1, y - 1
            pairs.append((x, y))
        x, y = last_x, last_y
    return pairs


def _is_text(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _shown(lines: list[bytes]) -> str:
    return b"".join(lines).decode("utf-8", errors="backslashreplace")
