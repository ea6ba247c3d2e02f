"""Folders of skills as they are found on a disk: what is read, what is refused and why, and that it costs little."""

from __future__ import annotations

import os
import stat

import pytest

from swarmd.config import skill_folders
from swarmd.config.files import Guard, SessionUser
from swarmd.config.lacking import lacking
from swarmd.config.skill_folders import SkillRules, file_of, files_of, skills_in, written_by
from swarmd.core.agent import Agent, Sandbox
from swarmd.errors import NotFound, Refused
from tests.config.kit import RULES, Folder, good
from tests.config.test_lacking import NOW

GUARD = Guard(uid=os.getuid())
HERE = SkillRules(guard=GUARD)


def text(name, description="Does something."):
    return f"---\nname: {name}\ndescription: {description}\n---\nHow.\n"


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "skills"
    place.mkdir(mode=0o755)
    return place


def make(folder, name, body=None, **files):
    place = folder / name
    place.mkdir(mode=0o755, exist_ok=True)
    (place / "SKILL.md").write_text(text(name) if body is None else body)
    for path, what in files.items():
        (place / path).write_text(what)
    return place


def found(*folders, rules=HERE):
    result = skills_in([str(each) for each in folders], rules)
    return [skill.name for skill in result.skills], [str(fault) for fault in result.faults]


# -- what is found ----------------------------------------------------------------------------------------------------


def test_a_folder_of_skills_and_a_skill_itself(folder, tmp_path):
    make(folder, "pdf")
    make(folder, "mail")
    (folder / "README.md").write_text("no skill")
    (folder / "notes").mkdir()
    (folder / ".git").mkdir()
    alone = make(tmp_path, "alone")
    assert found(folder, alone) == (["alone", "mail", "pdf"], [])


def test_the_first_of_a_name_counts(folder, tmp_path):
    other = tmp_path / "other"
    other.mkdir(mode=0o755)
    first = make(folder, "pdf")
    second = make(other, "pdf")
    assert found(folder, other) == (["pdf"], [f"{second} is left out: {first} has that name already"])


def test_what_is_missing_or_empty_is_told_with_its_place_in_the_list(folder, tmp_path):
    result = skills_in([str(folder), str(tmp_path / "gone"), str(tmp_path / "file")], HERE)
    assert [(fault.index, fault.text) for fault in result.faults] == [
        (0, "holds no skill: no SKILL.md in it, nor in a folder in it"), (1, "does not exist"), (2, "does not exist"),
    ]  # fmt: skip
    (tmp_path / "file").write_text("")
    assert found(tmp_path / "file")[1] == [f"{tmp_path}/file is no folder"]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("How.\n", "is no skill: it has no front matter: its first line must be ---"),
        (text("other"), "is no skill: its name is 'other' and its folder's 'pdf': they must be the same"),
        ("---\nname: pdf\ndescription: a: b\n---\n", "is no skill: its front matter is no YAML: line 3"),
    ],
)
def test_a_bad_one_is_told_and_the_others_are_there(folder, body, reason):
    place = make(folder, "pdf", body)
    make(folder, "mail")
    names, faults = found(folder)
    assert names == ["mail"]
    (fault,) = faults
    assert fault.startswith(f"{place} {reason}")


def test_one_whose_file_has_its_name_in_another_case_is_told(folder, tmp_path):
    make(folder, "mail")
    os.rename(make(folder, "pdf") / "SKILL.md", folder / "pdf" / "skill.md")
    os.rename(make(tmp_path, "alone") / "SKILL.md", tmp_path / "alone" / "Skill.MD")
    assert found(folder, tmp_path / "alone") == (
        ["mail"],
        [
            f"{folder}/pdf is no skill: its skill.md must be called SKILL.md",
            f"{tmp_path}/alone is no skill: its Skill.MD must be called SKILL.md",
        ],
    )


def test_no_link_is_followed(folder, tmp_path):
    outside = make(tmp_path, "outside")
    (folder / "outside").symlink_to(outside)
    place = folder / "pdf"
    place.mkdir(mode=0o755)
    (place / "SKILL.md").symlink_to("/etc/passwd")
    assert found(folder) == ([], [
        f"{folder}/outside is a symbolic link, and none is followed: name its folder itself",
        f"{place}/SKILL.md is a symbolic link, and none is followed",
    ])  # fmt: skip


