"""Files that an agent's file names as instructions stand in its prompt; a trick in their folder does not."""

import os

import pytest

from swarmd.core.standing import STANDING_COMMAND, STANDING_TOOLS
from swarmd.session.instructions import FILE_BYTES, standing
from tests.swarm import Swarm


@pytest.fixture
def workdir(tmp_path):
    folder = tmp_path / "work"
    (folder / "docs").mkdir(parents=True)
    (folder / "CLAUDE.md").write_text("Run the tests.\n")
    (folder / "docs/style.md").write_text("Be terse.\n")
    return folder


@pytest.fixture
def swarm(tmp_path):
    swarm = Swarm(tmp_path, {"game": None})
    yield swarm
    swarm.close()


def agent_with(swarm, *names, workdir=None, kind="claude-code"):
    options = {"instructions": list(names), "workdir": str(workdir) if workdir else None}
    return swarm.agent("game", runner_kind=kind, runner_options=options)


def test_without_instructions_the_rules_stand_alone(swarm):
    assert standing(agent_with(swarm), "/state") == STANDING_TOOLS
    assert standing(swarm.agent("game"), "/state") == STANDING_COMMAND


def test_named_files_follow_the_rules_in_their_order(swarm, workdir):
    text = standing(agent_with(swarm, "docs/style.md", "CLAUDE.md", workdir=workdir), "/state")
    assert text.startswith(STANDING_TOOLS)
    assert text.index("# From docs/style.md in the working folder\n\nBe terse.") < text.index(
        "Run the tests."
    )


def test_without_a_workdir_they_are_files_of_the_home(swarm, tmp_path):
    home = tmp_path / "state/homes/game"
    home.mkdir(parents=True)
    (home / "CLAUDE.md").write_text("At home.")
    assert "At home." in standing(agent_with(swarm, "CLAUDE.md"), str(tmp_path / "state"))


def test_the_prompt_that_is_printed_is_the_prompt_that_is_given(swarm, workdir):
    agent_with(swarm, "CLAUDE.md", workdir=workdir)
    printed = swarm.call("prompt", agent="game", trigger="manual")
    assert "Run the tests." in printed["system"]
    assert swarm.play("game", trigger="manual")["outcome"] == "no_change"
    assert swarm.runner.requests[0].system == printed["system"]


def test_a_missing_file_fails_the_session_and_names_it(swarm, workdir):
    agent_with(swarm, "AGENTS.md", workdir=workdir)
    ended = swarm.play("game")
    assert ended["outcome"] == "failed"
    assert ended["reason"] == f"runner.instructions: {workdir}/AGENTS.md: No such file or directory"


@pytest.mark.parametrize("trick", ["link", "folder link", "hard link", "pipe", "folder", "large"])
def test_a_trick_is_not_followed(swarm, workdir, tmp_path, trick):
    secret = tmp_path / "secret"
    secret.write_text("operator's")
    path = workdir / "docs/style.md"
    path.unlink()
    match trick:
        case "link":
            path.symlink_to(secret)
        case "folder link":
            (workdir / "docs").rmdir()
            (tmp_path / "other").mkdir()
            (tmp_path / "other/style.md").write_text("operator's")
            (workdir / "docs").symlink_to(tmp_path / "other")
        case "hard link":
            path.hardlink_to(secret)
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "large":
            path.write_bytes(b"x" * (FILE_BYTES + 1))
    agent_with(swarm, "docs/style.md", workdir=workdir)
    ended = swarm.play("game")
    assert ended["outcome"] == "failed"
    assert ended["reason"].startswith(f"runner.instructions: {workdir}/docs/style.md")
