"""What docs/clients.md says of the clients is what is tested, and its examples are agents."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests import clients

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs/clients.md").read_text()


def test_the_versions_that_are_named_are_those_that_are_installed():
    makefile = (ROOT / "Makefile").read_text()
    readme = (ROOT / "README.md").read_text()
    assert f"Claude Code {clients.CLAUDE_CODE}" in TEXT
    assert f"Claude Code {clients.CLAUDE_CODE} and Codex {clients.CODEX}" in readme
    assert f"Codex {clients.CODEX}" in TEXT
    assert f"opencode {clients.OPENCODE}" in TEXT
    for package in (f")@{clients.CLAUDE_CODE}", f"codex@{clients.CODEX}", f")@{clients.OPENCODE}"):
        assert package in makefile


def test_the_examples_are_agents_without_errors(tmp_path):
    agents = tmp_path / "agents.d"
    agents.mkdir(mode=0o755)
    (agents / "polybreak.md").write_text("You keep Polybreak moving.")
    (example,) = re.findall(r"^```toml\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)
    (agents / "polybreak.toml").write_text(example)
    for file in (ROOT / "docs/clients").iterdir():
        (agents / file.name).write_bytes(file.read_bytes())
        (agents / file.name).chmod(file.stat().st_mode & 0o755)
    command = [sys.executable, "-m", "swarmd", "--agents", "agents.d", "check"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "2 files, no errors" in ran.stdout
    assert "credential systemd:anthropic" in ran.stdout
