"""What of a block comes in deltas, how much that is, and how an answer is cut in its middle."""

from __future__ import annotations

import json

from tests.model_server.answers import JSON_TEXT, Block

FULL_TEXT = {"text": "text", "thinking": "thinking"}
"""Blocks whose text comes in deltas, and the field that holds it."""


def text_of(block: Block) -> str | None:
    """What comes in deltas; None where the block comes whole."""
    if JSON_TEXT in block:
        return str(block[JSON_TEXT])
    if block["type"] in {"tool_use", "server_tool_use"}:
        return json.dumps(block.get("input", {}))
    field = FULL_TEXT.get(block["type"])
    return str(block[field]) if field else None


def size(content: list[Block], texts: list[str | None]) -> int:
    """In characters: deltas by their text, other blocks by their JSON."""
    pairs = zip(content, texts, strict=True)
    return sum(len(text if text is not None else json.dumps(block)) for block, text in pairs)


def cut(content: list[Block], texts: list[str | None], chars: int) -> tuple[list[Block], list[str | None]]:
    """The first so many characters; a cut tool call has no input in the whole message, as in the API."""
    kept: list[Block] = []
    kept_texts: list[str | None] = []
    for block, text in zip(content, texts, strict=True):
        if chars <= 0:
            break
        whole = text is None or len(text) <= chars
        field = FULL_TEXT.get(block["type"])
        short = {field: (text or "")[:chars]} if field else {"input": {}}
        kept.append(block if whole else {**block, **short})
        kept_texts.append(text if whole or text is None else text[:chars])
        chars -= len(text or "")
    return kept, kept_texts


def pieces(text: str, count: int) -> list[str]:
    """The text in so many parts, as far as it has characters."""
    size = max(1, -(-len(text) // count))
    return [text[start : start + size] for start in range(0, len(text), size)]
