"""What history and blame say of a memory file: who, when, how, in words; each line its writer's."""

from __future__ import annotations

from swarmd.core.agent import MemoryRules


def notes(swarm, file="MEMORY.md"):
    rows = swarm.call("memory_history", agent="studio", file=file)["items"]
    return [(row["rev"], row["by"], row["note"]) for row in reversed(rows)]


def blame(swarm, file="MEMORY.md"):
    lines = swarm.call("memory_blame", agent="studio", file=file)["lines"]
    return [(line["line"], line["text"], line["by"]) for line in lines]


def writes(text, file="MEMORY.md"):
    async def script(part):
        part.write(file, text)

    return script


def test_history_says_in_words_how_each_revision_came_about(swarm):
    swarm.call("memory_write", agent="studio", file="MEMORY.md", text="first\n")
    swarm.play("studio", writes("first\nsecond\n"))

    async def with_a_person(part):
        part.write("MEMORY.md", "of the session\nfirst\nsecond\n")
        swarm.file("studio").write_text("first\nsecond\nof the person\n")

    swarm.play("studio", with_a_person)
    swarm.call("memory_restore", agent="studio", rev=2)
    swarm.play("studio", writes("of a mistake\n"))
    swarm.call("session_revert", sessions=[3])
    swarm.play("studio", writes("x\n", "topic.md"))
    swarm.play("studio", writes(None, "topic.md"))
    swarm.call("memory_write", agent="studio", file="other.md", text="x\n")
    swarm.file("studio", "other.md").unlink()
    swarm.play("studio")
    assert notes(swarm) == [
        (1, "operator:ada", "written"),
        (2, "studio#1", "written"),
        (3, "operator:ada", "a person's edit"),
        (4, "studio#2", "merged with other edits"),
        (5, "operator:ada", "restored"),
        (6, "studio#3", "written"),
        (7, "operator:ada", "a session undone"),
    ]
    assert notes(swarm, "topic.md") == [(1, "studio#4", "written"), (2, "studio#5", "deleted")]
    assert notes(swarm, "other.md")[-1] == (2, "operator:ada", "deleted: a person's edit")


def test_history_of_thousands_of_revisions_is_given_in_pages(swarm):
    for number in range(7):
        swarm.call("memory_append", agent="studio", file="MEMORY.md", text=str(number))
        swarm.clock.go(minutes=1)
    first = swarm.call("memory_history", agent="studio", n=3)
    assert [row["rev"] for row in first["items"]] == [7, 6, 5]
    second = swarm.call("memory_history", agent="studio", n=3, until=first["next"])
    assert [row["rev"] for row in second["items"]] == [4, 3, 2]
    assert swarm.call("memory_history", agent="studio")["next"] is None


def test_lines_of_a_person_and_of_an_agent_stay_theirs_when_an_older_text_is_saved(swarm):
    swarm.play("studio", writes("# Notes\nof the start\n"))
    stale = swarm.text("studio")
    swarm.play("studio", writes("# Notes\nof the start\nbuilt by a machine\n"))
    swarm.file("studio").write_text("written by hand\n" + stale)
    swarm.play("studio")
    assert swarm.text("studio") == "written by hand\n# Notes\nof the start\nbuilt by a machine\n"
    assert blame(swarm) == [
        (1, "written by hand", "operator:ada"),
        (2, "# Notes", "studio#1"),
        (3, "of the start", "studio#1"),
        (4, "built by a machine", "studio#2"),
    ]


def test_lines_of_both_sides_of_a_sessions_merge_are_each_theirs(swarm):
    swarm.play("studio", writes("one\ntwo\nthree\n"))

    async def script(part):
        part.write("MEMORY.md", "one\ntwo\nthree\nof the session\n")
        swarm.file("studio").write_text("of the person\none\ntwo\nthree\n")

    swarm.play("studio", script)
    assert [by for _, _, by in blame(swarm)] == [
        "operator:ada",
        "studio#1",
        "studio#1",
        "studio#1",
        "studio#2",
    ]


def test_windows_line_ends_and_bytes_that_are_no_text_have_lines_too(swarm):
    swarm.file("studio").parent.mkdir(parents=True, exist_ok=True)
    swarm.file("studio").write_bytes(b"one\r\ntwo \xff\r\n")
    swarm.play("studio")
    swarm.play("studio", writes("one\r\nthree\n"))
    assert blame(swarm) == [(1, "one", "operator:ada"), (2, "three", "studio#2")]


# -- nothing is kept ----------------------------------------------------------------------------------------


