"""Reads of agents, slots and sessions: what is in force, what ran, why, and what comes next."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from swarmd.core.instants import maybe_text, to_text
from swarmd.errors import BadInput, NotFound
from swarmd.service import rows
from swarmd.service.quarantined import session_doc
from swarmd.service.sessions_named import named
from swarmd.service.view import JSON, Args, View, items, moment_text, window
from swarmd.store import adaptive, queries, session_reads, trees, windows

if TYPE_CHECKING:
    from swarmd.core.adaptive import Pace
    from swarmd.core.agent import Agent


def agent_list(view: View, args: Args) -> JSON:
    """Every agent in force that the caller may see."""
    return items(_agents(view))


def _agents(view: View, only: str | None = None) -> list[dict[str, JSON]]:
    connection, tree = view.connection, view.tree
    pauses, known = queries.pauses(connection), queries.agent_rows(connection)
    running = {row["agent"]: row["id"] for row in session_reads.live(connection) if row["state"] == "running"}
    last = session_reads.last_sessions(connection)
    work = queries.open_work(connection)
    paces = _paces(view, [name for name in tree.agents if only is None or name == only])
    return [
        rows.agent_doc(
            agent, held=rows.held_by(name, tree.above(name), pauses), pauses=pauses,
            problem=known[name]["problem"] if name in known else None, running=running.get(name),
            last=last.get(name), open_handoffs=work.get(name, 0), now=view.now,
            pace=paces.get(name),
        )
        for name, agent in tree.agents.items() if (only is None or name == only) and view.sees(name)
    ]  # fmt: skip


def agent_tree(view: View, args: Args) -> JSON:
    """The agents in force as a tree."""
    documents = {doc["name"]: {**doc, "children": []} for doc in _agents(view)}
    roots: list[JSON] = []
    for name, doc in documents.items():
        parent = view.tree.parent(name)
        (documents[parent]["children"] if parent in documents else roots).append(doc)
    return {"roots": roots}


def agent_show(view: View, args: Args) -> JSON:
    """One agent with its definition; `at` names a session: the definition that it ran with."""
    from swarmd.core.agent import to_json

    agent = view.agent(args)
    if args.get("at"):
        session = named(view, args["at"])
        if session["agent"] != agent:
            raise BadInput(f"session {session['id']} is one of {session['agent']}, not of {agent}")
        definition = (
            trees.definition(view.connection, session["definition"]) if session["definition"] else None
        )
        if definition is None:
            raise NotFound(f"session {session['id']} never started, so it ran with no definition")
        hash = session["definition"]
    else:
        hash = queries.agent_rows(view.connection)[agent]["hash"]
        definition = view.tree.agent(agent) or trees.definition(view.connection, hash)
        if definition is None:
            raise NotFound(
                f"no definition of {agent!r} is kept; swarmd agent history {agent} tells what there was"
            )
    document = (_agents(view, agent) or [_removed(view, definition)])[0]
    return {**document, "in_force": agent in view.tree, "definition": json.loads(to_json(definition)), "hash": hash,
            "text": queries.definition_text(view.connection, hash),
            "children": view.tree.children(agent), "above": view.tree.above(agent)}  # fmt: skip


def _removed(view: View, definition: Agent) -> dict[str, JSON]:
    """An agent that is out of force, by its last definition: it starts nothing."""
    last = session_reads.last_sessions(view.connection).get(definition.name)
    document = rows.agent_doc(
        definition, held=(), pauses={}, problem="it is not in force: its file is gone", running=None, last=last,
        open_handoffs=queries.open_work(view.connection).get(definition.name, 0), now=view.now,
    )  # fmt: skip
    return {**document, "next": None, "next_reason": None}


def why(view: View, args: Args) -> JSON:
    """The agent's last slots with decision and reason, and the next; or those around a moment."""
    agent = view.agent(args)
    at = moment_text(args, "time")
    if at is None:
        slots = queries.slots(view.connection, window(args, 20), agents=[agent])
    else:
        slots = queries.slots_around(view.connection, agent, at)
    definition = view.tree.agent(agent)
    pauses = queries.pauses(view.connection)
    held = rows.held_by(agent, view.tree.above(agent), pauses)
    pace = _paces(view, [agent]).get(agent)
    fire = None if definition is None else rows.next_start(definition, view.now, pace)
    return {
        "items": [rows.slot_doc(row) for row in slots],
        "next_fire": None if fire is None else to_text(fire),
        "next_reason": _next_reason(view, agent, held, pauses, pace),
        "consolidation": None if definition is None else _consolidation(view, definition),
        "sessions": [session_doc(view, row, []) for row in _beside_slots(view, agent, at)],
    }


