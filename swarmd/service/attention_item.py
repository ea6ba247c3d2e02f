"""What an item of the list of what needs a person is made of."""

from __future__ import annotations

from typing import Any


def item(id: str, kind: str, agent: str | None, since: str, text: str, next_step: str) -> dict[str, Any]:
    """One item; its id and `since` together are what is acknowledged."""
    return {"id": id, "kind": kind, "agent": agent, "since": since, "text": text, "next_step": next_step}
