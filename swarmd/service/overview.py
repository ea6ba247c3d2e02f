"""Reads of the whole: status, prompt, doctor, verify."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace

from swarmd.core.counts import counted
from swarmd.core.instants import to_text
from swarmd.errors import NotFound, SwarmdError
from swarmd.service import attention as attending
from swarmd.service import usage_reads
from swarmd.service.operator import runtime_of, socket_client
from swarmd.service.rows import held_by
from swarmd.service.view import JSON, Args, View, items
from swarmd.store import adaptive, opening, queries, session_reads, windows

PATIENCE_SECONDS = 2.0


def status(view: View, args: Args) -> JSON:
    """Places, daemon, and how much of what there is."""
    facts = view.daemon() or (_told(view) if _answers(view) else {})
    open_items = [item for item in attending.found(view) if not item["acked"]]
    ended = session_reads.sessions(view.connection, windows.Window(n=1))
    kinds = Counter(item["kind"] for item in open_items)
    oldest = min((item["since"] for item in open_items), default=None)
    return {
        "places": view.places.as_json(),
        "daemon": {"running": bool(facts) or _answers(view), **facts},
        "agents": {"in_force": len(view.tree), "paused": _held(view),
                   "problems": len(queries.problems(view.connection))},
        "running": session_reads.counts(view.connection),
        "last_session": {"id": ended[0]["id"], "at": ended[0]["queued"]} if ended else None,
        "attention": {"count": len(open_items), "oldest": oldest, "kinds": dict(sorted(kinds.items()))},
        "next_adaptive": _next_adaptive(view),
        "today": usage_reads.since(view, to_text(view.now.replace(hour=0, minute=0, second=0, microsecond=0))),
        "now": to_text(view.now),
    }  # fmt: skip


def _next_adaptive(view: View) -> JSON:
    """Of the agents whose schedule follows the work: who is due first, and why then."""
    pauses = queries.pauses(view.connection)
    for agent, pace in sorted(
        adaptive.paces(view.connection).items(), key=lambda pair: (pair[1].next, pair[0])
    ):
        definition = view.tree.agent(agent)
        starts = (
            definition is not None
            and definition.enabled
            and not held_by(agent, view.tree.above(agent), pauses)
        )
        if starts and pace.next > view.now:
            return {"agent": agent, "slot": to_text(pace.next), "reason": pace.reason}
    return None


def _answers(view: View) -> bool:
    """Whether a daemon has the state: a command that acts holds its lock too, for an instant, and has no socket."""
    return opening.is_locked(view.places.state) and runtime_of(view.places) is not None


def _told(view: View) -> dict[str, JSON]:
    """What the daemon says of itself, such as why it starts nothing at present: no row has that. Nothing, where it
    does not answer soon.
    """
    try:
        client = replace(socket_client(view.places), patience_seconds=PATIENCE_SECONDS)
        return dict(client.call("status", {})["daemon"])
    except (OSError, SwarmdError):
        return {}


def _held(view: View) -> int:
    """How many agents are paused, wherever that was set."""
    pauses = queries.pauses(view.connection)
    return sum(1 for name in view.tree if held_by(name, view.tree.above(name), pauses)) if pauses else 0


def verify(view: View, args: Args) -> JSON:
    """Whether the store is whole: SQLite's check, tables and rows, the audit chain, every text, every file."""
    # Imported here: of the reads, this one alone needs them.
    from swarmd.store import audit, row_checks, soundness, sums, wrote

    connection = view.connection
    found = [f"the database: {fault}" for fault in soundness.integrity(connection)]
    found += row_checks.faults(connection) + audit.faults(connection)
    found += [*wrote.faults(connection), *sums.faults(connection)]
    found += [text.told() for text in soundness.broken_texts(connection)] + _unpublished(view)
    seq, head = audit.head(connection)
    return {"ok": not found, "items": [{"text": fault} for fault in found], "next": None,
            "audit": {"rows": seq, "head": head}}  # fmt: skip


