"""`init`, `check`, `schema` and `memory edit`: what happens to a person's files."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from swarmd.cli.first_tree import copy_tree
from swarmd.errors import NotFound
from tests.cli.documents import MEMORY, SAMPLES
from tests.cli.schema_check import faults

GOOD = 'system_prompt = "You watch the disk."\nschedule = "0 * * * *"\nrunner = { kind = "command", command = ["/bin/true"] }\n'


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def umask():
    before = os.umask(0)
    yield os.umask
    os.umask(before)


def test_the_first_tree_is_copied_with_modes_that_check_accepts(umask, tmp_path):
    source = tmp_path / "source"
    (source / "bin").mkdir(parents=True)
    (source / "a.toml").write_text(GOOD)
    (source / "bin" / "disk.py").write_text("#!/usr/bin/env python3\n")
    made = copy_tree(tmp_path / "agents.d", source)
    assert [path.name for path in made] == ["a.toml", "disk.py"]
    assert (mode(tmp_path / "agents.d"), mode(made[0]), mode(made[1])) == (0o755, 0o644, 0o755)


def test_the_first_tree_overwrites_nothing(tmp_path):
    source, agents = tmp_path / "source", tmp_path / "agents.d"
    source.mkdir()
    agents.mkdir()
    for name in ("a.toml", "b.toml", "c.toml"):
        (source / name).write_text("new")
    (agents / "a.toml").write_text("mine")
    (agents / "b.toml").symlink_to("/nowhere")
    assert copy_tree(agents, source) == [agents / "c.toml"]
    assert (agents / "a.toml").read_text() == "mine"


@pytest.fixture
def agents():
    folder = Path("agents.d")
    folder.mkdir()
    Path(".swarmd").mkdir(mode=0o700)
    (folder / "disk.toml").write_text(GOOD)
    return folder


def schema(name: str):
    return json.loads((Path(__file__).parents[1] / "data" / "schemas" / f"{name}.json").read_text())


def test_check_names_every_problem_of_every_file(agents, swarmd):
    assert swarmd("check").text == "1 file, no problems\n"
    (agents / "bad.toml").write_text(GOOD.replace("schedule", "shedule") + 'parent = "dsik"\n')
    ran = swarmd("check")
    assert ran.status == 1
    assert "agents.d/bad.toml:2: shedule" in ran.text
    assert "no agent is named 'dsik' (did you mean 'disk'?)" in ran.text
    ran = swarmd("check", "--json")
    assert ran.status == 1
    assert faults(schema("check"), ran.json) == []


def test_check_of_a_file_judges_it_among_the_others(agents, swarmd, tmp_path):
    new = tmp_path / "new.toml"
    new.write_text(GOOD + 'parent = "disk"\n')
    assert swarmd("check", str(new)).status == 0
    (agents / "broken.toml").write_text("=")
    assert swarmd("check", str(new)).status == 0
    new.write_text(GOOD + 'parent = "nobody"\n')
    ran = swarmd("check", str(new))
    assert ran.status == 1
    assert "nobody" in ran.text
    assert "broken" not in ran.text


@pytest.mark.parametrize("args", [["check"], ["check", "nothing.toml"]])
def test_check_of_what_is_not_there_is_a_problem(args, swarmd):
    ran = swarmd(*args, "--agents", "nowhere")
    assert ran.status == 1
    assert "does not exist" in ran.text


def test_check_warns_of_what_a_file_names_and_the_machine_lacks(agents, swarmd):
    (agents / "bad.toml").write_text(GOOD.replace("/bin/true", "./no.sh"))
    ran = swarmd("check")
    assert ran.status == 0
    assert ran.text == (
        f"agents.d/bad.toml:3: warning: runner.command[0]: there is no program {agents.absolute()}/no.sh\n"
        "2 files, no errors, 1 warning\n"
    )
    assert swarmd("check", str(agents / "bad.toml")).text.endswith("1 file, no errors, 1 warning\n")
    ran = swarmd("check", "--json")
    assert [(one["severity"], one["found"]) for one in ran.json["items"]] == [("warning", "'./no.sh'")]
    assert faults(schema("check"), ran.json) == []


def test_bad_defaults_hide_nothing_else(agents, swarmd):
    (agents.parent / "swarmd.toml").write_text(
        '[defaults]\nsystem_prompt = 7\nlimits = { timeout = "soon", retries = 2 }\n'
    )
    (agents / "round.toml").write_text(
        'parent = "about"\nrunner = { kind = "command", command = ["/bin/true"] }\n'
    )
    (agents / "about.toml").write_text(
        'parent = "round"\nrunner = { kind = "command", command = ["./no.sh"] }\n'
    )
    ran = swarmd("check", "--config", "swarmd.toml")
    assert ran.status == 1
    told = [line.split(": ", 2)[:2] for line in ran.text.splitlines()]
    assert told == [
        ["swarmd.toml:2", "defaults.system_prompt"],
        ["swarmd.toml:3", "defaults.limits.timeout"],
        ["agents.d/about.toml:1", "parent"],
        ["agents.d/round.toml:1", "parent"],
        ["agents.d/about.toml:2", "warning"],
    ]


def test_a_cycle_is_told_beside_the_other_errors_of_its_files(agents, swarmd):
    (agents / "b.toml").write_text(GOOD + 'parent = "c"\nbogus = 1\n')
    (agents / "c.toml").write_text(GOOD + 'parent = "b"\n')
    lines = swarmd("check").text.splitlines()
    assert [line.split(": ", 1)[1] for line in lines] == [
        "bogus: unknown field", "parent: closes a cycle: b -> c -> b", "parent: closes a cycle: c -> b -> c",
    ]  # fmt: skip


def test_an_empty_as_is_nobody_and_not_the_operator(swarmd):
    ran = swarmd("--as", "", "status")
    assert (ran.status, ran.err) == (2, "swarmd: --as is empty: name the agent whose authority is meant\n")


def test_check_tells_a_nul_character_once(agents, swarmd):
    text = GOOD.replace('"/bin/true"', '"/bin/true", "a\\u0000"').replace(" } ", "")
    (agents / "disk.toml").write_text(text)
    ran = swarmd("check")
    assert (ran.status, ran.text) == (
        1, "agents.d/disk.toml:3: runner.command[1]: may not hold a NUL character\n"
    )  # fmt: skip


def test_a_forbidden_place_to_write_has_what_was_found_and_what_is_expected(agents, swarmd):
    (agents / "disk.toml").write_text(GOOD + 'sandbox = { write = ["."] }\n')
    (item,) = swarmd("check", "--json").json["items"]
    assert item["field"] == "sandbox.write[0]"
    assert item["found"] == repr(str(agents.absolute()))
    assert "agent files, state and runtime" in item["expected"]


@pytest.mark.parametrize("sign", ["memory", "sessions", "operator.key", "swarmd.db-wal"])
def test_init_beside_a_state_that_lost_its_database_says_so(sign, swarmd):
    Path(".swarmd", sign).mkdir(parents=True)
    ran = swarmd("init", ".")
    assert ran.status == 5
    assert ".swarmd/swarmd.db is missing beside other state" in ran.err
    assert not Path("agents.d").exists()


def test_the_schema_of_agent_files_is_json(swarmd):
    ran = swarmd("schema")
    assert ran.status == 0
    assert {"schedule", "runner", "limits"} <= ran.json["properties"].keys()


def editor(tmp_path: Path, script: str) -> dict[str, str]:
    path = tmp_path / "my editor.sh"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return {"EDITOR": f"'{path}'"}


def test_an_edit_is_written_with_the_revision_it_was_made_from(swarmd, tmp_path):
    env = editor(tmp_path, 'echo more >> "$1"')
    ran = swarmd("memory", "edit", "studio", env=env, memory_show=SAMPLES["memory_show"], memory_write=MEMORY)
    assert ran.status == 0, ran.err
    assert ran.calls[-1] == (
        "memory_write",
        {"agent": "studio", "file": "MEMORY.md", "text": "notes\nmore\n", "base": 2},
    )


def test_an_edit_that_changes_nothing_writes_nothing(swarmd, tmp_path):
    ran = swarmd("memory", "edit", "studio", env=editor(tmp_path, "true"), memory_show=SAMPLES["memory_show"])
    assert (ran.status, [name for name, _ in ran.calls]) == (0, ["memory_show"])


@pytest.mark.parametrize("script", ['echo x >> "$1"; exit 3', "exit 3"])
def test_an_editor_that_fails_writes_nothing(script, swarmd, tmp_path):
    ran = swarmd("memory", "edit", "studio", env=editor(tmp_path, script), memory_show=SAMPLES["memory_show"])
    assert (ran.status, [name for name, _ in ran.calls]) == (1, ["memory_show"])
    assert "ended with status 3: nothing is changed" in ran.err


def test_what_was_written_is_kept_when_it_cannot_be_stored(swarmd, tmp_path, monkeypatch):
    from swarmd.errors import Refused

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    env = editor(tmp_path, 'echo precious >> "$1"')
    ran = swarmd(
        "memory",
        "edit",
        "studio",
        env=env,
        memory_show=SAMPLES["memory_show"],
        memory_write=Refused("read-only"),
    )
    assert ran.status == 3
    kept = Path(ran.err.splitlines()[0].partition("kept in ")[2])
    assert kept.read_text() == "notes\nprecious\n"


def test_an_editor_that_nobody_has_named_is_not_started_without_a_terminal(swarmd):
    for session in (False, True):
        args = () if session else ("studio",)
        ran = swarmd("memory", "edit", *args, session=session, memory_show=SAMPLES["memory_show"])
        assert (ran.status, [name for name, _ in ran.calls]) == (2, ["memory_show"])
        assert ran.err.startswith(
            "swarmd: an editor needs a terminal, and here is none: give the text with `swarmd memory"
        )
    ran = swarmd(
        "memory", "edit", "nobody", memory_show=NotFound("no agent"), memory_list=NotFound("no agent")
    )
    assert (ran.status, ran.err) == (4, "swarmd: no agent\n")


def test_an_editor_that_is_not_there_is_named(swarmd):
    ran = swarmd(
        "memory", "edit", "studio", env={"EDITOR": "/nowhere/vi"}, memory_show=SAMPLES["memory_show"]
    )
    assert (ran.status, ran.err) == (
        1,
        "swarmd: the editor '/nowhere/vi' cannot be started: No such file or directory; set EDITOR\n",
    )
