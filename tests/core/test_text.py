"""What is printed and logged: nothing in it can move a cursor, turn a line round or hide."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarmd.core.text import escaped, fit, one_line, shortened, width

ANY = st.text(st.characters(), max_size=60)  # lone surrogates included


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text, with 'quotes' and \\backslashes\\", "plain text, with 'quotes' and \\backslashes\\"),
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("a\nb\r\nc\td", "a\\nb\\r\\nc\\td"),
        ("\x00\x07\x08\x7f", "\\x00\\x07\\x08\\x7f"),
        ("\x85\x9b31m", "\\x85\\x9b31m"),
        ("abc\u202edcba", "abc\\u202edcba"),
        ("\u2066\u2069\u200e\u200f\u061c", "\\u2066\\u2069\\u200e\\u200f\\u061c"),
        (
            "zero\u200bwidth\u200c\u200d\ufeff\u00ad\u2060",
            "zero\\u200bwidth\\u200c\\u200d\\ufeff\\xad\\u2060",
        ),
        ("line\u2028para\u2029", "line\\u2028para\\u2029"),
        ("\ud800x\udcff", "\\ud800x\\xff"),
        ("\U000e0041\U000e007f", "\\U000e0041\\U000e007f"),
        ("\u3164\u115f\u034f", "\\u3164\\u115f\\u034f"),
        ("Größe 日本語 🚀 e\u0301", "Größe 日本語 🚀 e\u0301"),
        ("[bold]markup[/bold]", "[bold]markup[/bold]"),
    ],
)
def test_what_could_fool_an_eye_or_a_terminal_is_shown_as_an_escape(text, shown):
    assert one_line(text) == shown


def test_line_feeds_and_tabs_stay_in_a_text_of_several_lines():
    assert escaped("a\n\tb\r\n\x1b[2J\u202e") == "a\n\tb\\r\n\\x1b[2J\\u202e"


@given(ANY)
def test_nothing_dangerous_is_left(text):
    for shown in (one_line(text), escaped(text).replace("\n", "").replace("\t", "")):
        assert not [c for c in shown if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")]
        shown.encode("utf-8")
    assert len(one_line(text).splitlines()) <= 1


@given(ANY)
def test_twice_is_the_same_as_once(text):
    assert one_line(one_line(text)) == one_line(text)


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("", 0),
        ("abc", 3),
        ("日本語", 6),
        ("한국", 4),
        ("\uff71", 1),
        ("\uff21", 2),
        ("🚀", 2),
        ("e\u0301", 1),
        ("x\u20dd", 1),
        ("é", 1),
    ],
)
def test_columns_are_counted_as_a_terminal_does(text, columns):
    assert width(text) == columns


def test_a_table_of_all_scripts_is_aligned():
    rows = [
        "plain",
        "日本語のエージェント",
        "🚀🚀🚀🚀🚀🚀",
        "e\u0301" * 20,
        "\x1b[31m",
        "a日b日c日d日e",
        "",
        "x" * 5000,
    ]
    assert {width(fit(row, 10)) for row in rows} == {10}


def test_what_is_cut_ends_with_an_ellipsis():
    assert fit("abcdefgh", 5) == "abcd…"
    assert fit("日本語", 4) == "日… "  # half a character cannot be shown
    assert fit("abc", 5) == "abc  "
    assert fit("abcde", 5) == "abcde"
    assert fit("abc", 1) == "…"
    assert fit("abc", 0) == fit("abc", -3) == ""


@given(ANY, st.integers(1, 40))
def test_a_cell_has_exactly_its_columns(text, columns):
    assert width(fit(text, columns)) == columns


def test_a_megabyte_of_accents_has_no_width_and_no_end():
    assert width(fit("e" + "\u0301" * 1_000_000, 10)) == 10
    assert len(fit("e" + "\u0301" * 1_000_000, 10)) < 200


def test_a_short_form_has_at_most_its_length():
    assert shortened("short", 10) == "short"
    assert shortened("exactly 10", 10) == "exactly 10"
    assert shortened("more than ten", 10) == "more than…"
    assert shortened("two\nlines", 20) == "two\\nlines"
    assert shortened("\x1b\x1b\x1b", 10) == "\\x1b\\x1b…"  # never half an escape


@given(ANY, st.integers(0, 40))
def test_a_short_form_is_never_longer(text, limit):
    shown = shortened(text, limit)
    assert len(shown) <= limit
    assert shown == one_line(text) or shown.endswith("…") or limit == 0
