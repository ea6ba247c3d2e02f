"""Publishing and adopting when nothing goes wrong but people."""

from __future__ import annotations

import os
import threading

import pytest

from tests.store.memory_place import AGENT, OldDisk, Place


@pytest.fixture
def place(tmp_path):
    made = Place(tmp_path)
    yield made
    made.close()


def test_a_commit_is_published_with_private_modes(place):
    place.save({"MEMORY.md": "a\n", "topics/deep/x.md": "b\n"})
    assert place.text() == "a\n"
    assert place.text("topics/deep/x.md") == "b\n"
    assert place.file().stat().st_mode & 0o777 == 0o600
    assert place.file("topics").stat().st_mode & 0o777 == 0o700
    assert place.private() == []
    assert {phase for _, phase in place.pending()} == {"done"}


def test_one_flush_ends_what_is_pending(place):
    place.save({"MEMORY.md": "a\n", "b.md": "b\n"})
    assert place.folders.checkpoint() == 2
    assert place.pending() == []
    assert place.folders.checkpoint() == 0


def test_a_persons_edit_is_a_revision_by_its_owner(place):
    place.save({"MEMORY.md": "a\n"})
    place.file().write_text("a\nby hand\n")
    (adopted,) = place.folders.adopt(AGENT)
    assert (adopted.path, adopted.rev, adopted.by) == ("MEMORY.md", 2, "operator:ada")
    assert place.head().data == b"a\nby hand\n"
    assert place.folders.adopt(AGENT) == []


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_the_author_is_who_owns_the_file(place):
    place.save({"MEMORY.md": "a\n"})
    place.file().write_text("a\nby hand\n")
    os.chown(place.file(), 1, 1)
    (adopted,) = place.folders.adopt(AGENT)
    assert adopted.by == "operator:daemon"
    place.save({"MEMORY.md": "a\nby hand\nagent\n"})
    assert (place.file().stat().st_uid, place.file().stat().st_gid) == (1, 1)


def test_mode_is_kept(place):
    place.save({"MEMORY.md": "a\n"})
    place.file().chmod(0o644)
    place.save({"MEMORY.md": "b\n"})
    assert place.file().stat().st_mode & 0o777 == 0o644


def test_an_edit_meets_a_newer_head_and_both_are_kept(place):
    place.save({"MEMORY.md": "one\ntwo\n"})
    place.file().write_text("ONE\ntwo\n")
    place.commit({"MEMORY.md": "one\ntwo\nagent\n"})
    place.folders.settle(AGENT)
    assert place.text() == "ONE\ntwo\nagent\n"
    assert "ONE\ntwo\n" in place.history()


def test_where_lines_collide_the_persons_stay_and_the_agents_are_kept_aside(place):
    place.save({"MEMORY.md": "one\ntwo\nthree\n"})
    place.file().write_text("one\nperson\nthree\n")
    place.commit({"MEMORY.md": "one\nagent\nthree\n"}, session=7)
    place.folders.settle(AGENT)
    assert place.text() == "one\nperson\nthree\n"
    assert place.rows("SELECT path, ours, theirs, session, by FROM conflicts") == [
        ("MEMORY.md", "agent\n", "person\n", 7, f"{AGENT}#7")
    ]


def test_a_stale_editor_does_not_take_back_what_an_agent_wrote(place):
    place.save({"MEMORY.md": "one\ntwo\n"})
    place.save({"MEMORY.md": "one\ntwo\nfrom the agent\n"})
    place.file().write_text("one\ntwo\nby hand\n")
    place.folders.settle(AGENT)
    assert place.text() == "one\ntwo\nby hand\nfrom the agent\n"


def test_an_editor_that_was_open_for_many_sessions_takes_back_nothing(place):
    place.save({"MEMORY.md": "one\ntwo\n"})
    text = "one\ntwo\n"
    for number in range(40):
        text += f"from session {number}\n"
        place.save({"MEMORY.md": text}, session=number + 1)
    place.file().write_text("one\nby hand\ntwo\n")
    place.folders.settle(AGENT)
    assert place.text() == text.replace("one\n", "one\nby hand\n")
    assert place.conflicts() == []


def test_a_file_with_a_time_that_no_clock_has_is_taken_as_any_other(place):
    place.save({"MEMORY.md": "one\n"})
    place.file().write_text("one\nby hand\n")
    os.utime(place.file(), (2**40, 2**40))
    place.folders.settle(AGENT)
    assert place.head().data == b"one\nby hand\n"


