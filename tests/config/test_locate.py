"""The lines of values, against texts written by hand and against whatever tomllib accepts."""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarmd.config.locate import locate

EXAMPLE = '''\
# a comment = with [brackets]
top = "x"
"quoted key" = 1
a.b . "c.d" = 2

[table]
text = """
several = "lines"
[not.a.table]
"""
raw = \'\'\'it's ''quoted\'\'\'\'\'
list = [
  1, # one
  [ "two", "]" ],

  { three = 3, "four" = { five = [ 5 ] } },
]
when = 1979-05-27 07:32:00

[[many]]
x = 1
[many.inner]
y = 2
[[many]]
x = 3
[[many.deep]]
z = 4
'''


def test_every_value_of_the_example_has_its_line():
    lines = locate(EXAMPLE)
    expected = {
        ("top",): 2, ("quoted key",): 3, ("a", "b", "c.d"): 4, ("table",): 6, ("table", "text"): 7,
        ("table", "raw"): 11, ("table", "list"): 12, ("table", "list", 0): 13, ("table", "list", 1): 14,
        ("table", "list", 1, 1): 14, ("table", "list", 2): 16, ("table", "list", 2, "four", "five", 0): 16,
        ("table", "when"): 18, ("many", 0, "x"): 21, ("many", 0, "inner", "y"): 23, ("many", 1): 24,
        ("many", 1, "x"): 25, ("many", 1, "deep", 0, "z"): 27,
    }  # fmt: skip
    assert {path: lines.of(path) for path in expected} == expected


def test_what_is_missing_is_placed_at_what_should_hold_it():
    lines = locate("a = 1\n[runner]\nkind = 'x'\n")
    assert lines.of(("runner", "command")) == 2
    assert lines.of(("runner", "env", "X")) == 2
    assert lines.of(("schedule", "cron")) is None


def test_lists_too_deep_to_follow_keep_the_lines_before_them():
    text = "a = 1\nb = " + "[" * 5000 + "]" * 5000
    assert locate(text).of(("a",)) == 1


KEYS = st.one_of(
    st.text("abcXYZ019_-", min_size=1, max_size=4),
    st.text(max_size=4).filter(lambda key: "\r" not in key),
    st.sampled_from(["a.b", '"', "'", "#", "[x]", "=", "", "ä", "\\"]),
)
MARKS = st.just("mark")
VALUES = st.recursive(
    MARKS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(KEYS, inner, max_size=3),
        st.lists(st.dictionaries(KEYS, inner), max_size=2),
    ),
    max_leaves=12,
)


class Writer:
    """Writes a document in one of the many ways that TOML offers, each leaf with a number of its own."""

    def __init__(self, draw) -> None:
        self.draw = draw
        self.numbers = itertools.count(1000)
        self.lines: list[str] = []

    def choose(self, *choices):
        return self.draw(st.sampled_from(choices))

    def key(self, key: str) -> str:
        if (
            key
            and key.isascii()
            and key.replace("_", "").replace("-", "").isalnum()
            and self.choose(True, False)
        ):
            return key
        if "'" not in key and key.isprintable() and self.choose(True, False):
            return f"'{key}'"
        return '"' + "".join(f"\\U{ord(character):08x}" for character in key) + '"'

    def leaf(self, *, inline: bool) -> str:
        number = next(self.numbers)
        forms = [f"{number}", f'"{number} \\" # ]"', f"'{number} \" # }}'", f"{number}.5"]
        if not inline:
            forms += [
                f'"""{number}\n[x]\na = "1" \\\\ ""\n"""',
                f"'''{number}\n''b\\\n'''''",
                f'"""{number}"" """""',
            ]
        return self.choose(*forms)

    def inline(self, value, *, broken: bool) -> str:
        """`broken`: whether line breaks are allowed here, as they are in lists and not in inline tables."""
        if value == "mark":
            return self.leaf(inline=not broken)
        if isinstance(value, list):
            gap = self.choose("", " ", "\n  ", " # ] a comment\n") if broken else ""
            items = [f"{gap}{self.inline(item, broken=broken)}" for item in value]
            return f"[{','.join(items)}{',' if items and self.choose(True, False) else ''}{gap}]"
        items = [f"{self.key(key)} = {self.inline(item, broken=False)}" for key, item in value.items()]
        return "{" + ", ".join(items) + "}"

    def table(self, path: list[str], value: dict) -> None:
        later = []
        for key, item in value.items():
            tables = item if isinstance(item, list) and item else [item]
            if all(isinstance(one, dict) for one in tables) and self.choose(True, False):
                later.append((key, item))
            elif isinstance(item, dict) and item and self.choose(True, False):
                for inner_key, inner in item.items():  # dotted
                    self.lines.append(
                        f"{self.key(key)} . {self.key(inner_key)}={self.inline(inner, broken=True)}"
                    )
            else:
                self.lines.append(f"{self.key(key)} = {self.inline(item, broken=True)} # [end]")
            self.lines.append(self.choose("", "# x = 1", "\t"))
        for key, item in later:
            inner_path = [*path, self.key(key)]
            for one in item if isinstance(item, list) else [item]:
                self.lines.append(
                    f"[[{'.'.join(inner_path)}]]"
                    if isinstance(item, list)
                    else f"[ {' . '.join(inner_path)} ]"
                )
                self.table(inner_path, one)


def leaves(value: object, path: tuple = ()) -> Iterator[tuple[tuple, object]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from leaves(inner, (*path, index))
    else:
        yield path, value


def inner_paths(value: object, path: tuple = ()) -> Iterator[tuple]:
    yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from inner_paths(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from inner_paths(inner, (*path, index))


@given(st.data(), st.dictionaries(KEYS, VALUES, max_size=4))
def test_whatever_tomllib_reads_is_found_on_the_line_where_it_stands(data, document):
    writer = Writer(data.draw)
    writer.table([], document)
    text = "\n".join(writer.lines)
    parsed = tomllib.loads(text)
    lines, found = text.split("\n"), locate(text)
    for path, value in leaves(parsed):
        number = str(value)[:4]
        assert path in found, (path, text)
        assert number in lines[found.of(path) - 1], (path, text)
    assert {path for path in inner_paths(parsed) if path} == set(found), text


@pytest.mark.parametrize("text", ["", "\n", "# only a comment", "\t\n  # x"])
def test_a_text_without_values_has_no_lines(text):
    assert list(locate(text)) == []
