"""All tools of a session under one roof: what the model is shown, and who carries a call out."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from swarmd.core.tools import TOOLS, Tool
from swarmd.core.wire import Reply
from swarmd.runners.model.answers import JSON
from swarmd.runners.model.loop import Called

RESULT_CHARACTERS = 64 * 1024
"""A longer result keeps its beginning and its end."""


class DeskPort(Protocol):
    """The session's desk, from where the model's loop runs."""

    async def ask(self, call: str, args: Mapping[str, Any]) -> Reply:
        """One call; whatever goes wrong is in the reply."""
        ...


class Kit(Protocol):
    """Some tools that belong together."""

    @property
    def definitions(self) -> Sequence[JSON]:
        """As the Messages API takes them."""

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Called:
        """Carry out a call of one of them."""
        ...


class Toolbox:
    """The kits together. A name that two of them have belongs to the first."""

    def __init__(self, kits: Sequence[Kit]) -> None:
        self._kits: dict[str, Kit] = {}
        self._definitions: list[JSON] = []
        for kit in kits:
            for definition in kit.definitions:
                if self._kits.setdefault(definition["name"], kit) is kit:
                    self._definitions.append(dict(definition))

    @property
    def definitions(self) -> list[JSON]:
        """Of all tools, always in the same order: a provider's cache begins with them."""
        return self._definitions

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Called:
        """Carry it out. Nothing that goes wrong in a tool ends the session."""
        kit = self._kits.get(name)
        if kit is None:
            known = ", ".join(self._kits)
            return Called(text=f"there is no tool {name[:100]!r}; there are: {known}", error=True)
        try:
            called = await kit.call(name, arguments)
        except (asyncio.CancelledError, ConnectionError):
            raise
        except Exception as error:  # noqa: BLE001 - a tool's fault is the model's to know, and not the loop's end
            called = Called(text=f"{name} failed: {error!r}"[:1000], error=True)
        return Called(text=bounded(called.text), error=called.error, ends=called.ends)


def bounded(text: str) -> str:
    """The text, or its beginning and end with the number of characters between them."""
    if len(text) <= RESULT_CHARACTERS:
        return text
    half = RESULT_CHARACTERS // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:]}"


class ActKit:
    """The session's acts, reads and steps, as every other way to the desk has them."""

    def __init__(self, desk: DeskPort, names: Sequence[str]) -> None:
        self._desk = desk
        self._tools: dict[str, Tool] = {name: TOOLS[name] for name in TOOLS if name in names}

    @property
    def definitions(self) -> list[JSON]:
        """As the Messages API takes them."""
        return [
            {"name": tool.name, "description": tool.description, "input_schema": tool.schema}
            for tool in self._tools.values()
        ]

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Called:
        """Ask the desk; a refusal is a sentence that the model can act on."""
        reply = await self._desk.ask(name, arguments)
        if reply.error is not None:
            return Called(text=reply.error, error=True)
        text = json.dumps(reply.value, ensure_ascii=False, separators=(",", ":"))
        return Called(text=text, ends=name == "fail")