def test_a_person_can_remove_what_an_agent_wrote_and_it_is_told(place):
    place.save({"MEMORY.md": "one\ntwo\n"})
    place.save({"MEMORY.md": "one\ntwo\nfrom the agent\n"})
    place.file().write_text("one\ntwo\n")
    (adopted,) = place.folders.settle(AGENT)
    assert place.text() == "one\ntwo\n"
    assert adopted.removed == ("from the agent",)
    assert place.rows("SELECT by, act, target, detail FROM audit") == [
        (
            "operator:ada",
            "memory_adopt",
            f"{AGENT}:MEMORY.md",
            '{"head":3,"removed":["from the agent"],"rev":3}',
        )
    ]
    assert place.conflicts() == []


def test_a_person_can_correct_what_an_agent_wrote(place):
    place.save({"MEMORY.md": "one\ntwo\n"})
    place.save({"MEMORY.md": "one\ntwo\nthe server listens on port 8080\n"})
    place.file().write_text("one\ntwo\nthe server listens on port 9090\n")
    place.folders.settle(AGENT)
    assert place.text() == "one\ntwo\nthe server listens on port 9090\n"


def test_a_person_can_write_the_whole_file_anew(place):
    place.save({"MEMORY.md": "one\n"})
    place.save({"MEMORY.md": "one\ntwo\n"})
    place.file().write_text("new\n")
    place.folders.settle(AGENT)
    assert place.text() == "new\n"


def test_a_deleted_file_is_a_revision_and_stays_deleted(place):
    place.save({"MEMORY.md": "a\n", "old.md": "b\n"})
    place.file("old.md").unlink()
    (adopted,) = place.folders.settle(AGENT)
    assert adopted.deleted
    assert place.head("old.md").data is None
    assert not place.file("old.md").exists()


def test_a_deleted_first_file_is_written_again(place):
    place.save({"MEMORY.md": "a\n"})
    place.file().unlink()
    assert place.folders.settle(AGENT) == []
    assert place.text() == "a\n"
    assert place.folders.settle(AGENT) == []
    told = ("operator:ada", "memory_put_back", f"{AGENT}:MEMORY.md", '{"rev":1}')
    assert place.rows("SELECT by, act, target, detail FROM audit") == [told]


def test_a_deletion_does_not_take_what_was_committed_since(place):
    place.save({"x.md": "a\n"})
    place.commit({"x.md": "a\nnew\n"})
    place.file("x.md").unlink()
    place.folders.settle(AGENT)
    assert place.text("x.md") == "a\nnew\n"


def test_a_whole_folder_gone_is_written_again(place):
    place.save({"MEMORY.md": "a\n", "t/b.md": "b\n"})
    for path in ("MEMORY.md", "t/b.md"):
        place.file(path).unlink()
    place.file("t").rmdir()
    place.file(".swarmd").rmdir()
    place.file().parent.rmdir()
    place.folders.settle(AGENT)
    assert (place.text(), place.text("t/b.md")) == ("a\n", "b\n")


def test_an_agents_deletion_is_published(place):
    place.save({"t/a.md": "a\n", "MEMORY.md": "m\n"})
    place.save({"t/a.md": None})
    assert not place.file("t").exists()
    assert place.private() == []


def test_an_agents_deletion_meets_an_edit_and_the_edit_stays(place):
    place.save({"t/a.md": "a\n"})
    place.commit({"t/a.md": None})
    place.file("t/a.md").write_text("a\nby hand\n")
    place.folders.settle(AGENT)
    assert place.text("t/a.md") == "a\nby hand\n"


def test_a_file_becomes_a_folder_and_a_folder_a_file(place):
    place.save({"a": "file\n", "b/c": "in a folder\n"})
    place.save({"a": None, "a/x": "now a folder\n", "b/c": None, "b": "now a file\n"})
    assert place.text("a/x") == "now a folder\n"
    assert place.text("b") == "now a file\n"
    assert place.attention() == {}


def test_a_person_makes_a_folder_of_a_file(place):
    place.save({"a": "file\n", "MEMORY.md": "m\n"})
    place.file("a").unlink()
    place.file("a").mkdir()
    place.file("a/x.md").write_text("x\n")
    place.folders.settle(AGENT)
    assert place.head("a").data is None
    assert place.head("a/x.md").data == b"x\n"


