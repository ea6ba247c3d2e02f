"""What the session of the story does: as a program that the runner `command` starts, or step by step in script.py.

It imports nothing but the standard library, since as a program it has nothing else.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

HANDOFF = 1
"""The work that the agent was handed before the session."""
NOTES = "".join(f"- note {n}: something worth knowing\n" for n in range(1, 13))
HISTORY: tuple[tuple[str, dict[str, Any]], ...] = (("ctx_set", {"key": "status", "value": "idle"}),)
"""What a session before did."""
WORK: tuple[tuple[tuple[str, dict[str, Any]], ...], ...] = (
    (("ctx_set", {"key": "phase", "value": "half"}), ("handoff_ack", {"id": HANDOFF})),
    (
        ("ctx_set", {"key": "status", "value": "done"}),
        ("ctx_set", {"key": "count", "value": "3"}),
        ("ctx_set", {"agent": "game", "key": "goal", "value": "win"}),
        ("handoff_complete", {"id": HANDOFF, "reply": "it is done"}),
        ("handoff_send", {"to": "game", "text": "go on from there"}),
        ("report", {"text": "all is well"}),
    ),
)
"""The acts before the checkpoint, and those after it."""
Told = Callable[[str], None]


def history(folder: Path) -> Generator[tuple[str, dict[str, Any]], Any, None]:
    """Make the notes that the story begins with."""
    yield from HISTORY
    (folder / "topics").mkdir()
    (folder / "MEMORY.md").write_text("# Notes\n" + NOTES)
    (folder / "topics/a.md").write_text("# A\n" + NOTES)
    for name in ("b.md", "keep.md"):
        (folder / name).write_text(f"{name}\n")


def work(folder: Path, tell: Told) -> Generator[tuple[str, dict[str, Any]], Any, None]:
    """The session. `tell` is told of each act that was answered."""
    for number, acts in enumerate(WORK, 1):
        for call, args in acts:
            yield call, args
            tell(f"{number} {call}")
        (edit_first if number == 1 else edit_last)(folder)
        if number == 1:
            yield "checkpoint", {}
        tell(f"{number} {'checkpoint' if number == 1 else 'end'}")


def edit_first(folder: Path) -> None:
    _append(folder / "MEMORY.md", "- AGENT half\n")


def edit_last(folder: Path) -> None:
    """One file edited, one that a person edits too, one deleted, one new."""
    _append(folder / "MEMORY.md", "- AGENT one\n")
    file = folder / "topics/a.md"
    file.write_text(file.read_text().replace("# A\n", "# A\n- AGENT two\n"))
    (folder / "b.md").unlink()
    (folder / "new").mkdir()
    (folder / "new/n.md").write_text("- AGENT three\n")


def _append(file: Path, text: str) -> None:
    with file.open("a") as open_file:
        open_file.write(text)


def teller(path: str) -> Told:
    """Keeps what was answered where no daemon can lose it."""

    def tell(what: str) -> None:
        with open(path, "a") as file:
            file.write(f"{what}\n")

    return tell


def main() -> None:
    with socket.socket(socket.AF_UNIX) as desk:
        desk.connect(os.environ["SWARMD_SOCKET"])
        lines = desk.makefile()
        for number, (call, args) in enumerate(work(Path(os.environ["SWARMD_MEMORY"]), teller(sys.argv[1]))):
            line = {"id": str(number), "token": os.environ["SWARMD_TOKEN"], "call": call, "args": args}
            desk.sendall(json.dumps(line).encode() + b"\n")
            reply = json.loads(lines.readline())
            assert "error" not in reply, reply


if __name__ == "__main__":
    main()
