"""A number and its noun agree."""

import pytest

from swarmd.core.counts import counted


@pytest.mark.parametrize(
    ("number", "words"),
    [(0, "0 files"), (1, "1 file"), (2, "2 files"), (21, "21 files"), (1000, "1,000 files")],
)
def test_one_of_a_thing_is_no_things(number, words):
    assert counted(number, "file") == words


def test_a_plural_that_is_no_s_is_given():
    assert [counted(n, "entry was", "entries were") for n in (1, 2)] == ["1 entry was", "2 entries were"]
