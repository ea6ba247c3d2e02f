"""Which revision each line of a text comes from, through appends, edits, moves, merges and restores."""

from __future__ import annotations

import random
import time

import pytest

from swarmd.core.blame import Revision, all_origins, changed, origins
from swarmd.core.merge import lines_of


class File:
    """Revisions of a file, as history has them."""

    def __init__(self):
        self.rows: list[Revision] = []
        self.texts: dict[int, bytes] = {}
        self.read: list[int] = []

    def add(self, text, *, how="write", parent=None, by=None):
        rev = len(self.rows) + 1
        data = None if text is None else text if isinstance(text, bytes) else text.encode()
        known = None if data is None else str(hash(data))
        row = Revision(
            rev=rev, parent=rev - 1 if parent is None else parent, hash=known, how=how, by=by or f"a#{rev}"
        )
        self.rows.append(row)
        self.texts[rev] = data or b""
        return rev

    def text(self, rev):
        self.read.append(rev)
        return self.texts[rev]

    def origins(self):
        found = origins(self.rows, self.text)
        read = list(self.read)
        assert all_origins(self.rows, self.text).get(len(self.rows), []) == found
        self.read = read
        return found


@pytest.fixture
def file():
    return File()


@pytest.mark.parametrize(
    ("versions", "expected"),
    [
        (["a\nb\n"], [1, 1]),
        (["a\n", "a\nb\n", "a\nb\nc\n"], [1, 2, 3]),
        (["a\nc\n", "a\nb\nc\n"], [1, 2, 1]),
        (["b\n", "a\nb\n"], [2, 1]),
        (["a\nb\nc\n", "a\nc\n"], [1, 1]),
        (["a\nb\nc\n", "a\nB\nc\n"], [1, 2, 1]),
        (["a\nb", "a\nb\nc"], [1, 1, 2]),
        (["a\nb\n", "a\r\nb\r\n", "a\r\nb\r\nc\r\n"], [1, 1, 3]),
        (["a\n", ""], []),
        (["a\n", None, "b\n"], [3]),
        (["x\nx\n", "x\nx\nx\n"], [1, 1, 2]),
        (["one line, no end"], [1]),
        (["same\n", "same"], [1]),
        (["aXb\n", "aYb\n"], [2]),
        (["end\n", "the end\n"], [2]),
    ],
)
def test_each_line_is_of_the_revision_that_brought_it(file, versions, expected):
    for text in versions:
        file.add(text)
    assert file.origins() == expected


def test_a_line_that_moves_stays_its_authors_and_a_short_one_does_not(file):
    file.add("# Facts\nthe sea is deep\n}\n# Plans\nbuild a boat\n")
    file.add("# Plans\nbuild a boat\nand sail it\n# Facts\nthe sea is deep\n}\n")
    assert file.origins() == [1, 1, 2, 1, 1, 1]
    file.add("}\n# Plans\nand sail it\nbuild a boat\n# Facts\nthe sea is deep\n")
    assert file.origins()[1:] == [1, 2, 1, 1, 1]


def test_what_a_merge_kept_of_an_agent_is_not_the_persons_who_saved_an_older_text(file):
    file.add("a line of the start\n")
    file.add("a line of the start\na line of the agent\n")
    person = "operator:ada"
    file.add("a line of the person\na line of the start\n", how="adopt", parent=1, by=person)
    file.add("a line of the person\na line of the start\na line of the agent\n", how="merge", by=person)
    assert file.origins() == [3, 1, 2]


def test_what_a_session_merges_is_its_own_and_the_rest_the_persons(file):
    file.add("start of it\n")
    file.add("start of it\nof the person\n", how="adopt", by="operator:ada")
    file.add("of the session\nstart of it\nof the person\n", how="merge", parent=2, by="a#7")
    assert file.origins() == [3, 1, 2]


def test_lines_that_are_restored_are_of_those_who_wrote_them(file):
    file.add("first line\n")
    file.add("first line\nsecond line\n")
    file.add("all is gone\n")
    file.add("first line\nsecond line\n", how="restore", by="operator:ada")
    file.add("first line\nsecond line\nthird line\n")
    assert file.origins() == [1, 2, 5]


def test_looking_back_ends_where_every_line_has_been_found(file):
    for n in range(100):
        file.add(f"{n}\n" * 3)
    file.add("written anew\n")
    file.add("written anew\nand more\n")
    assert file.origins() == [101, 102]
    assert min(file.read) == 100


def test_lines_whose_old_text_is_gone_are_of_the_first_revision_that_has_them(file):
    for text in ("a\n", "a\nb\n", "a\nb\nc\n"):
        file.add(text)
    file.texts[1] = b""
    assert file.origins() == [2, 2, 3]


def test_any_history_gives_each_line_to_a_revision_that_has_it(file):
    chance = random.Random(7)
    lines = [b"line %d\n" % n for n in range(20)]
    for _ in range(60):
        at = chance.randrange(len(lines) + 1)
        how = chance.randrange(4)
        if how == 0:
            lines[at:at] = [b"line %d\n" % chance.randrange(1000)]
        elif how == 1 and at < len(lines):
            del lines[at : at + chance.randrange(4)]
        elif how == 2:
            chance.shuffle(lines)
        else:
            lines.append(b"line %d\r\n" % chance.randrange(1000))
        file.add(b"".join(lines))
    found = file.origins()
    newest = lines_of(file.texts[len(file.rows)])
    assert len(found) == len(newest)
    for line, rev in zip(newest, found, strict=True):
        assert line.rstrip() in {old.rstrip() for old in lines_of(file.texts[rev])}
        before = {old.rstrip() for old in lines_of(file.texts.get(rev - 1, b""))}
        assert line.rstrip() not in before or newest.count(line) > 1 or len(line) < 10


def test_a_thousand_appends_to_a_mebibyte_take_seconds_at_most(file):
    text = b""
    for n in range(1000):
        text += b"".join(b"- session %d says that this is so, %d\n" % (n, m) for m in range(26))
        file.add(text)
    assert len(text) > 1_000_000
    start = time.process_time()
    found = file.origins()
    assert time.process_time() - start < 10
    assert found == [n for n in range(1, 1001) for _ in range(26)]


def test_what_every_revision_has_is_told_in_one_pass(file):
    for text in ("a\n", "a\nb\n", None, "a\nb\n", "c\nb\n"):
        file.add(text)
    assert all_origins(file.rows, file.text) == {1: [1], 2: [1, 2], 3: [], 4: [1, 2], 5: [5, 2]}
    assert all_origins([], file.text) == {}


@pytest.mark.parametrize(
    ("new", "old", "between"),
    [
        (b"a\nb\n", b"a\n", b"b\n"), (b"a\nb\nc\n", b"a\nc\n", b"b\n"), (b"a\n", b"a\n", b""), (b"a\nc\n", b"a\nb\nc\n", b""),
        (b"ab\nc\n", b"a\nc\n", b"ab\n"), (b"x", b"", b"x"),
    ],
)  # fmt: skip
def test_what_is_between_the_common_ends_is_whole_lines(new, old, between):
    assert changed(new, old) == between
