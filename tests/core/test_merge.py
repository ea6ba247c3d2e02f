"""Three-way merge: nothing is lost, and git is the judge where we follow its rules."""

from __future__ import annotations

import random
import shutil
import subprocess
from collections import Counter

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from swarmd.core.merge import Piece, keys_of, lines_of, merge

TEXTS = st.lists(
    st.sampled_from([b"a\n", b"b\n", b"c\r\n", b"\n", b"# h\n", b"last", b"\xc3\xa4\n"]), max_size=9
).map(b"".join)


def bag(data: bytes) -> Counter:
    return Counter(keys_of(lines_of(data)))


def edited(chance: random.Random, base: list[str], tag: str, *, gap: bool = False) -> list[str]:
    """A copy of unique lines with unique insertions, replacements and deletions."""
    out, free = [], True
    for number, line in enumerate(base):
        dice = chance.random() if free or not gap else 1.0
        free = dice >= 0.35
        if dice < 0.15:
            out += [f"{tag} in {number}\n", line]
        elif dice < 0.25:
            out.append(f"{tag} for {number}\n")
        elif dice >= 0.35:
            out.append(line)
    return out


@given(TEXTS, TEXTS, TEXTS)
@settings(max_examples=600)
@example(b"", b"a\n", b"b\n")
@example(b"a", b"a\nb\n", b"a\nc\n")
def test_no_added_line_of_either_side_is_lost(base, ours, theirs):
    merged = merge(base, ours, theirs)
    have = bag(merged.data)
    assert not [key for key in bag(theirs) - bag(base) if key not in have]
    for piece in merged.conflicts:
        have += bag(piece.ours.encode())
    assert not [key for key in bag(ours) - bag(base) if key not in have]


def test_changes_that_have_a_line_in_common_are_one_place_and_neighbours_are_two():
    base = b"l1\nl2\nl3\nl4\n"
    met = merge(base, b"l1\nown 2\nown 3\nl4\n", b"their 1\ntheir 2\nl3\nl4\n")
    assert met.data == b"their 1\ntheir 2\nl3\nl4\n"
    assert [(p.line, p.ours, p.theirs) for p in met.conflicts] == [
        (1, "l1\nown 2\nown 3\n", "their 1\ntheir 2\nl3\n")
    ]
    beside = merge(base, b"l1\nl2\nown 3\nl4\n", b"their 1\ntheir 2\nl3\nl4\n")
    assert (beside.data, beside.conflicts) == (b"their 1\ntheir 2\nown 3\nl4\n", ())


def test_of_two_appends_that_begin_alike_the_rest_of_ours_keeps_the_blank_line_before_it():
    base = b"# Notes\n"
    ours, theirs = b"- note\n\n### ours\n---\n", b"- note\n\n### theirs\n---\n"
    assert merge(base, base + ours, base + theirs).data == (
        b"# Notes\n- note\n\n### theirs\n---\n\n### ours\n---\n"
    )


@given(TEXTS, TEXTS)
def test_one_side_alone_is_taken_as_it_is(base, changed):
    assert merge(base, changed, base).data == changed
    assert merge(base, base, changed).data == changed
    assert merge(base, changed, changed).data == changed
    assert not merge(base, changed, changed).conflicts


@given(st.randoms(use_true_random=False), st.integers(0, 14))
@settings(max_examples=300)
def test_what_was_merged_is_merged_again_without_change(chance, size):
    base = [f"line {n}\n" for n in range(size)]
    texts = [
        "".join(t).encode() for t in (base, edited(chance, base, "ours"), edited(chance, base, "theirs"))
    ]
    merged = merge(*texts)
    assert merge(texts[0], texts[1], merged.data).data == merged.data


@given(st.binary(max_size=30), st.binary(max_size=30), st.binary(max_size=30))
def test_any_bytes_are_merged_without_an_error(base, ours, theirs):
    merge(base, ours, theirs)


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_git_merge_file_agrees_wherever_changes_do_not_touch(tmp_path):
    chance = random.Random(20260420)
    for _ in range(120):
        base = [f"line {n}\n" for n in range(chance.randrange(4, 25))] + ["the end\n"]
        ours, theirs = (edited(chance, base[:-1], tag, gap=True) + base[-1:] for tag in ("ours", "theirs"))
        for name, lines in (("base", base), ("ours", ours), ("theirs", theirs)):
            (tmp_path / name).write_text("".join(lines))
        git = subprocess.run(
            ["git", "merge-file", "-p", "theirs", "base", "ours"],
            cwd=tmp_path,
            capture_output=True,
            check=False,
        )
        merged = merge("".join(base).encode(), "".join(ours).encode(), "".join(theirs).encode())
        if git.returncode == 0:
            assert (merged.data, merged.conflicts) == (git.stdout, ())
        else:
            # Where git sees a conflict we see one too, or the changes only touch, and nothing of theirs is gone.
            assert not (bag("".join(theirs).encode()) - bag("".join(base).encode())) - bag(merged.data)


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_git_sees_a_conflict_where_we_see_one(tmp_path):
    (tmp_path / "base").write_text("1\n2\n3\n4\n5\n")
    (tmp_path / "ours").write_text("1\n2\nOURS\n4\n5\n")
    (tmp_path / "theirs").write_text("1\n2\nTHEIRS\n4\n5\n")
    git = subprocess.run(["git", "merge-file", "-p", "--ours", "theirs", "base", "ours"], cwd=tmp_path,
                         capture_output=True, check=True)  # fmt: skip
    merged = merge(b"1\n2\n3\n4\n5\n", b"1\n2\nOURS\n4\n5\n", b"1\n2\nTHEIRS\n4\n5\n")
    assert merged.data == git.stdout
    assert merged.conflicts == (Piece(line=3, ours="OURS\n", theirs="THEIRS\n"),)