def test_the_folder_that_the_file_names_may_itself_be_one(folder, tmp_path):
    make(folder, "pdf")
    (tmp_path / "way").symlink_to(folder)
    assert found(tmp_path / "way") == (["pdf"], [])


def test_a_pipe_a_folder_and_a_large_file_are_no_skill_files(folder):
    for name in ("fifo", "large", "dir"):
        (folder / name).mkdir(mode=0o755)
    os.mkfifo(folder / "fifo/SKILL.md")
    (folder / "dir/SKILL.md").mkdir()
    (folder / "large/SKILL.md").write_bytes(b"x" * 10 * 1024 * 1024)
    assert found(folder) == ([], [
        f"{folder}/dir/SKILL.md is no regular file",
        f"{folder}/fifo/SKILL.md is no regular file",
        f"{folder}/large/SKILL.md has more than 65,536 bytes, the most that is read",
    ])  # fmt: skip


def test_there_are_at_most_a_hundred(folder):
    for number in range(102):
        make(folder, f"s-{number:03}")
    names, faults = found(folder)
    assert len(names) == 100
    assert faults == [
        f"{folder}/s-{n} is left out: an agent may have 100 skills of the operator's" for n in (100, 101)
    ]


# -- whom it is believed ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", [".", "pdf", "pdf/SKILL.md"])
def test_what_everyone_may_write_is_left_out(folder, place):
    make(folder, "pdf")
    target = folder / place
    target.chmod(stat.S_IMODE(target.stat().st_mode) | 0o002)
    names, (fault,) = found(folder)
    assert names == []
    assert "refused: everyone may write it" in fault


def test_what_another_user_that_sessions_run_as_may_write_is_left_out(folder):
    make(folder, "pdf").chmod(0o775)
    guard = Guard(uid=os.getuid(), session_users=(SessionUser(uid=54321, gids=frozenset({os.getgid()})),))
    assert (
        "uid 54321, which sessions run as, may write it" in found(folder, rules=SkillRules(guard=guard))[1][0]
    )


def test_what_some_session_may_write_is_left_out(folder, tmp_path):
    make(folder, "pdf")
    agents = [
        Agent(name="a", sandbox=Sandbox(write=(str(tmp_path),))),
        Agent(name="b", sandbox=Sandbox(home=str(folder / "pdf"))),
    ]
    for agent in agents:
        rules = SkillRules(guard=GUARD, writable=written_by([agent]))
        names, (fault,) = found(folder, rules=rules)
        assert (names, fault.partition(":")[0]) == ([], f"{folder}/pdf is left out")
        assert "sessions may write" in fault
    apart = SkillRules(
        guard=GUARD, writable=written_by([Agent(name="c", sandbox=Sandbox(write=(f"{folder}-other",)))])
    )
    assert found(folder, rules=apart) == (["pdf"], [])


def test_a_way_by_a_link_is_seen_through(folder, tmp_path):
    make(folder, "pdf")
    (tmp_path / "way").symlink_to(folder)
    writes = [Agent(name="a", sandbox=Sandbox(write=(str(tmp_path / "way"),)))]
    assert found(folder, rules=SkillRules(guard=GUARD, writable=written_by(writes)))[0] == []


# -- one skill's files ------------------------------------------------------------------------------------------------


def test_other_files_are_listed_and_read(folder):
    place = make(folder, "pdf", **{"a.bin": "x", ".hidden": "x"})
    (place / "scripts/deep").mkdir(parents=True)
    (place / "scripts/deep/run.py").write_text("print()")
    (place / "link").symlink_to("/etc/passwd")
    (place / b"\xff".decode("utf-8", "surrogateescape")).write_text("x")
    (skill,) = skills_in([str(folder)], HERE).skills
    assert files_of(skill) == [("a.bin", 1), ("scripts/deep/run.py", 7)]
    assert file_of(skill, "scripts/deep/run.py", GUARD, "x") == b"print()"
    assert file_of(skill, "SKILL.md", GUARD, "x").endswith(b"How.\n")


