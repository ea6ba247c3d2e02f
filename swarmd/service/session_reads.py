"""Reads of sessions and of what happened: what ran, what it printed and wrote, who was shown it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from swarmd.core.owners import subject_owner
from swarmd.errors import Refused
from swarmd.service import rows
from swarmd.service.sessions_named import named
from swarmd.service.transcripts import read_log
from swarmd.service.view import JSON, Args, View, items, one_more, page, seen_agents, text, window
from swarmd.store import queries


def session_list(view: View, args: Args) -> JSON:
    """Sessions that the caller may see, newest first."""
    asked = window(args, 100)
    outcome = text(args, "outcome", required=False) or None
    agents = seen_agents(view, view.agent(args) if args.get("agent") else None)
    found = queries.sessions(view.connection, one_more(asked), agents=agents, outcome=outcome)
    shown, rest = page(found, asked, lambda row: str(row["queued"]))
    return items(_documents(view, shown), rest)


def _documents(view: View, found: Sequence[queries.Row]) -> list[dict[str, JSON]]:
    changes = queries.changes(view.connection, [row["id"] for row in found])
    return [
        rows.session_doc(row, changes[row["id"]])
        if view.session_refusal(row) is None
        else rows.session_doc(rows.withheld(row), [])
        for row in found
    ]


def session_show(view: View, args: Args) -> JSON:
    """One session: how it went, and every change with its verdict."""
    row = named(view, args.get("session"))
    found = {**_documents(view, [row])[0], "usage": _usage(view, row)}
    if args.get("prompt_text"):
        _must_see(view, row)
        from swarmd.service.past_prompts import prompt_text

        found["prompt_text"] = prompt_text(view, row)
    return found


def _must_see(view: View, row: queries.Row) -> None:
    """Raises Refused where the session's words are not for the caller."""
    if refusal := view.session_refusal(row):
        raise Refused(refusal)


def _usage(view: View, row: queries.Row) -> list[dict[str, JSON]]:
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
    found = read_log(view.places.state / "sessions" / str(row["id"]), args, done=done)
    return {"session": row["id"], **found, "done": done, "outcome": row["outcome"], "reason": row["reason"]}


def session_trace(view: View, args: Args) -> JSON:
    """What a session wrote, and which later sessions were shown it."""
    row = named(view, args.get("session"))
    wrote = [c for c in queries.changes(view.connection, [row["id"]])[row["id"]] if c["verdict"] == "done"]
    marks = [(c, trace) for c in wrote for trace in json.loads(c["effect"] or "[]")]
    later = queries.shown_to(view.connection, row["id"])
    return {
        "session": row["id"], "agent": row["agent"],
        "items": [
            {"act": change["act"], "target": change["target"],
             "shown_to": [{"session": id, "agent": agent} for id, agent, base in later if had(trace, agent, base)]}
            for change, trace in marks
        ],
        "next": None,
    }  # fmt: skip


def had(trace: dict[str, Any], agent: str, base: dict[str, Any]) -> bool:
    """Whether what a session was shown has this: the key's version, the handoff, the memory since that revision."""
    if "key" in trace:
        return trace["key"] in base["keys"]
    if "handoff" in trace:
        return trace["handoff"] in base["handoffs"]
    if "memory" in trace:
        owner, path, rev = trace["memory"]
        subject = base.get("subject")
        own = agent if subject is None else subject_owner(agent, subject)
        files = base["memory"] if owner == own else base.get("others", {}).get(owner, {})
        return bool(files.get(path, 0) >= rev)
    return trace.get("report") in base["reports"]


def log(view: View, args: Args) -> JSON:
    """One row a slot that did not start, a session, and an operator's act, newest first."""
    asked = window(args, 200)
    agent = view.agent(args) if args.get("agent") else None
    agents, more = seen_agents(view, agent), one_more(asked)
    found = [
        _session_line(doc) for doc in _documents(view, queries.sessions(view.connection, more, agents=agents))
    ]
    unstarted = queries.slots(view.connection, more, agents=agents, unstarted=True)
    found += [
        {"kind": "slot", "what": s["decision"], "by": "schedule", **rows.slot_doc(s)} for s in unstarted
    ]
    if view.actor.agent is None:
        found += [_act_line(row) for row in queries.operator_acts(view.connection, more, agent)]
    found.sort(key=lambda line: str(line["at"]), reverse=True)
    return items(*page(found, asked, lambda line: str(line["at"])))


def _session_line(doc: dict[str, JSON]) -> dict[str, JSON]:
    same = ("agent", "reason", "by", "trigger", "slot", "changes", "tokens_in", "tokens_out", "cache_read",
            "cache_write", "usd")  # fmt: skip
    return {"at": doc["ended"] or doc["started"] or doc["queued"], "kind": "session", "session": doc["id"],
            "what": doc["outcome"] or doc["state"], **{name: doc[name] for name in same}}  # fmt: skip


def _act_line(row: queries.Row) -> dict[str, JSON]:
    detail = json.loads(row["detail"])
    changes = [
        {"act": act, "target": target, "verdict": verdict}
        for act, target, verdict in detail.get("changes", ())
    ]
    return {"at": row["at"], "kind": "act", "agent": None, "what": row["act"], "target": row["target"], "by": row["by"],
            "detail": detail, "changes": changes}  # fmt: skip
