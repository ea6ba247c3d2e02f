"""What becomes of due moments: on time, missed, skipped, overlapping, over restarts and under clocks that jump."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.daemon.kit import MONDAY, until

FIVE = [f"{minute} 11 * * 1-5" for minute in (0, 5, 10, 15, 20)]


async def test_a_slot_on_time_starts_its_session(swarm):
    swarm.agent("disk", "0 * * * *")
    async with swarm.up():
        await swarm.at("11:00:00")
        assert swarm.slots() == [("11:00", "started", 1)]
        assert swarm.outcomes() == ["no_change"]
        assert swarm.sessions()[0]["trigger"] == "cron"
        await swarm.at("11:00:30")
        await swarm.daemon.minute()
        assert len(swarm.sessions()) == 1
