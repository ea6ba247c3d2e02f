"""Drafts of earlier sessions that a session has taken up: what became of them is settled with its own commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from swarmd.core.changes import Change
from swarmd.store import sessions
from swarmd.store.connections import Connection


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenUp:
    """A draft that is to be closed as `applied` or `discarded`; `changes` are those that were staged out of it."""

    how: str
    changes: tuple[Change, ...] = ()


def without_closed(
    connection: Connection, drafts: Mapping[int, TakenUp], changes: Sequence[Change]
) -> tuple[list[Change], list[tuple[int, Change]]]:
    """The changes that may still be written, and those out of drafts that somebody else has closed meanwhile: an
    operator who applied one has written them already.
    """
    gone = {
        id(change): number
        for number, taken in drafts.items() if taken.changes and not sessions.draft_is_open(connection, number)
        for change in taken.changes
    }  # fmt: skip
    kept = [change for change in changes if id(change) not in gone]
    return kept, [(gone[id(change)], change) for change in changes if id(change) in gone]


def close(connection: Connection, drafts: Mapping[int, TakenUp]) -> None:
    """The session has committed: its drafts are settled."""
    for number, taken in drafts.items():
        sessions.close_draft(connection, number, taken.how, strict=False)


def hand_on(connection: Connection, drafts: Mapping[int, TakenUp]) -> None:
    """The session has not committed: what it took up stands in its own draft now."""
    for number, taken in drafts.items():
        if taken.how == "applied":
            sessions.close_draft(connection, number, "taken_up", strict=False)
