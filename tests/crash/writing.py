"""A session that edits MEMORY.md while others do, as a program: a line, perhaps a checkpoint, and another line."""

from __future__ import annotations

import json
import os
import random
import socket
import sys
import time
from pathlib import Path


def main() -> None:
    session, words = os.environ["SWARMD_SESSION"], sys.argv[2]
    chance = random.Random(f"{sys.argv[1]}:{session}")
    file = Path(os.environ["SWARMD_MEMORY"]) / "MEMORY.md"
    for number in (1, 2):
        put(file, f"- SESSION {session} {number}: {words}\n", chance)
        time.sleep(chance.choice((0.0, 0.02, 0.1)))
        if number == 1 and chance.random() < 0.5:
            checkpoint()


def put(file: Path, line: str, chance: random.Random) -> None:
    lines = file.read_text().splitlines(keepends=True)
    at = chance.choice((min(1, len(lines)), len(lines) // 2, len(lines)))
    file.write_text("".join([*lines[:at], line, *lines[at:]]))


def checkpoint() -> None:
    message = {"id": "c", "token": os.environ["SWARMD_TOKEN"], "call": "checkpoint", "args": {}}
    with socket.socket(socket.AF_UNIX) as desk:
        desk.connect(os.environ["SWARMD_SOCKET"])
        desk.sendall(json.dumps(message).encode() + b"\n")
        desk.makefile().readline()


if __name__ == "__main__":
    main()
