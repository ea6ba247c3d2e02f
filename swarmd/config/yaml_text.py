"""YAML that strangers have written, read as plain texts, lists and tables, and what is wrong with it in words of ours.

No tag makes anything, no text becomes a date or a number, and aliases, by which a few lines become gigabytes, are
refused. Depth and number of values have bounds, and nothing here recurses.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

MOST_VALUES = 1_000_000
_UNKNOWN = "it is not written as YAML is"
_FORBIDDEN = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_NULLS = ("", "~", "null", "Null", "NULL")
_STANDARD = "tag:yaml.org,2002:"
_KNOWN_TAGS = frozenset({*(_STANDARD + name for name in ("str", "int", "float", "bool", "null", "seq", "map",
                                                         "timestamp", "binary")), "!"})  # fmt: skip
_SAID = (
    ("mapping values", "a ': ' stands where none may: a text that has one goes in quotes; names stand in one column"),
    ("entries are not allowed", "a '- ' stands where none may"),
    ("cannot start any token", "a text begins with a character that has a meaning in YAML: it goes in quotes"),
    ("escape", "a backslash in double quotes begins no escape that YAML knows: single quotes take it as it is"),
    ("unexpected end of stream", "a quote is opened and never closed"),
    ("flow", "a list [...] or table {...} is not closed, or a comma is missing in it"),
    ("block scalar", "what follows | or > is none of its marks"),
    ("simple key", "a ':' is missing behind a name, or it begins in another column than the names before"),
    ("block", "it begins in another column than the lines before, or a ':' or '-' is missing"),
    ("alias", "a * begins a name and has none: a text that begins so goes in quotes"),
    ("anchor", "a & begins a name and has none: a text that begins so goes in quotes"),
    ("tag", "a ! begins no tag that is known: a text that begins so goes in quotes"),
    ("directive", "it begins with %, which is for directives, and none is read here"),
)  # fmt: skip
"""What parsers of YAML say, by words of theirs, and what is meant; the first that fits counts."""


class NoYaml(ValueError):
    """It cannot be read; the sentence says why, `line` (from 1) where."""

    def __init__(self, why: str, line: int) -> None:
        """As above."""
        super().__init__(why)
        self.line = line


class TooMuch(NoYaml):
    """It is YAML, and there is what is not read here: what that is, as `more than 8 levels`."""


def read(text: str, *, deepest: int, nulls: bool = False, tags: bool = True) -> Any:
    """The one document in it: texts, lists, and tables by text. Raises NoYaml.

    `nulls`: an empty value, `~` and `null` are None, and no text. Without `tags` one that means anything but these
    kinds of values is refused; with them they are passed over.
    """
    if (odd := _FORBIDDEN.search(text)) is not None:
        raise NoYaml(
            f"it has the character {odd[0]!a}, which may not stand in YAML", _line_of(text, odd.start())
        )
    return _Builder(deepest, nulls=nulls, tags=tags).built(_events(text, deepest))


def _line_of(text: str, at: int) -> int:
    return len(re.findall("\r\n|[\r\n]", text[:at])) + 1


def _events(text: str, deepest: int) -> Iterator[Any]:
    import yaml  # dear to load, and few need it

    loader: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    try:
        yield from yaml.parse(text, Loader=loader)
    except yaml.MarkedYAMLError as error:
        raise _in_our_words(error, text, deepest) from None
    except (yaml.YAMLError, ValueError, RecursionError):
        raise NoYaml(_UNKNOWN, 1) from None


def _in_our_words(error: Any, text: str, deepest: int) -> NoYaml:
    said = f"{error.problem or ''} {error.context or ''}"
    first, last = error.context_mark or error.problem_mark, error.problem_mark or error.context_mark
    if "nesting depth" in said:
        return TooMuch(f"more than {deepest} levels", 1 if first is None else first.line + 1)
    why = next((ours for words, ours in _SAID if words in said), _UNKNOWN)
    # Of what is never closed the place where it was opened, and not the end of all.
    mark = first if "closed" in why else last
    if mark is None:
        return NoYaml(why, 1)
    line = text.split("\n")[mark.line : mark.line + 1]
    if line and "\t" in line[0][: len(line[0]) - len(line[0].lstrip())]:
        why = "a tab is before its text, where YAML has spaces alone"
    return NoYaml(why, mark.line + 1)


class _Builder:
    """Makes values of events."""

    def __init__(self, deepest: int, *, nulls: bool, tags: bool) -> None:
        self._deepest = deepest
        self._nulls = nulls
        self._tags = tags
        self._open: list[tuple[Any, list[Any]]] = []
        """Lists and tables that have not ended, each with the name in the table that waits for its value."""
        self._root: list[Any] = []
        self._values = 0

    def built(self, events: Iterable[Any]) -> Any:
        """The document. Raises NoYaml."""
        documents = 0
        for event in events:
            line = event.start_mark.line + 1
            match type(event).__name__:
                case "DocumentStartEvent":
                    documents += 1
                    if documents > 1:
                        raise NoYaml("another document begins: one is expected", line)
                case "AliasEvent":
                    raise TooMuch(f"an alias (*{event.anchor[:60]})", line)
                case "ScalarEvent":
                    self._check_tag(event, line)
                    self._put(self._scalar(event), line)
                case "SequenceStartEvent":
                    self._begin([], event, line)
                case "MappingStartEvent":
                    self._begin({}, event, line)
                case "SequenceEndEvent" | "MappingEndEvent":
                    self._open.pop()
        return self._root[0] if self._root else None

    def _begin(self, value: list[Any] | dict[str, Any], event: Any, line: int) -> None:
        self._check_tag(event, line)
        if self._open and isinstance(self._open[-1][0], dict) and not self._open[-1][1]:
            raise NoYaml("a list or table stands where a name is expected", line)
        if len(self._open) >= self._deepest:
            raise TooMuch(f"more than {self._deepest} levels", line)
        self._put(value, line)
        self._open.append((value, []))

    def _put(self, value: Any, line: int) -> None:
        self._values += 1
        if self._values > MOST_VALUES:
            raise TooMuch(f"more than {MOST_VALUES:,} values", line)
        if not self._open:
            self._root.append(value)
            return
        where, name = self._open[-1]
        if isinstance(where, list):
            where.append(value)
        elif name:
            where[name.pop()] = value
        else:
            name.append("" if value is None else value)

    def _scalar(self, event: Any) -> str | None:
        plain = event.implicit[0] and not event.style
        return None if self._nulls and plain and event.value in _NULLS else str(event.value)

    def _check_tag(self, event: Any, line: int) -> None:
        if not self._tags and event.tag is not None and event.tag not in _KNOWN_TAGS:
            raise NoYaml(f"it has the tag {event.tag[:60]!a}, which is not read here", line)
