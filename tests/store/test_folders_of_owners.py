"""The folder protocol for folders that are no agent's own: shared ones, and those about a subject."""

from __future__ import annotations

import os
import shutil
import threading
import time

import pytest

from swarmd.store import owners, stirred
from tests.store.memory_place import Place
from tests.store.test_memory_faults import Died, DyingDisk

OWNERS = ("@team", "polybreak@alice", "polybreak@alice@example.com")


@pytest.fixture(params=OWNERS)
def owner(request):
    return request.param


@pytest.fixture
def place(tmp_path):
    made = Place(tmp_path)
    yield made
    made.close()


@pytest.fixture
def settled(place, monkeypatch):
    """Which folders were settled, by whoever asked. What was written just now counts as written long ago."""
    monkeypatch.setattr(stirred, "FRESH_NS", 0)
    found = []
    real = place.folders.settle

    def settle(owner):
        found.append(owner)
        return real(owner)

    monkeypatch.setattr(place.folders, "settle", settle)
    return found


def test_it_is_published_and_edits_of_people_are_adopted(place, owner):
    place.save({"MEMORY.md": "a\n", "topics/x.md": "x\n"}, agent=owner)
    assert place.file(agent=owner).read_text() == "a\n"
    place.file(agent=owner).write_text("a\nby hand\n")
    place.file("topics/x.md", agent=owner).unlink()
    adopted = place.folders.settle(owner)
    assert {(item.path, item.by, item.deleted) for item in adopted} == {
        ("MEMORY.md", "operator:ada", False),
        ("topics/x.md", "operator:ada", True),
    }
    assert place.head(agent=owner).data == b"a\nby hand\n"


def test_folders_with_names_alike_are_told_apart(place):
    for name in ("team", "@team", "team@team", "tea"):
        place.save({"MEMORY.md": f"of {name}\n"}, agent=name)
    for name in ("team", "@team", "team@team", "tea"):
        assert place.file(agent=name).read_text() == f"of {name}\n"


@pytest.mark.parametrize("after", [False, True])
def test_one_that_was_being_published_when_the_daemon_died_is_finished_at_the_next_start(
    tmp_path, owner, after
):
    first = Place(tmp_path)
    first.save({"MEMORY.md": "a\n"}, agent=owner)
    dying = first.again(disk=DyingDisk(after=after))
    dying.commit({"MEMORY.md": "a\nb\n"}, base={"MEMORY.md": "a\n"}, agent=owner)
    with pytest.raises(Died):
        dying.folders.settle(owner)
    alive = dying.again()
    alive.folders.recover()
    assert alive.file(agent=owner).read_text() == "a\nb\n"
    assert os.listdir(alive.file(".swarmd", agent=owner)) == []
    alive.close()


def test_after_another_boot_a_person_has_lost_nothing(tmp_path, owner):
    first = Place(tmp_path)
    first.save({"MEMORY.md": "a\n"}, agent=owner)
    first.folders.checkpoint()
    first.file(agent=owner).write_text("a\nby hand\n")
    other = first.again(boot="boot-2")
    other.folders.recover()
    assert other.head(agent=owner).data == b"a\nby hand\n"
    other.close()


def test_what_cannot_be_read_is_told_of_its_owner(place, owner):
    place.save({"MEMORY.md": "a\n"}, agent=owner)
    place.file("link", agent=owner).symlink_to("/etc/hostname")
    place.folders.settle(owner)
    assert list(place.attention()) == [f"memory:{owner}:link"]


def test_a_lost_text_is_put_back_from_its_file(place, owner):
    place.save({"MEMORY.md": "a\n"}, agent=owner)
    place.rows("DELETE FROM blobs")
    assert place.folders.heal(owner)
    assert place.head(agent=owner).data == b"a\n"


# -- many who share one -----------------------------------------------------------------------------------------


def test_a_folder_in_which_nothing_has_stirred_is_not_read(place, settled):
    place.save({"MEMORY.md": "a\n"}, agent="@team")
    settled.clear()
    for _ in range(5):
        place.folders.settle_if_stirred("@team")
    assert settled == ["@team"]


@pytest.mark.parametrize("what", ["same length and time", "new", "gone", "mode", "folder gone"])
def test_every_edit_stirs(place, settled, what):
    place.save({"MEMORY.md": "a\n", "x.md": "x\n"}, agent="@team")
    place.folders.settle_if_stirred("@team")
    file = place.file(agent="@team")
    match what:
        case "same length and time":
            times = file.stat()
            file.write_text("b\n")
            os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
        case "new":
            place.file("y.md", agent="@team").write_text("y\n")
        case "gone":
            place.file("x.md", agent="@team").unlink()
        case "mode":
            file.chmod(0o640)
        case "folder gone":
            shutil.rmtree(file.parent)
    settled.clear()
    place.folders.settle_if_stirred("@team")
    assert settled == ["@team"]


def test_what_was_changed_a_moment_ago_is_looked_at_once_more(place, settled, monkeypatch):
    """An edit in the very tick in which the folder was read has the times of before."""
    monkeypatch.setattr(stirred, "FRESH_NS", 60 * 10**9)
    place.save({"MEMORY.md": "a\n"}, agent="@team")
    settled.clear()
    for _ in range(3):
        place.folders.settle_if_stirred("@team")
    assert settled == ["@team"] * 3


def test_what_waits_for_its_publishing_is_published_though_nothing_stirred(place, settled):
    place.save({"MEMORY.md": "a\n"}, agent="@team")
    place.folders.settle_if_stirred("@team")
    place.commit({"MEMORY.md": "b\n"}, agent="@team")
    place.folders.settle_if_stirred("@team")
    assert place.file(agent="@team").read_text() == "b\n"


def test_those_who_wait_for_a_folder_share_the_next_look(place, monkeypatch):
    place.save({"MEMORY.md": "a\n"}, agent="@team")
    held, looks = threading.Event(), []
    real = place.folders._settle

    def slow(agent):
        looks.append(agent)
        held.wait(10)
        return real(agent)

    monkeypatch.setattr(place.folders, "_settle", slow)
    threads = [threading.Thread(target=place.folders.settle, args=("@team",)) for _ in range(20)]
    threads[0].start()
    while not looks:
        time.sleep(0.001)
    # Saved after the first look began: those who come now must see it.
    place.file(agent="@team").write_text("by hand\n")
    asked = next(place.folders._numbers)
    for thread in threads[1:]:
        thread.start()
    while next(place.folders._numbers) - asked < 20:
        time.sleep(0.001)
    held.set()
    for thread in threads:
        thread.join()
    assert len(looks) < 20
    assert place.head(agent="@team").data == b"by hand\n"


# -- whose folders there are ------------------------------------------------------------------------------------


def test_folders_about_subjects_are_found_on_disk_and_in_rows(place):
    for owner in ("polybreak", "polybreak@alice", "polybreakx@bob", "@polybreak"):
        place.save({"MEMORY.md": "x"}, agent=owner)
    (place.state / "memory" / "polybreak@carol").mkdir()
    (place.state / "memory" / "polybreak@..").mkdir()
    assert place.folders.about_subjects({"polybreak"}) == ["polybreak@alice", "polybreak@carol"]
    found = place.writer.do(lambda c: owners.folders_of(c, "polybreak"))
    assert found == ["polybreak", "polybreak@alice"]
