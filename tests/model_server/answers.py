"""What the model answers: a constructor for each thing that it can say, and for each thing that can go wrong.

An answer is a value and may be used as often as one likes; ids and signatures are made when it is played.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

Block = dict[str, Any]
"""A content block as it stands on the wire. `JSON_TEXT` in a tool call is the text of its input, broken or not."""

JSON_TEXT = "__json_text"
ERROR_TYPES = {
    400: "invalid_request_error", 401: "authentication_error", 402: "billing_error", 403: "permission_error",
    404: "not_found_error", 408: "timeout_error", 409: "conflict_error", 413: "request_too_large",
    429: "rate_limit_error", 500: "api_error", 502: "api_error", 503: "api_error", 504: "timeout_error",
    529: "overloaded_error",
}  # fmt: skip
ERROR_TEXTS = {
    401: "invalid x-api-key", 403: "Your API key does not have permission to use the specified resource.",
    404: "Not found", 413: "Request exceeds the maximum size", 500: "Internal server error", 529: "Overloaded",
    429: "This request would exceed your organization's rate limit. Please try again later.",
}  # fmt: skip


class Gate:
    """Answers wait at it until a test opens it, from whatever thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open = False
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    def open(self) -> None:
        with self._lock:
            self._open = True
            waiting, self._waiting = self._waiting, []
        for loop, event in waiting:
            if not loop.is_closed():
                loop.call_soon_threadsafe(event.set)

    async def wait(self) -> None:
        with self._lock:
            if self._open:
                return
            event = asyncio.Event()
            self._waiting.append((asyncio.get_running_loop(), event))
        await event.wait()


@dataclass(frozen=True, kw_only=True)
class Place:
    """A place in an answer: before its headers, or after so many events or deltas of its stream."""

    count: int | None = None
    deltas: bool = False

    @classmethod
    def of(cls, deltas: int | None, events: int | None) -> Place:
        assert deltas is None or events is None, "count either deltas or events"
        return cls(count=deltas, deltas=True) if deltas is not None else cls(count=events)


@dataclass(frozen=True, kw_only=True)
class Fault:
    """What goes wrong, and where. `data` is for "say", `error` for "error", `every` for "ping"."""

    kind: Literal["close", "reset", "hang", "ping", "error", "say"]
    at: Place
    data: bytes = b""
    error: tuple[str, str] = ("", "")
    every: float = 0.05


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One answer: blocks and a stop reason, or an error, or any other body; and how it goes out."""

    blocks: tuple[Block, ...] = ()
    stop: str | None = "end_turn"
    stop_details: Mapping[str, Any] | None = None
    stop_sequence: str | None = None
    usage: Mapping[str, int] = field(default_factory=dict)
    status: int = 200
    error: Mapping[str, Any] | None = None
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    pieces: int = 4
    chars: int | None = None
    before: float = 0.0
    between: float = 0.0
    gate: Gate | None = None
    left_out: frozenset[str] = frozenset()
    fault: Fault | None = None

    def __add__(self, other: Answer) -> Answer:
        """The blocks of both, in order; all else as the second has it."""
        return replace(other, blocks=self.blocks + other.blocks)

    # -- how it goes out ------------------------------------------------------------------------------------

    def slow(self, *, before: float = 0.0, between: float = 0.0) -> Self:
        """Waits so many seconds before its headers, and between any two events."""
        return replace(self, before=before, between=between)

    def behind(self, gate: Gate) -> Self:
        """Waits at the gate, before its headers."""
        return replace(self, gate=gate)

    def split(self, pieces: int) -> Self:
        """Each text, thought or tool input comes in so many deltas (4 otherwise)."""
        return replace(self, pieces=pieces)

    def with_headers(self, headers: Mapping[str, str]) -> Self:
        return replace(self, headers={**self.headers, **headers})

    def costs(
        self,
        *,
        input: int | None = None,
        output: int | None = None,
        cache_read: int | None = None,
        cache_creation: int | None = None,
    ) -> Self:
        """The usage that it reports, as far as given; the rest is computed from the request."""
        given = {
            "input_tokens": input,
            "output_tokens": output,
            "cache_read_input_tokens": cache_read,
            "cache_creation_input_tokens": cache_creation,
        }
        return replace(self, usage={name: count for name, count in given.items() if count is not None})

    # -- what goes wrong ------------------------------------------------------------------------------------

    def cut(self, chars: int, stop: str = "max_tokens") -> Self:
        """Ends after so many characters of text, thoughts and tool inputs, in the middle of a block if need be."""
        return replace(self, chars=chars, stop=stop)

    def closing(self, *, deltas: int | None = None, events: int | None = None) -> Self:
        """The connection is closed there (no place: before the headers), as by a crash."""
        return replace(self, fault=Fault(kind="close", at=Place.of(deltas, events)))

    def resetting(self, *, deltas: int | None = None, events: int | None = None) -> Self:
        """The connection is reset there (no place: before the headers)."""
        return replace(self, fault=Fault(kind="reset", at=Place.of(deltas, events)))

    def hanging(self, *, deltas: int | None = None, events: int | None = None) -> Self:
        """Nothing comes any more (no place: no headers either); the connection stays open."""
        return replace(self, fault=Fault(kind="hang", at=Place.of(deltas, events)))

    def pinging(self, *, deltas: int | None = None, events: int | None = 0, every: float = 0.05) -> Self:
        """Only pings come from there on, for ever."""
        at = Place.of(deltas, None if deltas is not None else events)
        return replace(self, fault=Fault(kind="ping", at=at, every=every))

    def failing(
        self,
        type: str = "overloaded_error",
        message: str = "Overloaded",
        *,
        deltas: int | None = None,
        events: int | None = 0,
    ) -> Self:
        """An error event comes there, inside the stream with status 200, and ends it."""
        at = Place.of(deltas, None if deltas is not None else events)
        return replace(self, fault=Fault(kind="error", at=at, error=(type, message)))

    def saying(self, data: bytes, *, deltas: int | None = None, events: int | None = 0) -> Self:
        """These bytes stand in the stream there; then it goes on."""
        at = Place.of(deltas, None if deltas is not None else events)
        return replace(self, fault=Fault(kind="say", at=at, data=data))

    def without(self, *types: str) -> Self:
        """Events of these types (such as "message_stop") do not come."""
        return replace(self, left_out=frozenset(types))


# -- what a model says --------------------------------------------------------------------------------------


def text(words: str = "ok", *, stop: str | None = "end_turn") -> Answer:
    return Answer(blocks=({"type": "text", "text": words},), stop=stop)


def call(name: str, input: Mapping[str, Any] | None = None, /, **more: Any) -> Block:
    """A tool call, for `tools`."""
    return {"type": "tool_use", "name": name, "input": {**(input or {}), **more}}


def call_json(name: str, json_text: str) -> Block:
    """A tool call whose input is this text, which need not be JSON."""
    return {"type": "tool_use", "name": name, "input": {}, JSON_TEXT: json_text}


def tools(*calls: Block, text: str | None = None, stop: str | None = "tool_use") -> Answer:
    """Calls tools, in parallel if several, perhaps after a word."""
    words = [{"type": "text", "text": text}] if text is not None else []
    return Answer(blocks=(*words, *calls), stop=stop)


def thinking(thought: str, *, signature: str | None = None) -> Answer:
    """A thought: `thinking("hm") + tools(...)`. A signature is made for it."""
    signed = {"signature": signature} if signature is not None else {}
    return Answer(blocks=({"type": "thinking", "thinking": thought, **signed},))


def redacted(data: str = "bm8gb25lIHJlYWRzIHRoaXM=") -> Answer:
    return Answer(blocks=({"type": "redacted_thinking", "data": data},))


def blocks(*raw: Block, stop: str | None = "end_turn") -> Answer:
    """Blocks as they are, known to anyone or not: `blocks({"type": "hologram"})`."""
    return Answer(blocks=raw, stop=stop)


def search(query: str = "news") -> Answer:
    """A server tool's call alone; `found` holds its result."""
    return Answer(blocks=({"type": "server_tool_use", "name": "web_search", "input": {"query": query}},))


