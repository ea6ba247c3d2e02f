"""Reads of keys, handoffs and reports: they see what a session has staged, through its world."""

from __future__ import annotations

from typing import TYPE_CHECKING

from swarmd.core.documents import handoff_doc, key_doc
from swarmd.errors import BadInput, NotFound, Refused
from swarmd.service.rows import report_doc
from swarmd.service.view import JSON, Args, View, items, number, text, window
from swarmd.store import queries

if TYPE_CHECKING:
    from swarmd.core.handoffs import Handoff


def ctx_list(view: View, args: Args) -> JSON:
    """An agent's keys, sorted."""
    return items([key_doc(key) for key in view.world.keys(view.agent(args))])


def ctx_get(view: View, args: Args) -> JSON:
    """One key."""
    agent, name = view.agent(args), text(args, "key")
    key = view.world.key(agent, name)
    if key is None or key.value is None:
        raise NotFound(f"{agent} has no key {name!r}; swarmd ctx list {agent} shows all")
    return key_doc(key)


def ctx_history(view: View, args: Args) -> JSON:
    """Every value that a key had, newest first."""
    agent, name = view.agent(args), text(args, "key")
    rows = queries.key_history(view.connection, agent, name)
    if not rows:
        raise NotFound(f"{agent} never had a key {name!r}")
    return items([{"agent": r["agent"], "key": r["key"], "value": r["value"], "version": r["version"],
                   "updated": r["at"], "by": r["by"]} for r in rows])  # fmt: skip


def handoff_list(view: View, args: Args) -> JSON:
    """Handoffs that the caller may see, newest first."""
    from swarmd.core.handoffs import Status

    status, asked = args.get("status"), window(args)
    if status is not None and status not in list(Status):
        raise BadInput(f"status: {status!r:.40} is none of {', '.join(Status)}")
    receiver, sender = args.get("to"), args.get("from")
    # An operator sees every row, so that no more than were asked for need be read.
    limit = (
        asked.n + 1 if view.actor.agent is None and asked.since is None and asked.until is None else 100_000
    )
    found = list(view.world.handoffs(
        receiver=receiver, sender=sender, statuses=None if status is None else [status], limit=limit
    ))  # fmt: skip
    rows = [handoff_doc(h) for h in found if view.handoff_refusal(h) is None]
    kept = [r for r in rows if (asked.since is None or r["created"] >= asked.since)
            and (asked.until is None or r["created"] < asked.until)]  # fmt: skip
    return {"items": kept[: asked.n], "next": kept[asked.n]["id"] if len(kept) > asked.n else None}


def handoff_show(view: View, args: Args) -> JSON:
    """One handoff with its thread."""
    handoff = _handoff(view, number(args, "id"))
    return {**handoff_doc(handoff), "receiver_missing": not queries.is_in_force(view.connection, handoff.receiver)}


def _handoff(view: View, id: int) -> Handoff:
    handoff = view.world.handoff(id)
    if handoff is None:
        raise NotFound(f"there is no handoff {id}")
    refusal = view.handoff_refusal(handoff)
    if refusal is not None:
        raise Refused(refusal)
    return handoff


def report_list(view: View, args: Args) -> JSON:
    """Reports of the agents that the caller may see, newest first."""
    asked = window(args)
    agent = args.get("from")
    if agent is not None:
        view.must_see(agent)
    rows = [r for r in queries.reports(view.connection, asked, agent=agent) if view.sees(r["agent"])]
    return items([report_doc(r) for r in rows], asked, rows[-1]["id"] if rows else None)
