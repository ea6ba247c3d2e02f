"""What is said over MCP, as JSON values, whatever carries it: the list of tools, an answer, a refusal."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from swarmd.core.tools import Tool

SERVER_NAME = "swarmd"
HANDSHAKE_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""The revisions of MCP that begin with `initialize`, oldest first."""
BATCH_VERSION = "2025-03-26"
"""The only one of them with batches."""

SESSION_INSTRUCTIONS = (
    "These tools are how this session reads and changes what swarmd keeps for its agent: keys, handoffs, memory, "
    "reports. What is written is staged, and saved all at once when the session ends well, or at a checkpoint. "
    "A refusal says why; the rest goes on."
)


def listed(tools: Iterable[Tool]) -> list[dict[str, Any]]:
    """The tools as `tools/list` has them."""
    return [
        {
            "name": tool.name,
            "description": tool.description,
            "inputSchema": tool.schema,
            "annotations": {"readOnlyHint": tool.reads, "openWorldHint": False},
        }
        for tool in tools
    ]


def answered(value: Any) -> dict[str, Any]:
    """The result of a call that went well: its document, as text and as a value."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    result: dict[str, Any] = {"content": [{"type": "text", "text": text}], "isError": False}
    return {**result, "structuredContent": value} if isinstance(value, dict) else result


def refused(sentence: str) -> dict[str, Any]:
    """The result of one that did not: the sentence, for the model to act on, and nothing else."""
    text = sentence.encode("utf-8", "replace").decode("utf-8")
    return {"content": [{"type": "text", "text": text}], "isError": True}


def no_such_tool(name: str) -> str:
    """The sentence for a tool that is not in the list."""
    return f"there is no tool {name[:60]!r}"
