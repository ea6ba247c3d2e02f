"""Handoffs' rows as values and back; the one place where their columns' order is known."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from typing import cast

from swarmd.core.handoffs import Cause, Entry, Handoff, Priority, Status
from swarmd.core.instants import from_text, maybe_instant, maybe_text, to_text
from swarmd.store.rows import HANDOFF_COLUMNS


def handoffs_of(connection: sqlite3.Connection, rows: Sequence[sqlite3.Row]) -> list[Handoff]:
    """Rows of `handoffs`, with their threads in one more read."""
    threads: dict[int, list[Entry]] = {row["id"]: [] for row in rows}
    for start in range(0, len(rows), 500):
        ids = [row["id"] for row in rows[start : start + 500]]
        marks = ",".join("?" * len(ids))
        for entry in connection.execute(
            f"SELECT handoff, at, by, kind, text FROM handoff_entries WHERE handoff IN ({marks}) ORDER BY handoff, seq",
            ids,
        ):
            threads[entry["handoff"]].append(
                Entry(at=from_text(entry["at"]), by=entry["by"], kind=entry["kind"], text=entry["text"])
            )
    return [_handoff(row, threads[row["id"]]) for row in rows]


def _handoff(row: sqlite3.Row, thread: Iterable[Entry]) -> Handoff:
    return Handoff(
        id=row["id"], sender=row["sender"], receiver=row["receiver"], text=row["text"],
        priority=cast(Priority, row["priority"]), status=Status(row["status"]), created=from_text(row["created"]),
        due=maybe_instant(row["due"]), expires=maybe_instant(row["expires"]), thread=tuple(thread),
        cause=Cause(session=row["cause_session"], handoff=row["cause_handoff"]), depth=row["depth"],
        dedupe=row["dedupe"], by=row["by"],
    )  # fmt: skip


def write_handoff(connection: sqlite3.Connection, handoff: Handoff, moved: str, *, created: bool) -> None:
    """Insert the handoff's row, or replace it where it was not `created` just now; `moved`: when that is."""
    verb = "INSERT" if created else "INSERT OR REPLACE"
    connection.execute(
        f"{verb} INTO handoffs ({HANDOFF_COLUMNS}, moved) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
        (handoff.id, handoff.sender, handoff.receiver, handoff.text, handoff.priority, handoff.status.value,
         to_text(handoff.created), maybe_text(handoff.due), maybe_text(handoff.expires), handoff.depth,
         handoff.cause.session, handoff.cause.handoff, handoff.dedupe, handoff.by, moved),
    )  # fmt: skip
