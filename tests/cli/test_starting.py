"""What a command costs before it does anything: which modules it imports, and how long that takes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.cli.conftest import NO_STATE, PROGRAM, ROOT
from tests.cli.documents import SAMPLES
from tests.cli.test_commands_exist import READING

HEAVY = (
    "anthropic",
    "tiktoken",
    "apscheduler",
    "watchdog",
    "pydantic",
    "sqlite_utils",
    "asyncio",
    "rich",
    "requests",
)


def imported(*command: str) -> set[str]:
    """The modules that a run of this command imports."""
    environ = {**os.environ, **NO_STATE, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(
        [sys.executable, "-X", "importtime", *command],
        capture_output=True,
        env=environ,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    return {
        line.rpartition(b"|")[2].strip().decode()
        for line in ran.stderr.splitlines()
        if line.startswith(b"import time:")
    }


@pytest.mark.parametrize("args", [["--help"], ["--version"], ["handoff", "--help"], ["session", "list", "--help"], ["completion", "bash"],
                                  ["next", "--cron", "* * * * *", "--timezone", "UTC"]], ids=" ".join)  # fmt: skip
def test_what_needs_no_store_imports_nothing_heavy(args):
    found = imported("-m", "swarmd", *args)
    assert "swarmd.cli.main" in found
    assert [name for name in HEAVY if name in found] == []
    assert not any(
        name.startswith(("swarmd.service", "swarmd.daemon", "swarmd.store", "sqlite3")) for name in found
    )


def test_the_help_of_swarmd_imports_no_command():
    found = {name for name in imported("-m", "swarmd", "--help") if name.startswith("swarmd.cli.")}
    assert found == {
        "swarmd.cli.base",
        "swarmd.cli.client",
        "swarmd.cli.invocation",
        "swarmd.cli.main",
        "swarmd.cli.output",
    }


@pytest.mark.parametrize("name", sorted(READING))
def test_a_reading_command_imports_nothing_heavy_by_itself(name, tmp_path):
    import json

    file = tmp_path / "answers.json"
    file.write_text(json.dumps(SAMPLES))
    found = imported(str(PROGRAM), str(file), *READING[name])
    assert [heavy for heavy in HEAVY if heavy in found] == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_script_completes(shell):
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    script = subprocess.run(
        [sys.executable, "-m", "swarmd", "completion", shell],
        capture_output=True,
        text=True,
        env=environ,
        check=True,
    )
    assert "_SWARMD_COMPLETE" in script.stdout
    environ |= {
        "_SWARMD_COMPLETE": f"{shell}_complete",
        "COMP_WORDS": "swarmd hand",
        "COMP_CWORD": "1" if shell != "fish" else "hand",
    }
    ran = subprocess.run(
        [sys.executable, "-m", "swarmd"], capture_output=True, text=True, env=environ, check=True
    )
    assert "handoff" in ran.stdout
