"""One request that came in, and what its conversation says, in either API's words."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from tests.model_server.usage import as_blocks

Item = dict[str, Any]


@dataclass(eq=False)
class Request:
    """`status` and `gone` are set while it is answered."""

    method: str
    path: str
    headers: dict[str, str]
    raw: bytes = b""
    query: dict[str, str] = field(default_factory=dict)
    body: dict[str, Any] = field(default_factory=dict)
    at: float = field(default_factory=time.monotonic)
    status: int | None = None
    """Of the answer; None until it starts."""
    gone: bool = False
    """The client left before the answer's end."""

    @property
    def system(self) -> str:
        """The whole text of the system prompt."""
        told = [{"content": self.body.get("system") or self.body.get("instructions")}]
        return _text(
            [*told, *(item for item in items(self.body) if item.get("role") in {"system", "developer"})]
        )

    @property
    def first(self) -> str:
        """What is said before the model speaks for the first time."""
        found = items(self.body)
        end = next((number for number, item in enumerate(found) if is_the_models(item)), len(found))
        return _text(found[:end])

    @property
    def last(self) -> list[Item]:
        """The blocks, or items, that came after the model spoke last."""
        found = items(self.body)
        start = max((number + 1 for number, item in enumerate(found) if is_the_models(item)), default=0)
        if "input" in self.body:
            return found[start:]
        return [block for item in found[start:] for block in as_blocks(item.get("content") or ())]

    @property
    def text(self) -> str:
        """The text of what came last."""
        return _text(self.last if "input" in self.body else [{"content": self.last}])

    @property
    def results(self) -> list[Item]:
        """The tool results of what came last."""
        return [
            block for block in self.last if str(block.get("type")).endswith(("tool_result", "_call_output"))
        ]


def items(body: dict[str, Any]) -> list[Item]:
    """The messages, or the items of an input."""
    found = body.get("messages") or body.get("input") or []
    if isinstance(found, str):
        return [{"role": "user", "content": found}]
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def is_the_models(item: Item) -> bool:
    kind = str(item.get("type", ""))
    return item.get("role") == "assistant" or kind.endswith("_call") or kind == "reasoning"


def turns_said(body: dict[str, Any]) -> int:
    """How often the model has spoken."""
    said = [is_the_models(item) for item in items(body)]
    return sum(now and not before for before, now in zip([False, *said], said, strict=False))


def _text(found: list[Item]) -> str:
    blocks = [block for item in found for block in as_blocks(item.get("content") or ())]
    return "\n".join(str(block["text"]) for block in blocks if "text" in block)
