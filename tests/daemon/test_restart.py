"""Sessions that still waited when a daemon ended: what becomes of them is what becomes of any slot that is late."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest

LATE = "missed: it still waited when the daemon stopped"


@asynccontextmanager
async def _waited(swarm, minutes, *, killed=False, **when):
    """A session of 11:00 waits behind another when the daemon ends, and the next one comes so much later."""
    swarm.settings(max_sessions=1)
    swarm.agent("first", "0 11 * * *")
    table = "".join(f'{name} = "{value}"\n' for name, value in when.items())
    swarm.agent("waits", 'cron = "0 11 * * *"\n' + table)
    swarm.stage.hold()
    async with swarm.up(killed=killed):
        await swarm.at("11:00:00")
        assert swarm.outcomes("waits") == ["queued"]
    swarm.stage.release()
    swarm.clock.pass_(60 * minutes)
    async with swarm.up():
        await swarm.rest()
        yield


@pytest.mark.parametrize("killed", [False, True])
async def test_of_an_agent_that_catches_nothing_up_it_is_cancelled_and_its_slot_missed(swarm, killed):
    async with _waited(swarm, 9, killed=killed):
        session = swarm.sessions("waits")[0]
        assert (session["outcome"], session["reason"]) == ("cancelled", LATE)
        assert swarm.slots("waits") == [("11:00", "missed", 1)]
        assert swarm.reasons("waits") == [LATE]


@pytest.mark.parametrize("catch_up", ["last", "all"])
async def test_of_an_agent_that_catches_up_it_starts_and_says_so(swarm, catch_up):
    async with _waited(swarm, 9, catch_up=catch_up):
        session = swarm.sessions("waits")[0]
        reason = f"{LATE}; caught up (catch_up = {catch_up})"
        assert (session["outcome"], session["trigger"], session["note"]) == ("no_change", "catch_up", reason)
        assert swarm.slots("waits") == [("11:00", "started", 1)]
        assert swarm.reasons("waits") == [reason]
        request = next(request for request in swarm.stage.played if request.agent == "waits")
        assert request.trigger == "catch_up"


@pytest.mark.parametrize("catch_up", ["last", "all"])
async def test_nothing_is_caught_up_that_is_too_old(swarm, catch_up):
    async with _waited(swarm, 61, catch_up=catch_up, catch_up_max_age="1h"):
        assert swarm.outcomes("waits") == ["cancelled"]
        assert swarm.slots("waits") == [("11:00", "missed", 1)]
        assert swarm.reasons("waits") == [f"{LATE}; older than catch_up_max_age 1h"]


async def test_after_a_short_stop_it_starts_as_it_would_have(swarm):
    async with _waited(swarm, 0.2):
        assert swarm.outcomes("waits") == ["no_change"]
        assert swarm.sessions("waits")[0]["trigger"] == "cron"


async def test_of_last_only_the_newest_is_caught_up(swarm):
    swarm.settings(max_sessions=1)
    swarm.agent("first", "0 11 * * *")
    swarm.agent("waits", 'cron = "0 * * * *"\ncatch_up = "last"\n')
    swarm.stage.hold()
    async with swarm.up():
        await swarm.at("11:00:00")
    swarm.stage.release()
    swarm.clock.pass_(7200)
    async with swarm.up():
        await swarm.rest()
        assert swarm.slots("waits") == [
            ("11:00", "coalesced", 1),
            ("12:00", "coalesced", 1),
            ("13:00", "started", 1),
        ]
        assert swarm.outcomes("waits") == ["cancelled", "no_change"]


async def test_a_session_that_is_not_late_by_its_jitter_keeps_its_start(swarm):
    swarm.agent("late", 'cron = "0 * * * *"\njitter = "30m"\n')
    async with swarm.up():
        await swarm.at("11:00:00")
        start = swarm.sessions()[0]["not_before"]
    swarm.clock.pass_(5)
    async with swarm.up():
        assert swarm.sessions()[0]["not_before"] == start
        assert swarm.outcomes() == ["queued"]


async def test_a_retry_waits_for_the_next_start_whatever_catch_up_says(swarm):
    swarm.agent("disk", "0 11 * * *", part="fail", more='[limits]\nretries = 1\nretry_delay = "1m"\n')
    async with swarm.up():
        await swarm.at("11:00:00")
        assert swarm.outcomes() == ["failed", "queued"]
    swarm.clock.pass_(600)
    async with swarm.up():
        await swarm.rest()
        assert swarm.outcomes() == ["failed", "failed"]


async def test_a_deferred_slot_is_judged_too(swarm):
    swarm.agent("disk", 'cron = "*/5 11 * * *"\noverlap = "queue"\n')
    swarm.stage.hold()
    async with swarm.up():
        await swarm.at("11:00:00")
        await swarm.at("11:05:00")
        assert swarm.slots() == [("11:00", "started", 1), ("11:05", "deferred", 1)]
    swarm.stage.release()
    swarm.clock.pass_(120)
    async with swarm.up():
        await swarm.rest()
        assert swarm.slots() == [("11:00", "started", 1), ("11:05", "missed", 1)]


async def test_a_clean_stop_says_how_many_wait(swarm, caplog):
    caplog.set_level("INFO", logger="swarmd")
    async with _waited(swarm, 9):
        assert "sessions that still wait: 1; the next start decides what becomes of them" in caplog.messages
        assert "its slot is missed: it still waited when the daemon stopped" in caplog.messages


async def test_the_log_does_not_say_missed_twice(swarm, caplog):
    caplog.set_level("INFO", logger="swarmd")
    swarm.agent("disk", "0 11 * * *")
    async with swarm.up():
        pass
    swarm.clock.pass_(3600)
    async with swarm.up():
        assert "slot 2091-01-01T11:00:00.000000Z missed: the daemon was down" in caplog.messages
