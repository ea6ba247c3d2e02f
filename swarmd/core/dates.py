"""Full dates as texts write them, and which days each may mean."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise

Day = tuple[int, int, int]
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = r"(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_DATES = (
    (re.compile(r"(?<!\d)(\d{4})([-/.])(\d{1,2})\2(\d{1,2})(?!\d)"), (1, 3, 4)),
    (re.compile(r"(?<!\d)(\d{1,2})([-/.])(\d{1,2})\2(\d{4})(?!\d)"), (4, 3, 1)),
    (re.compile(rf"\b{_MONTH} (\d{{1,2}})(?:st|nd|rd|th)?,? (\d{{4}})(?!\d)", re.IGNORECASE), (3, 1, 2)),
    (re.compile(rf"(?<!\d)(\d{{1,2}})(?:st|nd|rd|th|\.)? {_MONTH},? (\d{{4}})(?!\d)", re.IGNORECASE), (3, 2, 1)),
)  # fmt: skip
_BETWEEN = re.compile(
    r"[^\w\n]{0,4}(?:[-\u2013\u2014/]|\.\.\.?|to|until|till|through|thru|bis|au|al?)[^\w\n]{0,4}",
    re.IGNORECASE,
)
_MONTH_NUMBER = re.compile(r"(?<![\d./-])(\d{4})-(\d{2})(?![./-]?\d)")
_MONTH_NAME = re.compile(rf"\b{_MONTH},? (\d{{4}})(?!\d)", re.IGNORECASE)


def dates(text: str) -> Iterable[set[Day]]:
    """Each full date in the text, as the days that it may mean: 04.05.2026 may be two."""
    return (days for _, days in dated(text))


def without_dates(text: str) -> str:
    """The text with a space in the place of each."""
    for pattern, _ in _DATES:
        text = pattern.sub(" ", text)
    return text


def dated(text: str) -> Iterator[tuple[re.Match[str], set[Day]]]:
    """As `dates`, with the place of each."""
    for pattern, (year, month, day) in _DATES:
        for found in pattern.finditer(text):
            named = found[month].lower()[:3]
            number = _MONTHS.index(named) + 1 if named in _MONTHS else int(found[month])
            readings = {(int(found[year]), number, int(found[day]))}
            if named not in _MONTHS and year != 1:
                readings.add((int(found[year]), int(found[day]), number))
            days = {one for one in readings if 1 <= one[1] <= 12 and 1 <= one[2] <= 31 and one[0] >= 1900}
            if days:
                yield found, days


def spans(text: str) -> Iterator[tuple[Day, Day]]:
    """From where to where the text names days as a span: two dates with a dash or one word between them."""
    places = sorted(
        ((found.start(), found.end(), days) for found, days in dated(text)), key=lambda place: place[:2]
    )
    for (_, end, first), (start, _, last) in pairwise(places):
        if end <= start and _BETWEEN.fullmatch(text[end:start]):
            yield min(first), max(last)


def months(text: str) -> Iterator[tuple[int, int]]:
    """Year and month wherever a month is named without a day."""
    text = without_dates(text)
    yield from ((int(found[1]), int(found[2])) for found in _MONTH_NUMBER.finditer(text))
    yield from (
        (int(found[2]), _MONTHS.index(found[1].lower()[:3]) + 1) for found in _MONTH_NAME.finditer(text)
    )
