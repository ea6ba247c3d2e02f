"""An operator's yes or no to what was held, in one transaction with what comes of it; each has one, once."""

from __future__ import annotations

import sqlite3
from datetime import datetime

from swarmd.core.approvals import Approval, lines_aside, told_aside
from swarmd.core.instants import to_text
from swarmd.errors import Refused
from swarmd.store import approvals, audit
from swarmd.store.commit import Committed, commit


def must_be_open(found: Approval, now: datetime) -> None:
    """Raises Refused where nothing can be decided any more, or where it is not what was held."""
    state = found.state_at(now)
    if state == "expired":
        raise Refused(
            f"approval {found.id} has expired ({to_text(found.expires)}): the agent has to ask for it anew"
        )
    if state != "open":
        by = f" by {found.decided_by}" if found.decided_by else ""
        why = f": {found.decided_reason}" if found.decided_reason else ""
        raise Refused(f"approval {found.id} was {state} already{by}{why}")


def must_be_whole(found: Approval) -> None:
    """Raises Refused where the row does not hold what was held."""
    if found.bound != found.hash:
        raise Refused(
            f"approval {found.id} is not what was held: its row in the store was changed since; deny it, and see "
            f"swarmd verify"
        )


def must_be_trusted(connection: sqlite3.Connection, found: Approval) -> None:
    """Raises Refused where the session that asked for it is in quarantine."""
    row = connection.execute(
        "SELECT id FROM sessions WHERE id = ? AND quarantined IS NOT NULL", (found.session,)
    ).fetchone()
    if row is not None:
        raise Refused(
            f"approval {found.id} is of session {row['id']}, which is in quarantine; deny it, or swarmd session "
            f"unquarantine {row['id']} first"
        )


def approve(connection: sqlite3.Connection, id: int, *, by: str, part: int, now: datetime) -> Committed:
    """Write what was held, judged anew as the agent's, and settle the approval: `approved`, or `superseded` where
    others were faster; of a file that others have changed the reason says how many lines were set aside. The audit
    names the operator, the rows the session. Raises Refused, and nothing is written, where it may not be written any
    more: it stays open then.
    """
    found = approvals.by_id(connection, id)
    must_be_open(found, now)
    must_be_whole(found)
    must_be_trusted(connection, found)
    done = commit(
        connection, found.actor, found.changes, now, act="approve", target=f"approval {id}: {found.target}",
        part=part, approver=by, told={"approval": id, "hash": found.hash, "by": found.by},
    )  # fmt: skip
    done.must_stand()
    overtaken = [v.reason for v in done.folded.verdicts if v.decision == "superseded"]
    state = "superseded" if overtaken and not done.changed else "approved"
    lines = lines_aside(done.folded.conflicts)
    reason = "; ".join([*overtaken, *([told_aside(lines)] if lines else [])])
    approvals.settle(connection, id, state, by=by, reason=reason, now=now)
    return done


def deny(connection: sqlite3.Connection, id: int, *, by: str, reason: str, now: datetime) -> None:
    """Settle it as denied. Raises Refused where it is not open."""
    found = approvals.by_id(connection, id)
    must_be_open(found, now)
    approvals.settle(connection, id, "denied", by=by, reason=reason, now=now)
    detail = {"approval": id, "hash": found.hash, "by": found.by, "reason": reason}
    audit.write(connection, at=now, by=by, act="deny", target=f"approval {id}: {found.target}", detail=detail)


def withdraw(
    connection: sqlite3.Connection, sessions: list[int], *, by: str, reason: str, now: datetime
) -> list[Approval]:
    """Deny whatever still waits of these sessions: they were reverted, or are not to be trusted."""
    found = approvals.of_sessions(connection, sessions)
    for one in found:
        approvals.settle(connection, one.id, "denied", by=by, reason=reason, now=now)
    return found
