"""Verdicts on memory: paths, limits, three-way merges, and conflicts that keep every line."""

import pytest

from swarmd.core.changes import AppendMemory, WriteMemory
from swarmd.core.judge import fold
from tests.core.worlds import OPERATOR, DictWorld, MemoryRules, ask, commit, decisions, session_of

STUDIO = session_of("studio")
MIB = 1024 * 1024


@pytest.fixture
def world():
    return DictWorld()


def write(data, path="MEMORY.md", **facts):
    data = data.encode() if isinstance(data, str) else data
    return WriteMemory(agent="studio", path=path, data=data, **facts)


def append(text, path="MEMORY.md"):
    return AppendMemory(agent="studio", path=path, text=text)


def text(world, path="MEMORY.md"):
    document = world.document("studio", path)
    return None if document is None or document.data is None else document.data.decode()


def test_a_new_file_is_revision_1_and_the_next_follows_it(world):
    commit(world, STUDIO, write("one\n"))
    commit(world, STUDIO, write("one\ntwo\n", base=1))
    head = world.document("studio", "MEMORY.md")
    assert (head.rev, head.data, head.by) == (2, b"one\ntwo\n", "studio#7")


def test_the_text_that_stands_there_already_is_nothing(world):
    world.put_file("studio", "MEMORY.md", "same\n", rev=4)
    assert ask(world, STUDIO, write("same\n", base=2)).decision == "nothing"


def test_edits_of_different_places_are_merged(world):
    world.put_file("studio", "MEMORY.md", "a\nb\nc\nd\ne\n", rev=1)
    world.put_file("studio", "MEMORY.md", "A\nb\nc\nd\ne\n", rev=2)
    folded = commit(world, STUDIO, write("a\nb\nc\nd\nE\n", base=1))
    assert text(world) == "A\nb\nc\nd\nE\n"
    assert folded.effects[0].merged
    assert folded.effects[0].conflicts == ()


def test_where_lines_collide_the_persons_stay_and_the_agents_become_a_conflict(world):
    world.put_file("studio", "MEMORY.md", "a\nb\nc\n", rev=1)
    world.put_file("studio", "MEMORY.md", "a\nperson\nc\n", rev=2)
    folded = commit(world, STUDIO, write("a\nagent\nc\nmore\n", base=1))
    assert text(world) == "a\nperson\nc\nmore\n"
    (conflict,) = folded.effects[0].conflicts
    assert (conflict.ours, conflict.theirs, conflict.line) == ("agent\n", "person\n", 2)


def test_where_only_a_conflict_comes_of_it_no_revision_is_made_and_the_next_change_goes_on(world):
    world.put_file("studio", "MEMORY.md", "a\nb\nc\n", rev=1)
    world.put_file("studio", "MEMORY.md", "a\nperson\nc\n", rev=2)
    folded = fold(STUDIO, [write("a\nagent\nc\n", base=1), append("later")], world)
    assert decisions(folded) == ["done", "done"]
    first, second = folded.effects
    assert (first.document.rev, first.parent, len(first.conflicts)) == (2, 2, 1)
    assert (second.document.rev, second.parent) == (3, 2)


def test_a_text_that_is_no_revision_is_merged_from_its_digest(world):
    world.put_file("studio", "MEMORY.md", "one\n", rev=1)
    world.put_file("studio", "MEMORY.md", "one\nperson\n", rev=2)
    base = world.put_blob(b"one\nmine\n")
    world.put_file("studio", "MEMORY.md", "one\nperson\nmine\n", rev=3)
    commit(world, STUDIO, write("one\nmine\nand more\n", base=-1, base_hash=base))
    assert sorted(text(world).splitlines()) == ["and more", "mine", "one", "person"]


def test_a_deletion_of_what_was_changed_meanwhile_is_superseded(world):
    world.put_file("studio", "a.md", "old\n", rev=1)
    world.put_file("studio", "a.md", "new\n", rev=2)
    assert decisions(fold(STUDIO, [write(None, "a.md", base=1)], world)) == ["superseded"]
    assert decisions(fold(STUDIO, [write(None, "a.md", base=2)], world)) == ["done"]


def test_an_edit_of_what_was_deleted_meanwhile_is_kept_as_a_conflict(world):
    world.put_file("studio", "a.md", "old\n", rev=1)
    world.put_file("studio", "a.md", None, rev=2)
    folded = commit(world, STUDIO, write("old\nmine\n", "a.md", base=1))
    assert text(world, "a.md") is None
    (conflict,) = folded.effects[0].conflicts
    assert conflict.ours == "old\nmine\n"


def test_a_new_file_where_one_was_deleted_long_ago_is_written(world):
    world.put_file("studio", "a.md", None, rev=2)
    commit(world, STUDIO, write("new\n", "a.md"))
    assert world.document("studio", "a.md").rev == 3


