"""The memory copy is read from a folder that an attacker owns, and may be changing."""

import os
import socket
import subprocess
import sys
import time

import pytest

from swarmd.core.memory import FIRST_FILE_BYTES, FOLDER_BYTES, FOLDER_FILES
from swarmd.core.wire import MemoryTree
from swarmd.runners.memory_copy import ENTRIES, PROBLEMS, materialize, put, read_memory, take_away

SECRET = b"the contents of a file outside\n"
EMPTY = MemoryTree()


@pytest.fixture
def outside(tmp_path):
    place = tmp_path / "outside"
    place.mkdir()
    (place / "secret").write_bytes(SECRET)
    return place


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "memory"
    place.mkdir()
    return place


def test_a_tree_comes_back_as_it_was(tmp_path):
    tree = MemoryTree.of({"MEMORY.md": b"a\n", "people/ann.md": b"", "archive/x": b"\xff\0", "a/b/c/d": b"d"})
    folder = tmp_path / "copy"
    materialize(str(folder), tree, ["archive/**"])
    assert read_memory(str(folder), tree, ["archive/**"]) == (tree, ())
    assert (folder / "archive/x").stat().st_mode & 0o777 == 0o444
    assert (folder / "MEMORY.md").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("path", ["../x", "/etc/x", ".x", "a/b/c/d/e"])
def test_a_tree_with_a_bad_path_is_not_written(tmp_path, path):
    with pytest.raises(ValueError, match="memory path"):
        materialize(str(tmp_path / "copy"), MemoryTree.of({path: b""}), [])


NAMES = {
    "plain.md": None,
    "-rf": None,
    ".hidden": "dot",
    ".plain.md.swp": "dot",
    "a\nb": "control",
    "a\x1b]0;x\x07": "control",
    b"caf\xe9": "UTF-8",
    "Rene\u0301": "NFC",
    "x" * 101: "100 bytes",
    "deep/a/b/c/d": "parts",
    "\u2028": "control",
}
KINDS = {
    "file": None,
    "link": "symbolic link",
    "link to a folder": "symbolic link",
    "broken link": "symbolic link",
    "hard link": "hard links",
    "fifo": "named pipe",
    "socket": "socket",
    "device": "device",
}


def _make(kind: str, path: bytes, outside) -> None:
    secret = os.fsencode(outside / "secret")
    if kind == "file":
        with open(path, "wb") as file:
            file.write(b"fine")
    elif kind == "link":
        os.symlink(secret, path)
    elif kind == "link to a folder":
        os.symlink(os.fsencode(outside), path)
    elif kind == "broken link":
        os.symlink(b"nowhere", path)
    elif kind == "hard link":
        os.link(secret, path)
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as it:
            os.chdir(os.path.dirname(path))
            it.bind(os.path.basename(path))
    elif kind == "device":
        try:
            os.mknod(path, 0o20600, os.makedev(1, 5))
        except PermissionError:
            pytest.skip("only root may make a device")


@pytest.mark.parametrize("kind", KINDS)
def test_no_name_and_no_kind_of_object_brings_in_what_is_outside(folder, outside, kind):
    for name, bad_name in NAMES.items():
        path = os.path.join(os.fsencode(folder), os.fsencode(name))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        _make(kind, path, outside)
        tree, problems = read_memory(str(folder), EMPTY, [])
        expected = bad_name or KINDS[kind]
        if expected is None:
            assert (tree.as_files(), problems) == ({name: b"fine"}, ())
        else:
            assert tree.as_files() == {}
            assert len(problems) == 1
            assert expected in problems[0]
            assert problems[0].isprintable()
        os.unlink(path)


def test_a_folder_that_is_a_link_is_not_gone_into(folder, outside):
    (folder / "people").symlink_to(outside)
    tree, problems = read_memory(str(folder), EMPTY, [])
    assert tree.as_files() == {}
    assert problems == ("people is a symbolic link; a memory folder holds regular files only",)


def test_a_memory_folder_that_is_a_link_or_is_gone_cannot_be_read(tmp_path, outside):
    (tmp_path / "way").symlink_to(outside)
    for name in ("way", "nowhere"):
        tree, problems = read_memory(str(tmp_path / name), EMPTY, [])
        assert tree is None
        assert problems[0].startswith("the memory folder cannot be read: ")


