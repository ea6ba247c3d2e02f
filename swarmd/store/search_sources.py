"""What is searched, in pieces: memory files, keys, handoffs, and what is left of ended sessions.

Files of sessions are read as far as they can be: a line that is torn or is no event is passed over.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from swarmd.core.acts import SEARCHES
from swarmd.core.chunks import MOST, chunks, cut
from swarmd.core.instants import from_text
from swarmd.core.owners import subject_owner
from swarmd.core.transcript import FILE, OUTPUT
from swarmd.store.search_units import Unit

FILE_BYTES = 20 * 2**20
"""More of a file is not searched; a transcript and an output have less."""
ARCHIVE = "archive/"


def memory_units(row: sqlite3.Row, data: bytes | None) -> Iterator[Unit]:
    """Of a memory file: `agent, path, at, by`, and its text; None where that is lost, which others tell."""
    kind = "archive" if row["path"].startswith(ARCHIVE) else "memory"
    if data is not None:
        for line, text in chunks(data.decode("utf-8", "replace")):
            yield Unit(kind=kind, owner=row["agent"], place=line, at=row["at"], by=row["by"], text=text)


def key_units(row: sqlite3.Row) -> Iterator[Unit]:
    """Of a row of `keys`: the first piece has the name before it."""
    name = f"{row['key']}\n"
    for line, text in chunks(row["value"]) if row["value"].strip() else [(1, "")]:
        yield Unit(
            kind="key", owner=row["agent"], place=line, at=row["updated"], by=row["by"], text=name + text
        )
        name = ""


def handoff_units(row: sqlite3.Row, entries: list[sqlite3.Row]) -> Iterator[Unit]:
    """Of a handoff, whose place is 0, and the entries of its thread, by their numbers."""
    said = [(0, row["created"], row["by"], row["text"])]
    said += [(entry["seq"], entry["at"], entry["by"], entry["text"]) for entry in entries]
    for place, at, by, whole in said:
        for _, text in chunks(whole):
            yield Unit(
                kind="handoff",
                owner=row["receiver"],
                other=row["sender"],
                place=place,
                at=at,
                by=by,
                text=text,
            )


def session_units(row: sqlite3.Row, sessions_dir: Path) -> Iterator[Unit]:
    """Of an ended session: what was said, called and answered in its transcript, and its program's output. `row` has
    `id, agent, subject, quarantined, ended`.
    """
    owner = row["agent"] if row["subject"] is None else subject_owner(row["agent"], row["subject"])
    same: dict[str, Any] = {
        "owner": owner,
        "by": f"{row['agent']}#{row['id']}",
        "hidden": row["quarantined"] is not None,
    }
    folder = sessions_dir / str(row["id"])
    count = 0
    searches: set[str] = set()
    for event in _events(folder / FILE):
        if _is_of_a_search(event, searches):
            continue  # else what was found once would be found again, and again in that
        for text in _said(event):
            yield Unit(kind="transcript", place=event["seq"], at=event["at"], text=text, **same)
            count += 1
        if count >= MOST:
            break
    for line, text in chunks(_read(folder / OUTPUT).decode("utf-8", "replace")):
        yield Unit(kind="output", place=line, at=row["ended"], text=text, **same)


def has_files(session: str, sessions_dir: Path) -> bool:
    """Whether anything is left of what the session said."""
    return any((sessions_dir / session / name).exists() for name in (FILE, OUTPUT))


def _is_of_a_search(event: dict[str, Any], searches: set[str]) -> bool:
    """Whether it is a search or its answer; `searches` are the calls that were."""
    id = str(event.get("id"))
    if event["kind"] == "tool_call" and str(event.get("name")).endswith(tuple(SEARCHES)):
        searches.add(id)
    return event["kind"] in ("tool_call", "tool_result") and id in searches


def _said(event: dict[str, Any]) -> Iterator[str]:
    kind = event["kind"]
    if kind == "text":
        for _, text in chunks(_text(event.get("text"))):
            yield text
    elif kind == "tool_call":
        yield from _one(f"{_text(event.get('name'))} {_text(event.get('input'))}")
    elif kind == "tool_result":
        yield from _one(_text(event.get("text")))


def _one(text: str) -> Iterator[str]:
    """All of it in one piece, cut where it is long."""
    if text.strip():
        yield cut(text)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, ensure_ascii=False)


def _events(path: Path) -> Iterator[dict[str, Any]]:
    for line in _read(path).split(b"\n"):
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(event, dict) and _is_whole(event):
            yield event


def _is_whole(event: dict[str, Any]) -> bool:
    try:
        from_text(event["at"])
    except (KeyError, TypeError, ValueError):
        return False
    return isinstance(event.get("seq"), int) and isinstance(event.get("kind"), str)


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(FILE_BYTES)
    except OSError:
        return b""
