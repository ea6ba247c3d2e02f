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

NOTHING = "-"
_GAP = 2
_LEAST = 6
_PAD = 120


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
    """How many columns a line may have; None where nobody looks at it and all is printed."""
    if not on_terminal():
        return None
    try:
        return max(20, os.get_terminal_size(sys.stdout.fileno()).columns)
    except OSError:
        return 80


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


def table(rows: Sequence[Mapping[str, Any]], shape: Sequence[Column]) -> None:
    """The rows under their titles, aligned: cut to the width of a terminal, whole when piped."""
    limit = columns()
    shape = _that_fit(shape, limit)
    cells = [[column.title for column in shape], *([column.text(row) for column in shape] for row in rows)]
    widths = [max(width(row[at]) for row in cells) for at in range(len(shape))]
    _shrink(widths, limit)
    for row in cells:
        line((" " * _GAP).join(_padded(row, widths, limit)).rstrip())


def _padded(row: Sequence[str], widths: Sequence[int], limit: int | None) -> list[str]:
    if limit is not None:
        return [fit(cell, room) for cell, room in zip(row, widths, strict=True)]
    # One long value does not push the others of its column out of sight.
    return [cell + " " * (min(room, _PAD) - width(cell)) for cell, room in zip(row, widths, strict=True)]


def _that_fit(shape: Sequence[Column], limit: int | None) -> list[Column]:
    kept = list(shape)
    for column in reversed(shape):
        if limit is None or len(kept) * (_LEAST + _GAP) - _GAP <= limit - 2 * _LEAST:
            break
        if column.extra:
            kept.remove(column)
    return kept


def _shrink(widths: list[int], limit: int | None) -> None:
    """Take from the widest column until all fit."""
    if limit is None:
        return
    room = limit - _GAP * (len(widths) - 1)
    widths[:] = [min(one, limit) for one in widths]
    while sum(widths) > room and max(widths) > 1:
        widths[widths.index(max(widths))] -= 1


def listing(document: Mapping[str, Any], shape: Sequence[Column], empty: str) -> None:
    """A list document as a table; with nothing in it `empty` is said on standard error, so that pipes stay empty."""
    rows = document.get("items") or []
    if rows:
        table(rows, shape)
    else:
        note(empty)
    more(document)


def more(document: Mapping[str, Any]) -> None:
    """Say that a list goes on."""
    if document.get("next") is not None:
        note("there is more: ask for it with a larger -n, or narrow it with --since and --until")


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
    """Let no closed descriptor be taken by the next file that is opened, and no character stop the output."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
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
    """What an act has done, in one line; inside a session it is not done yet."""
    line(text + (" (staged: saved when the session ends well)" if document.get("staged") else ""))


def cut(value: Any) -> str:
    """A stored value, short enough for a sentence."""
    return shortened(_encodable(str(value)), 60)


def flush() -> None:
    """Send what was printed on its way, for one who watches."""
    if sys.stdout is not None:
        sys.stdout.flush()