def _unpublished(view: View) -> list[str]:
    """Memory files that are not what the store last put there; a hand edit that waits to be taken over is none."""
    from swarmd.store import soundness

    found = []
    for agent, path, pending in soundness.published_files(view.connection):
        place = view.places.state / "memory" / agent / path
        if not pending and not place.exists():
            found.append(
                f"{place} is missing; it is written again at the agent's next session or the daemon's next start"
            )
    return found


def doctor(view: View, args: Args) -> JSON:
    """What this machine offers, or, of one agent, what its sessions may read and write."""
    if args.get("agent"):
        return _of_agent(view, view.agent(args))
    return {
        "items": [{"name": name, "ok": ok, "text": text} for name, ok, text in _checks(view)],
        "next": None,
    }


def _checks(view: View) -> list[tuple[str, bool, str]]:
    from swarmd.runners import cgroup, landlock

    places, abi = view.places, landlock.abi()
    free = opening.free_bytes(places.state)
    mode = os.stat(places.state).st_mode & 0o777
    delegated, problems = cgroup.delegated(), queries.problems(view.connection)
    return [
        ("agents", places.agents.is_dir(), f"agent files in {places.agents}"),
        ("state", mode & 0o077 == 0, f"{places.state} has mode {mode:04o}; 0700 is wanted"),
        ("disk", free > 100 * 2**20, f"{free // 2**20} MiB are free where the state is"),
        ("landlock", abi > 0, f"Landlock version {abi}: sessions are fenced off" if abi > 0 else
         "this kernel has no Landlock: sessions of level auto run without a fence"),
        ("cgroup", True, f"a control group for each session under {delegated}" if delegated else
         "no delegated control group: sessions' processes are found as descendants of their supervisor"),
        ("search", *_search_index(view)),
        ("problems", not problems, f"{counted(len(problems), 'problem')} in files"),
    ]  # fmt: skip


def _search_index(view: View) -> tuple[bool, str]:
    """Whether the search index has all that there is."""
    from swarmd.store.indexing import state_of
    from swarmd.store.search_due import moved_since
    from swarmd.store.search_file import obstacle

    if problem := obstacle(view.places.state):
        return False, problem
    index = state_of(view.places.state)
    size = f"{counted(index.rows, 'text')}, {index.bytes // 2**20} MiB"
    if index.complete is None:
        return False, f"the search index is still to be made ({size}): the daemon does it, or a search"
    last = session_reads.last_end(view.connection)
    since = [
        what
        for what, is_so in (
            ("sessions have ended", last is not None and last > index.complete),
            (
                "agents were renamed, or sessions put into quarantine or out of it",
                moved_since(view.connection, index.acts),
            ),
        )
        if is_so
    ]
    return not since, (
        f"the search index has what there was at {index.complete} ({size})"
        + (f"; {' and '.join(since)} since, which the daemon or a search puts in" if since else "")
    )


def _of_agent(view: View, name: str) -> JSON:
    from swarmd.config.lacking import lacking
    from swarmd.config.problems import field_name
    from swarmd.runners import registry
    from swarmd.runners.confinement import fence
    from swarmd.service.loading import kinds
    from swarmd.session.skills import rules_here

    agent = view.tree.agent(name)
    if agent is None:
        raise NotFound(f"the agent {name!r} is not in force; swarmd agent history {name} tells why")
    level, lines = fence(agent, view.places)
    found = [{"name": "sandbox", "ok": level != "none", "text": line} for line in lines]
    runner = registry.load(agent.runner_kind)
    found.append({"name": "runner", "ok": True, "text": registry.told(agent.runner_kind, runner)})
    found += [
        {"name": field_name(one.path), "ok": False, "text": one.text}
        for one in lacking(
            agent, os.environ, view.now, kinds(), rules_here(view.tree, str(view.places.state))
        )
    ]
    return {"agent": name, "level": level, **items(found)}
