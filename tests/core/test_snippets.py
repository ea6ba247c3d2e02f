"""The part of a text that shows best what was found in it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from swarmd.core.searching import CLOSE, GAP, OPEN
from swarmd.core.snippets import MARK, ROOM, snippet_of


def marked(text: str) -> str:
    return text.replace("[", OPEN).replace("]", CLOSE)


def test_a_short_text_is_shown_whole_in_one_line():
    assert snippet_of(marked("# Disk\n\nThe [disk] was\tfull\n"), 1).text == "# Disk The **disk** was full"


def test_of_a_long_text_the_part_is_shown_where_most_of_the_words_stand_together():
    text = marked(
        "the [disk] alone. " + "x " * 300 + "here the [disk] was [full] at last. " + "y " * 300 + "[full]"
    )
    shown = snippet_of(text, 2)
    assert "the **disk** was **full** at last." in shown.text
    assert shown.text.startswith("...")
    assert shown.text.endswith("...")
    assert len(shown.text) < ROOM + 80


def test_words_that_stand_together_fit_better_than_the_same_words_apart():
    near = snippet_of(marked("[disk] is [full]" + " x" * 400), 2)
    far = snippet_of(marked("[disk]" + " x" * 400 + " is [full]"), 2)
    assert near.fit > far.fit


def test_what_is_said_often_fits_better_and_what_is_said_in_a_long_text_less():
    assert snippet_of(marked("[a] [a] [a]"), 1).fit > snippet_of(marked("[a] b b"), 1).fit
    assert snippet_of(marked("[a]"), 1).fit > snippet_of(marked("[a]" + " b" * 2000), 1).fit


def test_scripts_without_spaces_are_shown_without_the_gaps_of_the_index():
    text = f"{GAP}数{GAP}{OPEN}据{GAP}库{CLOSE}{GAP}"
    assert snippet_of(text, 1).text == "数**据库**"


PLAIN = st.text(alphabet="ab \n数" + GAP, max_size=500)
HIT = st.text(alphabet="ab 数" + GAP, min_size=1, max_size=300).map(lambda text: f"{OPEN}{text}{CLOSE}")


@given(st.lists(PLAIN | HIT, max_size=20), st.integers(1, 5))
def test_a_snippet_is_bounded_and_has_no_mark_of_the_index(parts, wanted):
    shown = snippet_of("".join(parts), wanted)
    assert len(shown.text.replace(MARK, "")) <= ROOM + 2 * 24 + 6
    assert not {OPEN, CLOSE, GAP, "\n"} & set(shown.text)
    assert 0 <= shown.fit < 2
