"""The daemon looks for damage by itself: what nobody has met yet is raised, healed where it can be, and told once."""

import asyncio
import contextlib
import sqlite3
import threading

import pytest

from swarmd.store import damage
from tests.daemon.kit import OPERATOR, until

PAST = "damage:text:studio:MEMORY.md"


@contextlib.contextmanager
def by_hand(swarm):
    with contextlib.closing(sqlite3.connect(swarm.places.state / "swarmd.db")) as connection:
        with connection:
            yield connection
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def call(swarm, name, **args):
    return swarm.daemon.service.call(OPERATOR, name, args)


def attention(swarm):
    return {item["id"]: item for item in call(swarm, "attention")["items"]}


async def looked(swarm, hours=25):
    """After a look for damage, which is due after so long; what there is to see to."""
    swarm.clock.pass_(hours * 3600)
    assert swarm.daemon.damage.is_due()
    await swarm.daemon.damage.look()
    assert not swarm.daemon.damage.is_due()
    return attention(swarm)


@pytest.fixture
def swarm(swarm):
    swarm.agent("studio")
    return swarm


def remember(swarm):
    for text in ("one\n", "two\n", "three\n"):
        call(swarm, "memory_write", agent="studio", file="MEMORY.md", text=text)


async def test_it_looks_after_the_start_and_each_day_off_the_loop(swarm, monkeypatch):
    looks, look = [], damage.look

    def noted(connection, pause):
        looks.append(threading.current_thread())
        return look(connection, pause)

    monkeypatch.setattr(damage, "look", noted)
    async with swarm.up() as daemon:
        for hours, count in ((0, 1), (0, 1), (23, 1), (2, 2)):
            swarm.clock.pass_(hours * 3600)
            await daemon.minute()
            await until(lambda count=count: daemon.damage._idle.is_set() and len(looks) >= count)
            assert len(looks) == count
        assert threading.main_thread() not in looks
        assert attention(swarm) == {}


async def test_a_lost_text_is_put_back_before_anybody_meets_it(swarm):
    async with swarm.up():
        remember(swarm)
        with by_hand(swarm) as connection:
            connection.execute("DELETE FROM blobs WHERE hash = (SELECT hash FROM heads)")
        assert await looked(swarm) == {}
        assert call(swarm, "memory_show", agent="studio")["text"] == "three\n"
        assert call(swarm, "verify")["ok"]


async def test_a_text_that_no_file_holds_is_raised_until_the_file_is_saved_anew(swarm):
    async with swarm.up() as daemon:
        remember(swarm)
        file = swarm.places.state / "memory" / "studio" / "MEMORY.md"
        file.unlink()
        with by_hand(swarm) as connection:
            connection.execute("UPDATE blobs SET data = x'00' WHERE hash = (SELECT hash FROM heads)")
        found = await looked(swarm)
        assert list(found) == ["memory-damage:studio:MEMORY.md"]
        (item,) = found.values()
        assert (item["kind"], item["agent"]) == ("damage", "studio")
        assert item["next_step"].startswith("save the file in the memory folder")
        file.write_text("three\n")
        await asyncio.to_thread(daemon.store.folders.settle, "studio")
        assert attention(swarm) == {}
        assert call(swarm, "memory_show", agent="studio")["text"] == "three\n"


async def test_any_other_text_in_its_place_closes_it_too_and_leaves_the_loss_in_the_past(swarm):
    async with swarm.up() as daemon:
        remember(swarm)
        file = swarm.places.state / "memory" / "studio" / "MEMORY.md"
        file.unlink()
        with by_hand(swarm) as connection:
            connection.execute("DELETE FROM blobs WHERE hash = (SELECT hash FROM heads)")
        assert list(await looked(swarm)) == ["memory-damage:studio:MEMORY.md"]
        file.write_text("four\n")
        await asyncio.to_thread(daemon.store.folders.settle, "studio")
        assert attention(swarm) == {}
        assert list(await looked(swarm)) == [PAST]


async def test_a_lost_text_of_the_past_is_told_once_and_over_when_it_is_back(swarm):
    async with swarm.up():
        remember(swarm)
        with by_hand(swarm) as connection:
            kept = connection.execute("SELECT hash, data FROM blobs").fetchall()
            connection.execute("DELETE FROM blobs WHERE hash NOT IN (SELECT hash FROM heads)")
        found = await looked(swarm)
        assert list(found) == [PAST]
        assert (
            found[PAST]["text"]
            == "the text of studio:MEMORY.md revision 2 is damaged or gone, and 1 before it"
        )
        assert found[PAST]["next_step"].endswith(f"swarmd attention ack {PAST}")
        call(swarm, "attention_ack", id=PAST)
        assert await looked(swarm) == {}
    async with swarm.up():
        assert await looked(swarm, hours=0) == {}
        with by_hand(swarm) as connection:
            connection.executemany("INSERT OR IGNORE INTO blobs (hash, data) VALUES (?,?)", kept)
        await looked(swarm)
        rows = swarm.daemon.store.reader().execute("SELECT count(*) FROM raised").fetchone()
        assert rows[0] == 0


async def test_a_row_that_was_changed_is_raised_until_it_is_put_back(swarm):
    async with swarm.up():
        call(swarm, "pause", agent="studio", reason="holiday")
        call(swarm, "ctx_set", agent="studio", key="k", value="v")
        with by_hand(swarm) as connection:
            connection.execute("UPDATE pauses SET reason = 'x'")
            connection.execute("UPDATE keys SET value = 'x'")
        text = (await looked(swarm))["damage:rows"]["text"]
        assert "the key studio/k is not what its history says" in text
        assert "the table pauses is not what swarmd wrote: the row studio was changed" in text
        with by_hand(swarm) as connection:
            connection.execute("UPDATE pauses SET reason = 'holiday'")
            connection.execute("UPDATE keys SET value = 'v'")
        assert list(await looked(swarm, hours=1.1)) == ["paused:studio"]


async def test_a_broken_page_is_raised_with_the_way_out(swarm):
    async with swarm.up():
        with by_hand(swarm) as connection:
            root, size = connection.execute(
                "SELECT rootpage, page_size FROM sqlite_schema, pragma_page_size WHERE name = 'reports'"
            ).fetchone()
        with (swarm.places.state / "swarmd.db").open("r+b") as file:
            file.seek((root - 1) * size)
            page = file.read(size)
            file.seek((root - 1) * size)
            file.write(b"\xff" * size)
            file.flush()
            item = (await looked(swarm))["damage:pages"]
            assert "the database is damaged: " in item["text"]
            assert "restore FILE" in item["next_step"]
            file.seek((root - 1) * size)
            file.write(page)
            file.flush()
        assert await looked(swarm, hours=1.1) == {}


async def test_a_look_under_way_does_not_keep_the_daemon_from_stopping(swarm, monkeypatch):
    begun = threading.Event()

    def endless(connection, pause):
        begun.set()
        connection.execute(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"
        )
        while True:
            pause()

    monkeypatch.setattr(damage, "look", endless)
    async with swarm.up() as daemon:
        await daemon.minute()
        await asyncio.to_thread(begun.wait)
    assert daemon.damage._idle.is_set()
    assert daemon.failed is None
