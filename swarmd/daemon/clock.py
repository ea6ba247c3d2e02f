"""The real clock; tests hand in another."""

from __future__ import annotations

import time
from datetime import UTC, datetime


class RealClock:
    """The machine's clocks."""

    def now(self) -> datetime:
        """The wall clock, UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Seconds that only grow; they stand still while the host sleeps."""
        return time.monotonic()
