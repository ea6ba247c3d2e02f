"""What the sessions of the memory stories do, step by step, as part.py does for the others; the runner `script` plays it.

A call `refused` names one that the desk must refuse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.crash.part import HANDOFF, Told

Steps = Iterator[tuple[str, dict[str, Any]]]
SAID = ("I have seen to the oven.", "It is hot.")
LOOKED = ("look", {"at": "the oven"}, "230 degrees")
"""A call of a tool, and what came back."""
HELD = {"deploy.eu": "1", "deploy.us": "2"}
"""The keys that wait for a yes."""


def log(folder: Path, tell: Told) -> Steps:
    """Says something before and after a checkpoint, and edits the file that its log stands in."""
    yield "text", {"turn": 1, "text": SAID[0]}
    tell("1 said")
    yield "ctx_set", {"key": "phase", "value": "half"}
    _append(folder / "MEMORY.md", "- AGENT half\n")
    yield "checkpoint", {}
    tell("1 checkpoint")
    name, given, result = LOOKED
    yield "tool_call", {"turn": 2, "id": "c", "name": name, "input": given}
    tell("2 called")
    yield "tool_result", {"id": "c", "text": result, "error": False}
    yield "text", {"turn": 2, "text": SAID[1]}
    tell("2 said")
    yield "handoff_ack", {"id": HANDOFF}
    _first(folder / "MEMORY.md", "- AGENT one\n")
    (folder / "new").mkdir()
    (folder / "new/n.md").write_text("- AGENT two\n")
    tell("2 end")


def held(folder: Path, tell: Told) -> Steps:
    """Of each part of its change set some is free, and some waits for a yes."""
    yield "ctx_set", {"key": "deploy.eu", "value": HELD["deploy.eu"]}
    yield "ctx_set", {"key": "phase", "value": "half"}
    (folder / "policies").mkdir()
    (folder / "policies/a.md").write_text("- AGENT policy\n")
    _append(folder / "MEMORY.md", "- AGENT half\n")
    yield "checkpoint", {}
    tell("1 checkpoint")
    yield "ctx_set", {"key": "deploy.us", "value": HELD["deploy.us"]}
    yield "ctx_set", {"key": "status", "value": "done"}
    yield "memory_append", {"agent": "@team", "file": "MEMORY.md", "text": "- AGENT team"}
    _append(folder / "MEMORY.md", "- AGENT one\n")
    (folder / "b.md").unlink()
    tell("2 end")


def team(folder: Path, tell: Told) -> Steps:
    """Writes in two shared folders and in its own, twice."""
    yield "memory_append", {"agent": "@team", "file": "MEMORY.md", "text": "- AGENT half"}
    yield "memory_write", {"agent": "@rules", "file": "r.md", "text": "- AGENT rule\n"}
    yield "checkpoint", {}
    tell("1 checkpoint")
    yield "memory_append", {"agent": "@team", "file": "MEMORY.md", "text": "- AGENT one"}
    yield "memory_write", {"agent": "@team", "file": "new.md", "text": "- AGENT two\n"}
    yield "memory_append", {"agent": "@rules", "file": "MEMORY.md", "text": "- AGENT three"}
    yield "memory_delete", {"agent": "@rules", "file": "old.md"}
    _append(folder / "MEMORY.md", "- AGENT own\n")
    tell("2 end")


def tidy(folder: Path, tell: Told) -> Steps:
    """Puts the memory in order: two notes become one, one file moves into another. It has no hands but for that."""
    for call, args in (
        ("ctx_set", {"key": "phase", "value": "half"}), ("handoff_ack", {"id": HANDOFF}),
        ("handoff_send", {"to": "game", "text": "go on"}), ("report", {"text": "all is well"}),
        ("memory_append", {"agent": "@team", "file": "MEMORY.md", "text": "- AGENT elsewhere"}),
    ):  # fmt: skip
        yield "refused", {"call": call, "args": args}
    notes = folder / "MEMORY.md"
    text = notes.read_text().replace("- note 3: something worth knowing\n", "- AGENT ordered\n")
    notes.write_text(text)
    (folder / "new").mkdir()
    (folder / "new/b.md").write_text("- AGENT moved\n" + (folder / "b.md").read_text())
    (folder / "b.md").unlink()
    tell("1 end")


PARTS: Mapping[str, Callable[[Path, Told], Steps]] = {"log": log, "held": held, "team": team, "tidy": tidy}


def _append(file: Path, text: str) -> None:
    with file.open("a") as open_file:
        open_file.write(text)


def _first(file: Path, text: str) -> None:
    """Put a line under the heading of the notes."""
    file.write_text(file.read_text().replace("# Notes\n", f"# Notes\n{text}", 1))
