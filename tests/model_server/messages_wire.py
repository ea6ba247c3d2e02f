"""Anthropic's Messages API as it stands on the wire: documents, events, errors."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from tests.model_server.answers import JSON_TEXT, Answer, Block
from tests.model_server.deltas import cut, pieces, size, text_of
from tests.model_server.playing import Frame
from tests.model_server.sent import Sent, new_id, signature_of
from tests.model_server.usage import BYTES_PER_TOKEN, PromptCache, as_blocks


def frame(type: str, **fields: Any) -> Frame:
    data = json.dumps({"type": type, **fields})
    return Frame(type, f"event: {type}\ndata: {data}\n\n".encode(), type == "content_block_delta")


class MessagesWire:
    """One answer to one request body. What is said is remembered in `sent`, what is read in `cache`."""

    ping = frame("ping").data

    def __init__(self, body: Mapping[str, Any], sent: Sent, cache: PromptCache) -> None:
        self._body = body
        self._sent = sent
        self._cache = cache

    def whole(self, answer: Answer) -> dict[str, Any]:
        message, _ = self._message(answer)
        return message

    def frames(self, answer: Answer) -> list[Frame]:
        message, texts = self._message(answer)
        usage = message["usage"]
        started = {**message, "content": [], "stop_reason": None, "stop_sequence": None, "stop_details": None}
        started["usage"] = {**usage, "output_tokens": min(1, usage["output_tokens"])}
        first = frame("message_start", message=started)
        # The API sends a ping soon after the start; whoever counts events does not see it.
        found = [replace(first, data=first.data + self.ping)]
        for index, block in enumerate(message["content"]):
            found += _block_frames(index, block, texts[index], answer.pieces)
        delta = {name: message[name] for name in ("stop_reason", "stop_sequence", "stop_details")}
        # As in the API: cumulative counts without the breakdown of the start.
        counts = {
            name: value
            for name, value in usage.items()
            if name.endswith("tokens") or name == "server_tool_use"
        }
        found.append(frame("message_delta", delta=delta, usage=counts))
        found.append(frame("message_stop"))
        return found

    def error_body(self, error: Mapping[str, Any], request_id: str) -> dict[str, Any]:
        return {"type": "error", "error": dict(error), "request_id": request_id}

    def error_frame(self, type: str, message: str) -> bytes:
        error = {"type": type, "message": message, "details": None}
        return frame("error", error=error, request_id=new_id("req")).data

    def _message(self, answer: Answer) -> tuple[dict[str, Any], list[str | None]]:
        """The whole message, and for each block the text that its deltas bring."""
        content = list(self._filled(answer))
        texts = [text_of(block) for block in content]
        chars, stop = answer.chars, answer.stop
        limit = self._body.get("max_tokens")
        if isinstance(limit, int) and "output_tokens" not in answer.usage:
            allowed = limit * BYTES_PER_TOKEN
            if min(chars or size(content, texts), size(content, texts)) > allowed:
                chars, stop = allowed, "max_tokens"
        if chars is not None:
            content, texts = cut(content, texts, chars)
        usage = self._usage(answer, content, texts)
        content = [{key: value for key, value in block.items() if key != JSON_TEXT} for block in content]
        message = {
            "id": new_id("msg"),
            "type": "message",
            "role": "assistant",
            "model": self._body.get("model"),
            "content": content,
            "stop_reason": stop,
            "stop_sequence": answer.stop_sequence,
            "stop_details": dict(answer.stop_details) if answer.stop_details is not None else None,
            "usage": usage,
        }
        self._sent.remember(message)
        return message, texts

    def _filled(self, answer: Answer) -> Iterator[Block]:
        """The blocks with the ids and signatures that the script left open."""
        search = _open_search(self._body)
        thinking = self._body.get("thinking")
        omitted = isinstance(thinking, dict) and thinking.get("display") == "omitted"
        for block in answer.blocks:
            match block:
                case {"type": "tool_use"} if "id" not in block:
                    yield {"id": new_id("toolu"), **block}
                case {"type": "server_tool_use"} if "id" not in block:
                    search = new_id("srvtoolu")
                    yield {"id": search, **block}
                case {"type": "web_search_tool_result"} if "tool_use_id" not in block:
                    yield {"tool_use_id": search, **block}
                case {"type": "thinking", "thinking": thought}:
                    signed = {"signature": signature_of(thought), **block}
                    yield {**signed, "thinking": ""} if omitted else signed
                case _:
                    yield block

    def _usage(self, answer: Answer, content: list[Block], texts: list[str | None]) -> dict[str, Any]:
        thoughts = sum(len(block["thinking"]) for block in content if block["type"] == "thinking")
        usage = {
            **self._cache.usage(self._body),
            "output_tokens": -(-size(content, texts) // BYTES_PER_TOKEN),
            "output_tokens_details": {"thinking_tokens": thoughts // BYTES_PER_TOKEN},
            "service_tier": "standard",
        }
        searches = sum(block["type"] == "server_tool_use" for block in content)
        if searches:
            usage["server_tool_use"] = {"web_search_requests": searches, "web_fetch_requests": 0}
        return {**usage, **answer.usage}


def _open_search(body: Mapping[str, Any]) -> str:
    """The id of the server tool call that the request's last message left without a result."""
    messages = body.get("messages") or [{}]
    calls = [
        block
        for block in as_blocks(messages[-1].get("content") or ())
        if block.get("type") == "server_tool_use"
    ]
    return str(calls[-1].get("id")) if calls else "srvtoolu_none"


def _block_frames(index: int, block: Block, text: str | None, count: int) -> Iterator[Frame]:
    def delta(type: str, **fields: Any) -> Frame:
        return frame("content_block_delta", index=index, delta={"type": type, **fields})

    def start(**empty: Any) -> Frame:
        return frame("content_block_start", index=index, content_block={**block, **empty})

    parts = pieces(text or "", count)
    match block["type"]:
        case "text":
            yield start(text="")
            yield from (delta("text_delta", text=part) for part in parts)
        case "thinking":
            yield start(thinking="", signature="")
            yield from (delta("thinking_delta", thinking=part) for part in parts)
            yield delta("signature_delta", signature=block["signature"])
        case "tool_use" | "server_tool_use":
            yield start(input={})
            yield from (delta("input_json_delta", partial_json=part) for part in ("", *parts))
        case _:
            yield start()
    yield frame("content_block_stop", index=index)
