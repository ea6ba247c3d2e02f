#!/usr/bin/env python3
"""Reads what is new in the log files of a folder, and counts the errors in it. Standard library only.

How far each file was read is kept in a key, not in a file of our own: it is saved together with what was found, or
not at all, so that a session which fails half-way is simply repeated.
"""

import json
import os
import re
import subprocess
from pathlib import Path

FOLDER = Path(os.environ.get("LOG_DIR", "/var/log"))
MEMORY = Path(os.environ["SWARMD_MEMORY"], "MEMORY.md")
SUSPICIOUS = re.compile(r"(?<![\w-])(error|fail|failed|failure|critical|panic)(?![\w-])", re.IGNORECASE)
MOST_FILES = 50
MOST_BYTES = 200_000


def swarmd(*args: str, text: str | None = None) -> str:
    """Run one command of swarmd; a refusal ends this script, and with it the session."""
    return subprocess.run(["swarmd", *args], input=text, check=True, stdout=subprocess.PIPE, text=True).stdout


def log_files() -> list[Path]:
    """The newest log files that this user (and the sandbox) may read."""
    found = [p for p in FOLDER.glob("*") if p.suffix == ".log" or p.name in ("syslog", "messages")]
    readable = [p for p in found if p.is_file() and os.access(p, os.R_OK)]
    return sorted(readable, key=lambda path: path.stat().st_mtime, reverse=True)[:MOST_FILES]


def new_lines(path: Path, seen: dict[str, int]) -> list[str]:
    """What was written since the last session: nothing at the first look, all of a file that was cut or replaced."""
    size = path.stat().st_size
    start = seen.get(path.name, size)
    seen[path.name] = size
    if start == size:
        return []
    with path.open("rb") as file:
        file.seek(max(start if start < size else 0, size - MOST_BYTES))
        return file.read(MOST_BYTES).decode("utf-8", "replace").splitlines()


def note(counts: dict[str, int]) -> None:
    """Memory: errors by file, so that what is always noisy is known as such."""
    known = re.findall(r"^- (\S+): (\d+)$", MEMORY.read_text(), re.MULTILINE) if MEMORY.exists() else []
    totals = {name: int(count) for name, count in known}
    for name, count in counts.items():
        totals[name] = totals.get(name, 0) + count
    lines = [f"- {name}: {count}" for name, count in sorted(totals.items(), key=lambda pair: -pair[1])]
    MEMORY.write_text("\n".join(["Error lines seen so far, by file:", *lines[:MOST_FILES]]) + "\n")


def look_closer(files: list[Path]) -> str:
    """For a reply: the last lines that look like errors, each with its file."""
    found = []
    for path in files:
        tail = path.read_bytes()[-MOST_BYTES:].decode("utf-8", "replace").splitlines()
        found += [f"{path.name}: {line[:200]}" for line in tail if SUSPICIOUS.search(line)][-3:]
    listed = found[:12] or [f"no errors in {len(files)} files of {FOLDER}"]
    return "\n".join(listed)


def main() -> None:
    """Look, set keys, note, report, answer."""
    keys = {key["key"]: key["value"] for key in json.loads(swarmd("ctx", "list", "--json"))["items"]}
    seen = json.loads(keys.get("read_up_to", "{}"))
    files = log_files()
    fresh = {path.name: new_lines(path, seen) for path in files}
    errors = {name: sum(bool(SUSPICIOUS.search(line)) for line in lines) for name, lines in fresh.items()}
    errors = {name: count for name, count in errors.items() if count}

    there = {path.name for path in files}
    position = {name: size for name, size in seen.items() if name in there}
    swarmd("ctx", "set", "read_up_to", "-", text=json.dumps(position, sort_keys=True))
    swarmd("ctx", "set", "state", "warn" if errors else "ok")
    lines, wrong = sum(len(new) for new in fresh.values()), sum(errors.values())
    swarmd("ctx", "set", "summary", f"{lines} new lines in {len(files)} files, {wrong} look like errors")
    if errors:
        note(errors)
        swarmd("report", "new errors: " + ", ".join(f"{count} in {name}" for name, count in errors.items()))

    own = os.environ["SWARMD_AGENT"]
    for handoff in json.loads(swarmd("handoff", "list", "--to", own, "--status", "open", "--json"))["items"]:
        swarmd("handoff", "complete", str(handoff["id"]), "--reply", "-", text=look_closer(files))


main()
