"""Memory folders when things go wrong: death in the middle of a swap, power cuts, odd objects, full disks, two people."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from swarmd.store.disk import Disk
from swarmd.store.folder import Folder
from tests.store.memory_place import AGENT, OldDisk, PatientDisk, Place

ROOT = Path(__file__).resolve().parents[2]
BASE = "# Notes\none\ntwo\n"


class Died(BaseException):
    """The process is gone."""


class DyingDisk(PatientDisk):
    """Dies before or right after the exchange; a person may act just there."""

    def __init__(self, *, after: bool, meanwhile=lambda: None) -> None:
        super().__init__()
        self.after, self.meanwhile = after, meanwhile

    def exchange(self, from_fd, from_name, to_fd, to_name):
        self.meanwhile()
        if self.after:
            super().exchange(from_fd, from_name, to_fd, to_name)
        raise Died


class MeetingDisk(PatientDisk):
    """A person acts just before the first exchange."""

    def __init__(self, meanwhile) -> None:
        super().__init__()
        self.meanwhile = [meanwhile]

    def exchange(self, from_fd, from_name, to_fd, to_name):
        if self.meanwhile:
            self.meanwhile.pop()()
        return super().exchange(from_fd, from_name, to_fd, to_name)


def rename_save(file: Path, text: str) -> None:
    part = file.with_name(".save")
    part.write_text(text)
    part.rename(file)


@pytest.fixture
def start(tmp_path):
    place = Place(tmp_path)
    place.save({"MEMORY.md": BASE})
    place.folders.checkpoint()
    yield place
    place.close()


def dead(start: Place, text: str, *, after: bool, meanwhile=lambda: None) -> Place:
    """The place of a process that dies while it publishes `text`."""
    place = start.again(disk=DyingDisk(after=after, meanwhile=meanwhile))
    place.commit({"MEMORY.md": text})
    with pytest.raises(Died):
        place.folders.settle(AGENT)
    return place


# Faults that drafts of the protocol had


def test_a_displaced_text_is_read_before_the_base_advances(start):
    place = dead(
        start, BASE + "agent\n", after=True, meanwhile=lambda: rename_save(start.file(), "PERSON\n" + BASE)
    )
    assert place.text() == BASE + "agent\n"
    place = place.again()
    (adopted,) = place.folders.recover()
    assert adopted.by == "operator:ada"
    assert place.text() == "PERSON\n" + BASE + "agent\n"
    assert place.conflicts() == []
    assert place.private() == []
    place.close()


def test_a_displaced_text_is_no_rubbish_after_a_second_save(start):
    place = dead(
        start, BASE + "agent\n", after=True, meanwhile=lambda: rename_save(start.file(), "FIRST\n" + BASE)
    )
    rename_save(place.file(), BASE + "agent\nSECOND\n")
    place = place.again()
    place.folders.recover()
    assert place.text() == "FIRST\n" + BASE + "agent\nSECOND\n"
    assert {"FIRST\n" + BASE, BASE + "agent\nSECOND\n"} <= set(place.history())
    place.close()


def test_a_leftover_that_was_used_up_is_rubbish(start, monkeypatch):
    """Killed between the mark and the deletion, twice: the same leftover must not be adopted again."""

    def die(*_):
        raise Died

    place = start.again(disk=MeetingDisk(lambda: rename_save(start.file(), "PERSON\n" + BASE)))
    place.commit({"MEMORY.md": BASE + "agent\n"})
    with monkeypatch.context() as patch:
        patch.setattr("swarmd.store.folder.Folder.discard", die)
        with pytest.raises(Died):
            place.folders.settle(AGENT)
    assert len(place.private()) == 1
    revisions = place.history()
    place = place.again()
    place.folders.recover()
    assert place.history() == revisions
    assert place.text() == "PERSON\n" + BASE + "agent\n"
    assert place.private() == []
    place.close()


def test_a_swap_that_was_not_done_is_done(start):
    place = dead(start, BASE + "agent\n", after=False).again()
    assert place.text() == BASE
    assert place.folders.recover() == []
    assert place.text() == BASE + "agent\n"
    place.close()


def test_a_swap_that_was_done_and_not_marked_is_marked(start):
    place = dead(start, BASE + "agent\n", after=True).again()
    assert place.folders.recover() == []
    assert (place.text(), place.private()) == (BASE + "agent\n", [])
    place.close()


def test_an_unfinished_write_is_cleaned_up(start):
    place = start.again()
    place.file(".swarmd").mkdir(exist_ok=True)
    place.file(".swarmd/0000000000000001.part").write_text("half")
    place.file(".swarmd/0000000000000001").write_text("rubbish")
    place.folders.recover()
    assert place.private() == []
    assert place.history() == [BASE]
    place.close()


def published(start: Place, text: str) -> Place:
    """Marked as done, and nothing flushed: the power may fail now."""
    place = start.again()
    place.save({"MEMORY.md": text})
    assert place.pending() == [("MEMORY.md", "done")]
    return place


@pytest.mark.parametrize(
    "lost", ["", BASE, BASE[:9], BASE + "age"], ids=["empty", "old", "torn old", "torn new"]
)
def test_what_a_power_cut_leaves_of_a_swap_is_written_again(start, lost):
    place = published(start, BASE + "agent\n")
    place.file().write_text(lost)
    place = place.again(boot="boot-2")
    assert place.folders.recover() == []
    assert place.text() == BASE + "agent\n"
    assert place.history() == [BASE, BASE + "agent\n"]
    place.close()


def test_zeros_after_a_power_cut_are_set_aside_and_told(start):
    place = published(start, BASE + "agent\n")
    place.file().write_bytes(b"# Not\0\0\0\0")
    place = place.again(boot="boot-2")
    place.folders.recover()
    assert place.text() == BASE + "agent\n"
    ((id_, _),) = place.attention().items()
    kept = place.file(id_.rpartition(f"{AGENT}:")[2])
    assert kept.read_bytes() == b"# Not\0\0\0\0"
    kept.unlink()
    place.folders.settle(AGENT)
    assert place.attention() == {}
    place.close()


def test_a_file_gone_after_a_power_cut_is_no_deletion(start):
    place = start.again()
    place.save({"x.md": "x\n"})
    place.folders.checkpoint()
    place.file("x.md").unlink()
    place = place.again(boot="boot-2")
    place.folders.recover()
    assert place.text("x.md") == "x\n"
    place.file("x.md").unlink()
    place = place.again(boot="boot-2")
    place.folders.settle(AGENT)
    assert place.head("x.md").data is None
    place.close()


def test_a_folder_that_stands_again_where_a_file_had_replaced_it_is_no_edit(start):
    place = start.again()
    place.save({"t/a.md": "a\n"})
    place.folders.checkpoint()
    place.save({"t/a.md": None, "t": "now a file\n"})
    place.file("t").unlink()
    place.file("t").mkdir()
    place.file("t/a.md").write_text("a\n")
    place = place.again(boot="boot-2")
    assert place.folders.recover() == []
    assert place.text("t") == "now a file\n"
    assert place.head("t/a.md").data is None
    place.close()


def test_an_edit_before_a_power_cut_is_kept(start):
    place = published(start, BASE + "agent\n")
    place.file().write_text(BASE + "agent\nby hand\n")
    place = place.again(boot="boot-2")
    place.folders.recover()
    assert place.text() == BASE + "agent\nby hand\n"
    place.close()


def test_an_edit_of_a_text_whose_swap_was_lost_is_kept_with_the_agents_lines(start):
    place = published(start, BASE + "agent\n")
    place.file().write_text("by hand\n" + BASE)
    place = place.again(boot="boot-2")
    place.folders.recover()
    assert place.text() == "by hand\n" + BASE + "agent\n"
    place.close()


def test_a_return_to_an_old_text_counts_where_nothing_was_pending(start):
    place = published(start, BASE + "agent\n")
    place.folders.checkpoint()
    place.file().write_text(BASE)
    place = place.again(boot="boot-2")
    place.folders.recover()
    assert place.text() == BASE
    place.close()


def test_a_displaced_text_outlives_a_power_cut(start):
    place = dead(
        start, BASE + "agent\n", after=True, meanwhile=lambda: rename_save(start.file(), "PERSON\n" + BASE)
    )
    place.file().write_bytes(b"")
    place = place.again(boot="boot-2")
    place.folders.recover()
    assert place.text() == "PERSON\n" + BASE + "agent\n"
    place.close()


def test_a_process_that_forgets_to_recover_recovers(start):
    place = published(start, BASE + "agent\n")
    place.file().unlink()
    place = place.again(boot="boot-2")
    place.folders.settle(AGENT)
    assert place.text() == BASE + "agent\n"
    place.close()


def test_a_done_swap_that_moves_on_during_the_flush_stays_pending(start):
    place = start.again()
    place.save({"MEMORY.md": BASE + "1\n", "x.md": "x\n"})

    class Flush(PatientDisk):
        def sync(self, fd):
            place.file().unlink()
            place.folders.settle(AGENT)

    place.folders._shelf.disk = Flush()
    place.folders.checkpoint()
    assert place.pending() == [("MEMORY.md", "done")]
    place.close()


# A person at that very instant


@pytest.mark.parametrize("save", [rename_save, Path.write_text], ids=["rename", "in place"])
def test_a_save_just_before_the_exchange_is_merged(start, save):
    place = start.again(disk=MeetingDisk(lambda: save(start.file(), "PERSON\n" + BASE)))
    place.commit({"MEMORY.md": BASE + "agent\n"})
    place.folders.settle(AGENT)
    assert place.text() == "PERSON\n" + BASE + "agent\n"
    assert "PERSON\n" + BASE in place.history()
    place.close()


def test_a_file_removed_just_before_the_exchange_is_written(start):
    place = start.again(disk=MeetingDisk(lambda: start.file().unlink()))
    place.save({"MEMORY.md": BASE + "agent\n"})
    assert place.text() == BASE + "agent\n"
    place.close()


def test_an_agents_deletion_gives_way_to_a_save_in_that_instant(start, monkeypatch):
    place = start.again()
    place.save({"x.md": "x\n"})
    taken = Folder.take

    def take(folder, path, name):
        rename_save(place.file("x.md"), "x\nby hand\n")
        monkeypatch.undo()
        taken(folder, path, name)

    monkeypatch.setattr("swarmd.store.folder.Folder.take", take)
    place.save({"x.md": None})
    assert place.text("x.md") == "x\nby hand\n"
    place.close()


def test_a_link_put_there_just_before_the_exchange_is_set_aside(start):
    def link():
        start.file().unlink()
        start.file().symlink_to("/etc/passwd")

    place = start.again(disk=MeetingDisk(link))
    place.save({"MEMORY.md": BASE + "agent\n"})
    assert place.text() == BASE + "agent\n"
    (kept,) = place.file(".swarmd/quarantine").iterdir()
    assert kept.is_symlink()
    place.folders.settle(AGENT)
    assert len(place.attention()) == 1
    place.close()


def test_two_people_and_an_agent_lose_nothing(start):
    place = start.again(disk=Disk())
    talking = threading.Lock()

    def person(name: str, save) -> None:
        for n in range(25):
            # Two people who overwrite one another are not our affair; that an agent writes in between is.
            with talking:
                text = place.file().read_text()
                time.sleep(0.002)
                save(place.file(), text.replace("# Notes\n", f"# Notes\n{name} {n}\n"))
            time.sleep(0.004)

    people = [
        threading.Thread(target=person, args=who) for who in (("vim", rename_save), ("code", Path.write_text))
    ]
    for each in people:
        each.start()
    for n in range(40):
        base = place.head().data.decode()
        place.save({"MEMORY.md": base + f"agent {n}\n"}, base={"MEMORY.md": base})
    for each in people:
        each.join()
    place.folders.settle(AGENT)
    now = place.text() + "".join(ours for _, ours in place.conflicts())
    lines = [
        f"{name} {n}\n" for name, count in (("agent", 40), ("vim", 25), ("code", 25)) for n in range(count)
    ]
    assert [line for line in lines if line not in now] == []
    assert place.file().read_bytes() == place.head().data
    place.close()


# Odd objects in a file's place


def odd(file: Path, kind: str) -> None:
    file.unlink()
    match kind:
        case "link":
            file.symlink_to("/etc/passwd")
        case "dangling link":
            file.symlink_to("/nowhere/at/all")
        case "fifo":
            os.mkfifo(file)
        case "folder":
            file.mkdir()
            (file / "inside").write_text("x")
        case "too large":
            file.write_bytes(b"x" * (1024 * 1024 + 1))


@pytest.mark.parametrize("kind", ["link", "dangling link", "fifo", "folder", "too large"])
def test_what_is_no_memory_file_raises_attention_and_the_store_goes_on(start, kind):
    place = start.again()
    odd(place.file(), kind)
    place.save({"MEMORY.md": BASE + "agent\n", "x.md": "x\n"})
    assert place.folders.working_tree(AGENT).read("MEMORY.md").decode() == BASE + "agent\n"
    assert place.text("x.md") == "x\n"
    assert any("MEMORY.md" in text for text in place.attention().values())
    assert os.path.lexists(place.file())
    shutil.rmtree(place.file()) if kind == "folder" else place.file().unlink()
    place.folders.settle(AGENT)
    assert place.text() == BASE + "agent\n"
    assert place.attention() == {}
    place.close()


def test_an_empty_folder_in_a_files_place_is_put_right(start):
    place = start.again()
    place.file().unlink()
    place.file().mkdir()
    place.save({"MEMORY.md": BASE + "agent\n"})
    assert place.text() == BASE + "agent\n"
    assert place.attention() == {}
    place.close()


def test_a_link_in_place_of_a_folder_is_not_followed(start, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.md").write_text("not ours\n")
    place = start.again()
    place.save({"t/a.md": "a\n", "t/b.md": "not deleted\n"})
    shutil.rmtree(place.file("t"))
    place.file("t").symlink_to(outside)
    place.save({"t/a.md": "b\n", "t/new.md": "n\n"})
    assert place.head("t/b.md").data == b"not deleted\n"
    assert (outside / "a.md").read_text() == "not ours\n"
    assert not (outside / "new.md").exists()
    assert place.attention()
    place.file("t").unlink()
    place.folders.settle(AGENT)
    assert (place.text("t/a.md"), place.text("t/new.md")) == ("b\n", "n\n")
    assert place.head("t/b.md").data is None
    assert place.attention() == {}
    place.close()


def test_an_agents_folder_that_is_a_link_is_not_followed(start, tmp_path):
    place = start.again()
    folder = place.file().parent
    folder.rename(tmp_path / "moved")
    folder.symlink_to(tmp_path / "moved")
    place.save({"MEMORY.md": BASE + "agent\n"})
    assert (tmp_path / "moved/MEMORY.md").read_text() == BASE
    assert place.attention()
    folder.unlink()
    place.folders.settle(AGENT)
    assert place.text() == BASE + "agent\n"
    assert place.attention() == {}
    place.close()


def as_nobody(work) -> int:
    """Run `work` in a child without privileges; its exit status."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.setgroups([])
            os.setresgid(65534, 65534, 65534)
            os.setresuid(65534, 65534, 65534)
            work()
            status = 0
        except BaseException as error:  # noqa: BLE001 - the exit status tells
            print(repr(error), file=sys.stderr)
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_without_privileges_mode_000_is_put_right_and_a_strangers_file_raises_attention(runtime_dir):
    os.chmod(runtime_dir.parent, 0o755)
    state = runtime_dir / "state"
    state.mkdir()
    os.chmod(runtime_dir, 0o755)
    os.chown(state, 65534, 65534)

    def first():
        place = Place(state)
        place.save({"MEMORY.md": BASE, "x.md": "x\n"})
        place.file().write_text(BASE + "by hand\n")
        place.file().chmod(0)
        place.folders.settle(AGENT)
        assert place.head().data.decode() == BASE + "by hand\n"
        assert place.attention() == {}
        place.close()

    def second():
        place = Place(state)
        place.save({"MEMORY.md": BASE + "by hand\nagent\n", "x.md": "y\n"})
        assert list(place.attention()) == [f"memory-publish:{AGENT}:x.md", f"memory:{AGENT}:x.md"]
        assert place.text() == BASE + "by hand\nagent\n"
        place.close()

    assert as_nobody(first) == 0
    file = state / "memory" / AGENT / "x.md"
    os.chown(file, 0, 0)
    file.write_text("root's secret\n")
    assert as_nobody(second) == 0
    assert file.read_text() == "root's secret\n"


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_without_a_lease_a_strangers_file_is_read_when_it_is_quiet(runtime_dir):
    os.chmod(runtime_dir.parent, 0o755)
    os.chmod(runtime_dir, 0o755)
    state = runtime_dir / "state"
    state.mkdir()
    os.chown(state, 65534, 65534)

    def first():
        Place(state).save({"MEMORY.md": BASE})

    def second():
        place = Place(state)
        waited = []
        place.disk.waits = lambda: (waited.append(1), time.sleep(0.05))
        place.folders.settle(AGENT)
        assert place.head().data.decode() == BASE + "by root\n"
        assert place.rows("SELECT by FROM revisions ORDER BY rev DESC LIMIT 1") == [("operator:root",)]
        assert waited
        place.close()

    assert as_nobody(first) == 0
    file = state / "memory" / AGENT / "MEMORY.md"
    os.chown(file, 0, 0)
    file.chmod(0o644)
    file.write_text(BASE + "by root\n")
    assert as_nobody(second) == 0


