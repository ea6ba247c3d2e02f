"""All that the command line prints: JSON, lines, tables and facts, with stored text made harmless on its way out."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from swarmd.core.text import escaped, fit, one_line, shortened, width

TIMES = frozenset({
    "at", "created", "due", "ended", "expires", "last", "last_ended", "next", "next_fire", "not_before", "now",
    "oldest", "queued", "since", "slot", "start", "started", "until", "updated",
})  # fmt: skip
"""The fields of documents that hold an instant, and are shown by the clock on the wall."""

TEXTS = frozenset({
    "description", "first_line", "note", "ours", "reason", "text", "theirs", "value",
})  # fmt: skip
"""The fields that hold a text of any length: a table may cut them, and nothing else."""

NOTHING = "-"
EMPTY = '""'
_GAP = 2
_LEAST = 16
_PAD = 120
_BLOCK_TEXT = 400
_USUAL, _FEWEST, _MOST = 80, 20, 10_000
"""Columns of a terminal that does not say how many it has, and the bounds of what it, or COLUMNS, says."""


def line(text: str = "") -> None:
    """One or more lines of text on standard output; control characters in it are escaped."""
    if sys.stdout is not None:
        sys.stdout.write(escaped(text) + "\n")


def note(text: str) -> None:
    """One sentence on standard error, in the program's name."""
    if sys.stderr is None:
        return
    try:
        sys.stderr.write(f"swarmd: {one_line(text)}\n")
        sys.stderr.flush()
    except OSError:
        pass  # there is nowhere left to say it


def bare(data: bytes) -> None:
    """Stored bytes: as they are when piped, escaped on a terminal."""
    if sys.stdout is None:
        return
    if on_terminal():
        text = data.decode("utf-8", "backslashreplace")
        line(text.removesuffix("\n"))
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(data)


def json_document(document: Any) -> None:
    """The document as it came. ASCII, so that no locale and no terminal can be upset by it."""
    import json  # two milliseconds that most commands need not pay

    text = json.dumps(document, indent=2, ensure_ascii=True)
    line(text.replace("\x7f", "\\u007f"))


def on_terminal() -> bool:
    """Whether standard output is a terminal."""
    return sys.stdout is not None and sys.stdout.isatty()


def columns() -> int | None:
    """How many columns a line may have: what COLUMNS says, else the terminal, else the usual number, since a terminal
    may not know its width and say 0. None where nobody looks at it and all is printed.
    """
    if not on_terminal():
        return None
    return min(max(_wished_columns() or _columns_of_terminal() or _USUAL, _FEWEST), _MOST)


def _wished_columns() -> int:
    """COLUMNS, where it is a positive number; else 0."""
    try:
        return max(0, int(os.environ.get("COLUMNS", "")))
    except ValueError:  # also of a number with thousands of digits
        return 0


def _columns_of_terminal() -> int:
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns
    except OSError:
        return 0


def local(text: Any) -> str:
    """An instant of a document by the clock on the wall, with its offset from UTC."""
    if text is None:
        return NOTHING
    try:
        moment = datetime.fromisoformat(str(text)).astimezone()
    except (ValueError, OverflowError):
        return one_line(str(text))
    return moment.isoformat(sep=" ", timespec="seconds")


def shown(field: str, value: Any) -> str:
    """A value of a document in one line of safe text."""
    if value is None or value == "":
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return local(value) if field in TIMES else _encodable(one_line(value))
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {shown(str(key), item)}" for key, item in value.items()) or NOTHING
    if isinstance(value, Sequence):
        return ", ".join(shown(field, item) for item in value) or NOTHING
    return str(value)


def _encodable(text: str) -> str:
    """With replacement marks for what the output cannot show, put here so that widths are counted with them."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    if text.isascii() or encoding.lower().replace("-", "") == "utf8":
        return text
    return text.encode(encoding, "replace").decode(encoding)


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a list. An `extra` one is left out where the terminal is too narrow for all."""

    title: str
    field: str
    extra: bool = False
    cell: Callable[[Mapping[str, Any]], Any] | None = None

    def text(self, row: Mapping[str, Any]) -> str:
        """What the row has here."""
        value = row.get(self.field) if self.cell is None else self.cell(row)
        return shown(self.field, value)