def test_an_append_never_collides(world):
    world.put_file("studio", "MEMORY.md", "no end of line", rev=9)
    commit(world, STUDIO, append("one"), append("two\n"))
    assert text(world) == "no end of line\none\ntwo\n"
    assert ask(world, STUDIO, append("")).kind == "bad_input"


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/x",
        "../x",
        "a//b",
        "a/b/c/d/e",
        ".hidden",
        "a/.b",
        "x" * 101,
        "a\nb",
        "e\u0301.md",
        "a\0b",
        "\udc80",
    ],
)
def test_bad_paths_are_refused(world, path):
    assert ask(world, STUDIO, write("x", path)).decision == "refused"
    assert ask(world, STUDIO, append("x", path)).decision == "refused"


def test_two_names_that_differ_only_in_case_do_not_stand_together(world):
    world.put_file("studio", "Notes.md", "x")
    assert "case" in ask(world, STUDIO, write("x", "notes.md")).reason


def test_memory_md_has_a_mebibyte_and_the_refusal_says_how_much_to_cut(world):
    assert ask(world, STUDIO, write("x" * MIB)).decision == "done"
    verdict = ask(world, STUDIO, write("x" * (MIB + 156)))
    assert (verdict.decision, verdict.kind) == ("refused", "refused")
    assert verdict.reason == (
        "memory full: MEMORY.md has 0 bytes and may have 1,048,576; with this it would have 1,048,732: cut at least "
        "156 bytes first, or put text into other files"
    )


def test_the_folder_has_16_mebibytes(world):
    for number in range(15):
        world.put_file("studio", f"{number}.md", b"x" * MIB)
    assert ask(world, STUDIO, write(b"x" * MIB, "15.md")).decision == "done"
    verdict = ask(world, STUDIO, write(b"x" * (MIB + 1), "15.md"))
    assert verdict.decision == "refused"
    assert "the folder has 15,728,640 bytes and may have 16,777,216" in verdict.reason
    assert "cut at least 1 bytes first" in verdict.reason


def test_what_is_archived_counts_against_no_limit_and_no_text_is_read_for_one(world):
    for number in range(40):
        world.put_file("studio", f"archive/history_{number}.md", b"x" * MIB)
    world.documents = None
    assert ask(world, STUDIO, write(b"x" * MIB)).decision == "done"
    assert ask(world, STUDIO, append("y", path="topic.md")).decision == "done"
    for number in range(2000):
        world.put_file("studio", f"archive/h{number}.md", b"")
    assert ask(world, STUDIO, write("x", "new.md")).decision == "done"


@pytest.mark.parametrize("path", ["archive", "Archive", "ARCHIVE/x.md"])
def test_no_file_of_an_agent_stands_where_older_texts_are_to_be_put(world, path):
    assert "nothing else may have its name" in ask(world, OPERATOR, write("x", path)).reason
    assert ask(world, STUDIO, write("x", path)).decision == "refused"


def test_a_file_that_was_removed_comes_back_only_where_it_fits_in_again(world):
    world.put_file("studio", "a.md", None, rev=2)
    world.put_file("studio", "A.md", "x")
    assert "differ only in case" in ask(world, STUDIO, write("x", "a.md", base=2)).reason


def test_an_agent_that_keeps_no_memory_writes_none_and_its_operator_does(world):
    world.with_agent("studio", memory=MemoryRules(persistent=False))
    verdict = ask(world, STUDIO, write("x"))
    assert verdict.decision == "refused"
    assert "studio keeps no memory (its file says memory.persistent = false)" in verdict.reason
    assert ask(world, STUDIO, append("x")).decision == "refused"
    assert ask(world, OPERATOR, write("x")).decision == "done"


def test_what_is_over_a_limit_already_may_shrink(world):
    world.put_file("studio", "MEMORY.md", b"x" * (MIB + 100))
    assert ask(world, STUDIO, write(b"x" * (MIB + 50), base=1)).decision == "done"
    assert ask(world, STUDIO, append("y")).decision == "refused"


def test_an_operator_cannot_write_the_memory_of_nobody(world):
    change = WriteMemory(agent="nobody", path="MEMORY.md", data=b"x")
    assert ask(world, OPERATOR, change).kind == "not_found"


def test_bytes_that_are_no_text_never_get_lost(world):
    world.put_file("studio", "a.bin", b"\x00\x01", rev=1)
    world.put_file("studio", "a.bin", b"\x00\x02", rev=2)
    folded = fold(STUDIO, [write(b"\x00\x03", "a.bin", base=1)], world)
    (effect,) = folded.effects
    assert effect.document.data == b"\x00\x02"
    assert len(effect.conflicts) == 1
