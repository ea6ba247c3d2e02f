"""The house stands as docs/design.md draws it; and the check that says so can say otherwise."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parent.parent
LINT = "import sys; from importlinter.cli import lint_imports_command; lint_imports_command(sys.argv[1:])"

# A file, a line that must not stand in it, and the contract that it breaks.
PLANTED = [
    ("core/names.py", "import os", "core does no I/O"),
    ("core/names.py", "from time import monotonic", "core does no I/O"),
    ("core/tree.py", "import pydantic", "core does no I/O"),
    ("core/tree.py", "import swarmd.config", "A layer imports only what is below it"),
    ("errors.py", "import swarmd.core.names", "A layer imports only what is below it"),
    ("store/schema.py", "import swarmd.config", "A layer imports only what is below it"),
    ("newcomer.py", "", "A layer imports only what is below it"),
    ("runners/command.py", "import swarmd.store", "Runners never see the store"),
    ("config/problems.py", "import sqlite3", "SQL stands only in the store"),
    ("config/problems.py", "from apscheduler.triggers.base import BaseTrigger", "One file knows APScheduler"),
    ("config/problems.py", "import watchdog.events", "One file knows watchdog"),
    ("config/problems.py", "import anthropic", "One file knows the SDK of the model's API"),
    ("session/flow.py", "import mcp", "Only runners know the SDK of MCP"),
    ("runners/mcp_door.py", "import uvicorn", "One file knows the HTTP server"),
]


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs the contracts of `folder` over the swarmd that lies in it, not over the one that is installed."""
    command = [sys.executable, "-c", LINT, "--no-cache"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "swarmd", tmp_path / "swarmd", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_every_contract_is_kept():
    ran = lint_imports(ROOT)
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize(("file", "line", "contract"), PLANTED)
def test_a_planted_violation_is_found(copy, file, line, contract):
    with (copy / "swarmd" / file).open("a") as planted:
        planted.write(f"\n{line}\n")
    ran = lint_imports(copy)
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert re.search(rf"^{re.escape(contract)}.* BROKEN", ran.stdout, re.MULTILINE), ran.stdout


def test_core_imports_nothing_that_must_be_installed():
    graph = grimp.build_graph("swarmd", include_external_packages=True, cache_dir=None)
    imported = {
        name
        for module in ("swarmd.core", *graph.find_descendants("swarmd.core"))
        for name in graph.find_modules_directly_imported_by(module)
    }
    outside = {name for name in imported if name.partition(".")[0] != "swarmd"}
    assert outside <= sys.stdlib_module_names


def test_every_layer_of_the_contract_exists_or_is_marked_as_to_come():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = [name for line in contracts[0]["layers"] for name in line.split(" | ")]
    modules = {path.stem for path in (ROOT / "swarmd").iterdir()}
    assert [name for name in layers if name not in modules] == [
        name for name in layers if name.startswith("(")
    ]