def columns_of(table: str, **cells: Callable[[Mapping[str, Any]], Any]) -> tuple[Column, ...]:
    """Columns by the fields' names: `id agent ~reason by=sender`; `~` marks an extra one, `title=field` a title."""
    made = []
    for word in table.split():
        title, _, field = word.lstrip("~").rpartition("=")
        made.append(
            Column(
                title=(title or field).upper(), field=field, extra=word.startswith("~"), cell=cells.get(field)
            )
        )
    return tuple(made)


def table(rows: Sequence[Mapping[str, Any]], shape: Sequence[Column], *, whole: bool = False) -> None:
    """The rows under their titles, aligned and whole when piped. On a terminal texts are cut to its width, and where
    that is not enough each row becomes a block, one field a line: what a person copies or waits for is never cut.
    With `whole` the last column's texts go on below instead of being cut.
    """
    limit = columns()
    cells = [[column.title for column in shape], *([column.text(row) for column in shape] for row in rows)]
    widths = [max(width(row[at]) for row in cells) for at in range(len(shape))]
    kept = _that_fit(shape, widths, limit)
    if limit is not None and not kept:
        _blocks(shape, cells[1:], limit)
        return
    for row in cells:
        *others, last = [row[at] for at in kept]
        first, *rest = wrapped(last, widths[kept[-1]]) if whole and limit is not None else [last]
        for parts in ([*others, first], *([*([""] * len(others)), part] for part in rest)):
            line((" " * _GAP).join(_padded(parts, [widths[at] for at in kept], limit)).rstrip())


def _padded(row: Sequence[str], widths: Sequence[int], limit: int | None) -> list[str]:
    if limit is not None:
        return [fit(cell, room) for cell, room in zip(row, widths, strict=True)]
    # One long value does not push the others of its column out of sight.
    return [cell + " " * (min(room, _PAD) - width(cell)) for cell, room in zip(row, widths, strict=True)]


def _that_fit(shape: Sequence[Column], widths: list[int], limit: int | None) -> list[int]:
    """Which columns there is room for, extra ones being dropped first, with `widths` to match; none: all too narrow."""
    kept = list(range(len(shape)))
    if limit is None:
        return kept
    for at in (None, *reversed(range(len(shape)))):
        if at is not None and not shape[at].extra:
            continue
        kept = [one for one in kept if one != at]
        least = [min(widths[one], _LEAST) if shape[one].field in TEXTS else widths[one] for one in kept]
        if sum(least) + _GAP * (len(kept) - 1) <= limit:
            _shrink(shape, widths, kept, limit - _GAP * (len(kept) - 1))
            return kept
    return []


def _shrink(shape: Sequence[Column], widths: list[int], kept: list[int], room: int) -> None:
    """Take from the widest text until all fit."""
    texts = [at for at in kept if shape[at].field in TEXTS]
    for at in texts:
        widths[at] = min(widths[at], room)
    over = sum(widths[at] for at in kept) - room
    while over > 0:
        widest = max(texts, key=lambda at: widths[at])
        others = [widths[at] for at in texts if at != widest]
        taken = max(1, min(over, widths[widest] - max([_LEAST, *others])))
        widths[widest] -= taken
        over -= taken


def _blocks(shape: Sequence[Column], rows: Sequence[Sequence[str]], limit: int) -> None:
    """Each row as a block, one field a line; what is longer goes on below, and nothing but a long text is cut."""
    label = max(width(column.title) for column in shape) + _GAP
    for number, row in enumerate(rows):
        if number:
            line()
        for column, cell in zip(shape, row, strict=True):
            if cell == NOTHING and column.field != "value":
                continue
            text = shortened(cell, _BLOCK_TEXT) if column.field in TEXTS else cell
            first, *rest = wrapped(text, limit - label)
            line(fit(column.title, label) + first)
            for part in rest:
                line(" " * label + part)


