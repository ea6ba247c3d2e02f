"""Every benchmark still works in its quick form; what it measures is nobody's promise here."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TITLES = (
    "a. sessions in process",
    "b. a program as a session",
    "c. start delay, 5 agents due",
    "d. reading commands",
    "e. with history",
    "f. 10 agent files",
    "f. daemon with 10 agents",
    "f. idle with 10 agents",
    "g. 2 programs, 2 calls each",
    "h. a call of the model's, to the desk and back",
    "h. 3 sessions of models at once",
    "i. 4 sessions that each note 3,000 bytes",
    "j. searches of 200 texts: CPU",
    "j. the index",
)


def test_each_group_measures_something_beside_its_floor(tmp_path):
    scratch = tmp_path / "s"
    scratch.mkdir()
    ran = subprocess.run([sys.executable, "-m", "tests.bench", "--quick", "--dir", _short(scratch)], cwd=ROOT,
                         env=dict(os.environ), capture_output=True, text=True, check=False)  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert [title for title in TITLES if f"\n{title}" not in ran.stdout] == []
    assert "calls that failed                  0" in ran.stdout
    assert "handoffs in the store              8 of 8" in ran.stdout
    assert list(scratch.iterdir()) == []


def test_an_unknown_group_is_named():
    ran = subprocess.run(
        [sys.executable, "-m", "tests.bench", "z"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 2
    assert "there is no group z" in ran.stderr


def _short(folder: Path) -> str:
    """The folder under a path that leaves room for a socket's."""
    link = Path(os.environ["HOME"]) / "b"
    link.symlink_to(folder)
    return str(link)
