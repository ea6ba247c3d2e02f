"""Which answer comes next: lists that are used up, functions of the request, conversations, and who has which script."""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from tests.model_server.answers import Answer, text
from tests.model_server.request import Request, turns_said

Said = Answer | str
Body = dict[str, Any]
Function = Callable[[Body], Said | Awaitable[Said]]
Script = Said | Iterable[Said] | Function
"""One answer for ever, answers used up in order (then "ok"), or a function that may be a coroutine."""


def turns(*answers: Said) -> Function:
    """Each conversation plays these from the start: its n-th turn is the n-th answer, then "ok".

    A request that is repeated gets the same answer again.
    """

    def answer(body: Body) -> Said:
        said = turns_said(body)
        return answers[said] if said < len(answers) else text()

    return answer


class Part:
    """One script, and how far it is."""

    def __init__(self, script: Script) -> None:
        self._function: Function | None = None
        self.left: deque[Said] = deque()
        if callable(script):
            self._function = script
        elif isinstance(script, (Answer, str)):
            self._function = lambda _body: script
        else:
            self.left.extend(script)

    async def answer(self, body: Body) -> Answer:
        if self._function is not None:
            said = self._function(body)
            if inspect.isawaitable(said):
                said = await said
        else:
            said = self.left.popleft() if self.left else text()
        return text(said) if isinstance(said, str) else said


class Scripts:
    """Everyone's parts. A part belongs to a model's name, or to a marker in the system text or the first message."""

    def __init__(self, script: Script | None, scripts: Mapping[str, Script] | None) -> None:
        self._everyone = Part(script if script is not None else ())
        self._parts = {name: Part(one) for name, one in (scripts or {}).items()}

    def part_of(self, request: Request) -> Part:
        if self._parts:
            if (part := self._parts.get(str(request.body.get("model")))) is not None:
                return part
            for heard in (request.system, request.first):
                for marker, part in self._parts.items():
                    if marker in heard:
                        return part
        return self._everyone

    @property
    def left(self) -> int:
        return sum(len(part.left) for part in (self._everyone, *self._parts.values()))
