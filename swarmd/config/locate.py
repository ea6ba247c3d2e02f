"""Finds the line of every key and value in a TOML text; it judges nothing, since tomllib has already read it.

tomllib gives values without places. This scanner walks the same text and notes where each key or element begins.
"""

from __future__ import annotations

import bisect
import re
import tomllib
from collections.abc import Iterator, Mapping

from swarmd.config.problems import Path

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_BARE = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_BASIC = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_LITERAL = re.compile(r"'[^'\n]*'")
# A multi-line string may end in up to two more quotes of its own before the closing three.
_LONG_BASIC = re.compile(r'"""(?:[^"\\]|\\.|"(?!""))*"""(?:"{0,2})', re.DOTALL)
_LONG_LITERAL = re.compile(r"'''(?:[^']|'(?!''))*'''(?:'{0,2})", re.DOTALL)
_SCALAR = re.compile(r"[^,\]}#\n]+")


class Lines:
    """Line numbers by path, from 1. A path that is not in the text gets the line of the nearest one above it."""

    __slots__ = ("_starts",)

    def __init__(self, starts: Mapping[Path, int]) -> None:
        self._starts = starts

    def __contains__(self, path: object) -> bool:
        return path in self._starts

    def __iter__(self) -> Iterator[Path]:
        return iter(self._starts)

    def of(self, path: Path) -> int | None:
        """The line where `path`, or else what should hold it, begins; None where not even that is in the text."""
        for length in range(len(path), 0, -1):
            line = self._starts.get(path[:length])
            if line is not None:
                return line
        return None


def locate(text: str) -> Lines:
    """The lines of all that stands in `text`, which tomllib must have accepted (with LF as line ends)."""
    scanner = _Scanner(text)
    try:
        scanner.document()
    except RecursionError:
        # Nested deeper than we can follow: what was found until here still has its lines.
        pass
    return Lines(scanner.found)


class _Scanner:
    """One walk over one text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.found: dict[Path, int] = {}
        self.newlines = [match.start() for match in re.finditer("\n", text)]
        self.array_lengths: dict[Path, int] = {}
        """How many `[[name]]` have been seen of each array of tables."""

    def document(self) -> None:
        table: Path = ()
        self.skip(_BLANK)
        while self.at < len(self.text):
            if self.text[self.at] == "[":
                table = self.header()
            else:
                self.key_and_value(table)
            self.skip(_BLANK)

    def header(self) -> Path:
        start = self.at
        is_array = self.text.startswith("[[", self.at)
        self.at += 2 if is_array else 1
        keys = self.keys()
        self.at += 2 if is_array else 1
        path: Path = ()
        for number, key in enumerate(keys, 1):
            path = (*path, key)
            self.note(path, start)
            if is_array and number == len(keys):
                self.array_lengths[path] = self.array_lengths.get(path, 0) + 1
            if path in self.array_lengths:
                path = (*path, self.array_lengths[path] - 1)
                self.note(path, start)
        return path

    def key_and_value(self, table: Path) -> None:
        start = self.at
        path = table
        for key in self.keys():
            path = (*path, key)
            self.note(path, start)
        self.at += 1  # the equals sign
        self.skip(_SPACE)
        self.value(path)

    def keys(self) -> list[str]:
        found: list[str] = []
        while True:
            self.skip(_SPACE)
            found.append(self.key())
            self.skip(_SPACE)
            if not self.text.startswith(".", self.at):
                return found
            self.at += 1

    def key(self) -> str:
        quote = self.text[self.at]
        if quote == '"':
            raw = self.skip(_BASIC)
            return str(tomllib.loads(f"k = {raw}")["k"])
        if quote == "'":
            return self.skip(_LITERAL)[1:-1]
        return self.skip(_BARE)

    def value(self, path: Path) -> None:
        first = self.text[self.at]
        if first == "[":
            self.array(path)
        elif first == "{":
            self.inline_table(path)
        elif first in "\"'":
            self.string()
        else:
            self.skip(_SCALAR)

    def string(self) -> None:
        for opening, pattern in (
            ('"""', _LONG_BASIC),
            ("'''", _LONG_LITERAL),
            ('"', _BASIC),
            ("'", _LITERAL),
        ):
            if self.text.startswith(opening, self.at):
                self.skip(pattern)
                return

    def array(self, path: Path) -> None:
        self.at += 1
        index = 0
        self.skip(_BLANK)
        while self.text[self.at] != "]":
            self.note((*path, index), self.at)
            self.value((*path, index))
            index += 1
            self.skip(_BLANK)
            if self.text[self.at] == ",":
                self.at += 1
                self.skip(_BLANK)
        self.at += 1

    def inline_table(self, path: Path) -> None:
        self.at += 1
        self.skip(_BLANK)
        while self.text[self.at] != "}":
            self.key_and_value(path)
            self.skip(_BLANK)
            if self.text[self.at] == ",":
                self.at += 1
                self.skip(_BLANK)
        self.at += 1

    def note(self, path: Path, offset: int) -> None:
        self.found.setdefault(path, bisect.bisect_left(self.newlines, offset) + 1)

    def skip(self, pattern: re.Pattern[str]) -> str:
        """Step over what `pattern` matches here. No match means a text that tomllib would not have taken."""
        match = pattern.match(self.text, self.at)
        if match is None:
            raise ValueError(f"not TOML at character {self.at}")
        self.at = match.end()
        return match.group()