def test_two_appends_are_both_kept_theirs_first():
    merged = merge(b"a\n", b"a\nours\n", b"a\ntheirs\n")
    assert merged.data == b"a\ntheirs\nours\n"
    assert not merged.conflicts


def test_two_appends_that_begin_alike_say_it_once():
    merged = merge(b"a\n", b"a\n## Today\n- ours\n", b"a\n## Today\n- theirs\n")
    assert merged.data == b"a\n## Today\n- theirs\n- ours\n"


def test_two_new_files_are_both_kept():
    assert merge(b"", b"ours\n", b"theirs\n").data == b"theirs\nours\n"


def test_two_insertions_at_one_place_collide():
    merged = merge(b"a\nz\n", b"a\nours\nz\n", b"a\ntheirs\nz\n")
    assert merged.data == b"a\ntheirs\nz\n"
    assert merged.conflicts == (Piece(line=2, ours="ours\n", theirs="theirs\n"),)


def test_changes_of_neighbouring_lines_do_not_collide():
    merged = merge(b"a\nb\n", b"A\nb\n", b"a\nB\n")
    assert (merged.data, merged.conflicts) == (b"A\nB\n", ())


def test_an_append_after_a_line_that_the_other_changed_is_kept():
    merged = merge(b"a\nlast\n", b"a\nlast\nours\n", b"a\nLAST\n")
    assert (merged.data, merged.conflicts) == (b"a\nLAST\nours\n", ())


def test_a_removal_that_meets_a_change_gives_way_in_silence():
    merged = merge(b"a\nb\nc\n", b"a\nc\n", b"a\nB\nc\n")
    assert (merged.data, merged.conflicts) == (b"a\nB\nc\n", ())


def test_line_ends_are_kept_as_each_side_has_them():
    assert merge(b"a\r\nb\r\n", b"a\r\nb\r\nours\r\n", b"A\r\nb\r\n").data == b"A\r\nb\r\nours\r\n"
    # A person's editor has turned every line end: what the agent added is still found and added.
    assert merge(b"a\nb\n", b"a\nb\nours\n", b"a\r\nB\r\n").data == b"a\r\nB\r\nours\n"


def test_a_missing_last_line_end_stays_missing_unless_something_follows():
    assert merge(b"a\nb", b"A\nb", b"a\nb").data == b"A\nb"
    assert merge(b"a\nx\nb", b"A\nx\nb", b"a\nX\nb").data == b"A\nX\nb"
    assert merge(b"a", b"a\nours", b"a\ntheirs").data == b"a\ntheirs\nours"
    assert merge(b"a\r\nb", b"a\r\nb\r\nours", b"A\r\nb").data == b"A\r\nb\r\nours"


def test_texts_that_are_not_utf8_are_taken_whole():
    merged = merge(b"a\n", b"a\n\xff\n", b"a\ntheirs\n")
    assert merged.data == b"a\ntheirs\n"
    assert merged.conflicts == (Piece(line=1, ours="a\n\\xff\n", theirs="a\ntheirs\n"),)
    assert merge(b"a\n", b"a\n\xff\n", b"a\n").data == b"a\n\xff\n"


@pytest.mark.parametrize("kind", ["notes", "few different lines", "one long run"])
def test_a_mebibyte_is_merged_in_a_second(kind):
    chance = random.Random(1)
    make = {
        "notes": lambda n: f"- note {n}: something worth knowing about it\n",
        "few different lines": lambda n: chance.choice(["a\n", "b\n", "\n"]),
        "one long run": lambda n: "same\n",
    }[kind]
    base, size = [], 0
    while size < 1024 * 1024:
        base.append(make(len(base)))
        size += len(base[-1])
    ours, theirs = list(base), list(base)
    for n in range(200):
        ours[chance.randrange(len(base))] = f"ours {n}\n"
        theirs[chance.randrange(len(base))] = f"theirs {n}\n"
    texts = ["".join(lines).encode() for lines in (base, ours, theirs)]
    merged = merge(*texts)
    have = bag(merged.data)
    for piece in merged.conflicts:
        have += bag(piece.ours.encode())
    assert not [key for key in bag(texts[1]) - bag(texts[0]) if key not in have]
