"""The text of a cron schedule, read field by field, a sentence for each fault; not when it is due."""

import difflib
import re
from dataclasses import dataclass, field
from typing import NoReturn

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")

# Debian's cron takes these in small letters only; nobody means something else by the others.
MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
MAX_LENGTH = 1000  # Debian's cron reads a line into a buffer of this size

_ORDER = "minute hour day-of-month month day-of-week"
_ITEM = re.compile(r"(?P<first>\*|[0-9]+|[A-Za-z]+)(?:-(?P<last>[0-9]+|[A-Za-z]+))?(?:/(?P<step>[0-9]+))?")


class CronError(ValueError):
    """The text is no cron schedule; the sentence names the field, what is wrong with it, and the fix.

    `reason` is the sentence without the field, `field` the field's name (None: the text as a whole), `column`
    where in the text the fault begins, counted from 0.
    """

    def __init__(self, reason: str, *, text: str, field: str | None = None, column: int = 0) -> None:
        """Make the sentence out of its parts."""
        super().__init__(f"{field}: {reason}" if field else reason)
        self.text = text
        self.reason = reason
        self.field = field
        self.column = column

    @property
    def pointed(self) -> str:
        """The text with a caret under the fault, on two lines."""
        return f"{self.text}\n{' ' * self.column}^"


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One of the five columns and what it may hold; `values` counts what differs: both 0 and 7 are Sunday."""

    name: str
    low: int
    high: int
    values: int
    unit: str | None = None
    names: tuple[str, ...] = ()
    first_name: int = 0
    fold: dict[int, int] = field(default_factory=dict)


FIELDS = (
    Field(name="minute", low=0, high=59, values=60, unit="m"),
    Field(name="hour", low=0, high=23, values=24, unit="h"),
    Field(name="day-of-month", low=1, high=31, values=31, unit="d"),
    Field(name="month", low=1, high=12, values=12, names=_MONTHS, first_name=1),
    Field(name="day-of-week", low=0, high=7, values=7, unit="d", names=_WEEKDAYS, fold={7: 0}),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """One field as it stands in the text, and where."""

    field: Field
    text: str
    word: str
    column: int

    def refuse(self, reason: str, at: int = 0) -> NoReturn:
        """Raise the error that points at the character `at` of this word."""
        raise CronError(reason, text=self.text, field=self.field.name, column=self.column + at)


def split_fields(text: str) -> list[Word]:
    """The five words of the text, a macro written out; each starts where the reader would look for it."""
    _refuse_lines(text)
    bare = text.strip(" \t")
    if bare.startswith("@"):
        return split_fields(_macro(text, bare))
    found = list(re.finditer(r"[^ \t]+", text))
    if len(found) != len(FIELDS):
        _refuse_count(text, [match.group() for match in found])
    return [
        Word(field=field, text=text, word=match.group(), column=match.start())
        for field, match in zip(FIELDS, found, strict=True)
    ]


def read_field(word: Word) -> frozenset[int]:
    """The values that the field's list names, Sunday as 0."""
    values: set[int] = set()
    at = 0
    for item in word.word.split(","):
        values.update(_read_item(word, item, at))
        at += len(item) + 1
    return frozenset(word.field.fold.get(value, value) for value in values)


def _read_item(word: Word, item: str, at: int) -> range:
    found = _ITEM.fullmatch(item)
    if found is None:
        word.refuse(_fault(word, item), at)
    first, last, step = found["first"], found["last"], found["step"]
    field = word.field
    if first == "*":
        if last is not None:
            word.refuse(f"{item!r}: * cannot start a range; write numbers on both sides of the -", at)
        low, high = field.low, field.high
    else:
        low = _number(word, first, at)
        high = low if last is None else _number(word, last, at + found.start("last"))
        if step is not None and last is None:
            word.refuse(f"{item!r}: a step needs a range or * before it; write {low}-{field.high}/{step}", at)
    every = 1 if step is None else int(step)
    if every == 0:
        word.refuse(f"{item!r}: a step of 0 never moves on; write 1 or more", at + found.start("step"))
    if low > high:
        word.refuse(f"{item!r}: the range runs backwards; write {_forwards(field, low, high, every)}", at)
    if first == "*" and every > field.values:
        word.refuse(_too_wide(field, item, every), at + found.start("step"))
    return range(low, high + 1, every)


def _number(word: Word, spelled: str, at: int) -> int:
    field = word.field
    if not spelled.isdigit():
        return _named(word, spelled, at)
    value = int(spelled)
    if not field.low <= value <= field.high:
        side = f"the lowest is {field.low}" if value < field.low else f"the highest is {field.high}"
        word.refuse(f"{spelled} is out of range; {side}", at)
    return value