# Weak and full disks


def test_without_exchange_a_death_between_the_steps_is_mended(tmp_path, monkeypatch):
    place = Place(tmp_path, disk=OldDisk())
    place.save({"MEMORY.md": BASE})
    rename, calls = os.rename, []

    def counting(*args, **how):
        calls.append(args)
        if len(calls) == limit:
            raise Died
        rename(*args, **how)

    for limit in (2, 3):
        place.commit({"MEMORY.md": f"{BASE}{limit}\n"})
        calls.clear()
        with monkeypatch.context() as patch:
            patch.setattr(os, "rename", counting)
            with pytest.raises(Died):
                place.folders.settle(AGENT)
        place = place.again(disk=OldDisk())
        place.folders.recover()
        assert (place.text(), place.private()) == (f"{BASE}{limit}\n", [])
    assert len(place.history()) == 3
    place.close()


FULL = """
import sys, os
sys.path.insert(0, {root!r})
from pathlib import Path
from tests.store.memory_place import *
state = Path({mount!r})
Path(state / "db").mkdir()
os.symlink({outside!r} + "/swarmd.db", state / "swarmd.db")
place = Place(state)
place.save({{"MEMORY.md": "a\\n"}})
filler = open(state / "filler", "wb")
try:
    while True:
        os.write(filler.fileno(), b"x" * 4096)
except OSError:
    pass
place.save({{"MEMORY.md": "a\\n" + "b" * 100000 + "\\n"}})
assert place.text() == "a\\n"
(attention,) = place.attention().values()
assert "No space left" in attention, attention
os.unlink(state / "filler")
filler.close()
place.folders.settle(AGENT)
assert place.text() == "a\\n" + "b" * 100000 + "\\n"
assert place.attention() == {{}}
print("recovered")
"""


