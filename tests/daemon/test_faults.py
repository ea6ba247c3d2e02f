"""What goes wrong with one session is that session's end; what goes wrong with the store is survived or ends the daemon."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
import sqlite3
import threading
import time
from pathlib import Path

import pytest

from swarmd.daemon import starter as starting
from swarmd.daemon.numbers import BLOCK, Numbers
from swarmd.errors import Failed
from swarmd.store import meta
from swarmd.store.database import OutcomeUnknown
from tests.daemon.kit import until
from tests.daemon.processes import await_


async def test_a_fault_of_a_plug_in_ends_its_session_and_nothing_else(swarm):
    swarm.agent("broken", "* * * * *", part="break_down")
    swarm.agent("fine", "* * * * *")
    async with swarm.up() as daemon:
        await swarm.at("10:31")
        assert swarm.outcomes("broken") == ["failed"]
        assert swarm.outcomes("fine") == ["no_change"]
        assert (
            "the runner play broke: KeyError('a fault of the plug-in')"
            in swarm.sessions("broken")[0]["reason"]
        )
        await swarm.at("10:32")
        assert swarm.outcomes("broken") == ["failed"] * 2
        assert daemon.failed is None


async def test_a_runner_that_cannot_be_made_fails_its_sessions(swarm, monkeypatch):
    swarm.agent("a", "* * * * *")
    async with swarm.up() as daemon:
        monkeypatch.setattr("tests.daemon.play.make", _breaks)
        await swarm.at("10:31")
        assert swarm.outcomes() == ["failed"]
        assert daemon.failed is None


async def test_retries_come_with_growing_delays_as_often_as_the_agent_says(swarm):
    swarm.agent("disk", "0 * * * *", part="fail", more='[limits]\nretries = 2\nretry_delay = "1m"\n')
    async with swarm.up():
        await swarm.at("11:00:00")
        assert swarm.outcomes() == ["failed", "queued"]
        swarm.clock.pass_(59)
        await swarm.tick()
        assert len(swarm.stage.played) == 1
        swarm.clock.pass_(14)
        await swarm.tick()
    async with swarm.up():
        assert swarm.outcomes() == ["failed", "failed", "queued"]
        swarm.clock.pass_(119)
        await swarm.tick()
        assert len(swarm.stage.played) == 2
        swarm.clock.pass_(30)
        await swarm.tick()
        assert swarm.outcomes() == ["failed"] * 3
        assert [row["attempt"] for row in swarm.sessions()] == [1, 2, 3]
        assert {row["slot"] for row in swarm.sessions()} == {swarm.sessions()[0]["slot"]}


async def test_after_so_many_failures_it_is_paused_and_says_so(swarm):
    swarm.agent("disk", "* * * * *", part="fail", more="[limits]\npause_after_failures = 3\n")
    async with swarm.up():
        for minute in range(31, 36):
            await swarm.at(f"10:{minute}")
        assert swarm.outcomes() == ["failed"] * 3
        assert [decision for _, decision, _ in swarm.slots()] == ["started"] * 3 + ["skipped"] * 2
        assert "paused:disk" in swarm.attention()


async def test_while_a_claim_waits_for_the_store_others_do_not_queue_behind_it_and_the_watchdog_is_fed(
    swarm, monkeypatch
):
    swarm.agent("a", "* * * * *")
    swarm.agent("b", "*/2 * * * *")
    async with swarm.up() as daemon:
        held = asyncio.Event()
        run = daemon.store.writer.run

        async def slowly(work, *, durable=True):
            await held.wait()
            return await run(work, durable=durable)

        monkeypatch.setattr(daemon.store.writer, "run", slowly)
        swarm.clock.go_to(swarm.clock.wall.replace(minute=31))
        daemon.claiming.fire("cron UTC * * * * *")
        await asyncio.sleep(0.05)
        swarm.clock.pass_(60)
        for key in ("cron UTC * * * * *", "cron UTC */2 * * * *") * 3:
            daemon.claiming.fire(key)
            await asyncio.sleep(0.01)
        assert len(daemon._tasks) == 1
        alive: list[None] = []
        monkeypatch.setattr(daemon._notifier, "alive", lambda: alive.append(None))
        await asyncio.wait_for(daemon.tick(), 2)
        assert alive == [None]
        held.set()
        await swarm.rest()
        assert swarm.slots("a") == [("10:31", "started", 1), ("10:32", "skipped", 1)]
        assert swarm.slots("b") == [("10:32", "started", 1)]


async def test_a_failure_that_comes_each_second_is_said_once_a_minute_and_its_end_too(swarm, caplog):
    caplog.set_level("INFO", logger="swarmd")
    async with swarm.up() as daemon:
        for _ in range(61):
            await daemon.attempt("claiming slots", _raises(Failed("no room")))
            swarm.clock.pass_(1)
        await daemon.attempt("claiming slots", asyncio.sleep(0))
        said = [record.getMessage() for record in caplog.records]
        assert sum("no room" in line for line in said) == 2
        assert said[-1] == "claiming slots succeeds again"


async def test_an_unknown_outcome_ends_the_daemon_and_nothing_is_repeated(swarm, monkeypatch):
    swarm.agent("disk", "0 * * * *", part="set_key")
    swarm.stage.hold()
    async with swarm.up() as daemon:
        await swarm.at("11:00:00")
        daemon.store.writer.broken = sqlite3.OperationalError("disk I/O error")
        swarm.stage.release()
        await asyncio.wait_for(daemon.done.wait(), 10)
        assert isinstance(daemon.failed, OutcomeUnknown)
        assert daemon.starter.running == {}
    async with swarm.up():
        assert swarm.outcomes() == ["lost"]
        assert swarm.sessions()[0]["draft"] == "open"


async def test_a_fault_in_a_step_of_the_daemon_ends_it_with_failure(swarm, monkeypatch):
    async with swarm.up() as daemon:

        async def broken() -> None:
            raise ZeroDivisionError

        daemon.spawn(broken())
        await asyncio.wait_for(daemon.done.wait(), 5)
        assert isinstance(daemon.failed, ZeroDivisionError)
        assert not await daemon.attempt("reading", _raises(OSError(errno.EMFILE, "too many open files")))
        with pytest.raises(ZeroDivisionError):
            await daemon.attempt("reading", broken())


async def test_a_session_cancelled_before_its_first_step_is_ended_too(swarm):
    swarm.agent("disk")
    async with swarm.up() as daemon:
        run = asyncio.ensure_future(swarm.ask("run", agent="disk"))
        await until(lambda: daemon.starter.running, pause=0)
        await daemon.starter.cancel(next(iter(daemon.starter.running)), "too early")
        assert (await run)["reason"] == "too early"
        assert daemon.starter.running == {}


async def test_cancelled_again_and_again_it_still_ends_in_the_store(swarm):
    swarm.agent("disk", "0 * * * *", part="set_key")
    swarm.stage.hold()
    async with swarm.up() as daemon:
        await swarm.at("11:00:00")
        task = daemon.starter.running[1].task
        while not task.done():
            task.cancel()
            await asyncio.sleep(0)
        assert swarm.outcomes() == ["cancelled"]


async def test_a_runner_that_does_not_end_when_cancelled_does_not_keep_the_daemon(swarm, monkeypatch):
    monkeypatch.setattr(starting, "END_SECONDS", 0.2)
    monkeypatch.setattr(starting.Starter.cancel_all, "__kwdefaults__", {"patience_seconds": 0.2})
    forever = asyncio.Event()

    async def deaf(request, desk):
        while not forever.is_set():
            try:
                await forever.wait()
            except asyncio.CancelledError:
                continue
        raise asyncio.CancelledError

    swarm.agent("deaf", "0 * * * *", part="deaf")
    swarm.stage.parts["deaf"] = deaf
    async with swarm.up() as daemon:
        swarm.clock.go_to(swarm.clock.wall.replace(hour=11, minute=0))
        await daemon.tick()
        await until(lambda: swarm.stage.now == 1)
        began = time.monotonic()
    assert time.monotonic() - began < 5
    forever.set()
    await asyncio.sleep(0.1)


async def test_settings_are_taken_over_at_a_reload(swarm):
    for number in range(6):
        swarm.agent(f"a{number}", "0 * * * *")
    swarm.stage.hold()
    async with swarm.up() as daemon:
        swarm.settings(max_sessions=3, drain_timeout="7s")
        await daemon.reload(force=True)
        await swarm.at("11:00:00")
        assert swarm.stage.now == 3
        assert daemon.loader.settings.drain_timeout_seconds == 7
        swarm.settings(max_sessions=5)
        await daemon.reload(force=True)
        await swarm.rest()
        assert swarm.stage.now == 5
        swarm.settings(max_sessions="many")
        await daemon.reload(force=True)
        assert daemon.starter.cap == 5


OF_A_THREAD = 6
"""A file and its log, of the store twice (memory folders have a connection of their own), and of the index."""
OF_ALL = 6
"""Of store and index: the writer's file and log, and the memory that connections share."""


