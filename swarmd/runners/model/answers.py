"""One answer of the model, put together from the events of its stream; it asks nobody and knows no network.

What a block holds is kept as it came, also where this program does not know its type, since it goes back unchanged.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from swarmd.core.wire import Usage
from swarmd.runners.reading import number

JSON = dict[str, Any]


class Incomplete(Exception):
    """The stream has ended before the answer was whole; nothing of it may be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A whole answer. `cut` are the ids of tool calls whose arguments are not whole: they must not be carried out."""

    content: tuple[JSON, ...]
    stop: str
    stop_details: Mapping[str, Any] = field(default_factory=dict)
    usage: Usage = field(default_factory=Usage)
    model: str = ""
    cut: frozenset[str] = frozenset()

    @property
    def text(self) -> str:
        """What it says, without calls and thoughts."""
        return "\n".join(block["text"] for block in self.content if _has_text(block)).strip()

    @property
    def calls(self) -> tuple[JSON, ...]:
        """The calls of our tools, in order."""
        return tuple(block for block in self.content if block.get("type") == "tool_use")

    @property
    def context(self) -> int:
        """How many tokens of the model's window the conversation takes up with this answer, as reported."""
        usage = self.usage
        return sum(
            part or 0 for part in (usage.tokens_in, usage.cache_read, usage.cache_write, usage.tokens_out)
        )


def _has_text(block: JSON) -> bool:
    return block.get("type") == "text" and isinstance(block.get("text"), str)


class Assembly:
    """Takes the events of one stream, as objects of the Messages API, in order."""

    def __init__(self) -> None:
        self._blocks: dict[int, JSON] = {}
        self._arguments: dict[int, list[str]] = {}
        self._closed: set[int] = set()
        self._stop: str | None = None
        self._details: JSON = {}
        self._usage: JSON = {}
        self._model = ""
        self._begun = self._ended = False

    @property
    def begun(self) -> bool:
        """Whether any of the answer has come."""
        return self._begun

    @property
    def ended(self) -> bool:
        """Whether its last event has come."""
        return self._ended

    @property
    def usage(self) -> Usage:
        """What it has cost so far, as far as that was told: also of an answer that broke off."""
        return _usage(self._usage)

    def feed(self, event: Mapping[str, Any]) -> None:
        """The next event; one of a type that is not known says nothing."""
        match event.get("type"):
            case "message_start":
                message = _object(event.get("message"))
                self._begun = True
                self._model = str(message.get("model") or "")
                self._add_usage(message.get("usage"))
            case "content_block_start":
                self._start(event)
            case "content_block_delta":
                self._extend(event)
            case "content_block_stop":
                self._closed.add(_index(event))
            case "message_delta":
                delta = _object(event.get("delta"))
                self._stop = delta.get("stop_reason") or self._stop
                self._details = _object(delta.get("stop_details")) or self._details
                self._add_usage(event.get("usage"))
            case "message_stop":
                self._ended = True
            case _:
                pass

    def finish(self) -> Answer:
        """The answer. Raises Incomplete where the stream ended without saying so."""
        if not self._begun:
            raise Incomplete("the answer was empty: it holds no message of the Messages API")
        if not self._ended or self._stop is None:
            raise Incomplete("the answer was cut off before its end")
        cut = set()
        for index in sorted(self._blocks):
            if not self._take_arguments(index):
                cut.add(str(self._blocks[index].get("id")))
        return Answer(
            content=tuple(self._blocks[index] for index in sorted(self._blocks)),
            stop=str(self._stop),
            stop_details=self._details,
            usage=_usage(self._usage),
            model=self._model,
            cut=frozenset(cut),
        )

    def _start(self, event: Mapping[str, Any]) -> None:
        index = _index(event)
        self._blocks[index] = _object(event.get("content_block"))

    def _extend(self, event: Mapping[str, Any]) -> None:
        index, delta = _index(event), _object(event.get("delta"))
        block = self._blocks.get(index)
        if block is None:
            raise Incomplete("the answer is out of order: a piece of a block came before its beginning")
        match delta.get("type"):
            case "text_delta":
                block["text"] = f"{block.get('text') or ''}{delta.get('text', '')}"
            case "input_json_delta":
                self._arguments.setdefault(index, []).append(str(delta.get("partial_json") or ""))
            case "thinking_delta":
                block["thinking"] = f"{block.get('thinking') or ''}{delta.get('thinking', '')}"
            case "signature_delta":
                block["signature"] = delta.get("signature", "")
            case "citations_delta":
                known = block.get("citations")
                block["citations"] = [*(known if isinstance(known, list) else ()), delta.get("citation")]
            case _:
                pass

    def _take_arguments(self, index: int) -> bool:
        """Put a call's arguments into its block; False where they are not whole."""
        block, pieces = self._blocks[index], self._arguments.get(index)
        if block.get("type") not in ("tool_use", "server_tool_use"):
            return True
        text = "".join(pieces or ())
        if not text and self._is_whole(index):
            block.setdefault("input", {})
            return isinstance(block["input"], dict)
        try:
            found = json.loads(text)
            json.dumps(found, allow_nan=False)  # what cannot be sent back cannot be kept in the conversation
        except (ValueError, RecursionError):
            found = None
        whole = isinstance(found, dict) and index in self._closed
        block["input"] = found if whole else {}
        return whole

    def _is_whole(self, index: int) -> bool:
        """A call without arguments is whole, unless it was the last that came before the answer was cut."""
        return index in self._closed and not (self._stop == "max_tokens" and index == max(self._blocks))

    def _add_usage(self, usage: Any) -> None:
        # The later figures are totals, and some are left out where they have not changed.
        if isinstance(usage, Mapping):
            self._usage |= {name: value for name, value in usage.items() if value is not None}


def _object(value: Any) -> JSON:
    return dict(value) if isinstance(value, Mapping) else {}


def _index(event: Mapping[str, Any]) -> int:
    index = event.get("index")
    if not isinstance(index, int):
        raise Incomplete("the answer is out of order: a block has no number")
    return index


def _usage(raw: JSON) -> Usage:
    return Usage(
        tokens_in=number(raw.get("input_tokens")),
        tokens_out=number(raw.get("output_tokens")),
        cache_read=number(raw.get("cache_read_input_tokens")),
        cache_write=number(raw.get("cache_creation_input_tokens")),
    )
