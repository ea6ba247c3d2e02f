"""The folder as it is found: what counts as an agent's file, and that every way of saving is noticed."""

from __future__ import annotations

import os
import shutil
import time

import pytest

from swarmd.config.scan import scan_files, scan_folder
from tests.config.kit import LATER_NS, good
from tests.config.saves import WAYS


def test_only_toml_files_of_the_folder_itself_are_read(folder):
    for name in (".hidden.toml", "a.toml~", ".a.toml.swp", "4913.", "notes.md", "a.toml.bak", "#a.toml#"):
        folder.write(name, "nonsense")
    (folder.path / "sub").mkdir()
    (folder.path / "sub" / "b.toml").write_text(good())
    folder.write("a", good())
    scan = folder.scan()
    assert list(scan.files) == ["a"]
    assert scan.strays == ()


@pytest.mark.parametrize(
    "name",
    ["Bob", "-a", "a b", "con\nx", "ä", "a.b", "all", "operator", "self", "children", "system", "x" * 64],
)
def test_names_that_cannot_be_an_agents_are_refused_by_one_rule(folder, name):
    folder.write(f"{name}.toml", good())
    scan = folder.scan()
    assert not scan.files
    (problem,) = scan.strays
    assert "reserved" in problem.text or "an agent's name has" in problem.text
    assert "\n" not in str(problem)


def test_names_that_are_no_text_are_refused_too(folder):
    with open(os.fsencode(folder.path) + b"/caf\xe9.toml", "w") as file:
        file.write(good())
    (problem,) = folder.scan().strays
    assert str(problem).isascii()


def test_names_that_differ_in_case_are_not_one_agent(folder):
    folder.write("bob.toml", good())
    folder.write("Bob.toml", good())
    folder.write("eve.TOML", good())
    scan = folder.scan()
    assert list(scan.files) == ["bob"]
    assert [problem.file for problem in scan.strays] == ["agents.d/Bob.toml", "agents.d/eve.TOML"]


def test_things_that_are_no_files_are_problems_of_their_name(folder):
    (folder.path / "dir.toml").mkdir()
    os.mkfifo(folder.path / "pipe.toml")
    (folder.path / "dangling.toml").symlink_to("nothing")
    folder.write("good", good())
    problems = {name: file.document.problem for name, file in folder.scan().files.items()}
    assert str(problems["dir"]) == "agents.d/dir.toml: is a folder, not a file"
    assert str(problems["pipe"]) == "agents.d/pipe.toml: is a pipe, not a file"
    assert str(problems["dangling"]) == "agents.d/dangling.toml: is a symbolic link to nothing"
    assert problems["good"] is None


def test_a_missing_folder_is_a_value(folder):
    folder.path.rmdir()
    state = folder.scan().state
    assert (state.kind, state.reason) == ("missing", f"{folder.path} does not exist")


def test_a_file_in_the_folders_place_is_a_value(folder):
    folder.path.rmdir()
    folder.path.write_text("x")
    assert folder.scan().state.kind == "unreadable"


@pytest.mark.skipif(os.getuid() == 0, reason="root may read everything")
def test_what_may_not_be_read_is_a_value(folder):
    folder.write("a", good()).chmod(0)
    problem = folder.scan().files["a"].document.problem
    assert str(problem) == "agents.d/a.toml: cannot be read: Permission denied"
    folder.path.chmod(0)
    state = folder.scan().state
    folder.path.chmod(0o700)
    assert (state.kind, state.reason) == ("unreadable", f"{folder.path} cannot be read: Permission denied")


def test_a_folder_that_everyone_may_write_is_not_trusted(folder):
    folder.write("a", good())
    folder.path.chmod(0o777)
    scan = folder.scan()
    assert scan.state.kind == "unsafe"
    assert "everyone may write it" in scan.state.reason
    folder.path.chmod(0o1777)
    assert list(folder.scan().files) == ["a"]


def test_an_unchanged_folder_is_the_same_scan(folder):
    folder.write("a", good())
    folder.write("b", 'system_prompt_file = "b.md"\n')
    folder.write("b.md", "x")
    first = folder.scan()
    second = folder.scan()
    assert second.says_same_as(first)
    assert second.files["b"] is first.files["b"]


def test_a_save_without_a_change_is_no_change(folder):
    folder.write("a", good())
    first = folder.scan()
    folder.write("a", good())
    assert folder.scan().says_same_as(first)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_every_way_of_saving_is_noticed(folder, way):
    way(folder.path, "a", good(more="description = 'first'\n"))
    first = folder.scan()
    assert first.files["a"].document.data["description"] == "first"
    for text in ("other", "third", "forth"):  # the last two are of equal length
        way(folder.path, "a", good(more=f"description = '{text}'\n"))
        scan = folder.scan()
        assert not scan.says_same_as(first)
        assert scan.files["a"].document.data["description"] == text
        first = scan


def test_an_edit_of_the_prompt_file_alone_is_noticed(folder):
    folder.write("a", 'system_prompt_file = "../a.md"\n')
    first = folder.scan()
    assert first.files["a"].prompt is not None
    assert first.files["a"].prompt.missing
    (folder.path.parent / "a.md").write_text("x")
    second = folder.scan()
    assert not second.says_same_as(first)
    assert second.files["a"].prompt.data == b"x"


def test_a_folder_that_comes_back_is_read_anew(folder):
    folder.write("a", good())
    folder.scan()
    shutil.move(folder.path, f"{folder.path}.old")
    assert folder.scan().state.kind == "missing"
    shutil.move(f"{folder.path}.old", folder.path)
    assert list(folder.scan().files) == ["a"]


def test_a_fresh_save_is_not_settled(folder):
    folder.write("a", good())
    fresh = scan_folder(folder.path, guard=folder.guard, now_ns=time.time_ns())
    assert not fresh.settled
    assert folder.scan().settled


def test_single_files_are_scanned_as_a_folder_of_just_them(folder, tmp_path):
    one = folder.write("one", good())
    (tmp_path / "Bad.toml").write_text(good())
    paths = [one, tmp_path / "Bad.toml", tmp_path / "gone.toml", tmp_path / "one.toml"]
    scan = scan_files(paths, guard=folder.guard, now_ns=time.time_ns() + LATER_NS)
    assert list(scan.files) == ["one"]
    assert [problem.file for problem in scan.strays] == [str(path) for path in paths[1:]]
    assert "does not exist" in scan.strays[1].text
    assert "another of the given files" in scan.strays[2].text