def found(*results: Block) -> Answer:
    """The result of the last server tool call, in this answer or in the one before it."""
    return Answer(blocks=({"type": "web_search_tool_result", "content": list(results)},))


def pause(query: str = "news") -> Answer:
    """A long turn is paused within a server tool call."""
    return replace(search(query), stop="pause_turn")


def refusal(
    words: str | None = None, *, category: str | None = "cyber", explanation: str | None = None
) -> Answer:
    said = text(words).blocks if words is not None else ()
    details = {"type": "refusal", "category": category, "explanation": explanation}
    return Answer(blocks=said, stop="refusal", stop_details=details)


# -- what goes wrong ----------------------------------------------------------------------------------------


def error(
    status: int,
    message: str | None = None,
    *,
    type: str | None = None,
    code: str | None = None,
    details: Mapping[str, Any] | None = None,
    retry_after: float | str | None = None,
    should_retry: bool | None = None,
) -> Answer:
    """An HTTP error with the API's body. `code` is `error.details.error_code`, `retry_after` seconds or a date."""
    if code is not None:
        details = {**(details or {}), "error_code": code}
    body: dict[str, Any] = {
        "type": type or ERROR_TYPES.get(status, "api_error" if status >= 500 else "invalid_request_error"),
        "message": message or ERROR_TEXTS.get(status, "Error"),
    }
    if details:
        body["details"] = dict(details)
    headers = {}
    if retry_after is not None:
        headers["retry-after"] = str(retry_after)
    if should_retry is not None:
        headers["x-should-retry"] = json.dumps(should_retry)
    return Answer(status=status, error=body, headers=headers)


def too_long(tokens: int = 205_472, maximum: int = 200_000) -> Answer:
    return error(400, f"prompt is too long: {tokens} tokens > {maximum} maximum")


def spend_limit(code: str = "enforced_spend_limit_reached", *, retry_after: float | None = None) -> Answer:
    message = "Your organization has reached its spend limit."
    return error(429, message, code=code, retry_after=retry_after, should_retry=False)


def plain(body: bytes | str, content_type: str = "application/json", *, status: int = 200) -> Answer:
    """Any other body."""
    body = body.encode() if isinstance(body, str) else body
    return Answer(body=body, status=status, headers={"content-type": content_type})


def html(status: int = 200) -> Answer:
    """What a gateway or a captive portal says in place of the API."""
    return plain("<html><body><h1>Welcome</h1></body></html>", "text/html; charset=utf-8", status=status)


def empty_object() -> Answer:
    return plain("{}")


def hang() -> Answer:
    return Answer().hanging()


def reset() -> Answer:
    return Answer().resetting()


def closed() -> Answer:
    return Answer().closing()


def bad_json_line() -> Answer:
    """A stream in which one line is no JSON."""
    line = b'event: content_block_delta\ndata: {"type": "content_block_delta", "index\n\n'
    return text("one two three").saying(line, deltas=1)


def giant(megabytes: float = 3) -> Answer:
    """A text of so many megabytes in one line of the stream."""
    return text("x" * int(megabytes * 1_000_000)).split(1)
