"""Which rewrites of a memory file count as losing most of it."""

import pytest

from swarmd.core.losses import LEAST_BYTES, Loss, loss_of


def lines(start, stop):
    return "".join(f"- fact number {n} of many\n" for n in range(start, stop)).encode()


OLD = lines(0, 100)


@pytest.mark.parametrize(
    ("new", "lost"),
    [
        (b"", Loss(lines=100, left=0)),
        (None, Loss(lines=100, left=0)),
        (b"# Summary\n\nAll is well.\n", Loss(lines=100, left=0)),
        (lines(0, 10), Loss(lines=100, left=10)),
        (lines(60, 90), Loss(lines=100, left=30)),
        (lines(200, 300), Loss(lines=100, left=0)),
        (lines(60, 100), Loss(lines=100, left=40)),
        (lines(0, 39), Loss(lines=100, left=39)),
        (lines(0, 49), Loss(lines=100, left=49)),
        (lines(49, 100), None),
        (lines(0, 51), None),
        (OLD + lines(100, 200), None),
        (lines(100, 200) + OLD, None),
        (b"\r\n".join(reversed(OLD.splitlines())), None),
        (OLD.replace(b"fact", b"item"), Loss(lines=100, left=0)),
        (b"".join(b"  " + line for line in OLD.splitlines(keepends=True)), None),
    ],
)
def test_most_of_memory_md_is_lost_where_less_than_half_of_its_lines_is_left(new, lost):
    assert loss_of("MEMORY.md", OLD, new) == lost


def test_a_topic_that_is_written_anew_in_as_many_words_is_no_loss_but_one_that_shrinks_is():
    assert loss_of("today.md", OLD, lines(200, 300)) is None
    assert loss_of("today.md", OLD, lines(200, 240)) == Loss(lines=100, left=0)
    assert loss_of("today.md", OLD, None) is not None


def test_lines_that_are_moved_to_other_files_are_not_lost():
    assert loss_of("MEMORY.md", OLD, lines(0, 5), [lines(5, 60), lines(60, 100)]) is None
    assert loss_of("MEMORY.md", OLD, lines(0, 5), [lines(5, 20)]) == Loss(lines=100, left=20)
    # A line that stood there twice and goes into two other files is there once more, not twice.
    twice = OLD + OLD
    assert loss_of("MEMORY.md", twice, b"", [lines(0, 60), lines(0, 60)]) == Loss(lines=200, left=60)


def test_an_archive_is_to_stay_as_it_is():
    path = "archive/history_2026-11-30_09-00-00.md"
    assert loss_of(path, OLD, None) == Loss(lines=100, left=0)
    assert loss_of(path, OLD, b"") == Loss(lines=100, left=0)
    assert loss_of(path, OLD, lines(200, 300)) == Loss(lines=100, left=0)
    assert loss_of(path, OLD, None, [OLD]) is None
    assert loss_of(path, OLD, OLD + b"a remark\n") is None


def test_small_files_are_left_alone():
    small = b"x" * (LEAST_BYTES - 1)
    assert loss_of("MEMORY.md", small, b"") is None
    assert loss_of("MEMORY.md", small + b"y", b"") is not None
    assert loss_of("archive/history.md", small, None) is None


def test_a_mebibyte_that_grows_is_not_looked_through_line_by_line(monkeypatch):
    monkeypatch.setattr("swarmd.core.losses.lines_of", None)
    old = OLD * 400
    assert loss_of("MEMORY.md", old, old + b"one more\n") is None
    assert loss_of("MEMORY.md", old, old[: len(old) // 2] + b"changed" + old[len(old) // 2 :]) is None
