"""What of agents' memories needs a person: full ones, MEMORY.md past its room, rewrites that lost most of a file."""

from __future__ import annotations

import pytest

from swarmd.core.agent import MemoryRules
from swarmd.core.memory import FIRST_FILE_BYTES, FOLDER_BYTES
from swarmd.core.wire import Message
from swarmd.runners.memory_copy import materialize
from swarmd.runners.memory_desk import MemoryDesk
from tests.swarm import nothing

LONG = "".join(f"- fact number {n} of many\n" for n in range(100))


def item(swarm, id):
    (found,) = [row for row in swarm.call("attention")["items"] if row["id"] == id]
    return found


async def at_its_copy(part, tmp_path, *messages):
    """The answers that a program of the session gets, of which the memory is a real copy."""
    folder = tmp_path / f"copy{part.request.session}"
    materialize(str(folder), part.request.memory, part.request.read_only)
    desk = MemoryDesk.of(part.request, str(folder), part.desk)
    answers = [
        await desk.answer(Message(id=f"c{n}", call=c, args=args)) for n, (c, args) in enumerate(messages)
    ]
    part.files = {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    return answers


# -- full ---------------------------------------------------------------------------------------------------


def test_a_memory_at_its_limit_says_so_to_the_agent_each_time_and_to_a_person_once(swarm, tmp_path):
    size = FIRST_FILE_BYTES - 100
    swarm.call("memory_write", agent="studio", file="MEMORY.md", text="x\n" * (size // 2))
    add = ("memory_append", {"file": "MEMORY.md", "text": "y" * 156})
    said = []

    async def script(part):
        said.extend(await at_its_copy(part, tmp_path, add, add, add, add))
        await part.act("ctx_set", key="tried", value="4")

    session = swarm.play("studio", script)
    told = (
        "memory full: MEMORY.md has 1,048,476 bytes and may have 1,048,576; with this it would have 1,048,633: cut at "
        "least 57 bytes first, or put text into other files"
    )
    assert [(reply.error, reply.kind) for reply in said] == [(told, "refused")] * 4
    assert session["outcome"] == "committed"
    assert [(refusal["target"], refusal["reason"]) for refusal in session["refusals"]] == [
        ("studio:MEMORY.md", told)
    ] * 4
    assert swarm.attention() == ["memory_full:studio"]
    assert item(swarm, "memory_full:studio")["text"] == (
        f"4 writes of session 1 to the memory of studio found no room: {told}"
    )
    assert swarm.call("status")["attention"]["kinds"] == {"memory_full": 1}

    swarm.call("attention_ack", id="memory_full:studio")
    swarm.clock.go(hours=1)
    swarm.play("studio", script)
    assert swarm.attention() == []  # it is as it was when that was seen


@pytest.mark.parametrize("cure", ["session", "person", "command"])
def test_a_full_memory_is_cured_by_whoever_makes_room(swarm, cure):
    swarm.call("memory_write", agent="studio", file="MEMORY.md", text="x\n" * (FIRST_FILE_BYTES // 2))

    async def adds(part):
        await part.refused("memory_append", file="MEMORY.md", text="y")
        await part.act("ctx_set", key="k", value="v")

    swarm.play("studio", adds)
    assert swarm.attention() == ["memory_full:studio"]
    swarm.clock.go(minutes=1)
    if cure == "session":
        swarm.play("studio", nothing)
    elif cure == "person":
        swarm.file("studio").write_text("x\n" * (FIRST_FILE_BYTES // 4))
        swarm.store.folders.settle("studio")
    else:
        swarm.call("memory_write", agent="studio", file="MEMORY.md", text="x\n" * (FIRST_FILE_BYTES // 4))
    assert swarm.attention() == []


def test_an_agent_that_makes_room_itself_and_tries_again_needs_nobody(swarm):
    swarm.call("memory_write", agent="studio", file="MEMORY.md", text="x\n" * (FIRST_FILE_BYTES // 2))

    async def script(part):
        await part.refused("memory_append", file="MEMORY.md", text="y" * 50)
        await part.act("memory_write", file="MEMORY.md", text="x\n" * (FIRST_FILE_BYTES // 2 - 40))
        await part.act("memory_append", file="MEMORY.md", text="y" * 50)
        part.files["MEMORY.md"] = part.request.memory.read("MEMORY.md")

    assert swarm.play("studio", script)["outcome"] == "committed"
    assert swarm.attention() == []


def test_a_folder_that_is_full_is_named_too(swarm):
    for number in range(15):
        swarm.call("memory_write", agent="studio", file=f"t{number}.md", text="x" * (FOLDER_BYTES // 16))

    async def script(part):
        reason = await part.refused("memory_write", file="t15.md", text="x" * (FOLDER_BYTES // 16 + 1))
        assert "the folder has 15,728,640 bytes and may have 16,777,216" in reason

    swarm.play("studio", script)
    assert swarm.attention() == ["memory_full:studio"]
    swarm.call("memory_delete", agent="studio", file="t0.md")
    assert [id for id in swarm.attention() if "full" in id] == []


def test_a_copy_over_a_limit_refuses_its_session_and_is_one_item(swarm):
    async def script(part):
        problem = "memory full: MEMORY.md has 1,048,600 bytes and may have 1,048,576: cut at least 24 bytes"
        return part.done(memory_problems=(problem,))

    session = swarm.play("studio", script)
    assert (session["outcome"], session["reason"][:12]) == ("refused", "memory full:")
    assert swarm.attention() == ["memory_full:studio"]
    swarm.clock.go(minutes=1)
    swarm.play("studio", nothing)
    assert swarm.attention() == []


# -- past its room ------------------------------------------------------------------------------------------


def test_a_memory_md_that_stays_past_its_room_is_told_after_three_sessions_in_vain(swarm):
    swarm.change("studio", memory=MemoryRules(prompt_tokens=100))
    swarm.call("memory_write", agent="studio", file="MEMORY.md", text=LONG)
    for _ in range(2):
        swarm.play("studio")
        assert swarm.attention() == []
        swarm.clock.go(hours=1)
    swarm.play("studio")
    assert swarm.attention() == ["memory_room:studio"]
    found = item(swarm, "memory_room:studio")
    assert "its room here is 100: cut at least" in found["text"]
    assert found["next_step"] == "swarmd memory edit studio, or raise memory.prompt_tokens"
    swarm.call("memory_write", agent="studio", file="MEMORY.md", text=LONG[:2000])
    assert swarm.attention() == []


def test_a_memory_that_something_makes_small_by_itself_is_nobodys_concern(swarm):
    swarm.call("memory_write", agent="studio", file="MEMORY.md", text=LONG)
    for rules in ({"log": True}, {"summarizer_model": "small"}, {"summarizer_command": ("true",)}):
        swarm.change("studio", memory=MemoryRules(prompt_tokens=100, **rules))
        for _ in range(3):
            swarm.play("studio")
        assert swarm.attention() == []


# -- losses -------------------------------------------------------------------------------------------------


def loses(text, path="MEMORY.md"):
    async def script(part):
        part.write(path, text)

    return script


def test_a_rewrite_that_loses_most_of_the_file_is_kept_flagged_and_cured_by_a_restore(swarm):
    swarm.call("memory_write", agent="studio", file="MEMORY.md", text=LONG)
    swarm.clock.go(hours=1)
    swarm.play("studio", loses("# New\n\nAll is well.\n"))
    assert swarm.text("studio") == "# New\n\nAll is well.\n"
    found = item(swarm, "memory_loss:studio:studio#1")
    assert (found["kind"], found["agent"], found["since"]) == (
        "memory_loss",
        "studio",
        "2026-11-30T10:00:00.000000Z",
    )
    assert found["text"] == (
        "studio#1 rewrote the memory of studio and lost most of it: MEMORY.md has 0 of 100 lines left (20 bytes of "
        "2,490; revision 1 has all)"
    )
    assert found["next_step"] == "swarmd memory restore studio 1"
    swarm.call("memory_restore", agent="studio", rev=1)
    assert swarm.attention() == []


def test_what_a_person_saves_empty_is_flagged_too_and_what_grows_again_is_cured(swarm):
    swarm.call("memory_write", agent="studio", file="notes/a.md", text=LONG)
    swarm.file("studio", "notes/a.md").write_text("")
    swarm.play("studio", nothing)
    assert item(swarm, "memory_loss:studio:operator:ada")["next_step"] == (
        "swarmd memory restore studio 1 --file notes/a.md"
    )
    swarm.play("studio", loses("a\n", "notes/a.md"))
    assert swarm.attention() == ["memory_loss:studio:operator:ada"]
    swarm.play("studio", loses("other\n" * 400, "notes/a.md"))
    assert swarm.attention() == []


def test_several_files_of_one_session_are_one_item_and_an_acknowledged_one_stays_away(swarm):
    for path in ("MEMORY.md", "a.md", "b.md"):
        swarm.call("memory_write", agent="studio", file=path, text=LONG)

    async def script(part):
        part.write("MEMORY.md", "none\n")
        part.write("a.md", "none\n")
        part.write("b.md", None)

    swarm.play("studio", script)
    assert swarm.attention() == ["memory_loss:studio:studio#1"]
    text = item(swarm, "memory_loss:studio:studio#1")["text"]
    assert "MEMORY.md has 0 of 100 lines left" in text
    assert "b.md (revision 1, 2,490 bytes) was deleted" in text
    assert item(swarm, "memory_loss:studio:studio#1")["next_step"] == (
        "swarmd memory restore studio 1 && swarmd memory restore studio 1 --file a.md"
        " && swarmd memory restore studio 1 --file b.md"
    )
    swarm.call("attention_ack", id="memory_loss:studio:studio#1")
    assert swarm.attention() == []


def test_each_file_that_is_named_has_its_command_and_those_restored_go(swarm):
    paths = [f"notes {n}.md" for n in range(7)]
    for path in paths:
        swarm.call("memory_write", agent="studio", file=path, text=LONG)

    async def script(part):
        for path in paths:
            part.write(path, None)

    swarm.play("studio", script)
    found = item(swarm, "memory_loss:studio:studio#1")
    assert found["text"].endswith("; and 2 more files")
    commands = found["next_step"].split(" && ")
    assert commands == [f"swarmd memory restore studio 1 --file 'notes {n}.md'" for n in range(5)]
    for path in paths[:5]:
        swarm.call("memory_restore", agent="studio", file=path, rev=1)
    found = item(swarm, "memory_loss:studio:studio#1")
    assert found["next_step"].split(" && ") == [
        f"swarmd memory restore studio 1 --file 'notes {n}.md'" for n in (5, 6)
    ]


def test_an_archive_that_a_person_deletes_or_empties_is_flagged_and_cured_by_a_restore(swarm):
    one, two, three = (f"archive/history_{n}.md" for n in (1, 2, 3))
    for path in (one, two, three):
        swarm.call("memory_write", agent="studio", file=path, text=LONG)
    swarm.file("studio", one).unlink()
    swarm.file("studio", two).write_text("")
    swarm.call("memory_delete", agent="studio", file=three)
    swarm.play("studio", nothing)
    found = item(swarm, "memory_loss:studio:operator:ada")
    assert f"{one} (revision 1, 2,490 bytes) was deleted" in found["text"]
    assert f"{two} has 0 of 100 lines left" in found["text"]
    assert found["next_step"] == " && ".join(
        f"swarmd memory restore studio 1 --file {path}" for path in (one, two, three)
    )
    for path in (one, two, three):
        swarm.call("memory_restore", agent="studio", file=path, rev=1)
    assert swarm.attention() == []


def test_a_file_that_a_person_gives_another_name_is_not_lost(swarm):
    for path in ("facts.md", "archive/history.md"):
        swarm.call("memory_write", agent="studio", file=path, text=LONG.replace("fact", path))
        file = swarm.file("studio", path)
        file.rename(file.with_name("old.md"))
    swarm.play("studio", nothing)
    assert {row["path"] for row in swarm.rows("SELECT path FROM heads WHERE hash IS NOT NULL")} >= {
        "old.md",
        "archive/old.md",
    }
    assert swarm.attention() == []


def test_an_archive_goes_with_what_is_forgotten_about_a_subject(swarm):
    for path in ("MEMORY.md", "archive/history.md"):
        swarm.call("memory_write", agent="studio@alice", file=path, text=LONG)
    swarm.call("memory_delete", agent="studio@alice", file="archive/history.md")
    assert swarm.attention() == ["memory_loss:studio@alice:operator:ada"]
    swarm.call("forget_subject", agent="studio", subject="alice")
    assert swarm.attention() == []
    assert swarm.rows("SELECT * FROM losses") == []


def test_moving_topics_to_files_of_their_own_is_what_was_asked_for(swarm):
    swarm.call("memory_write", agent="studio", file="MEMORY.md", text=LONG)

    async def script(part):
        part.write("facts.md", LONG)
        part.write("MEMORY.md", "see facts.md\n")

    swarm.play("studio", script)
    swarm.file("studio", "other.md").write_text(LONG)
    swarm.file("studio", "facts.md").write_text("see other.md\n")
    swarm.play("studio", nothing)
    assert swarm.attention() == []


def test_what_an_operator_restores_or_undoes_is_meant(swarm):
    swarm.call("memory_write", agent="studio", file="MEMORY.md", text="short\n")
    swarm.play("studio", loses(LONG))
    swarm.call("session_revert", sessions=[1])
    assert swarm.text("studio") == "short\n"
    swarm.call("memory_restore", agent="studio", rev=2)
    swarm.call("memory_restore", agent="studio", rev=1)
    assert swarm.attention() == []


def test_a_loss_goes_with_its_agent(swarm):
    swarm.call("memory_write", agent="studio", file="MEMORY.md", text=LONG)
    swarm.play("studio", loses("gone\n"))
    swarm.remove("studio")
    swarm.call("forget", name="studio")
    assert swarm.rows("SELECT * FROM losses") == []


def test_a_folder_about_a_subject_is_named_as_commands_name_it(swarm):
    swarm.call("memory_write", agent="studio@alice", file="MEMORY.md", text=LONG)

    async def script(part):
        assert part.files["MEMORY.md"].decode() == LONG
        part.write("MEMORY.md", "gone\n")

    swarm.play("studio", script, trigger="manual", subject="alice")
    (found,) = swarm.call("attention")["items"]
    assert (found["kind"], found["agent"]) == ("memory_loss", "studio")
    assert found["next_step"] == "swarmd memory restore studio@alice 1"
    swarm.call("memory_restore", agent="studio@alice", rev=1)
    filled = LONG + "x\n" * ((FIRST_FILE_BYTES - len(LONG)) // 2)
    swarm.call("memory_write", agent="studio@alice", file="MEMORY.md", text=filled)

    async def adds(part):
        await part.refused("memory_append", file="MEMORY.md", text="y")

    swarm.play("studio", adds, trigger="manual", subject="alice")
    assert swarm.attention() == ["memory_full:studio"]
    assert item(swarm, "memory_full:studio")["next_step"].startswith("swarmd memory list studio@alice")
    swarm.call("memory_write", agent="studio@alice", file="MEMORY.md", text="x\n")
    assert [id for id in swarm.attention() if "full" in id] == []
