"""A session with its log as one JSON document or one page of Markdown."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from swarmd.core.text import escaped, one_line

_LISTS = ("changes", "refusals", "superseded")


def as_json(session: Mapping[str, Any], log: Mapping[str, Any]) -> dict[str, Any]:
    """Both documents as they came."""
    return {"session": session, "log": log}


def as_markdown(session: Mapping[str, Any], log: Mapping[str, Any]) -> str:
    """A page for a reader. Stored texts stand in fences that nothing inside them can close."""
    parts = [f"# Session {session['id']} of {_line(session.get('agent'))}", ""]
    plain = {name: value for name, value in session.items() if not isinstance(value, Mapping | list)}
    parts += [f"- {_item({name: value})}" for name, value in plain.items() if value not in (None, "")]
    for name in _LISTS:
        if session.get(name):
            parts += ["", f"## {name.capitalize()}", ""]
            parts += [f"- {_item(one)}" for one in session[name]]
    if log.get("output"):
        parts += ["", "## Output", "", _fenced(str(log["output"]))]
    return "\n".join(parts)


def _item(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_line(item)}" for key, item in value.items() if item not in (None, ""))
    return _line(value)


def _line(value: Any) -> str:
    """As it is where it is made of plain characters only, else as code."""
    text = str(value)
    return text if re.fullmatch(r"[\w :.,+/#-]+", text) else _code(text)


def _code(text: str) -> str:
    """Inline code; its marks are longer than any inside it."""
    marks = "`" * (_longest_run(text) + 1)
    return f"{marks} {one_line(text)} {marks}" if "`" in text else f"{marks}{one_line(text)}{marks}"


def _fenced(text: str) -> str:
    marks = "`" * max(3, _longest_run(text) + 1)
    return f"{marks}\n{escaped(text).rstrip()}\n{marks}"


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)
