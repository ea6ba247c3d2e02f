"""The daemon keeps the search index: after sessions end, each minute, off the loop; what goes wrong there harms nothing."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import threading
from contextlib import closing

from swarmd.core.wire import Message
from swarmd.store import indexing
from swarmd.store.search_file import FILE
from tests.daemon.kit import until
from tests.daemon.play import succeed


async def says(request, desk):
    desk.event("text", {"turn": 1, "text": f"the zebra of {request.agent}"})
    return await succeed(request, desk)


def found(swarm, text="zebra"):
    """As an operator's command has it that reads the files itself: nothing is indexed for it."""
    from swarmd.core.world import Actor
    from swarmd.service.reading import session_read
    from swarmd.store.world import SqlWorld

    reader = swarm.daemon.store.reader()
    ask = session_read(swarm.places, reader)
    shown = ask(Actor(by="x"), SqlWorld(reader, swarm.clock.now()), "memory_search", {"text": text})
    return [(item["kind"], item["agent"]) for item in shown["items"]]


async def seconds(swarm, count):
    for _ in range(count):
        swarm.clock.pass_(1)
        await swarm.tick()


async def test_a_session_is_found_soon_after_its_end(swarm):
    swarm.stage.parts["says"] = says
    swarm.agent("game", "0 * * * *", part="says")
    async with swarm.up():
        await swarm.at("11:00:00")
        await seconds(swarm, 3)
        assert found(swarm) == [("transcript", "game")]


async def test_what_people_write_is_found_within_a_minute_and_rounds_are_no_more_than_that(
    swarm, monkeypatch
):
    rounds = []
    run = indexing._Round.run

    def noted(self):
        rounds.append(threading.current_thread())
        return run(self)

    monkeypatch.setattr(indexing._Round, "run", noted)
    swarm.agent("game")
    async with swarm.up():
        await swarm.tick()
        assert len(rounds) == 1
        await swarm.ask("memory_write", agent="game", file="MEMORY.md", text="a zebra\n")
        await seconds(swarm, 59)
        assert len(rounds) == 1
        await seconds(swarm, 2)
        assert len(rounds) == 2
        assert found(swarm) == [("memory", "game")]
    assert threading.main_thread() not in rounds


async def test_sessions_that_end_together_share_a_round(swarm, monkeypatch):
    rounds = []
    run = indexing._Round.run
    monkeypatch.setattr(indexing._Round, "run", lambda self: rounds.append(1) or run(self))
    for number in range(5):
        swarm.agent(f"a{number}", "0 * * * *")
    async with swarm.up():
        await swarm.at("10:59:58")
        rounds.clear()
        await swarm.at("11:00:00")
        await seconds(swarm, 5)
        assert len(swarm.sessions()) == 5
        assert 1 <= len(rounds) <= 2


async def test_after_a_rename_a_quarantine_and_a_forgetting_it_is_up_to_date_a_second_later(swarm):
    swarm.stage.parts["says"] = says
    swarm.agent("game", "0 11 * * *", part="says")
    async with swarm.up() as daemon:
        await swarm.at("11:00:00")
        await swarm.ask("ctx_set", agent="game", key="animal", value="zebra")
        swarm.clock.pass_(61)
        await swarm.tick()
        assert sorted(found(swarm)) == [("key", "game"), ("transcript", "game")]

        (swarm.places.agents / "game.toml").rename(swarm.places.agents / "play.toml")
        await swarm.ask("rename", old="game", new="play")
        await seconds(swarm, 2)
        assert sorted(found(swarm)) == [("key", "play"), ("transcript", "play")]

        await swarm.ask("session_quarantine", session="1")
        await seconds(swarm, 2)
        assert hidden(swarm) == ["q"]
        await swarm.ask("session_unquarantine", session="1")
        await seconds(swarm, 2)
        assert hidden(swarm) == []

        (swarm.places.agents / "play.toml").unlink()
        await daemon.reload(allow_empty=True)
        await swarm.ask("forget", name="play")
        await seconds(swarm, 2)
        assert found(swarm) == [("transcript", "play")]
        assert rows(swarm, "SELECT 1 FROM units WHERE kind = 'key'") == []


def rows(swarm, sql):
    with closing(sqlite3.connect(swarm.places.state / FILE)) as connection:
        return [row[0] for row in connection.execute(sql)]


def hidden(swarm):
    """The scopes of rows that are out of agents' sight, by their first letter."""
    return rows(swarm, "SELECT substr(scope, 1, 1) FROM units WHERE scope LIKE 'q%'")


async def test_a_session_searches_without_stopping_the_loop(swarm):
    """The call is answered in a thread: the loop goes on, and nothing is indexed for it."""
    answers = []

    async def asks(request, desk):
        reply = await desk.call(Message(id="1", call="memory_search", args={"text": "zebra"}))
        answers.append(reply)
        return await succeed(request, desk)

    swarm.stage.parts |= {"asks": asks, "says": says}
    swarm.agent("game", "0 11 * * *", part="says")
    swarm.agent("boss", "0 12 * * *", part="asks")
    async with swarm.up():
        await swarm.at("11:00:00")
        await seconds(swarm, 3)
        swarm.agent("game", "0 11 * * *", parent="boss", part="says")
        await swarm.daemon.reload()
        await swarm.at("12:00:00")
        (reply,) = answers
        assert [item["snippet"] for item in reply.value["items"]] == ["the **zebra** of game"]