async def test_three_hundred_sessions_leave_no_descriptor_behind(swarm):
    for number in range(100):
        swarm.agent(f"a{number:02}", "* * * * *")
    async with swarm.up():
        await swarm.at("10:31")
        before, _ = _descriptors("self", swarm.places.state)
        for minute in (32, 33, 34):
            await swarm.at(f"10:{minute}")
        assert len(swarm.sessions()) == 400
        others, of_threads = _descriptors("self", swarm.places.state)
        assert others <= before
        assert of_threads <= OF_ALL + OF_A_THREAD * len(os.listdir("/proc/self/task"))


def test_sessions_of_programs_leave_no_descriptor_and_no_dead_child_behind(place):
    for number in range(20):
        place.agent(
            f"a{number}", "import os\nif os.fork() == 0:\n    os.setsid()\n    os._exit(0)\n", 'every = "1s"'
        )
    with place.serving() as served:
        before, _ = _descriptors_at_rest(place, served, after=60)
        others, of_threads = _descriptors_at_rest(place, served, after=160)
        assert others <= before
        assert of_threads <= OF_ALL + OF_A_THREAD * len(os.listdir(f"/proc/{served.process.pid}/task"))
        served.signal(signal.SIGTERM)
        assert served.ended() == 0
    assert {row["outcome"] for row in _ended(place)} <= {"no_change", "cancelled"}


