"""What the server has said, as far as it must know it again: the API refuses blocks that it never sent."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
from typing import Any

from tests.model_server.answers import Block

_numbers = itertools.count(1)


def new_id(prefix: str) -> str:
    """An id that looks like the API's own, and is never given twice."""
    return f"{prefix}_01{next(_numbers):022d}"


def signature_of(thought: str) -> str:
    """The same thought has the same signature in every server, so that sessions may go on in another one."""
    return base64.b64encode(hashlib.sha256(b"signed:" + thought.encode()).digest()).decode()


def canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def is_thought(block: Block) -> bool:
    return block.get("type") in {"thinking", "redacted_thinking"}


class Sent:
    """The server's memory of its own answers."""

    def __init__(self) -> None:
        self._blocks: set[str] = set()
        self._thoughts: set[tuple[str, str]] = set()
        self._thoughts_by_call: dict[str, list[Block]] = {}
        self._paused: set[str] = set()

    def remember(self, message: dict[str, Any]) -> None:
        content = message["content"]
        thoughts = [block for block in content if is_thought(block)]
        for block in content:
            self._blocks.add(canonical(block))
            if block["type"] == "thinking":
                self._thoughts.add((block["thinking"], block["signature"]))
            elif block["type"] == "tool_use":
                self._thoughts_by_call[block["id"]] = thoughts
        if message["stop_reason"] == "pause_turn":
            self._paused.add(canonical(content))

    def has_block(self, block: Block) -> bool:
        return (
            canonical({key: value for key, value in block.items() if key != "cache_control"}) in self._blocks
        )

    def has_thought(self, thought: str, signature: str) -> bool:
        """An omitted thought is empty, and only its signature counts."""
        known = signature == signature_of(thought) or (thought, signature) in self._thoughts
        return known or (not thought and bool(signature))

    def thoughts_before(self, call_id: str) -> list[Block] | None:
        """The thoughts of the turn that made this call; None if it was not made here."""
        return self._thoughts_by_call.get(call_id)

    def has_paused_with(self, content: list[Block]) -> bool:
        return canonical(content) in self._paused
