"""Handoffs: their value, their statuses, and the moves between them as a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Literal

Priority = Literal["low", "normal", "high", "urgent"]
PRIORITIES: tuple[Priority, ...] = ("low", "normal", "high", "urgent")


class Status(StrEnum):
    """Where a handoff stands. The last four are final, but for an operator's requeue."""

    OPEN = "open"
    ACKNOWLEDGED = "acknowledged"
    WAITING = "waiting"
    COMPLETED = "completed"
    DECLINED = "declined"
    CANCELLED = "cancelled"
    EXPIRED = "expired"


class Move(StrEnum):
    """What can be done to a handoff."""

    ACK = "ack"
    COMPLETE = "complete"
    DECLINE = "decline"
    ASK = "ask"
    ANSWER = "answer"
    CANCEL = "cancel"
    EXPIRE = "expire"
    REQUEUE = "requeue"


RESULT: Mapping[Move, Status] = {
    Move.ACK: Status.ACKNOWLEDGED,
    Move.COMPLETE: Status.COMPLETED,
    Move.DECLINE: Status.DECLINED,
    Move.ASK: Status.WAITING,
    Move.ANSWER: Status.OPEN,
    Move.CANCEL: Status.CANCELLED,
    Move.EXPIRE: Status.EXPIRED,
    Move.REQUEUE: Status.OPEN,
}
"""The status that a move leads to. Every move but `requeue` leads to one that is not the status before."""

MOVES: Mapping[Status, frozenset[Move]] = {
    Status.OPEN: frozenset({Move.ACK, Move.ASK, Move.COMPLETE, Move.DECLINE, Move.CANCEL, Move.EXPIRE}),
    Status.ACKNOWLEDGED: frozenset({Move.ASK, Move.COMPLETE, Move.DECLINE, Move.CANCEL, Move.EXPIRE}),
    Status.WAITING: frozenset({Move.ANSWER, Move.CANCEL, Move.EXPIRE}),
    Status.COMPLETED: frozenset(),
    Status.DECLINED: frozenset(),
    Status.CANCELLED: frozenset(),
    Status.EXPIRED: frozenset(),
}
"""The moves that a status allows to sessions and operators alike; no others exist. Requeue is the operator's
alone and stands outside the table: it makes a handoff that is not completed open again (see REQUEUABLE)."""

REQUEUABLE = frozenset({Status.OPEN, Status.ACKNOWLEDGED, Status.WAITING, Status.DECLINED, Status.CANCELLED,
                        Status.EXPIRED})  # fmt: skip
FINAL = frozenset({Status.COMPLETED, Status.DECLINED, Status.CANCELLED, Status.EXPIRED})
WORK = (Status.OPEN, Status.ACKNOWLEDGED)
"""The statuses that are the receiver's open work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of a handoff's thread. `kind` is the move that made it."""

    at: datetime
    by: str
    kind: str
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """What a handoff came from: the session that sent it, and the handoff that session worked on."""

    session: int | None = None
    handoff: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Handoff:
    """A directed message down the tree. `sender` is an agent's name or `operator`; times are UTC."""

    id: int
    sender: str
    receiver: str
    text: str
    created: datetime
    priority: Priority = "normal"
    status: Status = Status.OPEN
    due: datetime | None = None
    expires: datetime | None = None
    thread: tuple[Entry, ...] = ()
    cause: Cause = Cause()
    depth: int = 1
    dedupe: str | None = None
    by: str = ""
    """Who sent it, in full: `operator:NAME` or `AGENT#SESSION`."""

    @property
    def last(self) -> Entry | None:
        """The newest entry of the thread."""
        return self.thread[-1] if self.thread else None


def move_problem(handoff: Handoff, move: Move) -> str | None:
    """Why the handoff's status does not allow the move, or None where it does."""
    allowed = move in MOVES[handoff.status] or (move is Move.REQUEUE and handoff.status in REQUEUABLE)
    if allowed:
        return None
    return f"handoff {handoff.id} is {handoff.status}; that does not allow {move.value!r}"


def urgency(handoff: Handoff, now: datetime) -> Priority:
    """The priority in force: an hour past `due` one step is added."""
    index = PRIORITIES.index(handoff.priority)
    if handoff.due is not None and now - handoff.due > timedelta(hours=1):
        index = min(index + 1, len(PRIORITIES) - 1)
    return PRIORITIES[index]


def work_order(handoff: Handoff, now: datetime) -> tuple[int, datetime, int]:
    """Sort key of open work: urgent first, then oldest."""
    return (-PRIORITIES.index(urgency(handoff, now)), handoff.created, handoff.id)
