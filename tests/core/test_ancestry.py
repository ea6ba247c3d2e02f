"""From which revision a person's text was made."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from swarmd.core.ancestry import Known, base_of, kept_lines, removed_lines

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


LIST = Known(rev=1, data=b"- eggs: to be bought on Monday\n- end\n")
LONGER = Known(rev=2, data=LIST.data.replace(b"- end", b"- milk: to be bought on Tuesday\n- end"))
CAME = datetime(2026, 4, 20, 14, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "rev"),
    [
        (LONGER.data.replace(b"Tuesday", b"Friday"), 2),  # in its place: a correction
        (b"- bread: to be bought on Friday\n" + LIST.data, 1),  # elsewhere: a stale editor's own line
        (LIST.data + b"- bread: to be bought on Friday\n", 1),
    ],
)
def test_a_line_that_reads_like_an_added_one_corrects_it_only_in_its_place(text, rev):
    assert base_of(text, LONGER, [LONGER, LIST]).rev == rev


def test_one_line_does_not_correct_several_that_were_added():
    added = b"- milk: to be bought on Tuesday\n- rice: to be bought on Tuesday\n"
    seen = Known(rev=2, data=LIST.data + added)
    assert base_of(LIST.data + b"- tea: to be bought on Tuesday\n", seen, [seen, LIST]).rev == 1


@pytest.mark.parametrize(
    ("after", "rev"),
    [
        (2, 1),  # nobody reads and corrects so fast
        (-30, 1),  # written before the line came, put in its place after it
        (60, 2),
        (-86400, 2),  # a clock that was set, or a copy that kept its date
    ],
)
def test_what_was_saved_before_anybody_could_read_a_line_is_no_correction_of_it(after, rev):
    seen = Known(rev=2, data=LIST.data + b"- milk: to be bought on Tuesday\n", at=CAME)
    text = LIST.data + b"- milk: to be bought on Friday\n"
    assert base_of(text, seen, [seen, LIST], CAME + timedelta(seconds=after)).rev == rev


TWO = Known(rev=1, data=b"one\ntwo\n", at=CAME, by="operator:ada")
THREE = Known(rev=2, data=b"one\ntwo and a half\n", at=CAME, by="operator:ada")


@pytest.mark.parametrize(
    ("text", "by", "after", "rev"),
    [
        (b"one\ntwo of mine\n", "operator:bob", 3, 1),  # as near to either: bob had the older one
        (b"one\ntwo of mine\n", "operator:ada", 3, 1),  # two who have one name, too
        (b"one\ntwo of mine\n", "operator:bob", 60, 2),  # by then it was read
        (b"one\ntwo and a half more\n", "operator:bob", 3, 1),
        (b"one\ntwo and a half more\n", "operator:ada", 3, 2),  # an editor that saves while its person writes
        (b"one\ntwo and\n", "operator:ada", 3, 2),
        (b"one\ntwo and a calf\n", "operator:ada", 3, 2),
    ],
)
def test_of_two_that_are_as_near_the_older_counts_where_nobody_has_read_the_newer(text, by, after, rev):
    assert base_of(text, THREE, [THREE, TWO], CAME + timedelta(seconds=after), by).rev == rev


@pytest.mark.parametrize("more", [b"\n", b"- \n", b"and\n"])
def test_a_line_that_begins_any_other_goes_on_with_none(more):
    """An empty line, a bullet or one word before a stale text's own lines are no sign that it knows the newer one."""
    seen = Known(rev=2, data=LIST.data + b"- and the agent's\nand more of it\n", at=CAME, by="operator:ada")
    text = LIST.data + more + b"a paragraph of its own\n"
    assert base_of(text, seen, [seen, LIST], CAME + timedelta(seconds=3), "operator:ada").rev == 1


@pytest.mark.parametrize(
    ("came", "own"),
    [
        (b"- ADA 35: flour came\n", b"- ADA 36: flour came\n"),  # one more of a list
        (b"- rice, to be bouhgt\nthe agent's\n", b"- rice, to be bought\nanother\n"),  # and what it never saw
    ],
)
def test_what_is_like_one_line_of_many_does_not_take_the_others_away(came, own):
    seen = Known(rev=2, data=LIST.data + came, at=CAME, by="operator:ada")
    assert base_of(LIST.data + own, seen, [seen, LIST], CAME + timedelta(seconds=3), "operator:ada").rev == 1


@pytest.mark.parametrize(
    ("came", "own", "rev"),
    [
        (b"- new thogt one\n", b"- new thought one\n", 2),
        (b"- teh oven\n", b"- the oven\n", 2),
        (b"wrng\n", b"wrong\n", 2),
        (b"- it faild today\n", b"- it failed today\n", 2),
        (b"- ann: wrote this\n", b"- bob: wrote this\n", 1),
        (b"- at 240 degrees\n", b"- at 250 degrees\n", 1),
    ],
)
def test_a_word_that_its_writer_corrects_at_once_is_no_line_of_somebody_else(came, own, rev):
    seen = Known(rev=2, data=LIST.data + came, at=CAME, by="operator:ada")
    saved = CAME + timedelta(seconds=2)
    assert base_of(LIST.data + own, seen, [seen, LIST], saved, "operator:ada").rev == rev


def test_who_takes_out_what_they_have_just_written_has_read_it():
    saved = CAME + timedelta(seconds=3)
    assert base_of(b"one\n", THREE, [THREE, TWO], saved, "operator:ada").rev == 2
    assert base_of(b"one\n", THREE, [THREE, TWO], saved, "operator:bob").rev == 1


def test_a_line_that_its_writer_goes_on_with_is_not_brought_back():
    seen = Known(rev=2, data=LIST.data + b"- rice, to be bouhgt soon\n", at=CAME, by="operator:ada")
    text = LIST.data + b"- rice, to be bought soon\n"
    saved = CAME + timedelta(seconds=3)
    assert base_of(text, seen, [seen, LIST], saved, "operator:ada").rev == 2
    assert base_of(text, seen, [seen, LIST], saved, "operator:bob").rev == 1


def test_lines_that_a_merge_keeps_against_the_text_are_counted():
    assert kept_lines(b"ONE\n", b"one\nagent\n\n", b"one\n", b"ONE\nagent\n\n") == 1
    assert kept_lines(b"ONE\nagent\n", b"one\nagent\n", b"one\n", b"ONE\nagent\n") == 0