def test_no_path_and_no_link_leads_out(folder, tmp_path):
    place = make(folder, "pdf")
    (tmp_path / "secret").write_text("secret")
    (place / "link").symlink_to(tmp_path / "secret")
    (place / "way").symlink_to(tmp_path)
    os.mkfifo(place / "fifo")
    (place / "large").write_bytes(b"x" * (1024 * 1024 + 1))
    (place / "open").write_text("x")
    (place / "open").chmod(0o666)
    (skill,) = skills_in([str(folder)], HERE).skills
    for path in (
        "../../secret",
        "/etc/passwd",
        "link",
        "fifo",
        "large",
        "open",
        ".",
        "..",
        "a/../../../secret",
    ):
        with pytest.raises(Refused):
            file_of(skill, path, GUARD, "x")
    for path in ("way/secret", "gone", "SKILL.md/x"):
        with pytest.raises(NotFound):
            file_of(skill, path, GUARD, "x")


# -- cost -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def reads(monkeypatch, folder):
    """The files that are read, of folders that have rested since they were changed."""
    counted = []
    real = skill_folders._read
    monkeypatch.setattr(skill_folders, "_read", lambda *args: counted.append(args[1]) or real(*args))
    monkeypatch.setattr(skill_folders, "_REST_NANOSECONDS", -(10**12))
    return counted


def test_what_has_not_changed_is_not_read_again(folder, reads):
    make(folder, "pdf")
    make(folder, "mail")
    first = skills_in([str(folder)], HERE)
    for _ in range(1000):
        again = skills_in([str(folder)], HERE)
    assert again.skills == first.skills
    assert (first.fresh, again.fresh) == (True, False)
    assert reads == ["SKILL.md"] * 2


def test_every_change_is_seen(folder, reads):
    place = make(folder, "pdf")
    assert found(folder)[0] == ["pdf"]
    make(folder, "mail")
    assert found(folder)[0] == ["mail", "pdf"]
    (place / "SKILL.md").write_text("How.\n")
    assert found(folder)[0] == ["mail"]
    make(folder, "pdf")
    assert found(folder)[0] == ["mail", "pdf"]
    (folder / "mail").chmod(0o777)
    assert found(folder)[0] == ["pdf"]


# -- check ------------------------------------------------------------------------------------------------------------


def test_a_bad_one_is_a_warning_with_its_field(folder):
    make(folder, "pdf", "How.\n")
    careless = make(folder, "mail", **{"run.sh": "x"})
    (careless / "run.sh").chmod(0o777)
    agent = Agent(name="bob", folder="/", skills=(str(folder),), runner_options={"command": ["/bin/true"]})
    told = [(one.path, one.severity, one.text) for one in lacking(agent, {}, NOW)]
    assert told == [
        (("skills", 0), "warning", f"{folder}/pdf is no skill: it has no front matter: its first line must be ---"),
        (("skills", 0), "warning",
         f"{folder}/mail/run.sh is refused: everyone may write it (mode 0777; chmod o-w)"),
    ]  # fmt: skip


def test_folders_where_its_own_sessions_write_are_an_error(tmp_path):
    files = Folder(tmp_path)
    (line,) = files.problems(
        good(more=f'skills = ["{tmp_path}/desk/skills"]\n[sandbox]\nwrite = ["{tmp_path}/desk"]\n')
    )
    assert line.startswith("agents.d/bob.toml:3: skills[0]: lies where sessions write: sandbox.write has ")
    (line,) = files.problems(good(more=f'skills = ["/"]\n[sandbox]\nhome = "{tmp_path}/home"\n'))
    assert "sandbox.home has" in line


def test_folders_among_the_daemons_own_files_are_an_error(tmp_path):
    from dataclasses import replace

    from swarmd.config.check import check

    files = Folder(tmp_path)
    files.write("bob", good(more='skills = ["../state/memory/bob/skills"]\n'))
    files.check()
    rules = replace(RULES, sessions_write=(str(tmp_path / "state"),))
    (problem,) = check(files.scan(), files.settings, rules).problems
    assert f"{tmp_path}/state is swarmd's own" in str(problem)
