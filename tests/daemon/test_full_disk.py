"""A disk without room: nothing is lost, what was not done says why, and people are told."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sqlite3
import subprocess
import time
from datetime import datetime

import pytest

from swarmd.daemon.clock import LATE
from swarmd.errors import StoreUnusable
from tests.daemon.processes import await_


@pytest.fixture
def full_disk(swarm, monkeypatch):
    """A switch: while it is on, the store takes nothing, as SQLite has it: what writes nothing succeeds."""
    state = {"full": False}

    def install() -> dict[str, bool]:
        writer = swarm.daemon.store.writer
        tried = writer._try

        def or_full(wish):
            connection = writer._connection
            before = connection.total_changes
            value, fault = tried(wish)
            if state["full"] and connection.total_changes != before:
                error = sqlite3.OperationalError("database or disk is full")
                error.sqlite_errorcode = sqlite3.SQLITE_FULL
                connection.execute("ROLLBACK")
                return None, writer._told(error)
            return value, fault

        monkeypatch.setattr(writer, "_try", or_full)
        return state

    monkeypatch.setattr("swarmd.session.persistence.FIRST_PAUSE_SECONDS", 0.01)
    yield install
    state["full"] = False


async def test_on_a_full_disk_a_session_waits_for_its_end_fails_with_the_reason_and_keeps_its_draft(
    swarm, full_disk
):
    swarm.agent("disk", "0 * * * *", part="set_key")
    swarm.stage.hold()
    async with swarm.up() as daemon:
        disk = full_disk()
        await swarm.at("11:00:00")
        disk["full"] = True
        swarm.stage.release()
        await asyncio.sleep(0.2)
        assert daemon.starter.busy("disk").running == 1
        disk["full"] = False
        await swarm.rest()
        row = swarm.sessions()[0]
        assert row["outcome"] == "failed"
        assert "disk that holds the store is full" in row["reason"]
        assert row["draft"] == "open"
        assert daemon.failed is None


async def test_on_a_full_disk_no_slot_is_lost_and_it_goes_on_when_there_is_room(swarm, full_disk):
    swarm.agent("disk", "* * * * *")
    async with swarm.up() as daemon:
        disk = full_disk()
        disk["full"] = True
        await swarm.at("10:31")
        await swarm.at("10:33")
        await daemon.minute()
        assert swarm.slots() == []
        assert daemon.failed is None
        disk["full"] = False
        await swarm.at("10:34")
        assert swarm.slots() == [("10:31", "missed", 3), ("10:34", "started", 1)]
        assert swarm.reasons("disk")[0] == "missed: the disk that holds the store was full"


async def test_slots_of_a_short_while_without_room_say_why_they_came_late(swarm, full_disk):
    swarm.agent("disk", 'every = "1s"')
    swarm.agent("other", 'every = "4s"')
    async with swarm.up() as daemon:
        disk = full_disk()
        await swarm.at("10:31:00")
        disk["full"] = True
        for second in range(1, 13):
            await swarm.at(f"10:31:{second:02}")
        disk["full"] = False
        await swarm.at("10:31:20")
        for agent, count in (("disk", 20), ("other", 5)):
            settled = [row for row in swarm._rows("SELECT * FROM slots WHERE agent = ? ORDER BY slot", agent)
                       if row["slot"] > "2091-01-01T10:31:00Z"]  # fmt: skip
            assert sum(row["count"] for row in settled) == count
            assert settled[-1]["decision"] == "started"
            assert settled[0]["reason"].startswith("the disk that holds the store was full; with the slot of")
        assert daemon.claiming.heartbeat.missed_because == LATE


async def test_while_the_disk_is_full_the_daemon_says_so_in_its_facts_and_afterwards_in_attention(
    swarm, full_disk, caplog
):
    caplog.set_level("INFO", logger="swarmd")
    swarm.agent("disk", 'every = "1s"')
    async with swarm.up() as daemon:
        disk = full_disk()
        disk["full"] = True
        for second in range(1, 20):
            await swarm.at(f"10:31:{second:02}")
            assert "full" in swarm.call("status")["daemon"]["problem"]
        assert swarm.attention() == []
        assert not [line for line in caplog.messages if "again" in line and "succeeds" in line]
        with pytest.raises(StoreUnusable, match="full"):
            await swarm.ask("pause", agent="disk")
        disk["full"] = False
        await swarm.at("10:31:30")
        await swarm.tick()
        assert swarm.call("status")["daemon"]["problem"] is None
        assert [line for line in caplog.messages if line == "claiming slots succeeds again"]
        item = swarm.call("attention")["items"][0]
        assert (item["id"], item["kind"]) == ("store", "store")
        assert "nothing could be written to the store: the disk that holds the store was full" in item["text"]
        assert daemon.starter.stuck() is None
        await swarm.ask("attention_ack", id="store")
        await swarm.at("10:32:00")
        assert swarm.attention() == []


async def test_a_waiting_session_does_not_fail_for_a_disk_that_is_full_for_a_while(swarm, full_disk):
    swarm.agent("late", 'cron = "0 * * * *"\njitter = "30m"\n')
    swarm.agent("busy", 'every = "1s"')
    async with swarm.up():
        disk = full_disk()
        await swarm.at("11:00:00")
        disk["full"] = True
        await swarm.at("11:29:50")
        await swarm.at("11:30:00")
        assert swarm.outcomes("late") == ["queued"]
        disk["full"] = False
        await swarm.at("11:30:10")
        await swarm.tick()
        assert swarm.outcomes("late") == ["no_change"]


async def test_a_waiting_session_that_cannot_be_dropped_now_is_dropped_later(swarm, full_disk):
    swarm.agent("late", 'cron = "0 * * * *"\njitter = "30m"\n')
    async with swarm.up() as daemon:
        disk = full_disk()
        await swarm.at("11:00:00")
        await swarm.ask("pause", agent="late")
        disk["full"] = True
        await swarm.at("11:30")
        assert swarm.outcomes() == ["queued"]
        disk["full"] = False
        await swarm.at("11:31")
        assert swarm.outcomes() == ["cancelled"]
        assert daemon.starter.busy("late").waiting is False


@pytest.mark.slow
@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small disk")
def test_a_real_disk_that_is_full_for_a_while_loses_nothing(place):
    script = (
        "import os\nwith open(os.environ['SWARMD_MEMORY'] + '/MEMORY.md', 'a') as f:\n    f.write('x\\n')\n"
    )
    place.agent("w", script, 'every = "1s"\ncatch_up = "last"')
    place.state.mkdir(mode=0o700)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=6m,mode=700", "tmpfs", str(place.state)], check=False
    )
    if mounted.returncode:
        pytest.skip("nothing may be mounted here")
    try:
        with place.serving() as served:
            await_(lambda: len(_ended(place)) >= 3, lambda: served.log)
            filler = os.open(place.state / "filler", os.O_WRONLY | os.O_CREAT)
            with contextlib.suppress(OSError):
                while True:
                    os.write(filler, b"x" * 4096)
            os.close(filler)
            served.await_line("is full; nothing was written")
            time.sleep(3)
            (place.state / "filler").unlink()
            count = len(_ended(place))
            await_(lambda: len(_ended(place)) >= count + 3, lambda: served.log)
            served.signal(signal.SIGTERM)
            assert served.ended() == 0
        slots = place.rows("SELECT slot, last, count FROM slots ORDER BY slot")
        first, last = (datetime.fromisoformat(text) for text in (slots[0]["slot"], slots[-1]["last"]))
        assert sum(row["count"] for row in slots) == (last - first).total_seconds() + 1
    finally:
        subprocess.run(["umount", str(place.state)], check=True)


def _ended(place) -> list:
    return place.rows("SELECT outcome FROM sessions WHERE state = 'ended'")
