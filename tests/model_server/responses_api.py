"""OpenAI's Responses API, as far as the Codex client speaks it: the same answers on another wire."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from tests.model_server.answers import Answer, Block, error
from tests.model_server.deltas import cut, pieces, text_of
from tests.model_server.playing import Frame
from tests.model_server.sent import new_id
from tests.model_server.usage import BYTES_PER_TOKEN, PromptCache

INCOMPLETE = {"max_tokens": "max_output_tokens", "refusal": "content_filter"}
CODES = {"overloaded_error": "server_is_overloaded", "rate_limit_error": "rate_limit_exceeded"}


def refused_input(body: Mapping[str, Any]) -> Answer | None:
    """The error for calls without outputs and outputs without calls."""
    items = body.get("input")
    if not isinstance(items, list):
        return None if isinstance(items, str) else error(400, "Missing required parameter: 'input'.")
    calls = [item["call_id"] for item in items if item.get("type") in {"function_call", "custom_tool_call"}]
    outputs = [item["call_id"] for item in items if str(item.get("type")).endswith("_call_output")]
    if lost := [call for call in outputs if call not in calls]:
        return error(400, f"No tool call found for function call output with call_id {lost[0]}.")
    if open_calls := [call for call in calls if call not in outputs]:
        return error(400, f"No tool output found for function call {open_calls[0]}.")
    return None


class ResponsesWire:
    """One answer to one request body."""

    ping = b": keepalive\n\n"

    def __init__(self, body: Mapping[str, Any], cache: PromptCache) -> None:
        self._body = body
        self._cache = cache
        self._number = -1

    def whole(self, answer: Answer) -> dict[str, Any]:
        items = _items(answer)
        return self._response(answer, items)

    def frames(self, answer: Answer) -> list[Frame]:
        items = _items(answer)
        last = self._response(answer, items)
        started = {**last, "status": "in_progress", "output": [], "usage": None, "incomplete_details": None}
        found = [self._frame("response.created", response=started)]
        for index, item in enumerate(items):
            found += self._item_frames(index, item, answer.pieces)
        done = "response.completed" if last["status"] == "completed" else "response.incomplete"
        return [*found, self._frame(done, response=last)]

    def error_body(self, error: Mapping[str, Any], request_id: str) -> dict[str, Any]:
        code = (error.get("details") or {}).get("error_code")
        return {"error": {"message": error["message"], "type": error["type"], "param": None, "code": code}}

    def error_frame(self, type: str, message: str) -> bytes:
        wrong = {"code": CODES.get(type, type), "message": message}
        failed = {
            "id": new_id("resp"),
            "object": "response",
            "status": "failed",
            "error": wrong,
            "output": [],
        }
        return self._frame("response.failed", response=failed).data

    def _frame(self, type: str, **fields: Any) -> Frame:
        self._number += 1
        data = json.dumps({"type": type, "sequence_number": self._number, **fields})
        return Frame(type, f"event: {type}\ndata: {data}\n\n".encode(), type.endswith(".delta"))

    def _response(self, answer: Answer, items: list[Block]) -> dict[str, Any]:
        reason = INCOMPLETE.get(answer.stop or "")
        return {
            "id": new_id("resp"),
            "object": "response",
            "created_at": int(time.time()),
            "model": self._body.get("model"),
            "status": "incomplete" if reason else "completed",
            "incomplete_details": {"reason": reason} if reason else None,
            "error": None,
            "output": items,
            "usage": self._usage(answer, items),
        }

    def _usage(self, answer: Answer, items: list[Block]) -> dict[str, Any]:
        """This API counts what was read from the cache as input, too."""
        fresh = len(json.dumps([self._body.get(name) for name in ("instructions", "tools", "input")]))
        usage = {
            "input_tokens": fresh // BYTES_PER_TOKEN,
            "output_tokens": len(json.dumps(items)) // BYTES_PER_TOKEN,
            "cache_read_input_tokens": 0,
            **answer.usage,
        }
        return {
            "input_tokens": usage["input_tokens"],
            "input_tokens_details": {"cached_tokens": usage["cache_read_input_tokens"]},
            "output_tokens": usage["output_tokens"],
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": usage["input_tokens"] + usage["output_tokens"],
        }

    def _item_frames(self, index: int, item: Block, count: int) -> Iterator[Frame]:
        where = {"output_index": index, "item_id": item.get("id")}
        match item["type"]:
            case "message":
                part = item["content"][0]
                yield self._added(index, {**item, "content": [], "status": "in_progress"})
                empty = {**part, "text": ""}
                yield self._frame("response.content_part.added", content_index=0, part=empty, **where)
                for words in pieces(part["text"], count):
                    yield self._frame("response.output_text.delta", content_index=0, delta=words, **where)
                yield self._frame("response.output_text.done", content_index=0, text=part["text"], **where)
                yield self._frame("response.content_part.done", content_index=0, part=part, **where)
            case "function_call":
                yield self._added(index, {**item, "arguments": "", "status": "in_progress"})
                for words in pieces(item["arguments"], count):
                    yield self._frame("response.function_call_arguments.delta", delta=words, **where)
                whole = item["arguments"]
                yield self._frame("response.function_call_arguments.done", arguments=whole, **where)
            case _:
                yield self._added(index, item)
        yield self._frame("response.output_item.done", output_index=index, item=item)

    def _added(self, index: int, item: Block) -> Frame:
        return self._frame("response.output_item.added", output_index=index, item=item)


def _items(answer: Answer) -> list[Block]:
    blocks = list(answer.blocks)
    texts = [text_of(block) for block in blocks]
    if answer.chars is not None:
        blocks, texts = cut(blocks, texts, answer.chars)
    return [_item(block, text or "") for block, text in zip(blocks, texts, strict=True)]


def _item(block: Block, text: str) -> Block:
    """The same in this API's words; a block that is neither text, thought nor call goes out as it is."""
    match block["type"]:
        case "text":
            part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
            made = {"type": "message", "role": "assistant", "status": "completed", "content": [part]}
            return {"id": new_id("msg"), **made}
        case "thinking":
            summary = [{"type": "summary_text", "text": text}]
            return {"id": new_id("rs"), "type": "reasoning", "summary": summary, "encrypted_content": None}
        case "tool_use":
            call = {"type": "function_call", "status": "completed", "name": block["name"], "arguments": text}
            named = {name: block[name] for name in ("namespace",) if name in block}
            return {"id": new_id("fc"), "call_id": block.get("id") or new_id("call"), **call, **named}
    return block


def in_namespace(answer: Answer, namespace: str) -> Answer:
    """The same calls, of tools that the client has put into a namespace (as Codex does with MCP servers)."""
    named = (
        {**block, "namespace": namespace} if block["type"] == "tool_use" else block for block in answer.blocks
    )
    return replace(answer, blocks=tuple(named))
