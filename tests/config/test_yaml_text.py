"""YAML from strangers: read as plain values, and what is wrong with it in our own words, with the line."""

from __future__ import annotations

import contextlib
import time

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from swarmd.config.yaml_text import NoYaml, TooMuch, read

LOADERS = [loader for name in ("CBaseLoader", "BaseLoader") if (loader := getattr(yaml, name, None))]


@pytest.fixture(params=LOADERS, ids=lambda loader: loader.__name__)
def parser(request, monkeypatch):
    """Both parsers that may be there."""
    monkeypatch.setattr(yaml, "CBaseLoader", request.param, raising=False)


VALUES = """
plain: text
empty:
tilde: ~
"null": null
day: 2026-11-30
number: 1e3
yes: no
quoted: "~"
list: [a, {b: c}, []]
folded: >
  one
  two
tagged: !!str 5
"""
READ = {
    "plain": "text", "null": "null", "day": "2026-11-30", "number": "1e3", "yes": "no", "quoted": "~", "empty": "",
    "tilde": "~", "list": ["a", {"b": "c"}, []], "folded": "one two\n", "tagged": "5",
}  # fmt: skip


@pytest.mark.usefixtures("parser")
def test_each_value_is_the_text_that_stands_there():
    assert read(VALUES, deepest=3) == READ
    assert read(VALUES, deepest=3, nulls=True) == {**READ, "empty": None, "tilde": None, "null": None}
    assert read("", deepest=1) is None
    assert read("- a\n- - b\n  - c\n", deepest=2) == ["a", ["b", "c"]]


@pytest.mark.usefixtures("parser")
@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("a: 1\nb: c: d\n", 2, "a ': ' stands where none may: a text that has one goes in quotes"),
        ("a: 1\nb: 'x\n\nc: d\n", 2, "a quote is opened and never closed"),
        ("a: 1\nb: [x\n", 2, "a list [...] or table {...} is not closed"),
        ("a: 1\nb: [x\nc: d\n", 2, "a list [...] or table {...} is not closed"),
        ("a: 1\nb: @x\n", 2, "begins with a character that has a meaning in YAML"),
        ("a:\n\tb: 1\n", 2, "a tab is before its text"),
        ("a: 1\nb: \x1b[31m\n", 2, "it has the character '\\x1b', which may not stand in YAML"),
        ("a: 1\r\nb: \x00\r\n", 2, "it has the character '\\x00'"),
        ('a: "\\q"\n', 1, "no escape that YAML knows"),
        ("a: 1\n- b\n", 2, "begins in another column than the lines before, or"),
        ("x: - a\n", 1, "a '- ' stands where none may"),
        ("a: 1\n---\nb: 2\n", 2, "another document begins"),
        ("a: |x\n b\n", 1, "none of its marks"),
        ("a: * b\n", 1, "a * begins a name and has none"),
        ("a: !foo!bar x\n", 1, "a ! begins no tag that is known"),
        ("? [a]\n: b\n", 1, "a list or table stands where a name is expected"),
    ],
)
def test_what_is_wrong_is_told_in_our_words_with_its_line(text, line, why):
    with pytest.raises(NoYaml) as found:
        read(text, deepest=8)
    assert (found.value.line, why in str(found.value)) == (line, True), str(found.value)
    for theirs in ("expected", "while ", "token", "scalar", "block", "unicode string", "position"):
        assert theirs not in str(found.value).replace("is expected", "")


@pytest.mark.usefixtures("parser")
@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a: &x 1\nb: *x\n", "an alias (*x)"),
        ("[" * 9 + "]" * 9, "more than 8 levels"),
        ("[" * 5000, "more than 8 levels"),
    ],
)
def test_what_is_not_read_is_named(text, why):
    with pytest.raises(TooMuch) as found:
        read(text, deepest=8)
    assert str(found.value) == why


def test_tags_are_passed_over_or_refused_and_make_nothing():
    text = "a: !!python/object/apply:os.system [id]\n"
    assert read(text, deepest=8) == {"a": ["id"]}
    with pytest.raises(NoYaml, match=r"it has the tag 'tag:yaml\.org,2002:python/object/apply:os\.system'"):
        read(text, deepest=8, tags=False)


def test_a_bomb_of_aliases_costs_nothing():
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    began = time.process_time()
    with pytest.raises(TooMuch):
        read("\n".join(lines), deepest=8)
    assert time.process_time() - began < 1.0


def test_there_are_no_more_values_than_the_bound(monkeypatch):
    monkeypatch.setattr("swarmd.config.yaml_text.MOST_VALUES", 10)
    assert len(read("- a\n" * 9, deepest=2)) == 9
    with pytest.raises(TooMuch, match="more than 10 values"):
        read("- a\n" * 10, deepest=2)


trees = st.recursive(
    st.text(st.characters(codec="utf-8", exclude_categories=("C",)), max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", min_size=1, max_size=3), inner, max_size=3),
    max_leaves=12,
)  # fmt: skip


@given(trees)
def test_what_the_library_writes_is_read_as_the_library_reads_it(tree):
    text = yaml.dump(tree, Dumper=yaml.SafeDumper, allow_unicode=True)
    assert read(text, deepest=100) == yaml.load(text, Loader=yaml.BaseLoader)


@given(st.text(max_size=200))
def test_no_text_breaks_the_reader(text):
    with contextlib.suppress(NoYaml):
        read(text, deepest=8)
