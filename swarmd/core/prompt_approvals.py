"""The section of the prompt on what waits for an operator's yes; an agent that has nothing to do with that has none."""

from __future__ import annotations

from swarmd.core.agent import Agent
from swarmd.core.fences import Ours, Pieces, quoted
from swarmd.core.moments import moment
from swarmd.core.room import NOTE_TOKENS, Count, fill
from swarmd.core.sections import Part, part, wrote
from swarmd.core.snapshot import ApprovalSeen, Snapshot
from swarmd.core.text import one_line, shortened

APPROVALS_TOKENS = 2000
_REASON = 500


def approvals_part(snapshot: Snapshot, count: Count) -> Part:
    """What has to wait, what waits, and what became of what waited; newest first."""
    rules = _rules(snapshot.agent)
    about = "writes of yours that an operator has to approve, and what became of them (data)"
    items = [_item(one, snapshot) for one in snapshot.approvals]
    filled = fill(items, APPROVALS_TOKENS - NOTE_TOKENS, count)
    left = len(items) - filled.shown
    return part("approvals", about, (*rules, *filled.pieces), f"{left:,} older ones left out" if left else "")


def _rules(agent: Agent) -> Pieces:
    folders = [folder.name for folder in agent.memory.shared if folder.approval]
    kinds = (
        ("keys", agent.approval_keys),
        ("memory files", agent.memory.approval),
        ("shared folders", folders),
    )
    named = "; ".join(f"{kind} {', '.join(map(one_line, names))}" for kind, names in kinds if names)
    if not named:
        return ()
    return (Ours(line=f"held until an operator says yes, while the rest of your session is saved: {named}"),)


def _item(one: ApprovalSeen, snapshot: Snapshot) -> tuple[Pieces, ...]:
    asked = f", asked in session {one.session}" if one.session is not None else ""
    line = Ours(line=f"approval {one.id}{asked}: {_what(one, snapshot)}")
    start: Pieces = (line, *quoted("of", one.target))
    if not one.decided_reason:
        return (start,)
    return (*start, *quoted("reason", shortened(one.decided_reason, _REASON))), start


def _what(one: ApprovalSeen, snapshot: Snapshot) -> str:
    zone = snapshot.zone
    if one.state == "open":
        return f"waits for an operator's yes, until {moment(one.expires, zone)}; nothing of it is saved yet"
    if one.state == "expired":
        return f"expired {moment(one.expires, zone)}: nobody decided in time, and nothing of it is saved"
    by = wrote(one.decided_by, snapshot.agent.name)
    when = f", {moment(one.decided, zone)}" if one.decided is not None else ""
    match one.state:
        case "approved":
            but = ", but for what the reason tells" if one.decided_reason else ""
            return f"approved by {by}{when}: it is saved{but}"
        case "denied":
            return f"denied by {by}{when}: nothing of it is saved"
        case _:
            mine = by == "you"
            return f"{'replaced by you' if mine else f'approved by {by}, but overtaken'}{when}: nothing of it is saved"
