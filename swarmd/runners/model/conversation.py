"""The conversation of a session: what was said so far, and the request that is made of it; values only.

A request begins with what changes least (tools, system, the memory part of the prompt), and marks where a provider's
cache may end: there, after the memory, and at the newest message, so that each turn reads what the one before wrote.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from swarmd.runners.model.answers import JSON, Answer

_CACHE: Mapping[str, str] = {"type": "ephemeral"}
STABLE_SECTIONS = 2
"""The first sections of the prompt's user part are the memory and its list of files (core.prompt.PARTS)."""


class Conversation:
    """Messages in turn; nothing that was said is ever changed, so that thoughts keep their signatures."""

    def __init__(self, *, system: str, user: str, ends: Sequence[int] = ()) -> None:
        self._system = system
        cut = ends[STABLE_SECTIONS - 1] if len(ends) > STABLE_SECTIONS else 0
        self._opening = [_text(part) for part in (user[:cut], user[cut:]) if part] or [_text("(no message)")]
        self._stable = bool(user[:cut])
        self._turns: list[JSON] = []

    def __len__(self) -> int:
        """How many messages came after the first."""
        return len(self._turns)

    @property
    def turns(self) -> Sequence[JSON]:
        """What came after the first message."""
        return tuple(self._turns)

    def heard(self, answer: Answer) -> None:
        """The model's answer, as it came. Empty text is not kept: the API does not take it."""
        content = [dict(block) for block in answer.content if not _is_empty(block)]
        if content:
            self._turns.append({"role": "assistant", "content": content})

    def say(self, blocks: Sequence[JSON]) -> None:
        """A message to the model."""
        last = self._turns[-1] if self._turns else None
        if last is not None and last["role"] == "user":
            last["content"] = [*last["content"], *blocks]
        else:
            self._turns.append({"role": "user", "content": list(blocks)})

    def say_text(self, text: str) -> None:
        """A message of words."""
        self.say([_text(text)])

    def restart(self, summary: str) -> None:
        """Go on from the first message and a summary of all that came after it."""
        self._turns = [{"role": "user", "content": [_text(summary)]}]

    def request(self, tools: Sequence[JSON]) -> JSON:
        """`system`, `messages` and `tools` as the Messages API takes them, with cache marks (four at most)."""
        opening = [dict(block) for block in self._opening]
        if self._stable:
            opening[0]["cache_control"] = _CACHE
        first, *rest = self._turns or [{"role": "assistant"}]
        if first["role"] == "user":
            messages: list[JSON] = [{"role": "user", "content": [*opening, *map(dict, first["content"])]}]
        else:
            messages = [{"role": "user", "content": opening}]
            rest = self._turns
        messages += [{"role": turn["role"], "content": list(map(dict, turn["content"]))} for turn in rest]
        _mark_last(messages[-1])
        found: JSON = {"messages": messages}
        if self._system:
            found["system"] = [{**_text(self._system), "cache_control": _CACHE}]
        if tools:
            found["tools"] = list(tools)
        return found


def _text(text: str) -> JSON:
    return {"type": "text", "text": text}


def _is_empty(block: JSON) -> bool:
    return block.get("type") == "text" and not str(block.get("text") or "").strip()


def _mark_last(message: JSON) -> None:
    """The newest message is where the next turn's reading ends. A paused answer goes back as it came."""
    if message["role"] == "user":
        message["content"][-1]["cache_control"] = _CACHE


def result(id: str, text: str, *, error: bool = False) -> JSON:
    """The block that answers a call."""
    block: JSON = {"type": "tool_result", "tool_use_id": id, "content": text or "(nothing)"}
    return {**block, "is_error": True} if error else block


def characters(blocks: Sequence[Mapping[str, Any]] | Any) -> int:
    """About how long these messages are, by their texts alone."""
    if isinstance(blocks, str):
        return len(blocks)
    if isinstance(blocks, Mapping):
        return sum(characters(value) for value in blocks.values())
    if isinstance(blocks, Sequence):
        return sum(characters(value) for value in blocks)
    return 8