async def test_an_index_that_cannot_be_written_harms_nothing_and_comes_when_it_can(swarm, caplog):
    swarm.stage.parts["says"] = says
    swarm.agent("game", "* * * * *", part="says")
    place = swarm.places.state / FILE
    async with swarm.up() as daemon:
        await swarm.tick()
        for suffix in ("", "-wal", "-shm"):
            (swarm.places.state / f"{FILE}{suffix}").unlink(missing_ok=True)
        place.mkdir()
        await swarm.at("10:31:00")
        await seconds(swarm, 3)
        assert swarm.outcomes() == ["no_change"]
        assert daemon.failed is None
        assert "keeping the search index did not succeed" in caplog.text
        place.rmdir()
        await swarm.at("10:32:00")
        await seconds(swarm, 3)
        assert len(found(swarm)) == 2


async def test_a_damaged_index_is_made_anew_while_the_daemon_runs(swarm):
    swarm.stage.parts["says"] = says
    swarm.agent("game", "* * * * *", part="says")
    async with swarm.up() as daemon:
        await swarm.at("10:31:00")
        await seconds(swarm, 3)
        assert len(found(swarm)) == 1
        (swarm.places.state / FILE).write_bytes(os.urandom(50_000))
        await swarm.at("10:32:00")
        await seconds(swarm, 3)
        assert len(found(swarm)) == 2
        assert daemon.failed is None


async def test_a_round_under_way_ends_with_the_daemon_and_goes_on_with_the_next(swarm, monkeypatch):
    swarm.agent("game")
    async with swarm.up():
        for number in range(40):
            await swarm.ask("ctx_set", agent="game", key=f"k{number}", value="zebra")
    inside, steps = threading.Event(), []

    async with swarm.up() as daemon:
        rest = daemon.indexing._rest

        def slow():
            steps.append(1)
            inside.set()
            daemon.indexing._stop.wait(0.05)
            daemon.indexing._working_since = 0.0
            rest()

        monkeypatch.setattr(daemon.indexing, "_rest", slow)
        (swarm.places.state / FILE).unlink(missing_ok=True)
        swarm.clock.pass_(61)
        await daemon.tick()
        await until(inside.is_set)
    assert len(steps) < 40
    with sqlite3.connect(swarm.places.state / FILE) as connection:
        (kept,) = connection.execute("SELECT count(*) FROM units").fetchone()
    connection.close()
    assert kept < 40
    async with swarm.up():
        await swarm.tick()
        assert len(found(swarm)) == 20
        assert (swarm.places.state / FILE).exists()


def test_an_index_that_was_removed_is_made_for_the_first_search_of_an_operator(place):
    """Whose command reads the files itself, but may not write the index: the daemon has the lock."""
    place.agent("game")
    with place.serving() as served:
        place.swarmd("ctx", "set", "game", "k", "zebra")
        assert json.loads(place.swarmd("memory", "search", "zebra", "--json").stdout)["indexed_until"]
        (place.state / FILE).unlink()
        shown = json.loads(place.swarmd("memory", "search", "zebra", "--json").stdout)
        assert [item["kind"] for item in shown["items"]] == ["key"], served.log
        assert shown["indexed_until"] is not None


async def test_a_search_does_not_wait_for_the_rests_of_a_round_that_makes_the_index(swarm):
    swarm.agent("game")
    inside = threading.Event()

    def rest(index):
        inside.set()
        while not index.is_hurried:
            threading.Event().wait(0.01)

    async with swarm.up() as daemon:
        for number in range(20):
            await swarm.ask("ctx_set", agent="game", key=f"k{number}", value="zebra")
        index = daemon.service.index
        (swarm.places.state / FILE).unlink(missing_ok=True)
        round_ = threading.Thread(target=index.bring_up_to_date, kwargs={"pause": lambda: rest(index)})
        round_.start()
        await until(inside.is_set)
        shown = await swarm.ask("memory_search", text="zebra")
        assert (len(shown["items"]), shown["indexed_until"] is not None) == (20, True)
        await asyncio.to_thread(round_.join, 10)


async def test_an_index_that_was_removed_is_made_for_the_first_search_of_an_agent(swarm):
    answers = []

    async def asks(request, desk):
        answers.append(await desk.call(Message(id="1", call="memory_search", args={"text": "zebra"})))
        return await succeed(request, desk)

    swarm.stage.parts["asks"] = asks
    swarm.agent("game", "0 12 * * *", part="asks")
    async with swarm.up() as daemon:
        await swarm.ask("ctx_set", agent="game", key="k", value="zebra")
        daemon.indexing._stop.set()  # its own rounds are over: nobody else makes it
        (swarm.places.state / FILE).unlink(missing_ok=True)
        await swarm.at("12:00:00")
        (reply,) = answers
        assert [item["kind"] for item in reply.value["items"]] == ["key"]
        assert reply.value["indexed_until"] is not None