def _paces(view: View, names: Sequence[str]) -> dict[str, Pace]:
    """Those of adaptive schedules, by the state as it is now: the daemon may not have looked at it yet."""
    agents = {name: view.tree.agent(name) for name in names}
    rules = {
        name: agent.when.adaptive
        for name, agent in agents.items()
        if agent is not None and agent.when.adaptive is not None
    }
    return adaptive.as_it_is(view.connection, rules, view.now) if rules else {}


def _consolidation(view: View, agent: Agent) -> JSON:
    """When its memory is put in order next, where its file asks for that."""
    from swarmd.service.quiet import next_consolidation

    found = next_consolidation(view.connection, agent)
    return None if found is None else {"next": maybe_text(found.at), "reason": found.reason}


def _beside_slots(view: View, agent: str, at: str | None) -> list[windows.Row]:
    """The agent's last sessions that no slot started; with a moment, all that waited or ran then."""
    if at is None:
        last = session_reads.sessions(view.connection, windows.Window(n=30), agents=[agent])
        return [row for row in last if row["slot"] is None][:10]
    by_then = session_reads.sessions(view.connection, windows.Window(until=at, n=10), agents=[agent])
    return [row for row in by_then if row["ended"] is None or row["ended"] >= at]


def _next_reason(
    view: View, agent: str, held: Sequence[str], pauses: dict[str, windows.Row], pace: Pace | None
) -> str:
    definition = view.tree.agent(agent)
    if definition is None:
        return "it is not in force"
    if not definition.enabled:
        return "it is disabled: its file says enabled = false; its slots are skipped"
    if held:
        pause = pauses[held[0]]
        return f"paused at {held[0]} by {pause['by']}: {pause['reason'] or 'no reason given'}; its slots are skipped"
    if (words := rows.next_words(definition, view.now, pace)) is not None:
        return words
    if rows.schedule_of(definition) is None:
        return "it has no schedule; it starts when somebody runs it"
    return "by its schedule"


def next(view: View, args: Args) -> JSON:
    """The next starts of one agent, or of all: `fires` has agent, slot and start, earliest first; of an adaptive
    schedule no more than the next one is known, with the reason why it is that one.
    """
    count = window(args, 10).n
    names = [view.agent(args)] if args.get("agent") else [n for n in view.tree if view.sees(n)]
    fires: list[tuple[datetime, dict[str, JSON]]] = []
    for name in names:
        fires.extend(_fires(view, name, count if len(names) == 1 else min(count, 5)))
    fires.sort(key=lambda pair: (pair[0], pair[1]["agent"]))
    return {"fires": [fire for _, fire in fires[:count]], "next": None}


def _fires(view: View, name: str, count: int) -> list[tuple[datetime, dict[str, JSON]]]:
    from swarmd.core.schedule import ChosenSchedule, jitter_of, next_slot
    from swarmd.core.zones import parse_zone, show_instant

    agent = view.tree.agent(name)
    if agent is None or not agent.enabled:
        return []
    schedule, reason = rows.schedule_of(agent), None
    if agent.when.adaptive is not None and (pace := _paces(view, [name]).get(name)) is not None:
        schedule, reason = ChosenSchedule(instant=pace.next), pace.reason
    if schedule is None:
        return []
    zone, jitter = parse_zone(agent.when.timezone), jitter_of(name, agent.when.jitter_seconds)
    found: list[tuple[datetime, dict[str, JSON]]] = []
    after = view.now
    while len(found) < count and (slot := next_slot(schedule, after)) is not None:
        start = slot + timedelta(seconds=jitter)
        found.append((start, {"agent": name, "slot": to_text(slot), "start": to_text(start),
                              "local": show_instant(start, zone), "timezone": agent.when.timezone,
                              "reason": reason}))  # fmt: skip
        after = slot
    return found
