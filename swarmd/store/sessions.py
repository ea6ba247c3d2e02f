"""Sessions' rows: start, end, what follows from the end (retry, pause), drafts, and those lost with the daemon."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from swarmd.core.instants import to_text
from swarmd.core.sessions import COUNTED, GOOD, UPKEEP, retry_of
from swarmd.errors import NotFound, Refused
from swarmd.store import meta, slots
from swarmd.store.holding import resumed_key
from swarmd.store.rows import ORDINARY

if TYPE_CHECKING:
    from swarmd.core.agent import Limits
    from swarmd.core.changes import Change
    from swarmd.core.wire import Usage


def row(connection: sqlite3.Connection, id: int) -> sqlite3.Row:
    """The session's row. Raises NotFound."""
    found = connection.execute("SELECT * FROM sessions WHERE id = ?", (id,)).fetchone()
    if found is None:
        raise NotFound(f"there is no session {id}")
    return found  # type: ignore[no-any-return]


def start(connection: sqlite3.Connection, id: int, now: datetime, facts: Mapping[str, Any]) -> int:
    """Mark a queued session as running and keep what it was given; returns its epoch.

    `facts`: token_hash, definition, prompt_hash, prompt (JSON of sections), base (JSON of what it was shown), depth,
    cause_handoff.
    Raises Refused when it is not queued any more (cancelled meanwhile).
    """
    cursor = connection.execute(
        "UPDATE sessions SET state = 'running', started = :now, epoch = epoch + 1, token_hash = :t, definition = :d, "
        "prompt_hash = :h, prompt = :p, base = :b, depth = :depth, cause_handoff = :cause "
        "WHERE id = :id AND state = 'queued'",
        {"now": to_text(now), "t": facts["token_hash"], "d": facts["definition"], "h": facts["prompt_hash"],
         "p": facts["prompt"], "b": facts["base"], "id": id, "depth": facts["depth"],
         "cause": facts["cause_handoff"]},
    )  # fmt: skip
    if cursor.rowcount != 1:
        raise Refused(f"session {id} is not queued any more")
    connection.execute(
        "UPDATE slots SET decision = 'started' WHERE session = ? AND decision = 'deferred'", (id,)
    )
    return int(row(connection, id)["epoch"])


def still_running(connection: sqlite3.Connection, id: int, epoch: int) -> sqlite3.Row:
    """The row of a running session of this epoch. Raises Refused for one that has ended or was started anew."""
    found = row(connection, id)
    if found["state"] != "running" or found["epoch"] != epoch:
        raise Refused(
            f"session {id} has ended ({found['outcome'] or found['state']}); nothing more is saved of it"
        )
    return found


def end(
    connection: sqlite3.Connection,
    id: int,
    *,
    outcome: str,
    reason: str,
    now: datetime,
    exit: int | None = None,
    usage: Usage | None = None,
    by_model: Mapping[str, Usage] | None = None,
    limits: Limits | None = None,
    draft: Sequence[Change] = (),
) -> int | None:
    """End a session in whatever state it is, with all that follows; returns the retry's session id, if any.

    `draft`: what it wanted written and did not get; empty: no draft is left. `limits` None: no retry, no pause.
    """
    found = row(connection, id)
    if found["state"] == "ended":
        raise Refused(f"session {id} has ended already")
    figures: tuple[float | None, ...] = (None,) * 5
    if usage is not None:
        # Imported here: most who end a session by this module (a cancellation, a daemon's start) have none.
        from swarmd.store import usage as using

        parts = {name: part.plausible() for name, part in (by_model or {}).items()}
        figures = using.figures(using.keep(connection, id, usage.plausible(), parts))
    connection.execute(
        "UPDATE sessions SET state = 'ended', outcome = ?, reason = ?, ended = ?, exit = ?, token_hash = NULL, "
        "tokens_in = ?, tokens_out = ?, cache_read = ?, cache_write = ?, usd = ?, draft = ? WHERE id = ?",
        (outcome, reason, to_text(now), exit, *figures, "open" if draft else "none", id),
    )
    if draft:
        keep_draft(connection, id, draft, now)
    if limits is None or found["mode"] != "commit" or found["trigger"] in UPKEEP:
        return None
    _pause_after(connection, found["agent"], outcome, limits, now)
    return _retry(connection, found, outcome, limits, now)


def keep_draft(connection: sqlite3.Connection, id: int, changes: Sequence[Change], now: datetime) -> None:
    """Keep a change set that was not committed. Of several writes of one key the last is kept: a draft that was taken
    up by a session which failed too would else grow from session to session.
    """
    from swarmd.core.changes import change_to_json, last_writes

    text = json.dumps([change_to_json(change) for change in last_writes(changes)], ensure_ascii=False)
    connection.execute(
        "INSERT OR REPLACE INTO drafts (session, changes, at) VALUES (?,?,?)", (id, text, to_text(now))
    )


