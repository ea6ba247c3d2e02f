"""Which lines of a text are a session's: followed by what they say, wherever they stand and however they are listed.

A line that is moved to another place or file, indented or given another bullet is still that line; one that was worded
anew is a new one. So lines are compared by their words, and an archive has them as well as the file they came from.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from swarmd.core.merge import lines_of

_LEAD = re.compile(r"(?:[-*+>#|]+|\d{1,9}[.)])\s+")
_BLOCK = re.compile(r"#{1,6}\s.*\(session (\d{1,18})\)\s*$", re.ASCII)
"""A heading of the interaction log: it names the session whose words stand below it."""
_HEADING = re.compile(r"(#{1,6})\s")


def key_of(line: str) -> str | None:
    """What a line says, by which it is known again; None for one without a letter or digit."""
    words = " ".join(line.split())
    while (lead := _LEAD.match(words)) is not None:
        words = words[lead.end() :]
    return words if any(char.isalnum() for char in words) else None


def keys_of(data: bytes | None) -> frozenset[str]:
    """What the lines of a text say."""
    return frozenset(key for line in lines_of(data or b"") if (key := key_of(_text(line))) is not None)


def said_in(data: bytes, keys: Collection[str]) -> list[str]:
    """The lines of a text that say one of these, without their ends."""
    return [_text(line).rstrip("\r\n") for line in lines_of(data) if key_of(_text(line)) in keys]


def marked(data: bytes, keys: Collection[str], sessions: Collection[int]) -> list[bool]:
    """Of each line of a text whether it says one of these, or stands in a block that one of these sessions has in an
    interaction log.
    """
    depth = 0
    """How many signs the heading has below which all is such a session's; 0: none."""
    found: list[bool] = []
    for line in map(_text, lines_of(data)):
        heading = _HEADING.match(line)
        if heading is not None and depth and len(heading[1]) <= depth:
            depth = 0
        block = _BLOCK.match(line)
        if block is not None and int(block[1]) in sessions:
            depth = len(block[0]) - len(block[0].lstrip("#"))
        found.append(bool(depth) or key_of(line) in keys)
    return found


def without(data: bytes, keys: Collection[str], sessions: Collection[int], note: str | None) -> bytes:
    """The text without the lines that are `marked`; in the place of each run of them stands `note`, where there is one.
    A text that has none of them comes back as it is.
    """
    marks = marked(data, keys, sessions)
    if not any(marks):
        return data
    told = b"" if note is None else note.encode() + b"\n"
    out: list[bytes] = []
    for line, is_one in zip(lines_of(data), marks, strict=True):
        if not is_one:
            out.append(line)
        elif out[-1:] != [told]:
            out.append(told)
    return b"".join(out)


def _text(line: bytes) -> str:
    return line.decode("utf-8", "replace")