def wrapped(text: str, room: int) -> list[str]:
    """The text in lines of at most so many columns, broken at spaces where there are any."""
    lines, current = [], ""
    for word in text.split(" "):
        longer = f"{current} {word}" if current else word
        if width(longer) <= room:
            current = longer
            continue
        if current:
            lines.append(current)
        while width(word) > room:
            head = _head(word, room)
            lines.append(head)
            word = word[len(head) :]  # noqa: PLW2901 - what is left of it
        current = word
    return [*lines, current]


def _head(word: str, room: int) -> str:
    """As much of the word as has room, one character at least."""
    end = 1
    while end < len(word) and width(word[: end + 1]) <= room:
        end += 1
    return word[:end]


def listing(document: Mapping[str, Any], shape: Sequence[Column], empty: str, *, whole: bool = False) -> None:
    """A list document as a table; with nothing in it `empty` is said on standard error, so that pipes stay empty."""
    rows = document.get("items") or []
    if rows:
        table(rows, shape, whole=whole)
    else:
        note(empty)
    more(document)


def more(document: Mapping[str, Any]) -> None:
    """Say that a list goes on."""
    if document.get("next") is not None:
        until = shown("", document["next"])
        note(f"there is more: --until {until} shows what lies before, a larger -n takes more at once")


def facts(document: Mapping[str, Any], *, without: Iterable[str] = (), indent: str = "") -> None:
    """A document's fields, a line each, without those of null: texts of several lines and lists below their names."""
    left_out = set(without)
    fields = {name: value for name, value in document.items() if name not in left_out and value is not None}
    names = max((width(name) for name in fields), default=0) + _GAP
    for name, value in fields.items():
        label = indent + fit(one_line(str(name)).replace("_", " "), names)
        if isinstance(value, list) and value:
            line(f"{indent}{one_line(str(name)).replace('_', ' ')}")
            items(value, indent + "  ")
        elif isinstance(value, str) and "\n" in value.rstrip("\n"):
            line(f"{indent}{one_line(str(name)).replace('_', ' ')}")
            block(value, indent + "  ")
        else:
            line(f"{label}{shown(name, value)}".rstrip())


def items(values: Iterable[Any], indent: str = "") -> None:
    """Each value of a list in one line; of an object its fields, without their names where it has a text."""
    for value in values:
        if isinstance(value, Mapping):
            parts = [shown(name, item) for name, item in value.items() if item not in (None, "", [], {})]
            line(indent + "  ".join(parts))
        else:
            line(indent + shown("", value))


def block(text: str, indent: str = "") -> None:
    """A stored text of several lines, each of them indented, so that none can pass for one of ours."""
    for part in text.removesuffix("\n").split("\n"):
        line(indent + _encodable(one_line(part)))


def make_standard_files_safe() -> None:
    """Let no closed descriptor be taken by the next file that is opened, and no character stop the output. To write on
    a standard output that is closed fails, as on one that is full.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDONLY if descriptor == 1 else os.O_RDWR)
            if descriptor == 1:
                sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - to the very end
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def close_quietly() -> None:
    """Point standard output at nothing, so that the interpreter's last flush cannot fail a second time."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    except OSError:
        pass


def done(text: str, document: Mapping[str, Any]) -> None:
    """What an act has done, in one line; inside a session it is not done yet, and may have to wait longer."""
    waits = f"staged; {shown('', document['held'])}" if document.get("held") else ""
    staged = "staged: saved when the session ends well" if document.get("staged") else ""
    line(text + (f" ({waits or staged})" if waits or staged else ""))


def cut(value: Any) -> str:
    """A stored value, short enough for a sentence."""
    return cut_to(value, 60)


def cut_to(value: Any, room: int) -> str:
    """A stored value in one line of at most so many characters."""
    return shortened(_encodable(str(value)), room)


def flush() -> None:
    """Send what was printed on its way, for one who watches."""
    if sys.stdout is not None:
        sys.stdout.flush()
