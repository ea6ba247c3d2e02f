"""Asks the model until there is an answer, or no use in asking: waits, tries, other models; all before the deadline."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from swarmd.core.wire import Usage
from swarmd.runners.model.answers import JSON, Answer
from swarmd.runners.model.breaker import Breaker, Shut
from swarmd.runners.model.trouble import Trouble

TRIES = 6
"""Of one request to one model."""
FIRST_SECONDS, LONGEST_SECONDS = 1.0, 60.0
NEXT_MODEL = frozenset({"overloaded", "server", "stalled", "cut", "unknown_model"})
"""Kinds of trouble that another model may not have."""

Event = Callable[[str, Mapping[str, Any]], None]


class Model(Protocol):
    """A model's API, as far as asking goes."""

    async def answer(self, params: Mapping[str, Any], lost: Callable[[Usage], object]) -> Answer:
        """The answer to a request. Raises Trouble; `lost` is told what answers that broke off have cost."""
        ...


class Asker:
    """Of one session. `models` are tried in turn: the first for as long as it answers, then for good the next."""

    def __init__(
        self, api: Model, breaker: Breaker, *, models: Sequence[str], deadline: float, event: Event,
        now: Callable[[], float], sleep: Callable[[float], Any] = asyncio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:  # fmt: skip
        self._api = api
        self._breaker = breaker
        self._models = list(models)
        self._deadline = deadline
        self._event = event
        self._now = now
        self._sleep = sleep
        self._chance = chance

    @property
    def model(self) -> str:
        """The model that is asked at present."""
        return self._models[0]

    def next_model(self, trouble: Trouble) -> bool:
        """Go over to the next model, where there is one and it may help."""
        if len(self._models) < 2 or trouble.kind not in NEXT_MODEL:
            return False
        left = self._models.pop(0)
        self._event("warning", {"text": f"{left}: {trouble}; from here on {self.model} is asked"})
        return True

    async def ask(
        self, params: JSON, *, lost: Callable[[str, Usage], object], model: str | None = None
    ) -> Answer:
        """The answer. Raises Trouble where there is none in time, with how often it was tried. `lost`: model and usage
        of each answer that broke off.
        """
        tried = 0
        while True:
            tried += 1
            asked = model or self.model
            try:
                async with self._breaker.turn(self._deadline, asked):
                    return await self._api.answer({**params, "model": asked}, partial(lost, asked))
            except Shut as shut:
                raise _after(shut.trouble, tried - 1) from shut
            except Trouble as trouble:
                wait = self._wait(trouble, tried)
                if not trouble.again or tried >= TRIES or self._now() + wait > self._deadline:
                    raise _after(trouble, tried) from trouble
                told = {"reason": str(trouble), "attempt": tried, "wait_seconds": round(wait, 3)}
                self._event("retry", told)
            await self._sleep(wait)

    def _wait(self, trouble: Trouble, tried: int) -> float:
        """Seconds until the next try: what the API asks for, else twice as long each time, never all at one moment."""
        if trouble.retry_after is not None:
            return trouble.retry_after * (1.0 + 0.1 * self._chance())
        return min(FIRST_SECONDS * 2.0 ** (tried - 1), LONGEST_SECONDS) * (0.5 + 0.5 * self._chance())


def _after(trouble: Trouble, tried: int) -> Trouble:
    """The same trouble, saying what was done about it."""
    said = str(trouble)
    if trouble.retry_after is not None and trouble.retry_after > LONGEST_SECONDS:
        said += f"; to be asked again in {trouble.retry_after:.0f} seconds"
    if tried != 1:
        said += f" (tried {tried} times)" if tried else " (not asked again: others have just been told so)"
    return Trouble(trouble.kind, said, retry_after=trouble.retry_after, again=trouble.again)
