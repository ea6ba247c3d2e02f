"""A person's save without lines that had come into the file: kept, and told, until the person says it again."""

from __future__ import annotations

import os

import pytest

from tests.swarm import nothing


@pytest.fixture
def saves(swarm):
    """A person's save of studio's file, so many seconds after what came into it last."""

    def save(text, path="MEMORY.md", *, after=65):
        swarm.clock.go(seconds=after)
        swarm.file("studio", path).write_text(text)
        at = swarm.clock.now().timestamp()
        os.utime(swarm.file("studio", path), (at, at))
        swarm.play("studio", nothing)

    return save


def adds(line, path="MEMORY.md"):
    async def script(part):
        await part.act("memory_append", file=path, text=line)

    return script


def kept(swarm):
    return [row for row in swarm.call("attention")["items"] if row["kind"] == "memory_kept"]


def test_a_deletion_together_with_an_edit_is_asked_about_and_stands_when_it_is_said_again(swarm, saves):
    swarm.call("memory_write", agent="studio", file="MEMORY.md", text="l1\nl2\nl3\n")
    swarm.play("studio", adds("INJECTED obey"))
    saves("l1\nl2 fixed\nl3\n")
    assert swarm.text("studio") == "l1\nl2 fixed\nl3\nINJECTED obey\n"
    (told,) = kept(swarm)
    assert told["id"] == "memory_kept:studio:MEMORY.md:3"
    assert told["text"] == (
        "operator:ada saved MEMORY.md of studio without 1 line that had come into it; that was taken for an edit of "
        "revision 1, and what had come since was kept"
    )
    assert told["next_step"].startswith("swarmd memory diff studio 3 4 shows it;")
    diff = swarm.call("memory_diff", agent="studio", file="MEMORY.md", rev=3, other=4)["diff"]
    assert "+INJECTED obey" in diff
    saves("l1\nl2 fixed\nl3\n")
    assert (swarm.text("studio"), kept(swarm)) == ("l1\nl2 fixed\nl3\n", [])


@pytest.mark.parametrize("text", ["l1\nl2\nl3\n", "l1\nl2\nl3\nmine\nINJECTED obey\n"])
def test_what_takes_nothing_away_or_nothing_else_is_not_asked_about(swarm, saves, text):
    swarm.call("memory_write", agent="studio", file="MEMORY.md", text="l1\nl2\nl3\n")
    swarm.play("studio", adds("INJECTED obey"))
    saves(text)
    assert (swarm.text("studio"), kept(swarm)) == (text, [])


def test_it_is_told_once_and_until_the_lines_are_gone_whoever_writes_the_file(swarm, saves):
    swarm.call("memory_write", agent="studio", file="a b.md", text="l1\nl2\nl3\n")
    swarm.play("studio", adds("more", "a b.md"))
    saves("l1\nl2 fixed\nl3\n", "a b.md")
    assert kept(swarm)[0]["next_step"].startswith("swarmd memory diff studio 3 4 --file 'a b.md' shows it;")
    saves("l1\nl2 fixed\nl3 too\n", "a b.md", after=3)  # the same editor, which has not loaded it
    assert swarm.text("studio", "a b.md") == "l1\nl2 fixed\nl3 too\nmore\n"
    swarm.play("studio", adds("and more", "a b.md"))
    swarm.call("memory_append", agent="studio", file="a b.md", text="a person's")
    assert [row["id"] for row in kept(swarm)] == ["memory_kept:studio:a b.md:3"]
    swarm.call("memory_write", agent="studio", file="a b.md", text="l1\nand more\n")
    assert kept(swarm) == []


def test_it_is_over_when_the_file_is_deleted(swarm, saves):
    swarm.call("memory_write", agent="studio", file="a.md", text="l1\nl2\nl3\n")
    swarm.play("studio", adds("more", "a.md"))
    saves("l1\nl2 fixed\nl3\n", "a.md")
    assert len(kept(swarm)) == 1
    swarm.file("studio", "a.md").unlink()
    swarm.play("studio", nothing)
    assert kept(swarm) == []


@pytest.mark.parametrize("after", [0, 3])
@pytest.mark.parametrize("by_a_session", [True, False])
def test_two_stale_saves_of_one_line_are_a_conflict(swarm, saves, by_a_session, after):
    swarm.call("memory_write", agent="studio", file="MEMORY.md", text="l1\nl2\nl3\n")
    if by_a_session:

        async def changes(part):
            part.write("MEMORY.md", "l1\nl2 ann\nl3\n")

        swarm.play("studio", changes)
    else:
        saves("l1\nl2 ann\nl3\n")
    saves("l1\nl2 bob\nl3\n", after=after)
    assert swarm.text("studio") == "l1\nl2 bob\nl3\n"
    (conflict,) = swarm.call("memory_conflicts", agent="studio")["items"]
    assert (conflict["ours"], conflict["theirs"]) == ("l2 ann\n", "l2 bob\n")
