"""Refuses requests as the Messages API does: fields, tools, models, cache breakpoints. Messages: check_messages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.model_server.answers import Answer, error
from tests.model_server.check_messages import message_complaints
from tests.model_server.sent import Sent, is_thought
from tests.model_server.usage import as_blocks, input_tokens

NO_SAMPLING_SINCE = "2026-10-21"
SAMPLING = frozenset({"temperature", "top_p", "top_k"})
FIELDS = frozenset({
    "cache_control", "container", "diagnostics", "inference_geo", "max_tokens", "messages", "metadata", "model",
    "output_config", "service_tier", "speed", "stop_sequences", "stream", "system", "thinking", "tool_choice", "tools",
})  # fmt: skip
TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
MOST_BREAKPOINTS = 4


@dataclass(frozen=True, kw_only=True)
class Model:
    """What the Models API says of a model."""

    window: int = 200_000
    output: int = 64_000
    lifecycle: str = "active"
    deprecated_at: str | None = None
    retires_at: str | None = None


def refused(
    body: Mapping[str, Any], headers: Mapping[str, str], models: Mapping[str, Model] | None, sent: Sent
) -> Answer | None:
    """The error for the first thing wrong with a request."""
    name = body.get("model")
    model = (models or {}).get(str(name), Model())
    if models is not None and (name not in models or model.lifecycle == "retired") and name is not None:
        return error(404, f"model: {name}")
    if body.get("thread") is not None:
        return error(400, "thread: not supported here", code="thread_unsupported_request")
    complaint = next(_complaints(body, headers, sent), None)
    if complaint is None and models is not None and _number(body.get("max_tokens")) > model.output:
        complaint = (
            f"max_tokens: {body['max_tokens']} > {model.output}, "
            f"which is the maximum allowed number of output tokens for {name}"
        )
    if complaint is not None:
        return error(400, complaint)
    tokens = input_tokens(dict(body))
    if tokens > model.window:
        return error(400, f"prompt is too long: {tokens} tokens > {model.window} maximum")
    return None


def _complaints(body: Mapping[str, Any], headers: Mapping[str, str], sent: Sent) -> Iterator[str]:
    yield from _fields(body, headers)
    yield from _system(body)
    yield from _tools(body)
    yield from message_complaints(body, sent)
    yield from _breakpoints(body)


def _number(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _fields(body: Mapping[str, Any], headers: Mapping[str, str]) -> Iterator[str]:
    version = headers.get("anthropic-version")
    if version is None:
        yield "anthropic-version: header is required"
        return
    for name in ("model", "max_tokens", "messages"):
        if body.get(name) is None:
            yield f"{name}: Field required"
    known = FIELDS if version >= NO_SAMPLING_SINCE else FIELDS | SAMPLING
    for name in body:
        # What a beta adds is the beta's business.
        if name not in known and (name in SAMPLING or "anthropic-beta" not in headers):
            yield f"{name}: Extra inputs are not permitted"
    most = body.get("max_tokens")
    if not isinstance(most, int) or isinstance(most, bool):
        yield "max_tokens: Input should be a valid integer"
    elif most < 0:
        yield "max_tokens: Input should be greater than or equal to 0"
    yield from _thinking(body)


def _thinking(body: Mapping[str, Any]) -> Iterator[str]:
    config = body.get("thinking")
    if not isinstance(config, dict):
        return
    kinds = ("enabled", "adaptive", "disabled", "between_tools")
    if config.get("type") not in kinds:
        yield f"thinking: Input tag {config.get('type')!r} found using 'type' does not match any of {kinds}"
    if config.get("type") == "enabled":
        budget = _number(config.get("budget_tokens"))
        if budget < 1024:
            yield "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024"
        if budget >= _number(body.get("max_tokens")):
            yield "`max_tokens` must be greater than `thinking.budget_tokens`."
    choice = body.get("tool_choice")
    forced = isinstance(choice, dict) and choice.get("type") in {"any", "tool"}
    if forced and config.get("type") in {"enabled", "adaptive"}:
        yield "Thinking may not be enabled when tool_choice forces tool use."


def _system(body: Mapping[str, Any]) -> Iterator[str]:
    system = body.get("system")
    if system is None or isinstance(system, str):
        return
    if not isinstance(system, list):
        yield "system: Input should be a valid list"
        return
    for number, block in enumerate(system):
        if not isinstance(block, dict) or block.get("type") != "text":
            yield f"system.{number}.type: Input should be 'text'"
        elif not block.get("text"):
            yield "system: text content blocks must be non-empty"


def _tools(body: Mapping[str, Any]) -> Iterator[str]:
    tools = body.get("tools") or []
    if not isinstance(tools, list):
        yield "tools: Input should be a valid list"
        return
    names = []
    for number, tool in enumerate(tools):
        names.append(tool.get("name"))
        if tool.get("type", "custom") in {"custom", None}:
            yield from _custom_tool(f"tools.{number}.custom", tool)
    named = [name for name in names if name is not None]
    if len(set(named)) < len(named):
        yield "tools: Tool names must be unique."
    choice = body.get("tool_choice")
    if isinstance(choice, dict):
        if choice.get("type") not in {"auto", "any", "tool", "none"}:
            yield f"tool_choice: Input tag {choice.get('type')!r} does not match any of the expected tags"
        elif choice["type"] in {"any", "tool"} and not tools:
            yield "tool_choice: may only be specified while providing tools"
        elif choice["type"] == "tool" and choice.get("name") not in names:
            yield f"Tool '{choice.get('name')}' not found in provided tools"


def _custom_tool(place: str, tool: Mapping[str, Any]) -> Iterator[str]:
    name, schema = tool.get("name"), tool.get("input_schema")
    if name is None:
        yield f"{place}.name: Field required"
    elif not isinstance(name, str) or not TOOL_NAME.fullmatch(name):
        yield f"{place}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"
    if schema is None:
        yield f"{place}.input_schema: Field required"
    elif not isinstance(schema, dict):
        yield f"{place}.input_schema: Input should be a valid dictionary"
    elif schema.get("type") != "object":
        yield f"{place}.input_schema.type: Input should be 'object'"
    elif schema.keys() & {"oneOf", "allOf", "anyOf"}:
        yield f"{place}.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level"


def _breakpoints(body: Mapping[str, Any]) -> Iterator[str]:
    blocks = [*(body.get("tools") or ()), *as_blocks(body.get("system") or ())]
    for message in body.get("messages") or ():
        for block in as_blocks(message["content"]):
            inner = block.get("content") if block.get("type") == "tool_result" else None
            blocks += [*as_blocks(inner or ()), block]
    marked = [block for block in blocks if block.get("cache_control")]
    for block in marked:
        if is_thought(block):
            yield f"cache_control: Extra inputs are not permitted on {block['type']} blocks"
        if block.get("type") == "text" and not block.get("text"):
            yield "cache_control cannot be set for empty text blocks"
    marks = [block["cache_control"] for block in marked]
    marks += [body["cache_control"]] if body.get("cache_control") else []
    if len(marks) > MOST_BREAKPOINTS:
        most = MOST_BREAKPOINTS
        yield f"A maximum of {most} blocks with cache_control may be provided. Found {len(marks)}."
    ttls = []
    for mark in marks:
        if (
            not isinstance(mark, dict)
            or mark.get("type") != "ephemeral"
            or mark.get("ttl", "5m") not in {"5m", "1h"}
        ):
            yield "cache_control: Input should be {'type': 'ephemeral'}, with ttl '5m' or '1h'"
            return
        ttls.append(mark.get("ttl", "5m"))
    if ttls != sorted(ttls):
        yield "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block."