def test_limits(folder):
    (folder / "MEMORY.md").write_bytes(b"x" * (FIRST_FILE_BYTES + 1))
    tree, problems = read_memory(str(folder), EMPTY, [])
    assert (tree.as_files(), problems) == (
        {},
        ("memory full: MEMORY.md has 1,048,577 bytes and may have 1,048,576: cut at least 1 bytes",),
    )
    (folder / "MEMORY.md").write_bytes(b"x" * FIRST_FILE_BYTES)
    with open(folder / "sparse", "wb") as file:
        file.truncate(1 << 40)
    assert read_memory(str(folder), EMPTY, [])[1] == (
        f"memory full: sparse has {1 << 40:,} bytes and may have {FOLDER_BYTES:,}: cut at least 1,099,494,850,560 bytes",
    )
    os.unlink(folder / "sparse")
    for number in range(3):
        (folder / f"half{number}").write_bytes(b"x" * (FOLDER_BYTES // 2))
    assert (
        "memory full: the folder may have 16,777,216 bytes, and has more"
        in read_memory(str(folder), EMPTY, [])[1]
    )


def test_too_many_files_and_too_many_names(folder):
    for number in range(FOLDER_FILES + 1):
        (folder / f"n{number}").touch()
    assert read_memory(str(folder), EMPTY, [])[1] == (
        "a memory folder may have 1000 files; this one has 1001: remove or join some",
    )
    for number in range(FOLDER_FILES + 1):
        (folder / f"n{number}").unlink()
    for number in range(ENTRIES + 1):
        (folder / f"d{number}").mkdir()
    assert "has 4000 names and more" in read_memory(str(folder), EMPTY, [])[1][0]
    for number in range(ENTRIES + 1):
        (folder / f"d{number}").rmdir()
    for number in range(30):
        (folder / f".n{number}").touch()
    problems = read_memory(str(folder), EMPTY, [])[1]
    assert len(problems) == PROBLEMS + 1
    assert problems[-1] == "and 10 more"


def test_read_only_files(tmp_path):
    base = MemoryTree.of({"policies/a": b"a", "policies/b": b"b", "notes": b"n"})
    folder = tmp_path / "copy"
    materialize(str(folder), base, ["policies/**"])
    os.unlink(folder / "policies/a")
    os.chmod(folder / "policies/b", 0o600)
    (folder / "policies/b").write_bytes(b"changed")
    (folder / "policies/c").write_bytes(b"new")
    (folder / "notes").write_bytes(b"may change")
    _tree, problems = read_memory(str(folder), base, ["policies/**"])
    assert problems == (
        "policies/a is read-only, and was removed",
        "policies/b is read-only, and was changed",
        "policies/c is read-only, and was added",
    )


def test_a_file_without_permission_is_a_problem(folder):
    (folder / "a").write_bytes(b"a")
    os.chmod(folder / "a", 0)
    tree, problems = read_memory(str(folder), EMPTY, [])
    if os.geteuid() == 0:
        assert tree.read("a") == b"a"
    else:
        assert problems == ("a cannot be read: Permission denied",)


SWAP = """
import os, sys
folder, secret = sys.argv[1:]
os.chdir(folder)
outside = os.path.dirname(secret)
print("begun", flush=True)
while True:
    try:
        open("x", "w").write("fine"); os.rename("x", "note")
        os.symlink(secret, "y"); os.rename("y", "note")
        os.mkfifo("z"); os.rename("z", "note")
        os.mkdir("people"); open("people/secret", "w").write("fine")
        os.rename("people", "old"); os.symlink(outside, "people")
        os.unlink("people"); os.unlink("old/secret"); os.rmdir("old")
    except OSError:
        pass
"""


def test_a_live_session_that_swaps_files_for_links_gets_nothing_in(folder, outside):
    attacker = subprocess.Popen(
        [sys.executable, "-c", SWAP, str(folder), str(outside / "secret")], stdout=subprocess.PIPE
    )
    try:
        attacker.stdout.readline()
        deadline = time.monotonic() + 2
        rounds = seen = problems_seen = 0
        while time.monotonic() < deadline:
            tree, problems = read_memory(str(folder), EMPTY, [])
            assert SECRET not in tree.blobs.values()
            put(str(folder), "note", b"fine")
            try:
                put(str(folder), "people/other", b"fine")
                take_away(str(folder), "people/other")
            except OSError:
                pass
            rounds += 1
            seen += len(tree.files)
            problems_seen += len(problems)
        assert min(rounds, seen, problems_seen) > 20
        assert sorted(os.listdir(outside)) == ["secret"]
        assert (outside / "secret").read_bytes() == SECRET
    finally:
        attacker.kill()
        attacker.wait()
        attacker.stdout.close()


def test_putting_follows_no_link(folder, outside):
    (folder / "people").symlink_to(outside)
    with pytest.raises(OSError, match="people"):
        put(str(folder), "people/secret", b"overwritten")
    (folder / "note").symlink_to(outside / "secret")
    put(str(folder), "note", b"replaced")
    assert not (folder / "note").is_symlink()
    assert (outside / "secret").read_bytes() == SECRET
    put(str(folder), "a/b/c", b"new")
    put(str(folder), "a/b/c", b"newer")
    assert (folder / "a/b/c").read_bytes() == b"newer"
    assert os.listdir(folder / "a/b") == ["c"]
