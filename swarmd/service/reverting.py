"""The change set that undoes what sessions wrote, where nobody has built on it; what cannot be undone is named."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from swarmd.core.changes import Change, MoveHandoff, SendHandoff, SetKey, UnsetKey, WriteMemory
from swarmd.core.handoffs import FINAL, Move
from swarmd.service.view import View
from swarmd.store import queries


@dataclass(slots=True, kw_only=True)
class Plan:
    """What will be undone, what cannot be, and the changes that do it."""

    changes: list[Change] = field(default_factory=list)
    undone: list[dict[str, Any]] = field(default_factory=list)
    not_undone: list[dict[str, Any]] = field(default_factory=list)


def compensation(view: View, sessions: Sequence[queries.Row], reserve: Callable[[], int]) -> Plan:
    """Go through what the sessions wrote, newest first. A key or file is put back to what it was before the oldest of
    these sessions touched it, when its newest version is one of theirs."""
    plan = Plan()
    rows = queries.changes(view.connection, [row["id"] for row in sessions])
    traces = [
        (change, trace)
        for row in sorted(sessions, key=lambda r: -r["id"])
        for change in reversed(rows[row["id"]]) if change["effect"] and change["verdict"] == "done"
        for trace in json.loads(change["effect"])
    ]  # fmt: skip
    _keys(view, plan, traces)
    _memory(view, plan, traces)
    for change, trace in traces:
        if "handoff" in trace:
            _handoff(view, plan, change, trace, reserve)
        elif "report" in trace:
            _cannot(plan, change, "a report that was made cannot be taken back")
    return plan


def _keys(view: View, plan: Plan, traces: Sequence[tuple[queries.Row, dict[str, Any]]]) -> None:
    written: dict[tuple[str, str], list[int]] = {}
    of: dict[tuple[str, str], queries.Row] = {}
    for change, trace in traces:
        if "key" in trace:
            agent, key, version = trace["key"]
            written.setdefault((agent, key), []).append(version)
            of.setdefault((agent, key), change)
    for (agent, key), versions in written.items():
        current = view.world.key(agent, key)
        if current is None or current.version not in versions:
            who = current.by if current is not None else "somebody"
            _cannot(plan, of[agent, key], f"{agent}/{key} was changed by {who} since")
            continue
        before = current.version
        while before in versions:
            before -= 1
        old = queries.key_value(view.connection, agent, key, before)
        plan.changes.append(
            UnsetKey(agent=agent, key=key, seen=current.version) if old is None
            else SetKey(agent=agent, key=key, value=old, seen=current.version)
        )  # fmt: skip
        _will(plan, of[agent, key])


def _memory(view: View, plan: Plan, traces: Sequence[tuple[queries.Row, dict[str, Any]]]) -> None:
    written: dict[tuple[str, str], list[int]] = {}
    of: dict[tuple[str, str], queries.Row] = {}
    for change, trace in traces:
        if "memory" in trace:
            agent, path, rev = trace["memory"]
            written.setdefault((agent, path), []).append(rev)
            of.setdefault((agent, path), change)
    for (agent, path), revs in written.items():
        head = view.world.document(agent, path)
        if head is None or head.rev not in revs:
            _cannot(plan, of[agent, path], f"{agent}:{path} was changed since")
            continue
        before = head.rev
        while before in revs:
            before -= 1
        data = view.world.revision(agent, path, before) if before else None
        plan.changes.append(WriteMemory(agent=agent, path=path, data=data, base=head.rev))
        _will(plan, of[agent, path])


def _handoff(
    view: View, plan: Plan, change: queries.Row, trace: dict[str, Any], reserve: Callable[[], int]
) -> None:
    handoff = view.world.handoff(trace["handoff"])
    if handoff is None:
        _cannot(plan, change, "the handoff is gone")
    elif trace["created"]:
        if handoff.status in FINAL:
            _cannot(plan, change, f"handoff {handoff.id} has ended already ({handoff.status})")
        else:
            plan.changes.append(
                MoveHandoff(id=handoff.id, move=Move.CANCEL, text="the session that sent it was reverted")
            )
            _will(plan, change)
    elif handoff.status in FINAL and change["after"] == handoff.status and handoff.receiver in view.tree:
        plan.changes.append(SendHandoff(id=reserve(), to=handoff.receiver, text=handoff.text,
                                        priority=handoff.priority, due=handoff.due,
                                        sender=handoff.sender))  # fmt: skip
        _will(plan, change)
    else:
        _cannot(
            plan, change, f"handoff {handoff.id} was moved on ({handoff.status}), or its receiver is gone"
        )


def _will(plan: Plan, change: queries.Row) -> None:
    plan.undone.append({"act": change["act"], "target": change["target"]})


def _cannot(plan: Plan, change: queries.Row, reason: str) -> None:
    plan.not_undone.append({"act": change["act"], "target": change["target"], "reason": reason})
