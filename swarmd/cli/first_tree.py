"""Copies the packaged first tree into a new agents.d, with modes that `swarmd check` accepts under any umask."""

from __future__ import annotations

import os
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path


def copy_tree(agents: Path, source: Traversable | None = None) -> list[Path]:
    """Make the folder and every file of the packaged tree (or of `source`) that is not there; the files made."""
    return _copy(source if source is not None else files("swarmd") / "templates" / "agents.d", agents)


def _copy(source: Traversable, target: Path) -> list[Path]:
    target.mkdir(exist_ok=True)
    target.chmod(0o755)
    made: list[Path] = []
    for entry in sorted(source.iterdir(), key=lambda one: one.name):
        if entry.name == "__pycache__":
            continue
        if entry.is_dir():
            made += _copy(entry, target / entry.name)
        elif not os.path.lexists(target / entry.name):
            made.append(_written(entry, target / entry.name))
    return made


def _written(entry: Traversable, target: Path) -> Path:
    data = entry.read_bytes()
    with target.open("xb") as file:
        file.write(data)
    # Packages do not always keep the mode of what is to be run, and a umask of 0 gives one that is refused.
    target.chmod(0o755 if data.startswith(b"#!") else 0o644)
    return target
