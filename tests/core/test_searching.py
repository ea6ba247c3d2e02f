"""What is typed becomes a query that never is a fault, and finds words in any script."""

from __future__ import annotations

import sqlite3
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarmd.core.searching import CLOSE, GAP, OPEN, TEXT_CHARACTERS, NothingToFind, indexed, query_of


def found(text: str, typed: str) -> str | None:
    """The text with marks, as SQLite finds it; None where it does not."""
    connection = sqlite3.connect(":memory:")
    connection.execute(
        'CREATE VIRTUAL TABLE t USING fts5(scope, text, tokenize="unicode61 remove_diacritics 2")'
    )
    connection.execute("INSERT INTO t VALUES ('m1 zm', ?)", (indexed(text),))
    row = connection.execute(
        "SELECT highlight(t, 1, '[', ']') FROM t WHERE t MATCH ?",
        (f"{{text}} : ({query_of(typed).expression})",),
    ).fetchone()
    connection.close()
    return None if row is None else row[0].replace(GAP, "")


@pytest.mark.parametrize(
    ("text", "typed", "shown"),
    [
        ("the disk is full", "full disk", "the [disk] is [full]"),
        ("the disk is full", "disk empty", None),
        ("the disk is full", '"disk is"', "the [disk is] full"),
        ("the disk is full", '"disk full"', None),
        ("the disk is full", '"is full', "the disk [is full]"),
        ("deployed twice", "deplo*", "[deployed] twice"),
        ("deployed twice", "deplo", None),
        ("deployed", "DEPLOYED", "[deployed]"),
        # Names of code are found whole and by their parts.
        ("call foo_bar(x)", "foo_bar", "call [foo_bar](x)"),
        ("call foo_bar(x)", "bar", "call foo_[bar](x)"),
        ("see src/a.py:12", "src/a.py", "see [src/a.py]:12"),
        ("see src/a.py:12", "a.py", "see src/[a.py]:12"),
        ("git-annex get", "git-annex", "[git-annex] get"),
        ("error E4021 came", "e402*", "error [E4021] came"),
        # Accents are no difference, however they are written.
        ("Überraschung für Zoë", "uberraschung fur zoe", "[Überraschung] [für] [Zoë]"),
        ("cafe\u0301", "café", "[café]"),
        ("naive", "naïve", "[naive]"),
        # Scripts without spaces are found by any part of a word.
        ("数据库很慢", "据库", "数[据库]很慢"),
        ("数据库很慢", "数慢", None),
        ("数据库很慢abc", "abc", "数据库很慢[abc]"),
        ("データベースの接続", "接続", "データベースの[接続]"),
        ("데이터베이스를 고쳤다", "데이터베이스", "[데이터베이스]를 고쳤다"),
        ("ฐานข้อมูลช้า", "ข้อมูล", "ฐาน[ข้อมูล]ช้า"),
        ("数据库", "数据*", "[数据]库"),
        # What has a meaning in SQLite's own language has none here.
        ("cats AND dogs", "cats AND", "[cats] [AND] dogs"),
        ("cats OR dogs", "cats OR birds", None),
        ("not a bird", "NOT bird", "[not] a [bird]"),
        ("near the end", "NEAR(end)", None),
        ("scope m1", "scope:m1", "[scope m1]"),
        ("^start", "^start", "^[start]"),
        ('say "hello" now', 'hello" now', 'say "[hello]" [now]'),
        ("one - two", "one - two", "[one] - [two]"),
        ("done \N{WHITE HEAVY CHECK MARK} well", "\N{WHITE HEAVY CHECK MARK} done", "[done] \N{WHITE HEAVY CHECK MARK} well"),
    ],
)  # fmt: skip
def test_what_is_found(text, typed, shown):
    assert found(text, typed) == shown


def test_the_words_of_who_may_see_it_are_not_found_as_text():
    assert found("nothing", "m1") is None
    assert found("nothing", "zm") is None


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("", "there is no word in ''"),
        ("*", "there is no word in '*'"),
        ('"" -- \N{FIRE}', "give letters or digits"),
        ("a*", "a*: give 3 letters or more before the *"),
        ("foo_b*", "foo_b*: give 3 letters"),
        ("x" * (TEXT_CHARACTERS + 1), "at most 500 characters; this one has 501"),
        (" ".join(f"w{n}" for n in range(40)), "at most 32 words; this one has 40"),
    ],
)
def test_what_cannot_be_searched_for_is_said(typed, words):
    with pytest.raises(NothingToFind) as raised:
        query_of(typed)
    assert words in str(raised.value)


@given(st.text(max_size=60) | st.text(alphabet='"*(){}:^-+ANDORNEAR a数\0\x1f\x02,.', max_size=60))
def test_no_text_is_a_fault_in_the_query(typed):
    with suppress(NothingToFind):
        found("some text", typed)


@given(st.text(max_size=200))
def test_every_text_can_be_indexed(text):
    kept = indexed(text)
    kept.encode()
    assert not {OPEN, CLOSE, "\0"} & set(kept)
    assert indexed(kept.replace(GAP, "")).replace(GAP, "") == kept.replace(GAP, "")


def test_halves_of_characters_are_indexed_as_marks():
    assert indexed("a\ud800b") == "a?b"


def test_a_phrase_taken_apart_is_all_of_its_words():
    query = query_of('"the session of" dep* "the" file.txt \u6771\u4eac')
    assert query.words[:3] == ('"the"', '"session"', '"of"')
    assert query.words[3:] == ('"dep" *', '"file.txt"', query.parts[-1])
    assert query.apart == " AND ".join(query.words)
