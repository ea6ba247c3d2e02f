"""Two sessions beside each other: how they went, and what each wanted; below each other where there is no room."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from swarmd.cli import output
from swarmd.cli.sessions import result_of
from swarmd.cli.transcripts import dollars

Document = Mapping[str, Any]
_FACTS = (
    "outcome",
    "reason",
    "tokens in",
    "tokens out",
    "from cache",
    "to cache",
    "cost",
    "changes",
    "refused",
    "definition",
)


def print_compared(here: Document, compared: Document) -> None:
    """The earlier session left, the new one right."""
    there = compared["session"]
    titles = f"session {there['id']}", f"session {here['id']}"
    left, right = _facts(there), _facts(here)
    rows = [{"": name, titles[0]: left[name], titles[1]: right[name]} for name in _FACTS
            if left[name] is not None or right[name] is not None]  # fmt: skip
    output.table(rows, [output.Column(title=name.upper(), field=name) for name in ("", *titles)])
    output.line()
    if not compared["changes"]:
        output.line("neither wanted anything changed")
        return
    changes = [_change(row, titles) for row in compared["changes"]]
    output.table(
        changes, [output.Column(title=name.upper(), field=name) for name in ("what", "change", *titles)]
    )
    for row in compared["changes"]:
        if row.get("diff"):
            output.line(f"\n{output.shown('', row['target'])}: - as in {titles[0]}, + as in {titles[1]}")
            output.block(str(row["diff"]), "  ")


def _facts(session: Document) -> dict[str, Any]:
    tokens = {
        words: None if session.get(name) is None else f"{session[name]:,}"
        for words, name in (("tokens in", "tokens_in"), ("tokens out", "tokens_out"), ("from cache", "cache_read"),
                            ("to cache", "cache_write"))
    }  # fmt: skip
    known = any(tokens.values()) or session.get("usd") is not None
    return {
        "outcome": result_of(session), "reason": session.get("reason") or None, **tokens,
        "cost": dollars(session.get("usd")) if known else None,
        "changes": len(session.get("changes") or []), "refused": len(session.get("refusals") or []) or None,
        "definition": str(session.get("definition") or "")[:12] or None,
    }  # fmt: skip


def _change(row: Document, titles: tuple[str, str]) -> dict[str, Any]:
    return {"what": row["what"], "change": f"{row['act']} {row['target']}",
            titles[0]: _wish(row["there"]), titles[1]: _wish(row["here"])}  # fmt: skip


def _wish(wish: Document | None) -> str:
    if wish is None:
        return output.NOTHING
    value = output.cut(wish.get("after") if wish.get("after") is not None else wish.get("reason") or "")
    verdict = wish.get("verdict")
    return value if verdict in (None, "done") else f"{value} [{output.shown('', verdict)}]".strip()
