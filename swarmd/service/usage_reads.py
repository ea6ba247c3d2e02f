"""What sessions have used together, by agent, model, day or subtree; and how much of that nobody knows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from swarmd.errors import BadInput
from swarmd.service.view import JSON, Args, View, seen_agents, text, window
from swarmd.store import usage as using
from swarmd.store.windows import Row, Window

BY = ("agent", "model", "day", "subtree")
_FIGURES = ("tokens_in", "tokens_out", "cache_read", "cache_write", "usd")
_COUNTS = {"sessions": "sessions", "tokens_unknown": "untold", "usd_unknown": "unpriced"}


def usage(view: View, args: Args) -> JSON:
    """Sums over the sessions that ended in the window: the dearest first, days newest first; and one of all."""
    by = text(args, "by", required=False) or "agent"
    if by not in BY:
        raise BadInput(f"by: {by!r:.40} is none of {', '.join(BY)}")
    asked, agents = window(args), seen_agents(view, None)
    found = using.sums(view.connection, asked, "agent" if by == "subtree" else by, agents)
    if by == "subtree":
        found = _subtrees(view, found)
    found.sort(key=_newest if by == "day" else _dearest, reverse=True)
    field = "agent" if by == "subtree" else by
    shown = [{field: row[field], **_doc(row)} for row in found[: asked.n]]
    (whole,) = using.sums(view.connection, asked, None, agents)
    if by == "model" and any(row["usd"] is not None for row in found):
        # A session of which only some models have a price counts with those here, and so it does in the total.
        whole = {**whole, "usd": sum(row["usd"] or 0.0 for row in found)}
    return {"by": by, "items": shown, "left_out": len(found) - len(shown), "total": _doc(whole), "next": None}


def since(view: View, moment: str) -> JSON:
    """All that sessions have used since a moment."""
    (row,) = using.sums(view.connection, Window(since=moment), None)
    return {"since": moment, **_doc(row)}


def _doc(row: Mapping[str, Any]) -> dict[str, JSON]:
    """Figures are sums of what is known (null: of nothing); the counts say of how many sessions they are not."""
    usd = row["usd"]
    figures = {name: row[name] for name in _FIGURES}
    return {
        "sessions": row["sessions"], **figures, "usd": None if usd is None else round(usd, 9),
        "tokens_unknown": row["untold"], "usd_unknown": row["unpriced"],
    }  # fmt: skip


def _subtrees(view: View, found: Iterable[Row]) -> list[Row]:
    """Each agent with all below it, as the tree is now; one that is not in it any more stands by itself."""
    sums: dict[str, Row] = {}
    for row in found:
        for point in (row["agent"], *view.tree.above(row["agent"])):
            if view.sees(point):
                sums[point] = _added(sums[point], row) if point in sums else {**row, "agent": point}
    return list(sums.values())


def _added(one: Row, other: Row) -> Row:
    figures = {
        name: one[name] if other[name] is None else (one[name] or 0) + other[name] for name in _FIGURES
    }
    counts = {name: one[name] + other[name] for name in _COUNTS.values()}
    return {"agent": one["agent"], **figures, **counts}


def _newest(row: Row) -> Any:
    return row["day"]


def _dearest(row: Row) -> Any:
    return row["usd"] or 0.0, (row["tokens_in"] or 0) + (row["tokens_out"] or 0), row["sessions"]
