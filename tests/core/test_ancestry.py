"""From which revision a person's text was made."""

from __future__ import annotations

import pytest

from swarmd.core.ancestry import Known, base_of, removed_lines

OLD = Known(rev=1, data=b"one\ntwo\nthree\n")
SEEN = Known(rev=2, data=b"one\ntwo\nthree\nthe agent came by\n")
NEWER = Known(rev=3, data=b"one\ntwo\nthree\nthe agent came by\nand again\n")


@pytest.mark.parametrize(
    ("text", "rev"),
    [
        (b"one\ntwo\nthree\nthe agent came by\nby hand\n", 2),  # an edit of what was seen
        (b"one\ntwo\nthree\nby hand\n", 1),  # a stale editor's
        (b"one\nTWO\nthree\n", 1),  # likewise
        (b"one\ntwo\nthree\n", 2),  # exactly an older text: the person's word
        (b"one\ntwo\nthree\nthe agent came by twice\n", 2),  # a correction of the agent's line
        (b"something else\n", 2),  # written anew
        (b"", 2),
    ],
)
def test_an_older_base_needs_evidence(text, rev):
    assert base_of(text, SEEN, [SEEN, OLD]).rev == rev


def test_a_newer_base_that_is_nearer_counts():
    assert base_of(NEWER.data + b"by hand\n", SEEN, [NEWER, SEEN, OLD]).rev == 3


def test_where_nothing_is_known_the_nearest_counts_and_of_two_the_newest():
    assert base_of(b"one\ntwo\nthree\nby hand\n", None, [NEWER, SEEN, OLD]).rev == 1
    assert base_of(b"else\n", None, [Known(rev=1, data=b"a\n"), Known(rev=2, data=b"b\n")]).rev == 2
    assert base_of(b"else\n", None, []) is None


def test_lines_that_a_save_removes_are_named():
    assert removed_lines(b"one\n", b"one\nagent\n\n", b"one\n") == ("agent",)
    assert removed_lines(b"two\n", b"one\n", b"one\n") == ()


def test_an_empty_line_that_both_have_is_no_sign_that_a_text_knows_what_was_seen():
    seen = Known(rev=2, data=b"# Summary\n\nwhat the three were about\n\n- an addition\n")
    old = Known(rev=1, data=b"# Notes\n\none\ntwo\nthree\n")
    assert base_of(old.data + b"by hand\n", seen, [seen, old]).rev == 1
