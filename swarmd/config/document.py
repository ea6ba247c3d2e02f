"""From the bytes of a file to the values of its TOML, or the one problem that prevents it; fields are not judged."""

from __future__ import annotations

import codecs
import re
import tomllib
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from swarmd.config.files import FileRead
from swarmd.config.locate import Lines, locate
from swarmd.config.problems import Complaint, Path, Problem, at, field_name

DEPTH = 32
"""No field of ours is half as deep; who walks over a document may recurse."""
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_AT = re.compile(r" \(at (?:line (?P<line>\d+), column (?P<column>\d+)|end of document)\)$")
_DECLARED_TWICE = re.compile(r"Cannot declare \((?P<names>.*)\) twice")


@dataclass(frozen=True, kw_only=True)
class Document:
    """A TOML file: its text (line ends as LF, no BOM) and its values; with a problem, the values are empty."""

    file: str
    """The name under which problems speak of it."""
    text: str = ""
    data: dict[str, Any] = field(default_factory=dict)
    problem: Problem | None = None

    @cached_property
    def lines(self) -> Lines:
        """Where each value stands; found only when asked for, which is when something is wrong."""
        return locate(self.text)

    def has(self, path: Path) -> int:
        """How many parts of `path` lead to something in this document."""
        return len(self._walked(path))

    def located(self, complaint: Complaint) -> Problem:
        """The complaint with its file and line; what is missing altogether is missed on line 1."""
        walked = self._walked(complaint.path)
        path = complaint.path
        if walked and not isinstance(self._at(walked), (dict, list)):
            path = walked  # `schedule = "..."` is checked as the table that it stands for
        return Problem(
            file=self.file,
            line=self.lines.of(path) or 1,
            field=field_name(path),
            text=complaint.text,
            found=complaint.found,
            expected=complaint.expected,
            hint=complaint.hint,
            severity=complaint.severity,
        )

    def _walked(self, path: Path) -> Path:
        for length in range(len(path), 0, -1):
            if self._at(path[:length]) is not None:
                return path[:length]
        return ()

    def _at(self, path: Path) -> object:
        value: object = self.data
        for part in path:
            value = at(value, part)
        return value


def read_document(file: str, data: bytes) -> Document:
    """The document that these bytes hold."""
    text = decode(data)
    if isinstance(text, Undecodable):
        return Document(file=file, problem=Problem(file=file, line=text.line, text=text.reason))
    try:
        values = tomllib.loads(text)
        # Dotted names nest without brackets, of which the parser takes only so many.
        if not _is_deep(values):
            return Document(file=file, text=text, data=values)
    except RecursionError:
        pass
    except ValueError as error:  # not only TOMLDecodeError: a number of more than 4,300 digits is a plain one
        return Document(file=file, text=text, problem=_syntax_problem(file, text, error))
    problem = Problem(file=file, text=f"tables or lists are nested too deeply: {DEPTH} levels are the most")
    return Document(file=file, text=text, problem=problem)


@dataclass(frozen=True, slots=True, kw_only=True)
class Undecodable:
    """Why bytes are no text, and on which line."""

    reason: str
    line: int | None = None


def decode(data: bytes) -> str | Undecodable:
    """The text of UTF-8 bytes, with or without a BOM, with LF for the line ends of Windows."""
    if data.startswith(_UTF16):
        return Undecodable(reason="is UTF-16; save it as UTF-8")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if data.count(b"\x00") > len(data) // 4:
            return Undecodable(reason="is not UTF-8 (UTF-16 without a BOM?); save it as UTF-8")
        line = data.count(b"\n", 0, error.start) + 1
        byte = data[error.start]
        return Undecodable(reason=f"is not UTF-8 (byte 0x{byte:02x}); save it as UTF-8", line=line)
    return text.replace("\r\n", "\n")


def text_of(read: FileRead) -> str | Undecodable:
    """The text of a file that was read, or why there is none."""
    if read.data is None:
        return Undecodable(reason=read.problem or "cannot be read")
    return decode(read.data)


def _is_deep(data: object) -> bool:
    """Whether anything stands deeper than DEPTH; level by level, since a document may be as deep as it is long."""
    level = [data]
    for _ in range(DEPTH + 1):
        inner: list[object] = []
        for value in level:
            inner += value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        if not inner:
            return False
        level = inner
    return True


def _syntax_problem(file: str, text: str, error: ValueError) -> Problem:
    message = str(error)
    place = _AT.search(message)
    line = column = None
    if place is not None:
        message = message[: place.start()]
        if place["line"] is not None:
            line, column = int(place["line"]), int(place["column"])
        else:
            line = text.count("\n") + (0 if text.endswith("\n") else 1)
    elif not isinstance(error, tomllib.TOMLDecodeError):
        message = "a number has too many digits"
    message = _twice(message, text, line)
    hint = "the file holds NUL bytes; is it UTF-16?" if "\x00" in text else None
    return Problem(file=file, line=line, column=column, text=f"not valid TOML: {message}", hint=hint)


def _twice(message: str, text: str, line: int | None) -> str:
    """The parser's sentence, or for what is there twice, which it does not always name, one that does."""
    table = _DECLARED_TWICE.fullmatch(message)
    if table is not None:
        names = re.findall(r"'([^']*)'", table["names"])
        return f"the table [{field_name(names)}] is there twice"
    if message == "Cannot overwrite a value" and line is not None:
        key, equals, _ = text.split("\n")[line - 1].partition("=")
        if equals:
            return f"the key {key.strip()} is there twice"
    return message
