"""A session's transcript for a reader: what was said plainly, each call in a line, results in a few."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from swarmd.cli import output
from swarmd.core.text import shortened

ARGUMENTS, RESULT_LINES, RESULT, THOUGHT = 160, 8, 1200, 300

Event = Mapping[str, Any]


class Printer:
    """Prints events one after another; it remembers the last text, which a result often says again."""

    def __init__(self) -> None:
        self._said = ""

    def print(self, events: Iterable[Event]) -> None:
        """Print these events."""
        for event in events:
            kind = str(event.get("kind"))
            _PRINTERS.get(kind, _other)(event)
            if kind == "text":
                self._said = str(event.get("text"))
            if kind == "result" and event.get("text") and str(event["text"]) != self._said:
                _block(str(event["text"]), "  ")


def cost_words(usage: Mapping[str, Any]) -> str:
    """Tokens and money in words, as far as they are known; empty where nothing is."""
    parts = [
        f"{usage[name]:,} {words}"
        for name, words in (("tokens_in", "in"), ("tokens_out", "out"), ("cache_read", "from cache"),
                            ("cache_write", "to cache"))
        if isinstance(usage.get(name), int) and (usage[name] or name in ("tokens_in", "tokens_out"))
    ]  # fmt: skip
    if not parts and usage.get("usd") is None:
        return ""
    return ", ".join([*parts, dollars(usage.get("usd"))])


def dollars(usd: Any, *, least: bool = False) -> str:
    """An amount of money. `least`: some of what it sums up is not known."""
    if not isinstance(usd, int | float):
        return "cost unknown"
    # Four figures that say something, however little a turn costs.
    text = f"${usd:.2f}" if usd >= 1 or usd == 0 else f"${usd:.4f}"
    return f"at least {text}" if least else text


def _block(text: str, indent: str = "") -> None:
    if text.strip():
        output.block(text, indent)


def _first_lines(text: str) -> str:
    lines = text.rstrip("\n").split("\n")
    shown = "\n".join(lines[:RESULT_LINES])[:RESULT]
    left = len(text.rstrip("\n")) - len(shown)
    return f"{shown}\n... {left:,} more characters" if left > 0 else shown


def _started(event: Event) -> None:
    model = f", {output.shown('', event['model'])}" if event.get("model") else ""
    output.line(f"-- {output.shown('', event.get('runner'))}{model}")


def _text(event: Event) -> None:
    _block(str(event.get("text")))


def _thinking(event: Event) -> None:
    output.line(f"(thinks: {output.shown('', shortened(str(event.get('text')).strip(), THOUGHT))})")


def _tool_call(event: Event) -> None:
    given = event.get("input")
    if isinstance(given, Mapping):
        said = ", ".join(f"{name}={_argument(value)}" for name, value in given.items())
    else:
        said = _argument(given)
    output.line(f"> {output.shown('', event.get('name'))}({output.cut_to(said, ARGUMENTS)})")


def _argument(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _tool_result(event: Event) -> None:
    text = str(event.get("text") or "")
    if not text.strip():
        output.line(f"  {'failed' if event.get('error') else 'done'}")
        return
    _block(_first_lines(text), "! " if event.get("error") else "  ")


def _usage(event: Event) -> None:
    words = cost_words(event) or "usage unknown"
    output.line(f"-- turn {output.shown('', event.get('turn'))}: {words}")


def _retry(event: Event) -> None:
    wait, attempt = (output.shown("", event.get(name)) for name in ("wait_seconds", "attempt"))
    output.line(f"-- again in {wait} s (attempt {attempt}): {output.shown('', event.get('reason'))}")


def _compaction(event: Event) -> None:
    before, after = (output.shown("", event.get(name)) for name in ("before", "after"))
    output.line(f"-- the history was summarized: {before} tokens before, {after} after")


def _warning(event: Event) -> None:
    output.line(f"-- warning: {output.shown('', event.get('text'))}")


def _refused(event: Event) -> None:
    output.line(f"-- refused: {output.shown('', event.get('act'))}: {output.shown('', event.get('reason'))}")


def _ended(event: Event) -> None:
    parts = [
        f"{name} {output.shown('', event[name])}"
        for name in ("exit", "signal")
        if event.get(name) is not None
    ]
    if event.get("leftovers"):
        left = output.shown("", event["leftovers"])
        parts.append(f"{left} {'process was' if left == '1' else 'processes were'} left behind")
    output.line(f"-- the program has ended: {', '.join(parts) or 'how is not known'}")


def _result(event: Event) -> None:
    reason = f": {output.shown('', event['reason'])}" if event.get("reason") else ""
    output.line(f"-- result: {output.shown('', event.get('outcome'))}{reason}")


def _other(event: Event) -> None:
    """Of a later version: its fields as they are."""
    fields = {name: value for name, value in event.items() if name not in ("seq", "at", "kind")}
    output.line(f"-- {output.shown('', event.get('kind'))}: {output.cut_to(_argument(fields), ARGUMENTS)}")


_PRINTERS: Mapping[str, Callable[[Event], None]] = {
    "started": _started, "text": _text, "thinking": _thinking, "tool_call": _tool_call, "tool_result": _tool_result,
    "usage": _usage, "retry": _retry, "compaction": _compaction, "warning": _warning, "refused": _refused,
    "ended": _ended, "result": _result,
}  # fmt: skip
