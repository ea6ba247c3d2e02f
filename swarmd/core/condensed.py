"""A session's transcript cut down by rule: what was said and done stands, what came back and what was thought hardly.

No model is asked. What a text says is kept word for word where it is kept; each cut says how much is missing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

SAID, CALLED, RETURNED, FAILED = 2000, 300, 300, 600
"""Characters of a text of the model's, a call's arguments, its result, and what went wrong."""
SESSION_CHARACTERS = 48_000
"""All that is kept of one session here: its beginning and its end."""
OUTPUT_CHARACTERS = 8000
"""Of what a program printed, where a session has no events."""


def condensed(events: Iterable[Mapping[str, Any]], output: str) -> str:
    """The session in lines: `said: ...`, `called NAME(...)`, `returned: ...`. `output`: what its program printed."""
    lines: list[str] = []
    last = ""
    for event in events:
        line = _line(event, last)
        if line:
            lines.append(line)
        if event.get("kind") == "text":
            last = str(event.get("text"))
    text = "\n".join(lines)
    if output.strip() and not any(line.startswith(("said: ", "called ")) for line in lines):
        printed = f"printed: {middle_cut(output.strip(), OUTPUT_CHARACTERS)}"
        text = f"{text}\n{printed}" if text else printed
    return middle_cut(text, SESSION_CHARACTERS)


def _line(event: Mapping[str, Any], last: str) -> str:
    text = str(event.get("text") or "").strip()
    match event.get("kind"):
        case "text":
            return f"said: {middle_cut(text, SAID)}" if text else ""
        case "tool_call":
            given = json.dumps(event.get("input"), ensure_ascii=False, separators=(",", ":"))
            return f"called {_name(event)}({middle_cut(given, CALLED)})"
        case "tool_result":
            if event.get("error"):
                return f"failed: {middle_cut(text, FAILED)}"
            return f"returned: {middle_cut(text, RETURNED)}" if text else ""
        case "warning":
            return f"warning: {middle_cut(text, FAILED)}"
        case "refused":
            return f"refused: {_name(event, 'act')}: {middle_cut(str(event.get('reason')), FAILED)}"
        case "compaction":
            return f"its history was summarized: {middle_cut(text, SAID)}" if text else ""
        case "result":
            return f"said at the end: {middle_cut(text, SAID)}" if text and text != last.strip() else ""
        case _:
            return ""


def _name(event: Mapping[str, Any], field: str = "name") -> str:
    return str(event.get(field))[:100]


def middle_cut(text: str, limit: int) -> str:
    """The text in about `limit` characters: its beginning, then how much is left out, then its end."""
    if len(text) <= limit:
        return text
    head, tail = limit * 2 // 3, limit // 3
    left = len(text) - head - tail
    return f"{text[:head]} [... {left:,} characters left out ...] {text[len(text) - tail :]}"
