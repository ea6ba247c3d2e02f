"""Stored text made fit for terminals, logs and tables: escaped, measured, cut; prompts do not use it for bodies.

Whatever an agent, a model or a file name says may hold terminal escapes, direction marks or invisible
characters. Everything that is printed or logged goes through this family, and through no other.
"""

from __future__ import annotations

import unicodedata

# Letters and marks that show as nothing at all: the grapheme joiner, the fillers of Hangul and Khmer, Mongolian
# selectors. Their categories (Lo, Mn) are those of real letters and accents, so they are named one by one.
_INVISIBLE = frozenset(
    {0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x180B, 0x180C, 0x180D, 0x180F, 0x3164, 0xFFA0}
)
_ESCAPED_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_SHORT = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}
_MARKS = frozenset({"Mn", "Me", "Cf", "Cc"})
_CUT = "\N{HORIZONTAL ELLIPSIS}"


class _Escapes(dict[int, str]):
    """The table for `str.translate`, filled as characters come; at most one entry a character of Unicode."""

    def __init__(self, kept: str) -> None:
        super().__init__({ord(char): char for char in kept})

    def __missing__(self, code: int) -> str:
        shown = self[code] = _shown(chr(code))
        return shown


def _shown(char: str) -> str:
    code = ord(char)
    if unicodedata.category(char) not in _ESCAPED_CATEGORIES and code not in _INVISIBLE:
        return char
    if char in _SHORT:
        return _SHORT[char]
    if 0xDC80 <= code <= 0xDCFF:  # how Python holds a byte of a file's name that is no UTF-8
        code -= 0xDC00
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


_ONE_LINE = _Escapes("")
_LINES = _Escapes("\n\t")


def one_line(text: str) -> str:
    r"""The text on one line: controls, line breaks, direction marks, invisibles, lone surrogates as \x1b, \u202e, and
    bytes of a name that are no UTF-8 as \xff.

    A backslash stays one backslash, so that doing it twice changes nothing; it is for eyes, not to be read back.
    """
    return text if text.isascii() and text.isprintable() else text.translate(_ONE_LINE)


def escaped(text: str) -> str:
    """As `one_line`, but line feeds and tabs stay: for texts of several lines."""
    return text if text.isascii() and text.isprintable() else text.translate(_LINES)


def width(text: str) -> int:
    """The columns that a terminal gives the text: 2 for wide characters (CJK, emoji), 0 for combining marks."""
    return len(text) if text.isascii() and text.isprintable() else sum(map(_columns, text))


def _columns(char: str) -> int:
    if (
        unicodedata.category(char) in _MARKS or "\u1160" <= char <= "\u11ff"
    ):  # the latter join a Hangul syllable
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def fit(text: str, columns: int) -> str:
    """The text on one line in exactly so many columns: cut with an ellipsis, or filled with spaces."""
    if columns <= 0:
        return ""
    shown = one_line(text[: columns * 16])  # a stored text may have megabytes; marks may take no column
    if (wide := width(shown)) <= columns and len(text) <= columns * 16:
        return shown + " " * (columns - wide)
    used, end = 0, 0
    for end, char in enumerate(shown):  # noqa: B007 - `end` is where the text is cut
        used += _columns(char)
        if used > columns - 1:
            used -= _columns(char)
            break
    else:
        end = len(shown)
    return shown[:end] + _CUT + " " * (columns - 1 - used)


def shortened(text: str, limit: int) -> str:
    """The text on one line in at most `limit` characters, with an ellipsis where it was cut."""
    shown = one_line(text[: limit + 1])  # an escape is longer than what it stands for, never shorter
    if len(shown) <= limit:
        return shown
    parts: list[str] = []
    left = max(limit - 1, 0)
    for char in text:
        part = _ONE_LINE[ord(char)]
        if len(part) > left:
            break
        parts.append(part)
        left -= len(part)
    return "".join(parts) + (_CUT if limit > 0 else "")
