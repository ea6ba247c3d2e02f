"""Keeps the log readable when everything fails at once: the first lines of a sort are said, the rest is summed up."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from swarmd.core.counts import counted

SPAN_SECONDS = 60.0
SAME = 120
"""Lines of one sort within a minute."""
ALL = 240
"""Lines of all sorts within a minute; journald drops what is far more, and people read what is far less."""
SERIOUS = 20
"""Room beyond ALL for errors that come when the rest is full already."""
SORTS = 10
"""Sums that are given one by one."""


@dataclass(slots=True)
class _Sort:
    said: deque[float] = field(default_factory=deque)
    kept_back: int = 0
    agents: set[str] = field(default_factory=set)
    level: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sum:
    """What was kept back."""

    level: int
    text: str


class Storms:
    """Counts lines by their sort: the text of the call, before values are put in. Times are steady seconds."""

    def __init__(self) -> None:
        self._sorts: dict[str, _Sort] = {}
        self._said: deque[float] = deque()
        self._since: float | None = None
        """When the first line was kept back that no sum has told of."""

    def admits(self, sort: str, level: int, agent: str | None, now: float, *, serious: bool) -> bool:
        """Whether a line is to be said; one that is not is counted."""
        found = self._sorts.setdefault(sort, _Sort())
        _forget(found.said, now)
        _forget(self._said, now)
        if len(found.said) < SAME and len(self._said) < ALL + (SERIOUS if serious else 0):
            found.said.append(now)
            self._said.append(now)
            return True
        if self._since is None:
            self._since = now
        found.kept_back += 1
        found.level = max(found.level, level)
        if agent is not None and len(found.agents) < 100_000:
            found.agents.add(agent)
        return False

    def sums(self, now: float, *, at_once: bool = False) -> list[Sum]:
        """What was kept back, once a minute, or now."""
        if self._since is None or (now - self._since < SPAN_SECONDS and not at_once):
            return []
        self._since = None
        kept = [(sort, found) for sort, found in self._sorts.items() if found.kept_back]
        kept.sort(key=lambda pair: -pair[1].kept_back)
        told = [Sum(level=found.level, text=_told(sort, found)) for sort, found in kept[:SORTS]]
        others = sum(found.kept_back for _sort, found in kept[SORTS:])
        if others:
            told.append(
                Sum(
                    level=max(found.level for _, found in kept[SORTS:]),
                    text=counted(others, "line of other sorts", "lines of other sorts"),
                )
            )
        self._sorts = {sort: _Sort(said=found.said) for sort, found in self._sorts.items() if found.said}
        return told


def _told(sort: str, found: _Sort) -> str:
    about = f", of {counted(len(found.agents), 'agent')}" if found.agents else ""
    kept = f"like {sort!r} were kept back" if found.kept_back != 1 else f"like {sort!r} was kept back"
    return f"{counted(found.kept_back, 'more line')} {kept}{about}; swarmd log has every session"


def _forget(times: deque[float], now: float) -> None:
    while times and now - times[0] >= SPAN_SECONDS:
        times.popleft()
