"""Large memories: a mebibyte that is rewritten while its writer is killed, and a thousand older texts beside it."""

from __future__ import annotations

import os
import random
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from swarmd.store import stable
from tests.store.memory_place import AGENT, Place

ROOT = Path(__file__).resolve().parents[2]
MIB = 1024 * 1024
WRITER = """
import sys
from pathlib import Path
from tests.store.memory_place import Place
from tests.store.test_memory_large import text_of

place = Place(Path(sys.argv[1]))
for number in range(int(sys.argv[2]), 10_000):
    print(number, flush=True)
    place.save({"MEMORY.md": text_of(number)}, base={"MEMORY.md": text_of(number - 1)}, session=number)
"""


def text_of(number: int) -> str:
    """A mebibyte that is whole where each line says the same number."""
    line = f"- this line is of rewrite {number:06}, and so are all the others\n"
    return line * (MIB // len(line))


def number_in(text: str) -> int:
    found = {int(line[26:32]) for line in text.splitlines()}
    assert len(found) == 1, found
    assert text == text_of(min(found))
    return min(found)


def test_a_mebibyte_is_the_whole_old_or_the_whole_new_text_wherever_its_writer_is_killed(tmp_path):
    place = Place(tmp_path)
    place.save({"MEMORY.md": text_of(0)})
    place.file().chmod(0o640)
    place.close()
    chance = random.Random(60)
    at = 0
    for _ in range(12):
        writer = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path), str(at + 1)], cwd=ROOT,
                                  stdout=subprocess.PIPE, env=dict(os.environ))  # fmt: skip
        assert writer.stdout is not None
        for _ in range(chance.randrange(1, 4)):
            writer.stdout.readline()
        # Somewhere in what it does next, which takes about as long.
        select.select([], [], [], chance.uniform(0, 0.06))
        writer.kill()
        said = writer.communicate()[0].split()
        torn = number_in(place.text())
        place = Place(tmp_path)
        place.folders.recover()
        place.folders.settle(AGENT)
        after = number_in(place.text())
        head = place.head()
        assert head is not None
        assert place.text().encode() == head.data
        assert at <= torn <= after
        assert not said or after <= int(said[-1])
        assert place.private() == []
        assert place.file().stat().st_mode & 0o777 == 0o640
        place.close()
        at = after
    assert at > 0


# -- many older texts ---------------------------------------------------------------------------------------


@pytest.fixture
def place(tmp_path):
    made = Place(tmp_path)
    made.save({f"archive/history_{n:04}.md": f"text {n}\n" * 50 for n in range(200)} | {"MEMORY.md": "now\n"})
    yield made
    made.close()


@pytest.fixture
def read(monkeypatch):
    """The sizes of the files whose bytes were read."""
    found = []

    def all_of(fd):
        data = read_all(fd)
        found.append(len(data))
        return data

    read_all = stable._read_all
    monkeypatch.setattr(stable, "_read_all", all_of)
    return found


def settled(place, monkeypatch):
    """As the folder is a while after it was written."""
    monkeypatch.setattr(stable, "SETTLED_SECONDS", 0.0)
    place.folders.settle(AGENT)


def test_older_texts_are_not_read_at_each_look_at_the_folder(place, read, monkeypatch):
    place.folders.settle(AGENT)
    assert len(read) >= 201
    read.clear()
    settled(place, monkeypatch)
    read.clear()
    place.folders.settle(AGENT)
    assert read == []
    place.save({"MEMORY.md": "now\nand then\n"})
    assert len(read) < 10


def test_files_that_were_changed_just_now_are_read_each_time(place, read):
    for _ in range(2):
        read.clear()
        place.folders.settle(AGENT)
        assert len(read) >= 201


@pytest.mark.parametrize("how", ["write", "rename", "same size and time", "delete", "restored copy"])
def test_what_a_person_does_to_an_older_text_is_seen_all_the_same(place, read, monkeypatch, how, tmp_path):
    settled(place, monkeypatch)
    read.clear()
    file = place.file("archive/history_0007.md")
    before = file.stat()
    if how == "write":
        file.write_text("corrected\n")
    elif how == "rename":
        new = tmp_path / "new"
        new.write_text("corrected\n")
        new.rename(file)
    elif how == "same size and time":
        file.write_bytes(b"c" * before.st_size)
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    elif how == "delete":
        file.unlink()
    else:
        shutil.copy2(place.file("archive/history_0008.md"), file)
    (adopted,) = place.folders.adopt(AGENT)
    assert (adopted.path, adopted.deleted) == ("archive/history_0007.md", how == "delete")
    assert place.folders.adopt(AGENT) == []
    head = place.head("archive/history_0007.md")
    assert head is not None
    assert head.data == (None if how == "delete" else file.read_bytes())


def test_a_folder_of_older_texts_is_not_too_full_and_does_not_keep_a_new_file_out(place, monkeypatch):
    monkeypatch.setattr("swarmd.store.adopt.FOLDER_BYTES", 1000)
    monkeypatch.setattr("swarmd.store.folder.ENTRIES", 20)
    place.file("archive/by hand.md").write_text("x" * 2000)
    place.file("topic.md").write_text("x\n")
    assert {adopted.path for adopted in place.folders.adopt(AGENT)} == {"archive/by hand.md", "topic.md"}
    assert place.rows("SELECT text FROM raised") == []


def test_a_thousand_older_texts_cost_a_session_a_few_hundredths_of_a_second(tmp_path, monkeypatch):
    place = Place(tmp_path)
    place.save({f"archive/history_{n:04}.md": f"{n}\n" * 2000 for n in range(1000)} | {"MEMORY.md": "now\n"})
    settled(place, monkeypatch)
    start = time.process_time()
    for _ in range(5):
        place.folders.settle(AGENT)
    assert (time.process_time() - start) / 5 < 0.2
    place.close()