def draft(connection: sqlite3.Connection, id: int) -> list[Change]:
    """The changes of a session's draft; empty if it has none."""
    # Imported here: lists of sessions load this module, and no draft.
    from swarmd.core.changes import change_from_json

    found = connection.execute("SELECT changes FROM drafts WHERE session = ?", (id,)).fetchone()
    return [] if found is None else [change_from_json(raw) for raw in json.loads(found["changes"])]


def newest_draft(connection: sqlite3.Connection, agent: str, subject: str | None = None) -> int | None:
    """The newest session of the agent about this subject (None: about none) whose draft is open, and that is not in
    quarantine.
    """
    found = connection.execute(
        "SELECT id FROM sessions INDEXED BY sessions_draft WHERE agent = ? AND subject IS ? AND draft = 'open' "
        "AND quarantined IS NULL ORDER BY id DESC LIMIT 1",
        (agent, subject),
    ).fetchone()
    return None if found is None else int(found["id"])


def draft_is_open(connection: sqlite3.Connection, id: int) -> bool:
    """Whether nobody has closed the session's draft."""
    return (
        connection.execute("SELECT 1 FROM sessions WHERE id = ? AND draft = 'open'", (id,)).fetchone()
        is not None
    )


def close_draft(connection: sqlite3.Connection, id: int, how: str, *, strict: bool = True) -> None:
    """Mark a draft as `applied` or `discarded`. Raises NotFound when it is not open and that is not `strict`ly so
    asked: an operator may have closed meanwhile what a session has taken up.
    """
    cursor = connection.execute("UPDATE sessions SET draft = ? WHERE id = ? AND draft = 'open'", (how, id))
    if cursor.rowcount != 1 and strict:
        raise NotFound(f"session {id} has no open draft")


def quarantine(connection: sqlite3.Connection, id: int, mark: str | None) -> None:
    """Put a session into quarantine (`mark`: when, by whom and why, as JSON), or take it out (None)."""
    connection.execute("UPDATE sessions SET quarantined = ? WHERE id = ?", (mark, id))


def failures(connection: sqlite3.Connection, agent: str, most: int = 1000) -> tuple[int, str | None]:
    """How many sessions in a row did not go well, whosever fault that was, and when the first of them ended. What
    was cancelled says nothing either way.
    """
    count, since = 0, None
    for found in connection.execute(
        f"SELECT outcome, ended FROM sessions WHERE agent = ? AND state = 'ended' AND mode = 'commit' AND {ORDINARY} "
        "ORDER BY id DESC LIMIT ?",
        (agent, most),
    ):
        if found["outcome"] in GOOD:
            break
        if found["outcome"] != "cancelled":
            count, since = count + 1, found["ended"]
    return count, since


def _pause_after(
    connection: sqlite3.Connection, agent: str, outcome: str, limits: Limits, now: datetime
) -> None:
    if outcome not in COUNTED or not limits.pause_after_failures:
        return
    resumed = meta.get(connection, resumed_key(agent))
    count = 0
    for found in connection.execute(
        f"SELECT outcome, ended FROM sessions WHERE agent = ? AND state = 'ended' AND mode = 'commit' AND {ORDINARY} "
        "ORDER BY id DESC LIMIT 1000",
        (agent,),
    ):
        if found["outcome"] in GOOD or (resumed is not None and found["ended"] <= resumed):
            break
        count += found["outcome"] in COUNTED
    if count >= limits.pause_after_failures:
        connection.execute(
            "INSERT OR IGNORE INTO pauses (agent, reason, by, at) VALUES (?,?,'system',?)",
            (agent, f"{count} failures in a row", to_text(now)),
        )


def _retry(
    connection: sqlite3.Connection, found: sqlite3.Row, outcome: str, limits: Limits, now: datetime
) -> int | None:
    retry = retry_of(
        agent=found["agent"], session=found["id"], outcome=outcome, attempt=found["attempt"],
        checkpoints=found["checkpoints"], limits=limits, now=now,
    )  # fmt: skip
    if retry is None:
        return None
    id = slots.queue(
        connection, agent=found["agent"], trigger="retry", now=now, by="schedule", not_before=retry.not_before,
        attempt=retry.attempt, retry_of=found["id"], note=f"attempt {retry.attempt}: session {found['id']} {outcome}",
        cause_handoff=found["cause_handoff"], depth=found["depth"], subject=found["subject"],
    )  # fmt: skip
    connection.execute("UPDATE sessions SET slot = ? WHERE id = ?", (found["slot"], id))
    return id


def checkpointed(connection: sqlite3.Connection, id: int, number: int) -> None:
    """The session has made its checkpoint `number`: what it wrote stays, and it is not retried."""
    connection.execute("UPDATE sessions SET checkpoints = ? WHERE id = ?", (number, id))
