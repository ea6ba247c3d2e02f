"""What a request costs: tokens by size, and a prompt cache that remembers prefixes byte by byte."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.model_server.sent import is_thought

BYTES_PER_TOKEN = 4
LOOK_BACK = 20
"""So many blocks before a breakpoint are looked up, as the API does it."""


@dataclass(frozen=True)
class Prefix:
    """A request from its start to the end of one block. `ttl` where the block has a breakpoint."""

    digest: bytes
    tokens: int
    ttl: str | None


def prefixes(body: dict[str, Any]) -> list[Prefix]:
    """One for each block, in the order in which the API reads them: tools, system, messages."""
    found = []
    digest, size = hashlib.sha256(), 0
    blocks = list(_blocks(body))
    last = max((n for n, (_, block) in enumerate(blocks) if _is_cacheable(block)), default=None)
    for number, (place, block) in enumerate(blocks):
        mark = block.get("cache_control") or (body.get("cache_control") if number == last else None)
        bare = {key: value for key, value in block.items() if key != "cache_control"}
        data = json.dumps([place, bare]).encode()
        digest.update(data)
        size += len(data)
        ttl = mark.get("ttl", "5m") if isinstance(mark, dict) else None
        found.append(Prefix(digest.digest(), size // BYTES_PER_TOKEN, ttl))
    return found


def _blocks(body: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for tool in body.get("tools") or ():
        yield "tool", tool
    for block in as_blocks(body.get("system") or ()):
        yield "system", block
    for message in body.get("messages") or ():
        for block in as_blocks(message.get("content") or ()):
            yield str(message.get("role")), block


def as_blocks(content: Any) -> list[dict[str, Any]]:
    """A plain string is shorthand for one text block."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [block for block in content if isinstance(block, dict)]


def _is_cacheable(block: dict[str, Any]) -> bool:
    return not is_thought(block) and block.get("text") != ""


def input_tokens(body: dict[str, Any]) -> int:
    found = prefixes(body)
    return max(1, found[-1].tokens) if found else 1


class PromptCache:
    """Prefixes seen, each model's own. What is shorter than `minimum` tokens is not kept."""

    def __init__(self, minimum: int = 0) -> None:
        self.minimum = minimum
        self._kept: set[tuple[str, bytes]] = set()

    def forget(self) -> None:
        """As when the five minutes are over."""
        self._kept.clear()

    def usage(self, body: dict[str, Any]) -> dict[str, Any]:
        """What the request reads, writes and costs beyond that; what it writes is kept."""
        model, found = str(body.get("model")), prefixes(body)
        marks = [n for n, prefix in enumerate(found) if prefix.ttl and prefix.tokens >= self.minimum]
        read = max((self._hit(model, found, mark) for mark in marks), default=0)
        written, by_ttl = read, {"5m": 0, "1h": 0}
        for mark in marks:
            prefix = found[mark]
            self._kept.add((model, prefix.digest))
            if prefix.tokens > written:
                by_ttl["1h" if prefix.ttl == "1h" else "5m"] += prefix.tokens - written
                written = prefix.tokens
        total = max(1, found[-1].tokens) if found else 1
        return {
            "input_tokens": total - written,
            "cache_creation_input_tokens": written - read,
            "cache_read_input_tokens": read,
            "cache_creation": {
                "ephemeral_5m_input_tokens": by_ttl["5m"],
                "ephemeral_1h_input_tokens": by_ttl["1h"],
            },
        }

    def _hit(self, model: str, found: list[Prefix], mark: int) -> int:
        for prefix in reversed(found[max(0, mark - LOOK_BACK + 1) : mark + 1]):
            if (model, prefix.digest) in self._kept:
                return prefix.tokens
        return 0
