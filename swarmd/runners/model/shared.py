"""What the sessions of one worker share: connections, the breaker, and what the API has said of its models."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from swarmd.runners.model.api import STALL_SECONDS, Api
from swarmd.runners.model.breaker import Breaker

ASKED_SECONDS = 600.0
"""How long what the API says of a model is good, also that it says nothing."""


class SharedModels:
    """By credential and address; `close` gives the connections back."""

    def __init__(self, *, stall_seconds: float = STALL_SECONDS) -> None:
        self._stall_seconds = stall_seconds
        self._apis: dict[tuple[str, str | None], tuple[Api, Breaker]] = {}
        self._windows: dict[tuple[str, str | None, str], _Asked] = {}

    def of(self, key: str, base_url: str | None) -> tuple[Api, Breaker]:
        """The API for this credential at this address, and its breaker."""
        known = self._apis.get((key, base_url))
        if known is None:
            now = asyncio.get_running_loop().time
            known = self._apis[key, base_url] = self._api(key, base_url), Breaker(now)
        return known

    async def window(self, key: str, base_url: str | None, model: str) -> tuple[int | None, int | None]:
        """How many tokens go into a model and come out at most. Raises Trouble."""
        place, now = (key, base_url, model), asyncio.get_running_loop().time()
        asked = self._windows.get(place)
        if asked is None or now >= asked.until:
            api, _ = self.of(key, base_url)
            asked = self._windows[place] = _Asked(
                asyncio.ensure_future(api.window(model)), now + ASKED_SECONDS
            )
        # Who is cancelled does not take the answer from the others.
        return await asyncio.shield(asked.answer)

    def _api(self, key: str, base_url: str | None) -> Api:
        return Api(key=key, base_url=base_url, stall_seconds=self._stall_seconds)

    async def close(self) -> None:
        """Give the connections back."""
        waiting = [asked.answer for asked in self._windows.values()]
        for answer in waiting:
            answer.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        for api, _ in self._apis.values():
            await api.close()


@dataclass(frozen=True, slots=True)
class _Asked:
    """A question that was put once for all, and until when its answer is good, also where it is that there is none."""

    answer: asyncio.Future[tuple[int | None, int | None]]
    until: float
