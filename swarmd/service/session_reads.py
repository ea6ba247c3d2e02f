"""Reads of sessions and of what happened: what ran, what it printed and wrote, who was shown it."""

from __future__ import annotations

import json
from collections.abc import Sequence

from swarmd.errors import Refused
from swarmd.service import rows
from swarmd.service.quarantined import HIDDEN, is_hidden, log_without_texts, session_doc
from swarmd.service.sessions_named import named
from swarmd.service.transcripts import read_log
from swarmd.service.view import JSON, Args, View, items, one_more, page, seen_agents, text, window
from swarmd.store import approvals, queries, session_reads, windows


def session_list(view: View, args: Args) -> JSON:
    """Sessions that the caller may see, newest first."""
    asked = window(args, 100)
    outcome = text(args, "outcome", required=False) or None
    agents = seen_agents(view, view.agent(args) if args.get("agent") else None)
    found = session_reads.sessions(view.connection, one_more(asked), agents=agents, outcome=outcome)
    shown, rest = page(found, asked, lambda row: str(row["queued"]))
    return items(_documents(view, shown), rest)


def _documents(view: View, found: Sequence[windows.Row]) -> list[dict[str, JSON]]:
    changes = session_reads.changes(view.connection, [row["id"] for row in found])
    return [session_doc(view, row, changes[row["id"]]) for row in found]


def session_show(view: View, args: Args) -> JSON:
    """One session: how it went, and every change with its verdict."""
    row = named(view, args.get("session"))
    found = {**_documents(view, [row])[0], "usage": _usage(view, row)}
    if args.get("prompt_text"):
        _must_see(view, row)
    if args.get("prompt_text") and not is_hidden(view, row):
        from swarmd.service.past_prompts import prompt_text

        found["prompt_text"] = prompt_text(view, row)
    return found


def _must_see(view: View, row: windows.Row) -> None:
    """Raises Refused where the session's words are not for the caller."""
    if refusal := view.session_refusal(row):
        raise Refused(refusal)


def _usage(view: View, row: windows.Row) -> list[dict[str, JSON]]:
    """What it has used, a row a model; null is the model of figures that the runner gave for all."""
    from swarmd.store.usage import of_session

    found = of_session(view.connection, row["id"])
    return [{name: value for name, value in one.items() if name != "session"} for one in found]


def session_log(view: View, args: Args) -> JSON:
    """What a session printed, as far as it is kept, and the events of its transcript (see service.transcripts)."""
    # The row first: where it says that the session has ended, the files hold all that they ever will.
    row = named(view, args.get("session"))
    _must_see(view, row)
    done = row["state"] == "ended"
    if is_hidden(view, row):
        facts = {"done": done, "outcome": row["outcome"], "reason": HIDDEN}
        return {"session": row["id"], **log_without_texts(row), **facts}
    found = read_log(view.places.state / "sessions" / str(row["id"]), args, done=done)
    return {"session": row["id"], **found, "done": done, "outcome": row["outcome"], "reason": row["reason"]}


def log(view: View, args: Args) -> JSON:
    """One row a slot that did not start, a session, an operator's act, and a wish for an approval, newest first."""
    asked = window(args, 200)
    agent = view.agent(args) if args.get("agent") else None
    agents, more = seen_agents(view, agent), one_more(asked)
    found = [
        _session_line(doc)
        for doc in _documents(view, session_reads.sessions(view.connection, more, agents=agents))
    ]
    unstarted = queries.slots(view.connection, more, agents=agents, unstarted=True)
    found += [
        {"kind": "slot", "what": s["decision"], "by": "schedule", **rows.slot_doc(s)} for s in unstarted
    ]
    if view.actor.agent is None:
        found += [_act_line(row) for row in queries.operator_acts(view.connection, more, agent)]
        found += [_approval_line(row) for row in approvals.happened(view.connection, more, agent)]
    found.sort(key=lambda line: str(line["at"]), reverse=True)
    return items(*page(found, asked, lambda line: str(line["at"])))


def _session_line(doc: dict[str, JSON]) -> dict[str, JSON]:
    same = ("agent", "reason", "by", "trigger", "slot", "changes", "tokens_in", "tokens_out", "cache_read",
            "cache_write", "usd")  # fmt: skip
    return {"at": doc["ended"] or doc["started"] or doc["queued"], "kind": "session", "session": doc["id"],
            "what": doc["outcome"] or doc["state"], **{name: doc[name] for name in same}}  # fmt: skip


def _act_line(row: windows.Row) -> dict[str, JSON]:
    detail = json.loads(row["detail"])
    changes = [
        {"act": act, "target": target, "verdict": verdict}
        for act, target, verdict in detail.get("changes", ())
    ]
    return {"at": row["at"], "kind": "act", "agent": None, "what": row["act"], "target": row["target"], "by": row["by"],
            "detail": detail, "changes": changes}  # fmt: skip


def _approval_line(row: windows.Row) -> dict[str, JSON]:
    target = f"approval {row['id']}: {row['target']}"
    return {"kind": "approval", "approval": row["id"], "target": target,
            **{name: row[name] for name in ("at", "what", "agent", "session", "by", "reason")}}  # fmt: skip
