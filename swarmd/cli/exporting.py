"""A session with its log as one JSON document or one page of Markdown."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from swarmd.core.text import escaped, one_line


def as_json(session: Mapping[str, Any], log: Mapping[str, Any]) -> dict[str, Any]:
    """Both documents as they came."""
    return {"session": session, "log": log}


def as_markdown(session: Mapping[str, Any], log: Mapping[str, Any]) -> str:
    """A page for a reader. Stored texts stand in fences that nothing inside them can close."""
    lists = ("changes", "refusals", "superseded")
    parts = [f"# Session {session['id']} of {_line(session.get('agent'))}", ""]
    parts += [
        f"- {name}: {_line(value)}"
        for name, value in session.items()
        if name not in lists and value is not None
    ]
    for name in lists:
        if session.get(name):
            parts += ["", f"## {name.capitalize()}", ""]
            parts += [f"- {_item(one)}" for one in session[name]]
    for name in ("output", "stdout", "stderr"):
        if log.get(name):
            parts += ["", f"## {name}", "", _fenced(str(log[name]))]
    if log.get("events"):
        parts += ["", "## Events", ""] + [f"- {_item(one)}" for one in log["events"]]
    return "\n".join(parts)


def _line(value: Any) -> str:
    return _code(str(value)) if not isinstance(value, str) or re.search(r"[^\w :.,+/#-]", value) else value


def _item(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_line(item)}" for key, item in value.items() if item is not None)
    return _line(value)


def _code(text: str) -> str:
    """Inline code; its marks are longer than any inside it."""
    marks = "`" * (_longest_run(text) + 1)
    return f"{marks} {one_line(text)} {marks}" if "`" in text else f"{marks}{one_line(text)}{marks}"


def _fenced(text: str) -> str:
    marks = "`" * max(3, _longest_run(text) + 1)
    return f"{marks}\n{escaped(text).rstrip()}\n{marks}"


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)