def _named(word: Word, spelled: str, at: int) -> int:
    field, low = word.field, spelled.lower()
    if low in field.names:
        return field.names.index(low) + field.first_name
    if not field.names:
        word.refuse(f"{spelled!r}: only month and day-of-week take names; write a number", at)
    if low in _MONTHS or low in _WEEKDAYS:
        kind = "a month" if low in _MONTHS else "a day of the week"
        word.refuse(f"{spelled!r} is {kind}; the order is {_ORDER}", at)
    if low[:3] in field.names:
        word.refuse(f"{spelled!r}: names have three letters; write {low[:3]}", at)
    return word.refuse(f"{spelled!r} is no name here; the names are {', '.join(field.names)}", at)


def _forwards(field: Field, low: int, high: int, step: int) -> str:
    """What the writer of a backward range meant: on to the end of the field, and from its start."""
    if step > 1:
        around = (value % field.values for value in range(low, high + field.values + 1, step))
        return ",".join(str(value or field.values * (field.low > 0)) for value in sorted(set(around)))
    upper = _span(low, field.high)
    first = 1 if field.fold else field.low  # the upper half of a week ends with 7, which is Sunday already
    return f"{upper},{_span(first, high)}" if high >= first else upper


def _span(low: int, high: int) -> str:
    return str(low) if low == high else f"{low}-{high}"


def _too_wide(field: Field, item: str, step: int) -> str:
    only = f"{item!r}: cron takes the first of {field.values} values alone; write {field.low} if so meant"
    return only if field.unit is None else f'{only}, or use every = "{step}{field.unit}" in place of cron'


def _fault(word: Word, item: str) -> str:
    strange = [char for char in item if not " " < char <= "~"]
    if not item:
        return f"{word.word!r} has an empty item in its list; take out the extra comma"
    if strange:
        return f"{item!r} holds U+{ord(strange[0]):04X}, unknown to cron; type it anew in plain ASCII"
    if item == "?":
        return "'?' is not Debian cron's; write * for any value"
    if item.startswith("/"):
        return f"{item!r}: nothing stands before the step; write *{item}"
    if item.startswith("-"):
        return f"{item!r}: no value has a sign; the lowest is {word.field.low}"
    if "/" in item and not re.fullmatch(r"[^/]+/[0-9]+", item):
        return f"{item!r}: the step is no whole number; write a number of 1 or more after the /"
    if item.endswith("-"):
        return f"{item!r}: the range has no end; write {item}{word.field.high}"
    if item.startswith("*"):
        return f"{item!r}: only / and a step may follow *; write * or */n"
    odd = re.search(r"[^0-9A-Za-z*/-]", item)
    if odd:
        return f"{item!r}: {odd.group()!r} means nothing to cron; lists take commas, ranges -, steps /"
    return f"{item!r} is no number, name, range or step"


def _refuse_lines(text: str) -> None:
    if not text.strip():
        raise CronError(f"the schedule is empty; write five fields: {_ORDER}", text=text)
    if len(text) > MAX_LENGTH:
        raise CronError(f"the schedule has {len(text)} characters; cron takes {MAX_LENGTH}", text=text)
    end = re.search(r"[\x00-\x08\x0a-\x1f\x7f\x85\u2028\u2029]|\\[nrt]", text)
    if end:
        reason = "the schedule is one line of five fields, without line ends or control characters"
        raise CronError(reason, text=text, column=end.start())


def _macro(text: str, bare: str) -> str:
    name, *more = bare.lower().split()
    rest, column = " ".join(more), text.index("@")
    if name == "@every" and rest:
        reason = f'@every is not cron; write every = "{rest[:40]}" in place of cron'
        raise CronError(reason, text=text, column=column)
    if name == "@reboot":
        reason = "@reboot names no time, so it would never be due; write a schedule"
        raise CronError(reason, text=text, column=column)
    if name not in MACROS:
        near = difflib.get_close_matches(name, MACROS, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(MACROS)}"
        raise CronError(f"no macro is named {name[:40]!r}; {hint}", text=text, column=column)
    if rest:
        raise CronError(f"{name} stands alone; take out {rest[:40]!r}", text=text, column=column + len(name))
    return MACROS[name]


def _refuse_count(text: str, words: list[str]) -> NoReturn:
    if any(word.startswith("#") for word in words):
        reason = "a schedule takes no comment; take out the # and what follows"
        raise CronError(reason, text=text, column=text.index("#"))
    wanted = f"{len(words)} field{'s' * (len(words) != 1)}, 5 are wanted: {_ORDER}"
    clock = re.fullmatch(r"([0-9]{1,2}):([0-9]{2})", words[0])
    if f"@{words[0].lower()}" in MACROS:
        wanted = f"{wanted}; did you mean @{words[0].lower()}?"
    elif clock:
        wanted = f"{wanted}; write {int(clock[2])} {int(clock[1])} * * * for that time each day"
    elif len(words) > len(FIELDS):
        wanted = f"{wanted}; a seconds or a year field is not cron here"
    raise CronError(wanted, text=text, column=len(text.rstrip()) if len(words) < len(FIELDS) else 0)
