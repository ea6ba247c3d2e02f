"""What happened to an agent: its definitions, pauses and renames, also those that it had under earlier names."""

from __future__ import annotations

import json
from collections.abc import Iterator

from swarmd.errors import NotFound
from swarmd.service.view import JSON, Args, View, items, text
from swarmd.store import queries, windows

_SHOWN = {"pause": "paused", "resume": "resumed"}


def agent_history(view: View, args: Args) -> JSON:
    """When and by whom the agent's definition was changed, and it was paused, resumed or renamed; newest first."""
    acts = queries.pauses_and_renames(view.connection)
    try:
        agent = view.agent(args)
    except NotFound:
        # One that was renamed has left its name behind.
        agent = text(args, "agent")
        if not any(row["act"] == "rename" and _old_name(row) == agent for row in acts):
            raise
    rows = [
        _row(r["at"], r["what"], r["by"], hash=r["hash"],
             text=queries.definition_text(view.connection, r["hash"]) if r["hash"] else None)
        for r in queries.agent_history(view.connection, agent)
    ]  # fmt: skip
    rows += _acts(agent, acts)
    return items(sorted(rows, key=lambda row: str(row["at"]), reverse=True))


def _acts(agent: str, acts: list[windows.Row]) -> Iterator[dict[str, JSON]]:
    """The acts on an agent, newest first; before it was given its name they are those on the name it had then."""
    name = agent
    for row in acts:
        if row["act"] == "rename" and row["target"] == name:
            name = _old_name(row)
            yield _row(row["at"], f"renamed from {name}", row["by"])
        elif row["act"] == "rename" and _old_name(row) == agent:
            yield _row(row["at"], f"renamed to {row['target']}", row["by"])
        elif row["target"] == name and row["act"] in _SHOWN:
            yield _row(
                row["at"],
                _SHOWN[row["act"]],
                row["by"],
                reason=json.loads(row["detail"]).get("reason") or None,
            )


def _old_name(row: windows.Row) -> str:
    return str(json.loads(row["detail"])["old"])


def _row(
    at: str,
    what: str,
    by: str,
    *,
    hash: str | None = None,
    text: str | None = None,
    reason: str | None = None,
) -> dict[str, JSON]:
    return {"at": at, "what": what, "hash": hash, "by": by, "text": text, "reason": reason}
