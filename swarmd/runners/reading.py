"""Follows what a client prints, event by event: what it says goes to the desk, how the session stands is kept here.

A client's own final event decides how the session ended, and its exit status only where there is none: they do not
agree, and a client that ends with 0 and without a word has not done its work.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from swarmd.core.counts import counted
from swarmd.core.wire import Outcome, Usage
from swarmd.runners.lines import Lines, event
from swarmd.runners.outcomes import one_line, outcome
from swarmd.runners.prices import price
from swarmd.runners.process import Ended, Start

OUTPUT_BYTES = 1024 * 1024 * 1024
"""What a client may print; an hour of a fast model is a tenth of it."""
TEXT_CHARACTERS = 20_000
"""How much of one text goes to the desk."""
NO_ACTS = "the session's acts were not reachable"
Say = Callable[[str, Mapping[str, Any]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Final:
    """What a client's final event means."""

    outcome: Outcome
    reason: str = ""
    text: str = ""
    usage: Usage = field(default_factory=Usage)
    by_model: Mapping[str, Usage] = field(default_factory=dict)


class Reading(ABC):
    """The output of one session. A client's own class says what its events mean."""

    def __init__(self, say: Say, token_limit: int | None) -> None:
        self._say = say
        self._limit = token_limit
        self._lines = Lines()
        self._bytes = 0
        self.started = False
        """Whether the client has begun: what it needed for that may go."""
        self.final: Final | None = None
        self.stop = ""
        """Why the session has to end now, whatever the client would do next."""
        self.usage = Usage()
        """What was used so far, as far as the client tells."""
        self.text = ""
        """What the model said last."""

    @abstractmethod
    def take(self, said: Mapping[str, Any]) -> bool:
        """The next event; whether it belongs in the log."""

    def untold(self, errors: bytes) -> str:
        """Why there was no final event, where what stands on standard error tells."""
        return ""

    def feed(self, chunk: bytes) -> bytes:
        """The next bytes of standard output; what of them belongs in the log."""
        self._bytes += len(chunk)
        if self._bytes > OUTPUT_BYTES:
            self.stop = self.stop or f"it printed more than {OUTPUT_BYTES} bytes"
            return b""
        return b"".join(line + b"\n" for line in self._lines.feed(chunk) if self._read(line))

    def close(self) -> bytes:
        """No more comes. Half a last line is read as any other: it is an event only if it is whole."""
        rest = b"".join(line for line in self._lines.close() if self._read(line))
        if self._lines.dropped:
            self.say(
                "warning",
                text=f"{counted(self._lines.dropped, 'line was', 'lines were')} too long to be read",
            )
        return rest

    def _read(self, line: bytes) -> bool:
        said = event(line)
        if said is None or self.final is not None:
            return True
        try:
            return self.take(said)
        except (TypeError, ValueError, AttributeError, KeyError) as error:
            # Another version's events may have other shapes; one that is not understood ends no session.
            self.say(
                "warning", text=f"an event of type {said['type'][:40]!r} was not understood: {error!r:.200}"
            )
            return True

    def say(self, kind: str, **detail: Any) -> None:
        """Tell the desk, texts cut."""
        self._say(kind, {name: _cut(value) for name, value in detail.items()})

    def spend(self, usage: Usage) -> None:
        """Count what a request has used; above the limit the session has to end."""
        self.usage = _sum(self.usage, usage)
        counted = self.usage.counted
        if self._limit is not None and counted > self._limit and not self.stop:
            self.stop = f"limits.tokens_per_session: {counted} tokens were used, {self._limit} are allowed"


def _sum(before: Usage, more: Usage) -> Usage:
    return more if before == Usage() else before + more


def _cut(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    more = len(value) - TEXT_CHARACTERS
    kept = value if more <= 0 else f"{value[:TEXT_CHARACTERS]} [... {more} characters left out]"
    return text(kept)


def judged(reading: Reading, ended: Ended, start: Start, timeout_seconds: float) -> tuple[Final, int | None]:
    """How a client's session ended, and its exit status."""
    what, reason, status = outcome(ended, start, timeout_seconds)
    said = _priced(reading.final or Final(outcome="failed", text=reading.text, usage=reading.usage))
    if reading.stop:
        return _as(said, "failed", reading.stop), status
    if reading.final is not None:
        return said, status
    if what == "success":
        return _as(said, "failed", _silent(ended)), status
    if what in ("failed", "unavailable"):  # exit status 75 means nothing here: no client knows of it
        why = reading.untold(ended.stderr.head + ended.stderr.tail)
        return _as(said, "failed", why or reason), status
    return _as(said, what, reason), status


def _priced(said: Final) -> Final:
    """A client that does not tell what it has cost is priced by the list, where that has the model."""
    if said.usage.usd is not None or len(said.by_model) != 1:
        return said
    (model,) = said.by_model
    usd = price(model, said.usage)
    if usd is None:
        return said
    usage = replace(said.usage, usd=usd, priced_by="list")
    return replace(said, usage=usage, by_model={model: usage})


def _as(said: Final, outcome: Outcome, reason: str) -> Final:
    return replace(said, outcome=outcome, reason=reason)


def _silent(ended: Ended) -> str:
    last = one_line(ended.stderr.head + ended.stderr.tail)
    return "the client ended with exit status 0 and without its final event" + (f": {last}" if last else "")


def number(value: Any) -> int | None:
    """A count of tokens, where it is one."""
    known = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53
    return value if known else None


def money(value: Any) -> float | None:
    """An amount in US dollars, where it is one."""
    known = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e12
    return float(value) if known else None


def text(value: Any) -> str:
    """A text, or nothing; half a surrogate pair can be written in JSON, and stored nowhere."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else ""


def table(value: Any) -> Mapping[str, Any]:
    """An object, or an empty one."""
    return value if isinstance(value, dict) else {}


def rows(value: Any) -> list[Mapping[str, Any]]:
    """The objects of a list."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
