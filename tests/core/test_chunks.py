"""A text in pieces: all of it, each piece with the line it starts at, and the same pieces where it has not changed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from swarmd.core.chunks import MOST, ROOM, chunks, cut

LINES = st.lists(
    st.text(alphabet="a #\n", max_size=3 * ROOM)
    | st.just("")
    | st.just("## heading")
    | st.just("word " * 60),
    max_size=30,
)


@given(LINES)
def test_nothing_is_lost_and_no_piece_is_too_long(lines):
    text = "\n".join(lines)
    found = list(chunks(text))
    assert "".join("".join(piece for _, piece in found).split()) == "".join(text.split())
    assert all(piece.strip() and len(piece) <= ROOM + 1 for _, piece in found)


@given(LINES)
def test_a_piece_begins_in_its_line(lines):
    text = "\n".join(lines)
    known = text.splitlines()
    for line, piece in chunks(text):
        assert piece.split("\n")[0] in known[line - 1]


def test_what_is_added_at_the_end_changes_the_last_piece_alone():
    text = "".join(f"## Day {day}\n{'it was so. ' * 60}\n\n" for day in range(30))
    before, after = list(chunks(text)), list(chunks(text + "one line more\n"))
    assert len(before) > 10
    assert before[:-1] == after[: len(before) - 1]


def test_after_an_edit_further_up_the_pieces_are_the_same_again():
    text = "".join(f"## Day {day}\n{'it was so. ' * 60}\n\n" for day in range(30))
    before = {piece for _, piece in chunks(text)}
    after = {piece for _, piece in chunks(text.replace("it was so", "it was quite otherwise", 3))}
    assert len(before & after) >= 27


def test_of_a_text_without_end_so_many_pieces_are_made():
    assert len(list(chunks("word\n\n" * 10 + "x" * (ROOM * (MOST + 50))))) == MOST


def test_a_long_text_is_cut_in_its_middle():
    assert cut("short") == "short"
    long = cut("a" * 3000 + "b" * 10_000 + "c" * 1000)
    assert long == "a" * 3000 + "\n[... 10000 characters ...]\n" + "c" * 1000
