"""What a session's transcript is made of: events of a closed set of kinds, the same for every runner.

An event is a flat JSON object with `kind` and the fields named here; further fields may be there. Runners hand events
to the desk as they come (core.wire.Desk.event); the session masks, bounds, dates and stores them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

FILE = "transcript.jsonl"
"""In a session's folder: an event a line, each with `seq` (from 1) and `at` before its own fields."""
OUTPUT = "output.log"
"""Beside it: what the session's program wrote, as far as it is kept."""

EventKind = Literal[
    "started", "text", "thinking", "tool_call", "tool_result", "usage", "retry", "compaction", "warning", "refused",
    "ended", "result",
]  # fmt: skip

FIELDS: Mapping[EventKind, tuple[str, ...]] = {
    # May have `tools` too, what is sent beside the prompt, as JSON or its text: it is counted, and not kept.
    "started": ("runner", "model"),
    # What the model said and thought, a block each; `turn` counts its answers from 1.
    "text": ("turn", "text"),
    "thinking": ("turn", "text"),
    # A call has the id that its result repeats; `input` is an object; `error` tells a refused or failed call.
    "tool_call": ("turn", "id", "name", "input"),
    "tool_result": ("id", "text", "error"),
    # One a request to the model; tokens_in excludes what was read from and written to the cache. None is unknown.
    "usage": ("turn", "model", "tokens_in", "tokens_out", "cache_read", "cache_write", "usd"),
    # A request that is made again, and after how many seconds.
    "retry": ("reason", "attempt", "wait_seconds"),
    # The history was summarized; `before` and `after` are tokens, None where unknown.
    "compaction": ("before", "after", "text"),
    "warning": ("text",),
    # An act that was refused before it came to the judge.
    "refused": ("act", "reason"),
    # A program's end: exit status or signal, and how many processes it had left behind.
    "ended": ("exit", "signal", "leftovers"),
    # The runner's word on the session, and the model's last text.
    "result": ("outcome", "reason", "text"),
}
"""The fields that an event of each kind has at least."""


LONG_CHARACTERS = 20_000


def call_text(event: Mapping[str, Any]) -> str:
    """A tool call in a line: its name and its input; of a very long text in that only the beginning."""
    given = event.get("input")
    if isinstance(given, Mapping):
        given = {str(k): v[:LONG_CHARACTERS] if isinstance(v, str) else v for k, v in given.items()}
    try:
        shown = json.dumps(given, ensure_ascii=False, default=str) if given else ""
    except (TypeError, ValueError, RecursionError):
        shown = "..."
    return f"{event.get('name')} {shown}".rstrip()


def result_text(event: Mapping[str, Any]) -> str:
    """What a tool has answered."""
    text = str(event.get("text") or "").strip("\n") or "(nothing)"
    return f"error: {text}" if event.get("error") else text
