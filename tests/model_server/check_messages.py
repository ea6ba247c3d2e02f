"""Refuses messages as the Messages API does: roles, blocks, tool calls and their results, thoughts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from tests.model_server.answers import Block
from tests.model_server.sent import Sent, canonical, is_thought

CALL_ID = re.compile(r"[a-zA-Z0-9_-]+")
BLOCK_FIELDS = {
    "text": {"text", "citations"},
    "thinking": {"thinking", "signature"},
    "redacted_thinking": {"data"},
    "tool_use": {"id", "name", "input", "caller", "toolset_name"},
    "tool_result": {"tool_use_id", "content", "is_error", "toolset_name"},
    "server_tool_use": {"id", "name", "input", "caller"},
}
"""What each block may have beside `type` and `cache_control`; other known types are not looked into."""

OTHER_TYPES = frozenset({
    "bash_code_execution_tool_result", "code_execution_tool_result", "compaction", "container_upload", "document",
    "image", "mcp_tool_result", "mcp_tool_use", "search_result", "text_editor_code_execution_tool_result",
    "tool_reference", "tool_search_tool_result", "web_fetch_tool_result", "web_search_tool_result",
})  # fmt: skip
ROLE_OF = {
    "tool_result": "user", "tool_use": "assistant", "thinking": "assistant",
    "redacted_thinking": "assistant", "server_tool_use": "assistant",
}  # fmt: skip


def message_complaints(body: Mapping[str, Any], sent: Sent) -> Iterator[str]:
    """All that is wrong with the messages, the first reason first."""
    messages = body["messages"]
    if not isinstance(messages, list):
        yield "messages: Input should be a valid list"
        return
    if not messages:
        yield "messages: at least one message is required"
        return
    for number, message in enumerate(messages):
        yield from _shape(number, message, is_last=number == len(messages) - 1)
        for place, block in enumerate(_content(message)):
            yield from _block(f"messages.{number}.content.{place}", block, message["role"], sent)
    if messages[0]["role"] != "user":
        yield 'messages: first message must use the "user" role'
    turns = _turns(messages)
    yield from _pairs(turns)
    yield from _thoughts(turns, sent)
    yield from _ending(turns, sent)


def _content(message: Mapping[str, Any]) -> list[Block]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _shape(number: int, message: Any, *, is_last: bool) -> Iterator[str]:
    if not isinstance(message, dict):
        yield f"messages.{number}: Input should be a valid dictionary"
        return
    if message.get("role") not in {"user", "assistant", "system"}:
        yield f"messages.{number}.role: Input should be 'user' or 'assistant'"
    for name in message.keys() - {"role", "content"}:
        yield f"messages.{number}.{name}: Extra inputs are not permitted"
    content = message.get("content")
    if content is None:
        yield f"messages.{number}.content: Field required"
    elif not isinstance(content, (str, list)):
        yield f"messages.{number}.content: Input should be a valid list"
    elif not content and not (is_last and message.get("role") == "assistant"):
        yield (
            f"messages.{number}: all messages must have non-empty content "
            "except for the optional final assistant message"
        )


def _block(place: str, block: Any, role: str, sent: Sent) -> Iterator[str]:
    kind = block.get("type") if isinstance(block, dict) else None
    if not isinstance(kind, str):
        yield f"{place}.type: Field required"
        return
    if kind not in BLOCK_FIELDS and kind not in OTHER_TYPES and not sent.has_block(block):
        yield f"{place}: Input tag '{kind}' found using 'type' does not match any of the expected tags"
    if ROLE_OF.get(kind, role) != role:
        yield f"{place}: `{kind}` blocks can only be in `{ROLE_OF[kind]}` messages"
    if kind in BLOCK_FIELDS:
        for name in block.keys() - BLOCK_FIELDS[kind] - {"type", "cache_control"}:
            yield f"{place}.{kind}.{name}: Extra inputs are not permitted"
    match kind:
        case "text":
            yield from _text(place, block)
        case "tool_use" | "server_tool_use":
            yield from _call(f"{place}.{kind}", block)
        case "tool_result":
            yield from _result(f"{place}.tool_result", block)
        case "thinking":
            yield from _thought(place, block, sent)


def _text(place: str, block: Block) -> Iterator[str]:
    text = block.get("text")
    if not isinstance(text, str):
        yield f"{place}.text.text: Input should be a valid string"
    elif not text:
        yield "messages: text content blocks must be non-empty"
    elif not text.strip():
        yield "messages: text content blocks must contain non-whitespace text"


def _call(place: str, block: Block) -> Iterator[str]:
    if not isinstance(block.get("id"), str) or not CALL_ID.fullmatch(block["id"]):
        yield f"{place}.id: String should match pattern '^[a-zA-Z0-9_-]+$'"
    if not isinstance(block.get("name"), str) or not block["name"]:
        yield f"{place}.name: String should have at least 1 character"
    if not isinstance(block.get("input"), dict):
        yield f"{place}.input: Input should be a valid dictionary"


def _result(place: str, block: Block) -> Iterator[str]:
    if not isinstance(block.get("tool_use_id"), str):
        yield f"{place}.tool_use_id: Field required"
    content = block.get("content")
    if content is not None and not isinstance(content, (str, list)):
        yield f"{place}.content: Input should be a valid list"
    elif block.get("is_error") and not content:
        yield f"{place}: content cannot be empty if `is_error` is true"
    for part in content if isinstance(content, list) else ():
        kind = part.get("type") if isinstance(part, dict) else None
        if kind not in {"text", "image", "search_result", "document", "tool_reference", "browser_state"}:
            yield f"{place}.content: Input tag {kind!r} does not match any of the expected tags"
        elif kind == "text" and not part.get("text"):
            yield "messages: text content blocks must be non-empty"


def _thought(place: str, block: Block, sent: Sent) -> Iterator[str]:
    thought, signature = block.get("thinking"), block.get("signature")
    if not isinstance(signature, str) or not isinstance(thought, str):
        yield f"{place}.thinking.signature: Field required"
    elif not sent.has_thought(thought, signature):
        yield f"{place}: Invalid `signature` in `thinking` block"


def _turns(messages: list[dict[str, Any]]) -> list[tuple[int, str, list[Block]]]:
    """Where each turn starts, its role and its blocks: neighbours of one role are one turn."""
    turns: list[tuple[int, str, list[Block]]] = []
    for number, message in enumerate(messages):
        if turns and turns[-1][1] == message["role"]:
            turns[-1][2].extend(_content(message))
        else:
            turns.append((number, message["role"], list(_content(message))))
    return turns


def _ids(blocks: list[Block], kind: str, field: str) -> list[str]:
    return [block[field] for block in blocks if block["type"] == kind]


def _pairs(turns: list[tuple[int, str, list[Block]]]) -> Iterator[str]:
    """Each call has its one result in the turn after it, and each result its call in the turn before."""
    all_calls = Counter(call for _, _, blocks in turns for call in _ids(blocks, "tool_use", "id"))
    if any(count > 1 for count in all_calls.values()):
        yield "messages: `tool_use` ids must be unique"
    for at, (number, role, blocks) in enumerate(turns):
        after = turns[at + 1][2] if at + 1 < len(turns) else None
        if role == "assistant":
            yield from _server_calls(number, blocks, after)
            yield from _calls(number, blocks, after or [])
        else:
            before = _ids(turns[at - 1][2], "tool_use", "id") if at else []
            yield from _results(number, blocks, before)


def _calls(number: int, blocks: list[Block], after: list[Block]) -> Iterator[str]:
    calls = _ids(blocks, "tool_use", "id")
    # Results come first in their message: what stands behind other content is not immediately after.
    first = next((n for n, block in enumerate(after) if block["type"] != "tool_result"), len(after))
    answered = _ids(after[:first], "tool_result", "tool_use_id")
    missing = [call for call in calls if call not in answered]
    if missing:
        yield (
            f"messages.{number}: `tool_use` ids were found without `tool_result` blocks immediately after: "
            f"{', '.join(missing)}. Each `tool_use` block must have a corresponding `tool_result` block "
            "in the next message."
        )


def _results(number: int, blocks: list[Block], calls: list[str]) -> Iterator[str]:
    seen: Counter[str] = Counter()
    for place, block in enumerate(blocks):
        if block["type"] != "tool_result":
            continue
        call = block["tool_use_id"]
        seen[call] += 1
        if call not in calls:
            yield (
                f"messages.{number}.content.{place}: unexpected `tool_use_id` found in `tool_result` blocks: "
                f"{call}. Each `tool_result` block must have a corresponding `tool_use` block "
                "in the previous message."
            )
        elif seen[call] > 1:
            yield (
                f"messages.{number}.content.{place}: each tool_use must have a single result. "
                f"Found multiple `tool_result` blocks with id: {call}"
            )


def _server_calls(number: int, blocks: list[Block], after: list[Block] | None) -> Iterator[str]:
    """A paused turn ends the request; once the user has spoken after it, its call has no result any more."""
    if after is None:
        return
    answered = {block.get("tool_use_id") for block in blocks if block["type"] != "tool_result"}
    for block in blocks:
        if block["type"] == "server_tool_use" and block["id"] not in answered:
            name = block["name"]
            yield (
                f"messages.{number}: `{name}` tool use with id `{block['id']}` was found "
                f"without a corresponding `{name}_tool_result` block"
            )


def _thoughts(turns: list[tuple[int, str, list[Block]]], sent: Sent) -> Iterator[str]:
    """The thoughts that led to the last calls come back as they were."""
    number, _, blocks = next((turn for turn in reversed(turns) if turn[1] == "assistant"), (0, "", []))
    calls = _ids(blocks, "tool_use", "id")
    said = sent.thoughts_before(calls[-1]) if calls else None
    bare = [{k: v for k, v in block.items() if k != "cache_control"} for block in blocks if is_thought(block)]
    if said and [canonical(block) for block in said] != [canonical(block) for block in bare][-len(said) :]:
        yield (
            f"messages.{number}.content.0: `thinking` or `redacted_thinking` blocks in the latest assistant message "
            "cannot be modified. These blocks must remain as they were in the original response."
        )


def _ending(turns: list[tuple[int, str, list[Block]]], sent: Sent) -> Iterator[str]:
    """Only a paused turn may be the last word: these models take no prefill."""
    _, role, blocks = turns[-1]
    paused = any(block["type"] == "server_tool_use" for block in blocks) or sent.has_paused_with(blocks)
    if role == "assistant" and not paused:
        yield (
            "This model does not support assistant message prefill. "
            "The conversation must end with a user message."
        )
