#!/usr/bin/env python3
"""Watches a folder: tells which files came, changed or went since the last session. Standard library only.

What it knows of the folder is a second file of its memory, known.json: memory is saved with the session too, and
only MEMORY.md stands in a prompt, so a long list costs nothing there.
"""

import json
import os
import subprocess
import time
from itertools import islice
from pathlib import Path

FOLDER = Path(os.environ.get("WATCH_DIR") or Path(__file__).parent)
NOTES = Path(os.environ["SWARMD_MEMORY"], "MEMORY.md")
KNOWN = Path(os.environ["SWARMD_MEMORY"], "known.json")
MOST_FILES = 5000
KEPT_LINES = 20


def swarmd(*args: str, text: str | None = None) -> str:
    """Run one command of swarmd; a refusal ends this script, and with it the session."""
    return subprocess.run(["swarmd", *args], input=text, check=True, stdout=subprocess.PIPE, text=True).stdout


def look() -> dict[str, list[int]]:
    """Every file below the folder: its time and size. What vanishes while we look is left out."""
    found = {}
    for path in islice(sorted(FOLDER.rglob("*")), MOST_FILES):
        try:
            if path.is_file() and "__pycache__" not in path.parts:
                status = path.stat()
                found[str(path.relative_to(FOLDER))] = [status.st_mtime_ns, status.st_size]
        except OSError:
            continue
    return found


def differences(before: dict[str, list[int]], now: dict[str, list[int]]) -> list[str]:
    """One line a file that is different."""
    came = [f"came: {name}" for name in sorted(now.keys() - before.keys())]
    went = [f"went: {name}" for name in sorted(before.keys() - now.keys())]
    changed = [f"changed: {name}" for name in sorted(now.keys() & before.keys()) if now[name] != before[name]]
    return [*came, *changed, *went]


def note(lines: list[str]) -> None:
    """Memory: the last changes, newest first; the oldest are dropped, so that it never grows beyond its use."""
    stamp = time.strftime("%F %T")
    old = NOTES.read_text().splitlines() if NOTES.exists() else []
    NOTES.write_text("\n".join([*(f"{stamp} {line}" for line in lines), *old][:KEPT_LINES]) + "\n")


def newest(now: dict[str, list[int]]) -> str:
    """For a reply: the five files that changed last."""
    last = sorted(now.items(), key=lambda item: -item[1][0])[:5]
    lines = [f"{name}, {size} bytes, {(time.time_ns() - at) // 10**9} s ago" for name, (at, size) in last]
    return "\n".join([f"{len(now)} files, the newest is {last[0][0] if last else 'none'}", *lines])


def main() -> None:
    """Look, compare, note, report, answer."""
    now = look()
    first = not KNOWN.exists()
    before = {} if first else json.loads(KNOWN.read_text())
    changes = [] if first else differences(before, now)
    if now != before:
        KNOWN.write_text(json.dumps(now, indent=0, sort_keys=True) + "\n")
    if changes:
        note(changes)
        swarmd("report", "; ".join(changes)[:2000])
        swarmd("ctx", "set", "last_change", f"{time.strftime('%F %T')} {changes[0]}")
    swarmd("ctx", "set", "state", "ok")
    swarmd("ctx", "set", "summary", f"{len(now)} files in {FOLDER}, {len(changes)} different since last time")

    own = os.environ["SWARMD_AGENT"]
    for handoff in json.loads(swarmd("handoff", "list", "--to", own, "--status", "open", "--json"))["items"]:
        swarmd("handoff", "complete", str(handoff["id"]), "--reply", "-", text=newest(now))


main()