def test_numbers_of_handoffs_are_given_once_ahead_of_need(tmp_path):
    class FakeWriter:
        def __init__(self) -> None:
            self.connection = sqlite3.connect(":memory:", check_same_thread=False)
            self.connection.execute("CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT)")
            self.threads: list[threading.Thread] = []

        def submit(self, work):
            from concurrent.futures import Future

            future: Future[int] = Future()

            def later() -> None:
                time.sleep(0.005)
                future.set_result(work(self.connection))

            thread = threading.Thread(target=later)
            thread.start()
            self.threads.append(thread)
            return future

    writer = FakeWriter()
    numbers = Numbers(writer)  # type: ignore[arg-type]
    taken: list[int] = []
    takers = [
        threading.Thread(target=lambda: taken.extend(numbers.take() for _ in range(500))) for _ in range(4)
    ]
    for taker in takers:
        taker.start()
    for thread in (*takers, *writer.threads):
        thread.join()
    assert len(taken) == len(set(taken)) == 2000
    assert min(taken) == 1
    assert int(meta.get(writer.connection, "handoffs") or 0) <= 2000 + 2 * BLOCK


def _breaks(host) -> None:
    raise ImportError("a library is missing")


async def _raises(error: Exception) -> None:
    raise error


def _descriptors(pid, state):
    """How many files a process has open: others than the store's, and the store's, to which threads have connections
    of their own, ever more until all threads are there.
    """
    names = []
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            names.append(os.readlink(link))
    own = (f"{state}/swarmd.db", f"{state}/search.db")
    of_threads = sum(name.startswith(own) for name in names)
    return len(names) - of_threads, of_threads


def _descriptors_at_rest(place, served, *, after):
    """The daemon's open files when so many sessions have ended and none runs; then all go on."""
    await_(lambda: len(_ended(place)) >= after, lambda: served.log)
    place.swarmd("pause", "all")
    await_(lambda: not place.rows("SELECT id FROM sessions WHERE state = 'running'"), lambda: served.log)
    found = min(_descriptors(served.process.pid, place.state) for _ in range(50) if time.sleep(0.02) is None)
    place.swarmd("resume", "all")
    return found


def _ended(place) -> list:
    return place.rows("SELECT outcome FROM sessions WHERE state = 'ended'")
