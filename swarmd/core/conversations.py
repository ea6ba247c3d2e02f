"""An exported conversation as entries of an interaction log: what was said, by whom, and when, as the export has it.

Lists of messages as most programs write them (`role`, `content`, a time or none), also below a name, and the sessions
that `swarmd session export` writes. What a model only thought is not taken.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from swarmd.core.interaction_log import UNDATED, Block, stamp, written
from swarmd.core.transcript import call_text, result_text

_LISTS = ("messages", "conversation_history", "history", "chat_history", "conversation")
"""Under which names the list of messages stands, the first that is there."""
_TIMES = ("timestamp", "created_at", "createdAt", "create_time", "datetime", "time", "date", "at")
_STATIC = frozenset({"system", "developer"})
_THOUGHTS = frozenset({"thinking", "redacted_thinking", "reasoning"})
_TIME = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d\S*)?")
_MILLISECONDS = 1e11
"""Seconds that are more than this would be after the year 5000."""


class NoConversation(ValueError):
    """The document holds no list of messages; the text says what it is."""


@dataclass(slots=True, kw_only=True)
class Conversation:
    """What of a document becomes a log. `static` is what stood before everything said: a system prompt, which is no
    part of a log. `empty` counts entries that say nothing.
    """

    blocks: list[Block] = field(default_factory=list)
    static: list[str] = field(default_factory=list)
    empty: int = 0

    @property
    def undated(self) -> int:
        """How many entries have no time."""
        return sum(block.at == UNDATED for block in self.blocks)

    @property
    def text(self) -> str:
        """The blocks as they stand in a log."""
        return "".join(map(written, self.blocks))


def conversation(document: Any) -> Conversation:
    """The conversation that a JSON value holds. Raises NoConversation."""
    found = Conversation()
    if isinstance(document, Mapping) and "session" in document and isinstance(document.get("log"), Mapping):
        found.blocks += _of_session(document)
        return found
    for number, message in enumerate(_messages(document), 1):
        block = _block(message, number)
        if block is None:
            found.empty += 1
        elif block.role.lower() in _STATIC and not found.blocks:
            found.static.append(block.text)
        else:
            found.blocks.append(block)
    return found


def _messages(document: Any, depth: int = 0) -> Sequence[Any]:
    if isinstance(document, list):
        return document
    if isinstance(document, Mapping):
        for name in _LISTS:
            if isinstance(document.get(name), list):
                return list(document[name])
            if isinstance(document.get(name), Mapping) and depth == 0:
                return _messages(document[name], 1)
    names = f" with {', '.join(sorted(map(str, document))[:5])}" if isinstance(document, Mapping) else ""
    raise NoConversation(
        f"it holds no list of messages (an object{names} was found; expected is a list, or one under one of: "
        f"{', '.join(_LISTS)})"
        if isinstance(document, Mapping)
        else f"it holds no list of messages: {_kind(document)} was found"
    )


def _kind(value: Any) -> str:
    names = {
        "NoneType": "nothing",
        "bool": "a truth value",
        "dict": "an object",
        "list": "a list",
        "str": "a text",
    }
    return names.get(type(value).__name__, "a number")


def _block(message: Any, number: int) -> Block | None:
    """An entry; None where it says nothing."""
    if not isinstance(message, Mapping):
        raise NoConversation(f"entry {number} is no message: {_kind(message)} was found")
    inner = message.get("message")
    body = inner if isinstance(inner, Mapping) else message
    role = (
        body.get("role") or message.get("role") or message.get("sender") or message.get("type") or "unknown"
    )
    content = next((body[name] for name in ("content", "text") if body.get(name) is not None), None)
    text = "\n\n".join(part for part in (_text(content), *_calls(body.get("tool_calls"))) if part.strip())
    if not text.strip():
        return None
    at, note = _when(message if message is body else {**body, **message})
    return Block(role=str(role), at=at, text=f"{note}\n\n{text}" if note else text)


def _text(content: Any) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n\n".join(part for part in map(_part, content) if part)
    return _part(content)


def _part(part: Any) -> str:
    if not isinstance(part, Mapping):
        return part if isinstance(part, str) else json.dumps(part, ensure_ascii=False)
    kind = part.get("type")
    if kind in _THOUGHTS:
        return ""
    if isinstance(part.get("text"), str):
        return str(part["text"])
    if kind == "tool_use":
        return call_text(part)
    if kind == "tool_result":
        return result_text({"text": _text(part.get("content")), "error": part.get("is_error")})
    if kind in ("image", "image_url", "input_image", "document", "file", "input_file", "input_audio"):
        return f"[{kind}]"
    return json.dumps(part, ensure_ascii=False)


def _calls(calls: Any) -> Iterator[str]:
    for call in calls if isinstance(calls, list) else ():
        told = call.get("function") if isinstance(call, Mapping) else None
        if isinstance(told, Mapping):
            yield f"{told.get('name')} {told.get('arguments') or ''}".rstrip()
        else:
            yield json.dumps(call, ensure_ascii=False)


def _when(message: Mapping[str, Any]) -> tuple[str, str]:
    """The time of an entry as blocks have it; and a note where there is one that cannot be read."""
    value = next((message[name] for name in _TIMES if message.get(name) not in (None, "")), None)
    if value is None:
        return UNDATED, ""
    read = _from_number(value)
    if read is None and isinstance(value, str):
        text = value.strip()
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            read = None
        else:
            read = text if _TIME.fullmatch(text) else moment.isoformat()
    return (read, "") if read is not None else (UNDATED, f"(dated {str(value)[:100]})")


def _from_number(value: Any) -> str | None:
    """Seconds or milliseconds since 1970."""
    try:
        number = math.nan if isinstance(value, bool) else float(value)
        return stamp(datetime.fromtimestamp(number / 1000 if number > _MILLISECONDS else number, UTC))
    except (TypeError, ValueError, OverflowError):
        return None


def _of_session(document: Mapping[str, Any]) -> Iterator[Block]:
    """The turns of a session that swarmd has exported."""
    raw = document["session"]
    session: Mapping[str, Any] = raw if isinstance(raw, Mapping) else {}
    log = document["log"]
    events = [e for e in log.get("events") or () if isinstance(e, Mapping)]
    results = {str(e.get("id")): e for e in events if e.get("kind") == "tool_result"}
    began, ended = (str(session.get(name) or UNDATED) for name in ("started", "ended"))
    of = f"session {session.get('id')} of {session.get('agent')}"
    yield Block(role="user", at=began, text=f"{session.get('trigger')} ({of})")
    told = False
    for event in events:
        at = str(event.get("at") or UNDATED)
        if event.get("kind") == "text":
            told = True
            yield Block(role="assistant", at=at, text=str(event.get("text")))
        elif event.get("kind") == "tool_call":
            told = True
            result = results.get(str(event.get("id")))
            answer = f"\n\n{result_text(result)}" if result is not None else ""
            yield Block(role="tool", at=at, text=f"{call_text(event)}{answer}")
    output = str(log.get("output") or "")
    if not told and output.strip():
        yield Block(role="output", at=ended, text=output)
