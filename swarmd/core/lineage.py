"""Which lines of a text are a session's: followed by what they say, wherever they stand and however they are listed.

A line that is moved to another place or file, indented or given another bullet is still that line; one that was worded
anew is a new one. So lines are compared by their words, and an archive has them as well as the file they came from.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

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
    lines = (data or b"").decode("utf-8", "replace").splitlines()
    return frozenset(key for key in map(key_of, lines) if key is not None)


def lines_of(data: bytes, keys: Collection[str]) -> list[str]:
    """The lines of a text that say one of these."""
    return [line for line in data.decode("utf-8", "replace").splitlines() if key_of(line) in keys]


def without(data: bytes, keys: Collection[str], sessions: Collection[int], note: str | None) -> bytes:
    """The text without these lines, and without the blocks that these sessions have in an interaction log; in the
    place of each run of them stands `note`, where there is one. A text that has none of them comes back as it is.
    """
    text = data.decode("utf-8", "surrogateescape")
    out: list[str] = []
    gone = False
    for line, is_one in _marked(text, keys, sessions):
        if not is_one:
            out.append(line)
        elif note is not None and out[-1:] != [f"{note}\n"]:
            out.append(f"{note}\n")
        gone = gone or is_one
    return "".join(out).encode("utf-8", "surrogateescape") if gone else data


def _marked(text: str, keys: Collection[str], sessions: Collection[int]) -> Iterator[tuple[str, bool]]:
    """Each line with its end, and whether it is one of those."""
    depth = 0
    """How many signs the heading has below which all is such a session's; 0: none."""
    for line in text.splitlines(keepends=True):
        heading = _HEADING.match(line)
        if heading is not None and depth and len(heading[1]) <= depth:
            depth = 0
        block = _BLOCK.match(line)
        if block is not None and int(block[1]) in sessions:
            depth = len(block[0]) - len(block[0].lstrip("#"))
        yield line, bool(depth) or key_of(line) in keys
