"""What docs/models.md says of agents that are a model: its example is one, and it names every option and tool."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from swarmd.runners.anthropic import GROUPS
from swarmd.runners.model.asker import TRIES
from swarmd.runners.model.limits import SOFT_SHARE
from swarmd.runners.model.loop import CUTS_IN_A_ROW

TEXT = (Path(__file__).parents[2] / "docs/models.md").read_text()


def test_the_example_is_an_agent_without_errors(tmp_path):
    agents = tmp_path / "agents.d"
    agents.mkdir(mode=0o755)
    (agents / "polybreak.md").write_text("You keep Polybreak moving.")
    (example,) = re.findall(r"^```toml\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)
    (agents / "polybreak.toml").write_text(example)
    command = [sys.executable, "-m", "swarmd", "--agents", "agents.d", "check"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "1 file, no errors" in ran.stdout


def test_its_numbers_are_those_of_the_program():
    assert all(f"`{group}`" in TEXT for group in GROUPS)
    words = {3: "three", 4: "four", 5: "five", 6: "six"}
    assert f"Up to {words[TRIES]} times a turn" in TEXT
    assert f"cut off {words[CUTS_IN_A_ROW + 1]} times in a row" in TEXT
    assert f"At {SOFT_SHARE:.0%}".replace("%", " %") in TEXT
