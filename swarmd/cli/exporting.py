"""A session whole as one document: JSON, YAML, or a page of Markdown for a reader."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from swarmd.core.text import escaped, one_line

_LISTS = ("changes", "refusals", "superseded", "usage")
_PARTS = ("prompt_text", "prompt", *_LISTS)


def as_document(session: Mapping[str, Any], log: Mapping[str, Any]) -> dict[str, Any]:
    """Both documents as they came; the prompt's text beside them, with `from`: where it is from, or why it is not."""
    return {
        "session": {name: value for name, value in session.items() if name != "prompt_text"},
        "prompt": session.get("prompt_text"),
        "log": dict(log),
    }


# -- YAML -------------------------------------------------------------------------------------------------------------

_PLAIN_KEY = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*\Z", re.ASCII)
_RESERVED = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})
_NO_YAML = re.compile("[\ufffe\uffff]")
"""Beside what a terminal could act on: no YAML may hold them as they are."""
_BYTES = re.compile("[\udc80-\udcff]")
"""A terminal is shown the byte that one stands for; to YAML that would be another character."""


def as_yaml(document: Any) -> str:
    """YAML that any reader takes for the very same values: no text stands bare, so that none is taken for a date, a
    number or `no`; texts of several lines stand as blocks.
    """
    return "\n".join(_yaml(document, 0)) + "\n"


def _yaml(value: Any, depth: int) -> Iterator[str]:
    """The lines of a value, as they stand below a key or a dash."""
    lead = "  " * depth
    if isinstance(value, Mapping) and value:
        for name, inner in value.items():
            yield from _with_lead(f"{lead}{_key(str(name))}:", inner, depth)
    elif isinstance(value, list) and value:
        for inner in value:
            if isinstance(inner, Mapping) and inner:
                first, *others = _yaml(inner, depth + 1)
                yield f"{lead}- {first.lstrip(' ')}"
                yield from others
            else:
                yield from _with_lead(f"{lead}-", inner, depth)
    else:
        yield lead + _scalar(value)


def _with_lead(lead: str, value: Any, depth: int) -> Iterator[str]:
    if isinstance(value, Mapping | list) and value:
        yield lead
        yield from _yaml(value, depth + 1)
    elif isinstance(value, str) and _may_be_block(value):
        yield from _text_block(lead, value, depth)
    else:
        yield f"{lead} {_scalar(value)}"


def _may_be_block(text: str) -> bool:
    """A text of several lines that can stand as it is."""
    return bool("\n" in text and text.strip("\n")) and escaped(text) == text and not _NO_YAML.search(text)


def _text_block(lead: str, text: str, depth: int) -> Iterator[str]:
    """A literal block. Its indentation is told, since its first line may begin with spaces itself."""
    body = text.rstrip("\n")
    ends = len(text) - len(body)
    yield f"{lead} |2{'-' if not ends else '' if ends == 1 else '+'}"
    indent = "  " * (depth + 1)
    yield from (indent + line if line else "" for line in body.split("\n"))
    yield from [""] * (ends - 1)


def _key(name: str) -> str:
    return name if _PLAIN_KEY.match(name) and name not in _RESERVED else _quoted(name)


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, float):
        text = repr(value)
        # YAML 1.1 sees no number in 1e-05.
        return text.replace("e", ".0e", 1) if "e" in text and "." not in text else text
    return json.dumps(value)


def _quoted(text: str) -> str:
    """Between quotes, where our escapes for terminals mean to YAML what they mean to us, but for bytes in names."""
    text = _BYTES.sub(_as_escape, text.replace("\\", "\\\\").replace('"', '\\"'))
    return '"' + _NO_YAML.sub(_as_escape, one_line(text)) + '"'


def _as_escape(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


# -- Markdown ---------------------------------------------------------------------------------------------------------


def as_markdown(document: Mapping[str, Any]) -> str:
    """A page for a reader. Stored texts stand in fences that nothing inside them can close."""
    session, log = document["session"], document["log"]
    parts = [f"# Session {session['id']} of {_line(session.get('agent'))}", ""]
    plain = {name: value for name, value in session.items() if name not in _PARTS}
    parts += [f"- {_item({name: value})}" for name, value in plain.items() if value not in (None, "", [])]
    for name in _LISTS:
        if session.get(name):
            parts += ["", f"## {name.capitalize()}", ""]
            parts += [f"- {_item(one)}" for one in session[name]]
    parts += _prompt(session.get("prompt"), document.get("prompt"))
    if log.get("events"):
        parts += ["", "## Transcript"]
        for event in log["events"]:
            parts += _event(event)
    if log.get("output"):
        parts += ["", "## Output", "", _fenced(str(log["output"]))]
    return "\n".join(parts)


def _prompt(sections: Mapping[str, Any] | None, text: Mapping[str, Any] | None) -> list[str]:
    if not sections and not text:
        return []
    parts = ["", "## Prompt", ""]
    if sections:
        parts += [f"About {_line(sections.get('tokens'))} tokens:", ""]
        parts += [f"- {_item(section)}" for section in sections.get("sections") or []]
    if text and text.get("from"):
        parts += ["", f"Its text ({_line(text['from'])} from what is kept):"]
        parts += [line for part in ("system", "user") for line in ("", _fenced(str(text[part])))]
    elif text:
        parts += ["", f"Its text is not to be had: {_line(text.get('why_not'))}"]
    return parts


def _event(event: Mapping[str, Any]) -> list[str]:
    """An event: its short fields in a line, its texts below."""
    own = {name: value for name, value in event.items() if name not in ("seq", "at", "kind")}
    long = {name: text for name, value in own.items() if (text := _long(value)) is not None}
    short = {name: value for name, value in own.items() if name not in long}
    head = f"### {_line(event.get('seq'))}. {_line(event.get('kind'))}"
    parts = ["", head, "", ", ".join(filter(None, [_line(event.get("at")), _item(short)]))]
    for text in long.values():
        parts += ["", _fenced(text)]
    return parts


def _long(value: Any) -> str | None:
    """The text of a field that needs a block of its own."""
    if isinstance(value, Mapping | list) and value:
        return json.dumps(value, indent=2, ensure_ascii=False)
    return value if isinstance(value, str) and ("\n" in value or len(value) > 80) else None


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
