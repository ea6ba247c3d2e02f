"""The real clock; and the heartbeat, which tells what the wall clock did against the steady one."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from swarmd.core.slots import ClockJump, clock_jump
from swarmd.session.ports import Clock

GRACE_SECONDS = 30.0
"""A slot that is older when it is looked at was missed: the daemon was not awake at its time."""
DOWN = "the daemon was down"
LATE = "the daemon could not look in time"


class RealClock:
    """The machine's clocks."""

    def now(self) -> datetime:
        """The wall clock, UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Seconds that only grow; they stand still while the host sleeps."""
        return time.monotonic()


class Heartbeat:
    """What the clocks did since they were looked at last, since when the daemon is awake, and why it was not before.

    All is counted on the steady clock: a wall clock that was set ahead and back again leaves no trace here.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last = (clock.now(), clock.monotonic())
        self._awake = clock.monotonic()
        self._awake_before = self._awake
        self._hold_until: float | None = None
        self.missed_because = DOWN
        """Why the slots were missed that lie before the time in which the daemon was awake."""

    def look(self) -> ClockJump:
        """Compare the clocks with what they were at the last look. After a jump far ahead nothing may start for a
        minute (`holds`); a clock that is set back meanwhile was wrong, and all is as it was.
        """
        now, steady = self._clock.now(), self._clock.monotonic()
        jump = clock_jump(*self._last, now, steady)
        self._last = now, steady
        if jump.kind == "back" and self._hold_until is not None:
            self._hold_until, self._awake = None, self._awake_before
        elif jump.kind in ("forward", "far_forward"):
            self._awake_before, self._awake = self._awake, steady
        if jump.kind == "far_forward":
            self._hold_until = steady + jump.hold_seconds
        if jump.kind != "steady":
            self.missed_because = jump.reason
        return jump

    @property
    def holds(self) -> bool:
        """Whether nothing may start: the clock has just jumped far ahead."""
        return self._hold_until is not None

    def hold_is_over(self) -> bool:
        """Whether a hold ends now, which it then does: the clock is believed."""
        over = self._hold_until is not None and self._clock.monotonic() >= self._hold_until
        if over:
            self._hold_until = None
        return over

    def settled(self) -> None:
        """All slots up to now have their rows: what is missed from here on is missed for another reason."""
        self.missed_because = LATE

    @property
    def grace_seconds(self) -> float:
        """How old a slot may be and still be on time: never from before the daemon was awake."""
        return min(GRACE_SECONDS, max(0.0, self._clock.monotonic() - self._awake))
