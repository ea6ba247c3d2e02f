"""Reads of sessions and of what happened: what ran, what it printed and wrote, who was shown it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from swarmd.service import rows
from swarmd.service.sessions_named import named
from swarmd.service.view import JSON, Args, View, items, window
from swarmd.store import queries


def session_list(view: View, args: Args) -> JSON:
    """Sessions that the caller may see, newest first."""
    asked = window(args, 100)
    agent = view.agent(args) if args.get("agent") else None
    found = queries.sessions(view.connection, asked, agent=agent, outcome=args.get("outcome"))
    return items(_documents(view, [row for row in found if view.sees(row["agent"])]), asked,
                 found[-1]["id"] if found else None)  # fmt: skip


def _documents(view: View, found: Sequence[queries.Row]) -> list[dict[str, JSON]]:
    changes = queries.changes(view.connection, [row["id"] for row in found])
    return [rows.session_doc(row, changes[row["id"]]) for row in found]


def session_show(view: View, args: Args) -> JSON:
    """One session: how it went, and every change with its verdict."""
    return _documents(view, [named(view, args.get("session"))])[0]


def session_log(view: View, args: Args) -> JSON:
    """What a session printed, as far as it is kept."""
    row = named(view, args.get("session"))
    folder = view.places.state / "sessions" / str(row["id"])
    try:
        data = (folder / "output.log").read_bytes()
    except OSError:
        data = b""
    return {"session": row["id"], "output": data.decode("utf-8", "replace"), "bytes": len(data),
            "done": row["state"] == "ended", "outcome": row["outcome"], "reason": row["reason"]}  # fmt: skip


def session_trace(view: View, args: Args) -> JSON:
    """What a session wrote, and which later sessions were shown it."""
    row = named(view, args.get("session"))
    wrote = [c for c in queries.changes(view.connection, [row["id"]])[row["id"]] if c["effect"]]
    marks = [(c, trace) for c in wrote for trace in json.loads(c["effect"])]
    later = queries.shown_to(view.connection, row["id"])
    return {
        "session": row["id"], "agent": row["agent"],
        "items": [
            {"act": change["act"], "target": change["target"],
             "shown_to": [{"session": id, "agent": agent} for id, agent, base in later if _had(row["id"], trace, agent, base)]}
            for change, trace in marks
        ],
        "next": None,
    }  # fmt: skip


def _had(session: int, trace: dict[str, Any], agent: str, base: dict[str, Any]) -> bool:
    """Whether what a session was shown has this: the very key version, the handoff, the memory from that revision on."""
    if "key" in trace:
        return trace["key"] in base["keys"]
    if "handoff" in trace:
        return trace["handoff"] in base["handoffs"]
    if "memory" in trace:
        owner, path, rev = trace["memory"]
        return bool(owner == agent and base["memory"].get(path, 0) >= rev)
    return trace.get("report_id") in base["reports"]


def log(view: View, args: Args) -> JSON:
    """One row a slot that did not start, a session, and an operator's act, newest first."""
    asked = window(args, 200)
    agent = view.agent(args) if args.get("agent") else None
    found: list[tuple[str, dict[str, JSON]]] = []
    sessions = [r for r in queries.sessions(view.connection, asked, agent=agent) if view.sees(r["agent"])]
    for doc in _documents(view, sessions):
        at = doc["ended"] or doc["started"] or doc["queued"]
        found.append((at, {"at": at, "kind": "session", "agent": doc["agent"], "session": doc["id"],
                           "what": doc["outcome"] or doc["state"], "reason": doc["reason"], "by": doc["by"],
                           "trigger": doc["trigger"], "slot": doc["slot"], "changes": doc["changes"],
                           "tokens_in": doc["tokens_in"], "tokens_out": doc["tokens_out"], "usd": doc["usd"]}))  # fmt: skip
    for row in queries.slots(view.connection, asked, agent=agent):
        if row["decision"] != "started" and view.sees(row["agent"]):
            found.append(
                (row["at"], {"kind": "slot", "what": row["decision"], "by": "schedule", **rows.slot_doc(row)})
            )
    if view.actor.agent is None:
        for row in queries.operator_acts(view.connection, asked, agent):
            detail = json.loads(row["detail"])
            found.append((row["at"], {"at": row["at"], "kind": "act", "agent": None, "what": row["act"],
                                      "target": row["target"], "by": row["by"], "detail": detail,
                                      "changes": [{"act": c[0], "target": c[1], "verdict": c[2]}
                                                  for c in detail.get("changes", ())]}))  # fmt: skip
    found.sort(key=lambda pair: pair[0], reverse=True)
    return {
        "items": [row for _, row in found[: asked.n]],
        "next": found[asked.n][0] if len(found) > asked.n else None,
    }
