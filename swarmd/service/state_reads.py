"""Reads of keys, handoffs and reports: they see what a session has staged, through its world."""

from __future__ import annotations

from typing import TYPE_CHECKING

from swarmd.core.documents import handoff_doc, key_doc
from swarmd.core.instants import maybe_instant
from swarmd.errors import BadInput, NotFound, Refused
from swarmd.service.rows import report_doc
from swarmd.service.view import JSON, Args, View, items, number, one_more, page, seen_agents, text, window
from swarmd.store import queries

if TYPE_CHECKING:
    from swarmd.core.handoffs import Handoff
    from swarmd.store.windows import Window

LOOKED_AT = 20_000
"""Of how many handoffs, newest first, an agent's list is made."""


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
    receiver, sender = (text(args, name, required=False) or None for name in ("to", "from"))
    if view.actor.agent is None:
        found = _all_handoffs(view, one_more(asked), receiver, sender, status)
    else:
        found = _seen_handoffs(view, asked, receiver, sender, status)
    return items(*page([handoff_doc(h) for h in found], asked, lambda row: str(row["created"])))


def _all_handoffs(
    view: View, asked: Window, receiver: str | None, sender: str | None, status: str | None
) -> list[Handoff]:
    """An operator sees every row, so that no more than were asked for need be read."""
    ids = queries.handoffs(view.connection, asked, receiver=receiver, sender=sender, status=status)
    return [handoff for id in ids if (handoff := view.world.handoff(id)) is not None]


def _seen_handoffs(
    view: View, asked: Window, receiver: str | None, sender: str | None, status: str | None
) -> list[Handoff]:
    """What an agent may see, with what its session has staged."""
    statuses = None if status is None else [status]
    found = view.world.handoffs(receiver=receiver, sender=sender, statuses=statuses, limit=LOOKED_AT)
    seen = [handoff for handoff in found if view.handoff_refusal(handoff) is None]
    since, until = maybe_instant(asked.since), maybe_instant(asked.until)
    kept = [h for h in seen if (since is None or h.created >= since) and (until is None or h.created < until)]
    return sorted(kept, key=lambda handoff: (handoff.created, handoff.id), reverse=True)


def handoff_show(view: View, args: Args) -> JSON:
    """One handoff with its thread."""
    handoff = _handoff(view, number(args, "id"))
    return {
        **handoff_doc(handoff),
        "receiver_missing": not queries.is_in_force(view.connection, handoff.receiver),
    }


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
    agent = text(args, "from", required=False) or None
    if agent is not None:
        view.must_see(agent)
    found = queries.reports(
        view.connection,
        one_more(asked),
        agents=seen_agents(view, agent),
        untainted=view.actor.agent is not None,
    )
    shown, rest = page(found, asked, lambda row: str(row["at"]))
    return items([report_doc(row) for row in shown], rest)