def test_an_agent_that_keeps_nothing_starts_with_nothing_and_leaves_nothing(swarm):
    swarm.call("memory_write", agent="studio", file="MEMORY.md", text="of earlier times\n")
    swarm.call("memory_write", agent="studio", file="a.md", text="a\n")
    swarm.change("studio", memory=MemoryRules(persistent=False))
    seen = {}

    async def script(part):
        seen["files"], seen["user"] = dict(part.files), part.request.user
        part.write("MEMORY.md", "scratch\n")
        seen["append"] = await part.refused("memory_append", file="MEMORY.md", text="x")
        seen["show"] = await part.refused("memory_show")
        seen["history"] = await part.refused("memory_history")
        await part.act("ctx_set", key="k", value="v")
        reply = await part.checkpoint(problems=("bad is a symbolic link",))
        assert [change["target"] for change in reply.value["changes"]] == ["studio/k"]
        await part.act("ctx_set", key="l", value="v")
        return part.done(memory_problems=("bad is a symbolic link",))

    session = swarm.play("studio", script)
    assert session["outcome"] == "committed"
    assert seen["files"] == {}
    assert "earlier times" not in seen["user"]
    assert "a.md" not in seen["user"]
    for name in ("append", "show", "history"):
        assert seen[name].startswith("studio keeps no memory (its file says memory.persistent = false)")
    assert [change["target"] for change in session["changes"]] == ["studio/k", "studio/l"]
    assert swarm.text("studio") == "of earlier times\n"
    assert not swarm.rows("SELECT * FROM blobs WHERE data = ?", b"scratch\n")
    assert [id for id in swarm.attention() if id.startswith("memory")] == []


def test_a_failed_session_of_it_leaves_a_draft_without_memory(swarm):
    swarm.change("studio", memory=MemoryRules(persistent=False))

    async def script(part):
        part.write("MEMORY.md", "scratch\n")
        return part.done("failed", reason="no")

    session = swarm.play("studio", script)
    assert (session["outcome"], session["changes"]) == ("failed", [])


def test_an_operator_goes_on_writing_in_a_folder_whose_agent_keeps_nothing(swarm):
    swarm.change("studio", memory=MemoryRules(persistent=False))
    swarm.call("memory_write", agent="studio", file="MEMORY.md", text="one\n")
    swarm.file("studio").write_text("two\n")
    swarm.play("studio")
    assert swarm.call("memory_show", agent="studio")["text"] == "two\n"

    # Who stands above goes on reading what is left there.
    async def reads(part):
        assert (await part.act("memory_show", agent="studio"))["text"] == "two\n"

    swarm.play("house", reads)


# -- the archive --------------------------------------------------------------------------------------------


def archive(swarm, count, text="old\n"):
    for number in range(count):
        swarm.call(
            "memory_write", agent="studio", file=f"archive/history_{number:04}.md", text=f"{number} {text}"
        )


def test_what_is_archived_is_told_of_and_read_on_demand_and_given_to_no_session(swarm, tmp_path):
    archive(swarm, 3)
    swarm.call("memory_write", agent="studio", file="MEMORY.md", text="new\n")
    seen = {}

    async def script(part):
        seen["files"], seen["user"] = list(part.files), part.request.user
        seen["archived"] = part.request.archived
        shown = await part.act("memory_show", file="archive/history_0001.md")
        seen["text"] = shown["text"]
        seen["refused"] = await part.refused("memory_write", file="archive/x.md", text="x")

    swarm.play("studio", script)
    assert seen["files"] == ["MEMORY.md"]
    assert "archive/: 3 older texts, not in the folder" in seen["user"]
    assert (seen["archived"], seen["text"]) == (3, "1 old\n")
    assert "read-only" in seen["refused"]
    listed = swarm.call("memory_list", agent="studio")["items"]
    assert [(row["path"], row["bytes"], row["first_line"]) for row in listed][:2] == [
        ("MEMORY.md", 4, "new"),
        ("archive/history_0000.md", 6, "0 old"),
    ]


def test_a_session_is_given_again_with_as_many_older_texts_as_there_were(swarm):
    archive(swarm, 2)
    swarm.play("studio")
    archive(swarm, 4, "more\n")
    text = swarm.call("session_show", session=1, prompt_text=True)["prompt_text"]
    assert "archive/: 2 older texts" in text["user"]


def test_a_session_that_puts_a_file_into_the_archive_of_its_copy_is_refused(swarm):
    archive(swarm, 1)

    async def script(part):
        part.write("archive/mine.md", "x")

    assert swarm.play("studio", script)["outcome"] == "refused"


def test_what_a_person_changes_in_the_archive_is_adopted(swarm):
    archive(swarm, 3)
    swarm.file("studio", "archive/history_0001.md").write_text("corrected\n")
    swarm.file("studio", "archive/history_0002.md").unlink()
    swarm.file("studio", "archive/of a person.md").write_text("mine\n")
    swarm.play("studio")
    assert swarm.call("memory_show", agent="studio", file="archive/history_0001.md")["text"] == "corrected\n"
    paths = [row["path"] for row in swarm.call("memory_list", agent="studio")["items"]]
    assert paths == ["archive/history_0000.md", "archive/history_0001.md", "archive/of a person.md"]
