"""What is wrong with a file, as a value that names file, line, field, what was found and what is expected."""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Severity = Literal["error", "warning"]
Path = tuple[str | int, ...]
"""The place of a value in a TOML document: keys and, in arrays, indices."""

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_SHOWN_CHARACTERS = 60
_SHOWN_BITS = 128
_LIKENESS = 0.65
"""Two thirds, as `bob` and `bab` have; less than that would suggest `good` for `nobody`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing that is wrong. An error keeps its file out of force, a warning does not; `str()` is one sentence."""

    file: str
    text: str
    line: int | None = None
    column: int | None = None
    field: str | None = None
    found: str | None = None
    expected: str | None = None
    hint: str | None = None
    severity: Severity = "error"

    @property
    def is_error(self) -> bool:
        """Whether the file must stay out of force because of it."""
        return self.severity == "error"

    def __str__(self) -> str:
        place = ":".join(str(part) for part in (self.file, self.line, self.column) if part is not None)
        parts = [place, "warning" if self.severity == "warning" else None, self.field, self.text]
        sentence = ": ".join(part for part in parts if part)
        return f"{sentence} ({self.hint})" if self.hint else sentence

    def as_json(self) -> dict[str, Any]:
        """The problem as one JSON object, the whole sentence under `message`."""
        return {**dataclasses.asdict(self), "message": str(self)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Complaint:
    """A problem before it has a file and a line: `path` leads to the value, or to where it should be."""

    path: Path
    text: str
    found: str | None = None
    expected: str | None = None
    hint: str | None = None
    severity: Severity = "error"


def at(value: object, part: str | int) -> object:
    """What a TOML value holds under a key or an index, or None (which TOML does not have) where it holds nothing."""
    if isinstance(value, dict):
        return value.get(part)
    if isinstance(value, list) and isinstance(part, int) and part < len(value):
        inner: object = value[part]
        return inner
    return None


def expected_found(expected: str, found: str) -> str:
    """The usual sentence of a bad value."""
    return f"expected {expected}, found {found}"


def field_name(path: Sequence[str | int]) -> str:
    """A path as a person would write it: `runner.command[2]`, odd keys in quotes."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += ("." if text else "") + (part if _BARE_KEY.fullmatch(part) else repr(part))
    return text


def shown(value: object) -> str:
    """A value of a TOML document in one short line without control characters."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        cut = len(value) > _SHOWN_CHARACTERS
        return repr(value[:_SHOWN_CHARACTERS]) + ("..." if cut else "")
    if isinstance(value, int):
        # str() of an integer with more than 4,300 digits raises; TOML can hold such a one in hexadecimal.
        bits = value.bit_length()
        return str(value) if bits <= _SHOWN_BITS else f"a number of {bits} bits"
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, list):
        return "an empty list" if not value else "a list"
    if isinstance(value, dict):
        return "a table"
    return f"the date or time {value} without quotes"


def printable(name: str) -> str:
    """A file's name as it is, or with what cannot be printed escaped."""
    return name if name.isprintable() else repr(name)[1:-1]


def did_you_mean(word: object, known: Iterable[str]) -> str | None:
    """The nearest of `known` as a hint, or None where nothing is near."""
    if not isinstance(word, str):
        return None
    near = difflib.get_close_matches(word[:100].lower(), sorted(known), n=1, cutoff=_LIKENESS)
    return f"did you mean {near[0]!r}?" if near else None


def one_of(words: Iterable[str]) -> str:
    """`a, b or c`, for sentences."""
    items = [repr(word) for word in words]
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])} or {items[-1]}"
