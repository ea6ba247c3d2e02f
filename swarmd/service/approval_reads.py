"""What waits for an operator's yes: the list, and one with all that is needed to decide on it."""

from __future__ import annotations

from typing import Any

from swarmd.core.approvals import Approval, lines_aside
from swarmd.core.changes import AppendMemory, UnsetKey, WriteMemory, act_of, target_of
from swarmd.core.hook_documents import text_of
from swarmd.core.instants import maybe_text, to_text
from swarmd.core.judge import fold
from swarmd.core.staging import Conflict, Folded, KeyWritten, Staged
from swarmd.core.world import World
from swarmd.errors import Refused
from swarmd.service.view import JSON, Args, View, items, number, one_more, page, window
from swarmd.store import approvals, approving

SHOWN = 100


def approval_list(view: View, args: Args) -> JSON:
    """Those that are open, newest first; with `all` those that were decided on too."""
    asked = window(args, SHOWN)
    more = one_more(asked)
    agent = view.agent(args) if args.get("agent") else None
    everything = bool(args.get("all"))
    found = approvals.rows(view.connection, agent=agent, open_only=not everything, since=more.since,
                           until=more.until, n=more.n)  # fmt: skip
    shown, rest = page(found, asked, lambda one: to_text(one.created))
    rows = [approval_doc(one, view) for one in shown]
    return items([row for row in rows if everything or row["state"] == "open"], rest)


def approval_show(view: View, args: Args) -> JSON:
    """One with what a yes would do now: old and new value of a key; of a memory file the difference that it would have,
    and which lines would be set aside. Judged by what judges at the yes.
    """
    found = approvals.by_id(view.connection, number(args, "id"))
    whole = found.bound == found.hash
    document = {**approval_doc(found, view), "hash": found.hash, "whole": whole}
    if found.state_at(view.now) != "open" or not whole:
        problem = None if whole else "it is not what was held: its row in the store was changed since"
        return {**document, "verdict": None, "problem": problem, "set_aside": None, "changes": _wanted(found)}
    folded = fold(found.actor, found.changes, view.world, approved=True)
    problem = "; ".join(v.reason for v in folded.verdicts if v.decision in ("refused", "superseded")) or None
    untrusted = _untrusted(view, found)
    verdict = folded.verdicts[-1].decision if untrusted is None else "refused"
    return {**document, "verdict": verdict, "problem": untrusted or problem,
            "set_aside": lines_aside(folded.conflicts), "changes": [_sum(found, folded, view.world)]}  # fmt: skip


def _untrusted(view: View, found: Approval) -> str | None:
    """Why nobody may say yes to what this session wants, or None."""
    try:
        approving.must_be_trusted(view.connection, found)
    except Refused as refused:
        return str(refused)
    return None


def approval_doc(found: Approval, view: View) -> dict[str, JSON]:
    """One of them, without what it holds."""
    return {
        "id": found.id, "agent": found.agent, "session": found.session, "by": found.by, "target": found.target,
        "acts": [act_of(change) for change in found.changes], "state": found.state_at(view.now),
        "reason": found.reason, "created": to_text(found.created), "expires": to_text(found.expires),
        "decided": maybe_text(found.decided), "decided_by": found.decided_by,
        "decided_reason": found.decided_reason or None,
    }  # fmt: skip


def _wanted(found: Approval) -> list[dict[str, Any]]:
    """What was asked for, where nothing can come of it any more."""
    wanted = []
    for change in found.changes:
        after: Any = getattr(change, "value", None)
        if isinstance(change, WriteMemory):
            after = text_of(change.data)
        elif isinstance(change, AppendMemory):
            after = {"text": change.text}
        wanted.append(
            {"act": act_of(change), "target": target_of(change), "before": None, "after": after, "diff": None,
             "conflicts": []}
        )  # fmt: skip
    return wanted


def _sum(found: Approval, folded: Folded, world: World) -> dict[str, Any]:
    """What all of it together would do to its one target, by what is there now."""
    last = found.changes[-1]
    staged = Staged(world)
    staged.apply(folded.effects)
    common = {"act": act_of(last), "target": found.target}
    if isinstance(last, WriteMemory | AppendMemory):
        old, new = (w.document(last.agent, last.path) for w in (world, staged))
        before, after = (None if d is None else d.data for d in (old, new))
        return {**common, "before": text_of(before), "after": text_of(after),
                "conflicts": list(map(_conflict, folded.conflicts)),
                "diff": _diff(last.path, before, after)}  # fmt: skip
    agent, key = found.target.partition("/")[::2]
    current = world.key(agent, key)
    written = next((e.key.value for e in folded.effects if isinstance(e, KeyWritten)), None)
    wanted = None if isinstance(last, UnsetKey) else getattr(last, "value", None)
    return {**common, "before": current.value if current is not None else None,
            "after": wanted if written is None else written, "diff": None, "conflicts": []}  # fmt: skip


def _conflict(conflict: Conflict) -> dict[str, Any]:
    """As `memory conflicts` lists it."""
    return {"line": conflict.line, "ours": conflict.ours, "theirs": conflict.theirs}


def _diff(path: str, before: bytes | None, after: bytes | None) -> str | None:
    """As `memory diff` shows it; None where one of the two is no text."""
    import difflib

    try:
        old, new = ((data or b"").decode("utf-8").splitlines() for data in (before, after))
    except UnicodeDecodeError:
        return None
    return "\n".join(difflib.unified_diff(old, new, path, f"{path} (wanted)", lineterm=""))
