"""What needs a person: worked out of the rows each time, so that an item closes by itself when it is cured."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from swarmd.core.consolidation import is_asked
from swarmd.core.consolidation_due import TOLD_FAILURES
from swarmd.core.counts import counted
from swarmd.core.instants import to_text
from swarmd.core.sessions import GOOD
from swarmd.service import attention_memory
from swarmd.service.attention_item import item
from swarmd.service.view import JSON, Args, View, items
from swarmd.store import consolidated, queries, session_reads, sessions, windows

OVERDUE = timedelta(days=2)
"""INTERFACE section 5: two days past its due time a handoff is the operator's concern."""
SHOWN = 200


def attention(view: View, args: Args) -> JSON:
    """Every open item that nobody has acknowledged, oldest first."""
    return items([item for item in found(view) if not item["acked"]])


def found(view: View) -> list[dict[str, JSON]]:
    """Every open item; `acked` tells those that an operator has seen as they are now."""
    acks = queries.acks(view.connection)
    rows = [
        {**item, "acked": acks.get(item["id"]) == item["since"]}
        for item in _all(view) if item["agent"] is None or view.sees(item["agent"])
    ]  # fmt: skip
    return sorted(rows, key=lambda item: (item["since"], item["id"]))


def _all(view: View) -> Iterator[dict[str, Any]]:
    last = {
        agent: row
        for agent, row in session_reads.last_sessions(view.connection).items()
        if agent in view.tree
    }
    full = attention_memory.full(view, last)
    yield from _folder(view)
    yield from _failures(view, last, {item["agent"] for item in full})
    yield from full
    yield from attention_memory.past_its_room(view, last)
    yield from attention_memory.lost(view)
    yield from _consolidations(view)
    yield from _pauses(view)
    yield from _handoffs(view)
    yield from _conflicts(view)
    yield from _approvals(view)
    for row in queries.problems(view.connection):
        if row["severity"] == "error":
            yield item(f"file:{row['file']}:{row['line'] or 0}:{row['field'] or ''}", "bad_file", None, row["since"],
                        row["text"], "mend the file; swarmd check shows every problem")  # fmt: skip
    for row in queries.raised(view.connection):
        yield item(row["id"], row["kind"], row["agent"], row["since"], row["text"], row["next_step"])
    for row in queries.reports(view.connection, windows.Window(n=SHOWN), to_operator=True):
        yield item(f"report:{row['id']}", "report", row["agent"], row["at"], row["text"],
                    f"swarmd attention ack report:{row['id']}")  # fmt: skip


def _folder(view: View) -> Iterator[dict[str, Any]]:
    """A state that others may look into: it holds keys, memory and what sessions printed."""
    state = view.places.state
    status = os.stat(state)
    mode = status.st_mode & 0o777
    if mode != 0o700:
        since = to_text(datetime.fromtimestamp(status.st_ctime, UTC))
        yield item("state:mode", "state", None, since, f"{state} has mode {mode:04o}; 0700 is wanted: it is private",
                    f"chmod 700 {state}")  # fmt: skip


def _failures(
    view: View, newest: Mapping[str, windows.Row], full: Collection[str]
) -> Iterator[dict[str, Any]]:
    """Of a session that was refused because the memory is full, that is what is told."""
    for agent, last in newest.items():
        if last["outcome"] in GOOD or last["outcome"] == "cancelled":
            continue
        if agent in full and last["outcome"] == "refused":
            continue
        count, since = sessions.failures(view.connection, agent)
        streak = f"{count} in a row since {since}; the last: " if count > 1 else ""
        kind = "refused" if last["outcome"] == "refused" else "failing"
        yield item(
            f"{kind}:{agent}", kind, agent, since or last["ended"],
            f"session {last['id']} {last['outcome']}: {streak}{last['reason']}",
            f"swarmd session show {last['id']}",
        )  # fmt: skip


def _consolidations(view: View) -> Iterator[dict[str, Any]]:
    """Whose memory could not be put in order for some times."""
    for name, agent in view.tree.agents.items():
        found = consolidated.failed(view.connection, name) if is_asked(agent.consolidate) else []
        if len(found) >= TOLD_FAILURES:
            last, since = found[0], found[-1]["ended"]
            yield item(f"consolidation:{name}", "consolidation", name, since,
                        f"the memory of {name} was not put in order: {len(found)} in a row since {since}; the last: "
                        f"session {last['id']} {last['outcome']}: {last['reason']}",
                        f"swarmd session show {last['id']}")  # fmt: skip


def _pauses(view: View) -> Iterator[dict[str, Any]]:
    for point, row in queries.pauses(view.connection).items():
        agent = None if point == "all" else point
        yield item(f"paused:{point}", "paused", agent, row["at"], _paused(point, row),
                    f"swarmd resume {point}")  # fmt: skip


def _paused(point: str, row: windows.Row) -> str:
    return f"{point} is paused by {row['by']}: {row['reason'] or 'no reason given'}"


def _handoffs(view: View) -> Iterator[dict[str, Any]]:
    for row in queries.overdue(view.connection, to_text(view.now - OVERDUE)):
        yield item(f"overdue:{row['id']}", "overdue", row["receiver"], row["due"],
                    f"handoff {row['id']} from {row['sender']} to {row['receiver']} was due {row['due']}",
                    f"swarmd handoff show {row['id']}")  # fmt: skip
    for row in queries.undeliverable(view.connection):
        yield item(f"dead:{row['id']}", "dead_letter", None, row["created"],
                    f"handoff {row['id']} from {row['sender']} waits for {row['receiver']}: receiver missing",
                    f"bring the agent back, or swarmd handoff cancel {row['id']}")  # fmt: skip


def _approvals(view: View) -> Iterator[dict[str, Any]]:
    """What waits for a yes; once its time is over nothing can be done about it any more."""
    for row in queries.open_approvals(view.connection, to_text(view.now), SHOWN):
        yield item(f"approval:{row['id']}", "approval", row["agent"], row["created"],
                   f"{row['by']} wants to change {row['target']}: {row['reason']}; it waits until {row['expires']}",
                   f"swarmd approval show {row['id']}")  # fmt: skip


def _conflicts(view: View) -> Iterator[dict[str, Any]]:
    by_agent: dict[str, list[windows.Row]] = {}
    for row in queries.conflicts(view.connection):
        by_agent.setdefault(row["agent"], []).append(row)
    for agent, rows in by_agent.items():
        paths = ", ".join(sorted({row["path"] for row in rows}))
        yield item(f"conflict:{agent}", "conflict", agent, rows[-1]["at"],
                    f"{counted(len(rows), 'conflict')} in the memory of {agent} ({paths})",
                    f"swarmd memory conflicts {agent}")  # fmt: skip
