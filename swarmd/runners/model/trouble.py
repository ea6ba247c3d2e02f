"""What can go wrong with a request to a model's API, as one closed set of kinds; who asks again decides by the kind."""

from __future__ import annotations

from typing import Literal

TroubleKind = Literal[
    "overloaded",  # 529, or the same said within a stream
    "rate_limited",  # 429
    "server",  # 500 and its like
    "network",  # no connection, or one that broke
    "stalled",  # connected, and nothing came any more
    "cut",  # the answer ended before its end
    "no_api",  # the answer is none of the API: a proxy's page
    "quota",  # money or allowance is used up: a person must act
    "auth",  # the key is wrong, or may not do this
    "too_long",  # the conversation does not fit into the model's window
    "unknown_model",  # 404
    "bad_request",  # the API does not take what was sent
]

AGAIN = frozenset({"overloaded", "rate_limited", "server", "network", "stalled", "cut", "no_api"})
"""Kinds that may be gone when the same is asked again."""
HARD = frozenset({"quota", "auth"})
"""Kinds that waiting does not cure: a person must act."""
OF_KEY = HARD | {"network", "no_api"}
"""Kinds that whoever else uses the same key there is about to meet, too."""
OF_MODEL = frozenset({"overloaded", "rate_limited", "server", "stalled"})
"""Kinds that those are about to meet who ask the same model."""
UNAVAILABLE = AGAIN | {"quota"}
"""Kinds that say nothing of the agent: its session ends as unavailable, and may be tried again later."""


class Trouble(Exception):
    """A request that brought no answer. `str()` is a sentence; `retry_after` is the API's wish, in seconds."""

    def __init__(
        self,
        kind: TroubleKind,
        reason: str,
        *,
        retry_after: float | None = None,
        again: bool | None = None,
    ) -> None:
        super().__init__(reason)
        self.kind = kind
        self.retry_after = retry_after
        self.again = kind in AGAIN if again is None else again
        """Whether the same may be asked again in this session."""

    @property
    def unavailable(self) -> bool:
        """Whether the session that ends by it is `unavailable` rather than `failed`."""
        return self.kind in UNAVAILABLE