def test_a_name_that_an_editor_uses_is_left_alone_unless_it_is_memory(place):
    place.save({"MEMORY.md": "m\n", "4913": "an agent's own\n"})
    for name in (".MEMORY.md.swp", "MEMORY.md~", "x.swp", "#x#", ".hidden"):
        place.file(name).write_text("temporary")
    assert place.folders.settle(AGENT) == []
    assert place.attention() == {}
    assert place.text(".MEMORY.md.swp") == "temporary"
    assert place.text("4913") == "an agent's own\n"


def test_a_name_that_may_not_be_raises_attention_until_it_is_gone(place):
    place.save({"MEMORY.md": "m\n"})
    bad = place.file("a\x01b")
    bad.write_text("x")
    with open(os.fsencode(place.file("MEMORY.md").parent) + b"/\xff", "w") as file:
        file.write("x")
    place.folders.settle(AGENT)
    assert len(place.attention()) == 2
    bad.unlink()
    os.unlink(os.fsencode(place.file("MEMORY.md").parent) + b"/\xff")
    place.folders.settle(AGENT)
    assert place.attention() == {}


def test_a_name_that_differs_only_in_case_is_not_adopted(place):
    place.save({"MEMORY.md": "m\n", "notes.md": "n\n"})
    place.file("Notes.md").write_text("N\n")
    assert place.folders.settle(AGENT) == []
    assert list(place.attention()) == [f"memory:{AGENT}:Notes.md"]


def test_a_vim_save_in_two_steps_is_no_deletion(place):
    place.save({"x.md": "a\n"})
    file = place.file("x.md")
    file.rename(file.with_name("x.md~"))
    place.disk.waits = lambda: file.write_text("a\nb\n") and file.with_name("x.md~").unlink(missing_ok=True)
    assert not any(item.deleted for item in place.folders.settle(AGENT))
    place.folders.settle(AGENT)
    assert place.history("x.md") == ["a\n", "a\nb\n"]


def test_a_file_that_is_just_being_written_is_waited_for(place):
    place.save({"MEMORY.md": "a\n"})
    place.commit({"MEMORY.md": "a\nagent\n"})
    writer = open(place.file(), "r+")  # noqa: SIM115 - it is closed by the wait
    writer.truncate(0)
    writer.flush()

    def finish():
        if not writer.closed:
            writer.write("PERSON\na\n")
            writer.close()

    place.disk.waits = finish
    place.folders.settle(AGENT)
    assert place.text() == "PERSON\na\nagent\n"
    assert "" not in place.history()


def test_a_commit_while_a_swap_is_stuck_goes_on_and_the_newest_head_is_published(place):
    place.save({"MEMORY.md": "m\n", "x.md": "1\n"})
    place.file("x.md").unlink()
    place.file("x.md").symlink_to("MEMORY.md")
    place.save({"x.md": "2\n"})
    place.save({"x.md": "3\n"})
    assert place.file("x.md").is_symlink()
    assert place.folders.working_tree(AGENT).read("x.md") == b"3\n"
    place.file("x.md").unlink()
    place.folders.settle(AGENT)
    assert place.text("x.md") == "3\n"
    assert place.attention() == {}


def test_agents_side_by_side_do_not_meet(place):
    names = [f"agent-{n}" for n in range(6)]

    def work(name):
        for n in range(15):
            place.save({"MEMORY.md": f"{name} {n}\n", "t/x.md": f"{n}\n"}, agent=name)

    threads = [threading.Thread(target=work, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for name in names:
        assert place.file("MEMORY.md", name).read_text() == f"{name} 14\n"


def test_the_folder_of_an_agent_that_is_gone_is_removed_but_not_a_strangers_file(place):
    place.save({"MEMORY.md": "m\n", "t/x.md": "x\n"})
    place.writer.do(
        lambda c: [c.execute(f"DELETE FROM {t}") for t in ("heads", "revisions", "published", "pending")]
    )
    place.file("t/unknown.md").write_text("never adopted")
    place.folders.drop(AGENT)
    assert not place.file().exists()
    assert place.text("t/unknown.md") == "never adopted"
    place.file("t/unknown.md").unlink()
    place.file("t").rmdir()
    place.folders.drop(AGENT)
    assert not place.file().parent.exists()


def test_without_exchange_files_are_published_and_a_person_is_warned(tmp_path):
    place = Place(tmp_path, disk=OldDisk())
    place.save({"MEMORY.md": "a\n"})
    place.save({"MEMORY.md": "b\n"})
    assert place.text() == "b\n"
    assert list(place.attention()) == ["memory-disk:exchange"]
    assert place.private() == []
    place = place.again()
    place.save({"MEMORY.md": "c\n"})
    assert place.attention() == {}
    place.close()
