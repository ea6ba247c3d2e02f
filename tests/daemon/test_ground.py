"""A store whose files are taken away or replaced while the daemon runs: it stops at once, and writes nothing more."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sqlite3

import pytest

from swarmd.errors import StoreUnusable
from swarmd.store.database import StoreGone
from tests.daemon.kit import until
from tests.daemon.processes import SLEEPER

WRITES = (
    "import os\nwith open(os.environ['SWARMD_MEMORY'] + '/MEMORY.md', 'a') as file:\n    file.write('x\\n')\n"
)


def _delete(state):
    for name in ("swarmd.db", "swarmd.db-wal", "swarmd.db-shm"):
        (state / name).unlink()


def _replace(state):
    with sqlite3.connect(state / "swarmd.db") as old, sqlite3.connect(state / "copy") as new:
        old.backup(new)
    os.rename(state / "copy", state / "swarmd.db")


def _move(state):
    state.rename(state.with_name("moved"))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_delete, "state/swarmd.db is gone"),
        (_replace, "state/swarmd.db is not the one any more that the daemon opened"),
        (_move, "state is gone"),
        (shutil.rmtree, "state is gone"),
    ],
)
def test_a_daemon_whose_store_is_taken_away_stops_at_once_and_makes_nothing_in_its_place(place, change, said):
    place.agent("sleeper", SLEEPER, 'every = "1s"')
    place.agent("writer", WRITES, 'every = "1s"')
    with place.serving() as served:
        place.running(1)
        served.await_line("committed")
        # In one moment for the daemon: what it is at meanwhile would make a folder that is just being removed again.
        served.signal(signal.SIGSTOP)
        change(place.state)
        before = _names(place.state)
        served.signal(signal.SIGCONT)
        assert served.ended() == 5
    assert place.programs() == []
    assert _names(place.state) == before
    last = served.lines[-1]
    assert said in last, served.log
    assert "start swarmd serve again" in last
    assert "Traceback" not in served.log


def _names(folder):
    """What is there, but for what sessions had already and what SQLite keeps beside a database."""
    return sorted(path.name for path in folder.iterdir() if "-" not in path.name) if folder.exists() else None


async def test_not_even_the_moment_before_the_next_look_is_written_into_nothing(swarm):
    swarm.agent("disk", "* * * * *", part="set_key")
    swarm.stage.hold()
    async with swarm.up() as daemon:
        await swarm.at("10:31")
        _move(swarm.places.state)
        with pytest.raises(StoreUnusable):
            await swarm.ask("pause", agent="disk")
        swarm.stage.release()
        await asyncio.wait_for(daemon.done.wait(), 10)
        assert isinstance(daemon.failed, StoreGone)
        await daemon.tick()
        assert not swarm.places.state.exists()
    assert not swarm.places.state.exists()


async def test_whoever_waits_for_a_run_is_told_that_the_store_is_gone(swarm):
    swarm.agent("disk", part="set_key")
    swarm.stage.hold()
    async with swarm.up():
        waiting = asyncio.ensure_future(swarm.ask("run", agent="disk"))
        await until(lambda: swarm.stage.now == 1)
        _move(swarm.places.state)
        await swarm.tick()
    with pytest.raises(StoreUnusable, match="state is gone"):
        await asyncio.wait_for(waiting, 10)


async def test_a_store_that_is_where_it_was_stops_nobody(swarm):
    async with swarm.up() as daemon:
        moved = swarm.places.state.with_name("moved")
        swarm.places.state.rename(moved)
        moved.rename(swarm.places.state)
        await swarm.tick()
        assert daemon.failed is None


def test_whoever_reads_the_store_alone_is_told_what_the_daemon_says_of_itself(place):
    with place.serving() as served:
        told = json.loads(place.swarmd("--json", "status").stdout)["daemon"]
        assert (told["running"], told["pid"], told["problem"]) == (True, served.process.pid, None)
        served.signal(signal.SIGSTOP)
        assert json.loads(place.swarmd("--json", "status").stdout)["daemon"] == {"running": True}
        served.signal(signal.SIGCONT)
