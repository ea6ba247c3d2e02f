"""Durations as a person writes them, to and from seconds; months and years are none, for they differ."""

import re

_MINUTE = 60
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR
_WEEK = 7 * _DAY

MAX_SECONDS = 10 * 365 * _DAY

_SHOWN = 40
_WANTED = "write 90s, 15m, 2h, 1d, 1h30m, or ISO 8601 such as PT15M"
# A number of at most 12 digits: more is beyond ten years in any unit, and int() balks at thousands.
_SHORT = re.compile(
    r"(?=.)(?:(?P<d>[0-9]{1,12})d)?(?:(?P<h>[0-9]{1,12})h)?(?:(?P<m>[0-9]{1,12})m)?(?:(?P<s>[0-9]{1,12})s)?"
)
_ISO = re.compile(
    r"P(?=.)(?:(?P<w>[0-9]{1,12})W)?(?:(?P<d>[0-9]{1,12})D)?"
    r"(?:T(?=.)(?:(?P<h>[0-9]{1,12})H)?(?:(?P<m>[0-9]{1,12})M)?(?:(?P<s>[0-9]{1,12})S)?)?"
)
_ISO_CALENDAR = re.compile(r"P[0-9]+(?:\.[0-9]+)?[YM].*")
_UNITS = {"w": _WEEK, "d": _DAY, "h": _HOUR, "m": _MINUTE, "s": 1}


class DurationError(ValueError):
    """The text is no duration; the sentence says why and what to write."""


def parse_duration(text: str) -> float:
    """Seconds of `90s`, `15m`, `2h`, `1d`, `1h30m`, `PT15M`, `P1D`; `0` and `0s` are nought.

    Whole numbers only, largest unit first, each unit once; ten years at most.
    """
    if text == "0":
        return 0.0
    found = _SHORT.fullmatch(text) or _ISO.fullmatch(text)
    if found is None:
        raise DurationError(f"{_shown(text)} is no duration: {_fault(text)}")
    seconds = sum(int(number or 0) * _UNITS[unit] for unit, number in found.groupdict().items())
    if seconds > MAX_SECONDS:
        raise DurationError(f"{_shown(text)} is longer than the ten years allowed")
    return float(seconds)


def format_duration(seconds: float) -> str:
    """The shortest text that `parse_duration` reads back, to the whole second: 5400 is `1h30m`."""
    left = round(seconds)
    if left < 0:
        return f"-{format_duration(-left)}"
    parts: list[str] = []
    for unit in ("d", "h", "m", "s"):
        number, left = divmod(left, _UNITS[unit])
        if number:
            parts.append(f"{number}{unit}")
    return "".join(parts) or "0s"


def _shown(text: str) -> str:
    return repr(text) if len(text) <= _SHOWN else f"{text[:_SHOWN]!r}..."


def _fault(text: str) -> str:
    if not text.strip():
        return f"it is empty; {_WANTED}"
    if text.isascii() and text.isdigit():
        return f"the unit is missing; {_WANTED}"
    if text[0] in "+-":
        return f"it takes no sign; {_WANTED}"
    if _ISO_CALENDAR.fullmatch(text):
        return "years and months have no fixed length; write days"
    if text != text.strip() or " " in text:
        return f"it takes no spaces; {_WANTED}"
    if re.search(r"[0-9][.,][0-9]", text):
        return f"only whole numbers are taken; {_WANTED}"
    lowered = text.lower()
    if lowered != text and _SHORT.fullmatch(lowered):
        return f"units are small letters; write {lowered}"
    if text.upper() != text and _ISO.fullmatch(text.upper()):
        return f"ISO 8601 has capital letters; write {text.upper()}"
    return _WANTED
