"""A session by the name that people give it: its number, `AGENT` (its last) or `AGENT@TIME`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from swarmd.core.instants import from_text, to_text
from swarmd.errors import BadInput, Busy, NotFound, Refused
from swarmd.service.view import View
from swarmd.store import session_reads, sessions, windows
from swarmd.store.connections import Connection

DIGITS = 18
"""More has no number that the store can hold."""


def named(view: View, name: Any) -> windows.Row:
    """The session's row. Raises BadInput, NotFound, and Refused for a session of an agent the caller may not see."""
    if isinstance(name, int) and not isinstance(name, bool):
        name = str(name)
    if not isinstance(name, str) or not name:
        raise BadInput("session is missing: give its number, AGENT (its last session) or AGENT@TIME")
    if name.isdigit() and name.isascii():
        if len(name) > DIGITS:
            raise NotFound(f"there is no session {name[:40]}")
        return _seen(view, int(name))
    agent, mark, time = name.partition("@")
    view.must_see(agent)
    at = _moment(view, agent, time) if mark else None
    id = session_reads.last_session(view.connection, agent, at)
    if id is None:
        when = f" that had started by {time}" if mark else ""
        raise NotFound(f"{agent!r} names no agent with a session{when}; swarmd session list shows them")
    return _seen(view, id)


def _seen(view: View, id: int) -> windows.Row:
    row = dict(sessions.row(view.connection, id))
    if not view.sees(row["agent"]):
        # Whose it is, is not told: a session could go through the numbers and learn the tree.
        raise Refused(f"session {id} is neither one of {view.actor.agent} nor of an agent below it")
    return row


def _moment(view: View, agent: str, time: str) -> str:
    """A time without an offset is the agent's local time."""
    try:
        found: datetime = from_text(time)
    except ValueError:
        raise BadInput(f"{time!r:.40} is no time; write {agent}@2026-12-24T18:00") from None
    if found.tzinfo is None:
        from swarmd.core.zones import parse_zone

        definition = view.tree.agent(agent)
        found = found.replace(tzinfo=UTC if definition is None else parse_zone(definition.when.timezone))
    try:
        return to_text(found)
    except OverflowError:
        raise BadInput(f"{time!r:.40} is before the year 1 or after the year 9999") from None


def must_be_free(view: View, agent: str) -> None:
    """Raises Busy where a session of the agent runs."""
    for row in session_reads.live(view.connection):
        if row["agent"] == agent and row["state"] == "running":
            raise Busy(
                f"{agent} already runs (session {row['id']}); wait for it, or swarmd session cancel {row['id']}"
            )


def next_part(connection: Connection, session: int) -> int:
    """Under which number of the session's commits stands what is saved of it later."""
    return int(sessions.row(connection, session)["checkpoints"]) + 1
