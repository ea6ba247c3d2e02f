"""What a consolidation is shown: the agent's memory, and the transcripts of its sessions since the last one, condensed.

Transcripts are files that do not change when their session has ended, so what was shown can be made again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from swarmd.core.agent import Agent
from swarmd.core.condensed import OUTPUT_CHARACTERS, condensed
from swarmd.core.instants import from_text
from swarmd.core.snapshot import Snapshot, Transcripts, TranscriptSeen, Trigger
from swarmd.core.transcript import FILE
from swarmd.store import consolidated
from swarmd.store.connections import Connection
from swarmd.store.windows import Row

OUTPUT = "output.log"
FILE_BYTES = 4 * 1024 * 1024
"""Of a longer transcript the beginning is read."""


def snapshot(
    connection: Connection, agent: Agent, trigger: Trigger, now: datetime, sessions_dir: Path
) -> Snapshot:
    """What a consolidation that starts now may know. `transcripts` is empty where there is nothing new."""
    seen = consolidated.snapshot(connection, agent, trigger, now)
    rows, more = consolidated.candidates(connection, agent.name, agent.consolidate.sessions)
    since = consolidated.until(connection, agent.name)
    until = max([since, *(row["id"] for row in rows)])
    shown = tuple(_seen(row, sessions_dir) for row in rows)
    return replace(seen, transcripts=Transcripts(seen=shown, more=more, since=since, until=until))


def shown_again(
    connection: Connection, seen: Snapshot, given: Mapping[str, Any], sessions_dir: Path
) -> Snapshot:
    """A consolidation's snapshot with the transcripts that it was given then."""
    rows = consolidated.shown(connection, given["sessions"])
    shown = tuple(_seen(row, sessions_dir) for row in rows)
    found = Transcripts(seen=shown, more=given["more"], since=given["since"], until=given["until"])
    return replace(seen, transcripts=found)


def _seen(row: Row, sessions_dir: Path) -> TranscriptSeen:
    folder = sessions_dir / str(row["id"])
    return TranscriptSeen(
        session=row["id"], trigger=row["trigger"], started=from_text(row["started"]), outcome=row["outcome"],
        reason=row["reason"], text=condensed(_events(folder / FILE), _output(folder / OUTPUT)),
    )  # fmt: skip


def _events(path: Path) -> Iterator[dict[str, Any]]:
    for line in _head(path, FILE_BYTES).split(b"\n"):
        try:
            event = json.loads(line)
        except ValueError:  # cut off, by a full disk or here
            continue
        if isinstance(event, dict):
            yield event


def _output(path: Path) -> str:
    """The beginning and the end of what a program printed, as far as they are looked at."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - 4 * OUTPUT_CHARACTERS))
            tail = file.read()
            file.seek(0)
            head = file.read(size - len(tail))[: 4 * OUTPUT_CHARACTERS]
    except OSError:
        return ""
    return (head + tail).decode("utf-8", "replace")


def _head(path: Path, most: int) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(most)
    except OSError:
        return b""