def test_a_full_disk_raises_attention_and_is_published_when_there_is_room(tmp_path):
    mount = tmp_path / "mount"
    mount.mkdir()
    (tmp_path / "outside").mkdir()
    make = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    if (
        shutil.which("unshare") is None
        or subprocess.run(
            [*make, f"mount -t tmpfs -o size=1m none {mount}"], check=False, capture_output=True
        ).returncode
    ):
        pytest.skip("no file system can be mounted in a namespace here")
    program = FULL.format(root=str(ROOT), mount=str(mount), outside=str(tmp_path / "outside"))
    (tmp_path / "full.py").write_text(program)
    script = f"mount -t tmpfs -o size=1m none {mount} && exec {sys.executable} {tmp_path / 'full.py'}"
    done = subprocess.run([*make, script], check=False, capture_output=True, text=True)
    assert done.stdout == "recovered\n", done.stderr


LOOP = """
import sys
sys.path.insert(0, {root!r})
from pathlib import Path
from tests.store.memory_place import *
place = Place(Path({state!r}))
place.folders.recover()
n = int(place.head().data[:8])
print("ready", flush=True)
while True:
    n += 1
    place.save({{"MEMORY.md": f"{{n:08}}" + chr(97 + n % 26) * 1_000_000 + "\\n"}})
"""


def test_a_mebibyte_is_whole_old_or_whole_new_after_every_kill(tmp_path):
    place = Place(tmp_path)
    place.save({"MEMORY.md": "00000000" + "a" * 1_000_000 + "\n"})
    place.file().chmod(0o640)
    place.close()
    (tmp_path / "loop.py").write_text(LOOP.format(root=str(ROOT), state=str(tmp_path)))
    for turn in range(8):
        child = subprocess.Popen([sys.executable, tmp_path / "loop.py"], stdout=subprocess.PIPE, text=True)
        assert child.stdout.readline() == "ready\n"
        time.sleep(0.003 + 0.011 * turn)
        child.send_signal(signal.SIGKILL)
        child.communicate()
        text = place.file().read_text()
        assert text[8:] == chr(97 + int(text[:8]) % 26) * 1_000_000 + "\n"
    place = Place(tmp_path)
    place.folders.recover()
    assert place.file().read_bytes() == place.head().data
    assert place.file().stat().st_mode & 0o777 == 0o640
    assert place.private() == []
    assert {by for (by,) in place.rows("SELECT DISTINCT by FROM revisions")} == {f"{AGENT}#1"}
    place.close()
