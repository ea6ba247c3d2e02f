"""How long and how much a session may: when it is told that the end is near, and when it is over."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from swarmd.core.counts import counted
from swarmd.core.wire import Usage

SOFT_SHARE = 0.85
"""From this share of a limit on, the model is told."""
SOFT_SECONDS = 300.0
"""But not more than so long before the end."""


@dataclass(slots=True, kw_only=True)
class Limits:
    """`begun` and `deadline` are of the clock `now`, in seconds; `tokens` as Request.token_limit."""

    begun: float
    deadline: float
    tokens: int | None
    now: Callable[[], float]
    _told: bool = field(default=False, init=False)

    def over(self, turns: int, max_turns: int, used: Usage) -> str | None:
        """Why nothing more may be asked; None: go on. Time is not looked at: its clock ends what is under way."""
        if turns >= max_turns:
            return f"max_turns: the model answered {counted(turns, 'time')} and had not finished"
        if self.tokens is not None and used.counted >= self.tokens:
            return f"tokens_per_session: {used.counted} tokens were used, and {self.tokens} are allowed"
        return None

    def notice(self, used: Usage) -> str | None:
        """What the model is to be told now, once: that the end is near."""
        if self._told:
            return None
        left = self.deadline - self.now()
        spare = max((self.deadline - self.begun) * (1.0 - SOFT_SHARE), 0.0)
        if left <= min(spare, SOFT_SECONDS):
            self._told = True
            return _NOTICE.format(f"about {counted(max(round(left), 1), 'second is', 'seconds are')} left")
        if self.tokens is not None and used.counted >= self.tokens * SOFT_SHARE:
            self._told = True
            return _NOTICE.format(f"about {self.tokens - used.counted} tokens are left")
        return None


_NOTICE = (
    "swarmd: this session ends soon: {}. Save now what must not be lost: write down in your memory where you are, set "
    "your keys, answer your handoffs, and call `checkpoint`. Then finish in a sentence."
)
