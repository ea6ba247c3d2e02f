"""The search index: it has what the store has, whatever happens to it, and never harms anything else."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from swarmd.core.instants import to_text
from swarmd.errors import StoreUnusable
from swarmd.store import indexing, search_due, search_units
from swarmd.store.indexing import NoMoreTime, SearchIndex, state_of
from swarmd.store.search_file import FILE, FORMAT
from tests.swarm import NOW, dump

ROOT = Path(__file__).parents[2]


@pytest.fixture
def index(swarm):
    return SearchIndex(swarm.places.state, swarm.clock.now)


def sessions(swarm, count, events=5, agent="studio"):
    """So many that have ended, each with a transcript."""
    known = swarm.rows("SELECT coalesce(max(id), 0) AS id FROM sessions")[0]["id"]
    at = to_text(NOW)
    rows = [
        (known + n, agent, "cron", "ended", "committed", at, at, at, "schedule") for n in range(1, count + 1)
    ]
    swarm.write(
        lambda c: c.executemany(
            "INSERT INTO sessions (id, agent, trigger, state, outcome, queued, started, ended, by) "
            "VALUES (?,?,?,?,?,?,?,?,?)",
            rows,
        )
    )
    for id, *_ in rows:
        transcript(swarm, id, *(f"zebra {id} {n}" for n in range(events)))


def transcript(swarm, id, *texts, tail=""):
    folder = swarm.places.state / "sessions" / str(id)
    folder.mkdir(parents=True, exist_ok=True)
    lines = [
        json.dumps({"seq": seq, "at": to_text(NOW), "kind": "text", "turn": 1, "text": text}) + "\n"
        for seq, text in enumerate(texts, 1)
    ]
    (folder / "transcript.jsonl").write_text("".join(lines) + tail)


def some_of_all(swarm):
    swarm.call("memory_write", agent="studio", file="MEMORY.md", text="# One\nzebra\n\n" + "word " * 900)
    swarm.call("memory_write", agent="game", file="archive/history_1.md", text="zebra of old\n")
    swarm.call("ctx_set", agent="game", key="k", value="zebra")
    swarm.call("handoff_send", to="game", text="zebra")
    sessions(swarm, 30)


@contextlib.contextmanager
def opened(swarm):
    with contextlib.closing(sqlite3.connect(swarm.places.state / FILE)) as connection:
        connection.row_factory = sqlite3.Row
        yield connection


def content(swarm):
    """What is in the index, without its numbers; SQLite's own check of it goes before."""
    with opened(swarm) as connection:
        for (part,) in connection.execute("SELECT part FROM parts").fetchall():
            connection.execute(f"INSERT INTO part_{part} (part_{part}) VALUES ('integrity-check')")
            found = connection.execute(
                f"SELECT count(*) FROM part_{part} WHERE part_{part} MATCH 'scope : (zm OR za OR zk OR zh OR zt OR zo)'"
            ).fetchone()[0]
            rows = connection.execute(
                "SELECT count(*), (SELECT rows FROM parts WHERE part = ?1) FROM units WHERE part = ?1",
                (part,),
            ).fetchone()
            assert found == rows[0] == rows[1]
        return sorted(
            tuple(row)
            for row in connection.execute(
                "SELECT u.kind, o.name, s.name, s.version, u.place, u.at, u.by, u.scope LIKE 'q%', u.text FROM units u "
                "JOIN owners o ON o.id = u.owner JOIN sources s ON s.id = u.source"
            )
        )


def made_anew(swarm):
    """The same index, made from nothing."""
    for suffix in ("", "-wal", "-shm"):
        (swarm.places.state / f"{FILE}{suffix}").unlink(missing_ok=True)
    assert SearchIndex(swarm.places.state, swarm.clock.now).bring_up_to_date()
    return content(swarm)


# -- rounds ---------------------------------------------------------------------------------------------------


def test_a_round_puts_in_what_there_is_and_the_next_has_nothing_to_do(swarm, index):
    some_of_all(swarm)
    before = swarm.dump()
    assert index.bring_up_to_date()
    first = content(swarm)
    assert len(first) == 4 + 1 + 1 + 1 + 150
    assert index.bring_up_to_date()
    assert content(swarm) == first
    assert swarm.dump() == before, "the store is only read"
    assert state_of(swarm.places.state).rows == len(first)
    assert swarm.call("verify")["ok"]


def test_step_by_step_it_comes_to_what_one_round_would_have_made(swarm, index):
    some_of_all(swarm)
    index.bring_up_to_date()
    swarm.clock.go(minutes=1)
    swarm.call(
        "memory_write", agent="studio", file="MEMORY.md", text="# One\nlion\n\n" + "word " * 900 + "more\n"
    )
    swarm.call("memory_delete", agent="game", file="archive/history_1.md")
    swarm.call("ctx_set", agent="game", key="k", value="lion")
    swarm.call("handoff_decline", id=1, reply="no zebra here", as_="game")
    sessions(swarm, 3)
    swarm.write(lambda c: c.execute("UPDATE sessions SET quarantined = ? WHERE id = 2", (to_text(NOW),)))
    index.bring_up_to_date()
    stepwise = content(swarm)
    anew = made_anew(swarm)

    def undated(rows):  # a text that has stayed keeps the date and the author that it had
        return sorted((*row[:5], *row[7:]) for row in rows)

    assert undated(stepwise) == undated(anew)


def test_a_round_ends_when_its_time_is_over_and_the_next_goes_on(swarm, index):
    sessions(swarm, 50)
    steps = 0

    def enough():
        nonlocal steps
        steps += 1
        if steps % 7 == 0:
            raise NoMoreTime

    rounds = 0
    while not index.bring_up_to_date(pause=enough):
        rounds += 1
        assert rounds < 50
    assert rounds >= 7
    assert content(swarm) == made_anew(swarm)
    assert state_of(swarm.places.state).complete == to_text(NOW)


def test_a_round_of_no_time_does_a_step(swarm, index):
    sessions(swarm, 3)
    for _ in range(10):
        if index.bring_up_to_date(0.0):
            break
    assert len(content(swarm)) == 15


def test_two_at_once_do_not_get_in_each_others_way(swarm, index):
    sessions(swarm, 5)
    inside, go = threading.Event(), threading.Event()

    def wait():
        inside.set()
        assert go.wait(30)

    thread = threading.Thread(target=lambda: index.bring_up_to_date(pause=wait))
    thread.start()
    assert inside.wait(30)
    assert index.bring_up_to_date() is False
    go.set()
    thread.join()
    assert content(swarm) == made_anew(swarm)


def test_parts_fill_up_and_empty_ones_go(swarm, index, monkeypatch):
    monkeypatch.setattr(search_units, "PART_ROWS", 10)
    sessions(swarm, 7)
    index.bring_up_to_date()

    def parts():
        with opened(swarm) as connection:
            return [tuple(row) for row in connection.execute("SELECT part, rows FROM parts ORDER BY part")]

    assert parts() == [(0, 10), (1, 10), (2, 10), (3, 5)]
    swarm.write(lambda c: c.execute("DELETE FROM sessions WHERE id IN (1, 2, 3, 7)"))
    sessions(swarm, 1)
    swarm.clock.go(days=2)
    index.bring_up_to_date()
    assert sum(rows for _, rows in parts()) == 20
    assert 0 not in dict(parts())
    assert content(swarm) == made_anew(swarm)


def test_more_texts_of_one_second_than_it_has_numbers_spill_into_the_next(swarm, index, monkeypatch):
    monkeypatch.setattr(search_units, "SECOND", 8)
    sessions(swarm, 10)
    index.bring_up_to_date()
    sessions(swarm, 2)
    index.bring_up_to_date()
    assert len(content(swarm)) == 60


def test_an_unended_session_is_waited_for_however_many_come_after_it(swarm, index):
    first = swarm.queue("studio")
    sessions(swarm, 3)
    transcript(swarm, first, "zebra of the first")
    index.bring_up_to_date()
    assert len(content(swarm)) == 15
    swarm.write(
        lambda c: c.execute(
            "UPDATE sessions SET state = 'ended', ended = ? WHERE id = ?", (to_text(NOW), first)
        )
    )
    index.bring_up_to_date()
    assert len(content(swarm)) == 16
    assert content(swarm) == made_anew(swarm)


def test_a_handoff_whose_commit_was_overtaken_is_found_all_the_same(swarm, index):
    swarm.call("handoff_send", to="game", text="first")
    swarm.clock.go(minutes=30)
    swarm.call("handoff_send", to="game", text="second")
    index.bring_up_to_date()
    swarm.clock.go(minutes=-29)  # asked for before the second, written after it
    swarm.call("handoff_send", to="art", text="zebra")
    swarm.clock.go(minutes=29)
    index.bring_up_to_date()
    assert len(content(swarm)) == 3


def test_a_handoff_that_a_backward_clock_has_hidden_is_found_within_a_day(swarm, index):
    swarm.call("handoff_send", to="game", text="first")
    index.bring_up_to_date()
    swarm.clock.go(days=-3)
    swarm.call("handoff_send", to="game", text="zebra")
    swarm.clock.go(days=4)
    index.bring_up_to_date()
    assert len(content(swarm)) == 2


# -- files of sessions ----------------------------------------------------------------------------------------


def test_what_is_wrong_with_a_transcript_is_passed_over(swarm, index):
    sessions(swarm, 1)
    odd = ['{"seq": 3, "at": "2026-11-30T09:00:00Z", "kind": "text", "te', "[]", "null", '{"kind": "text"}', "\xff\x00",
           '{"seq": 4, "at": "noon", "kind": "text", "text": "zebra"}', "[" * 5000,
           '{"seq": 5, "at": "2026-11-30T09:00:00Z", "kind": "text", "text": {"a": ["\\ud800", 1]}}',
           '{"seq": 6, "at": "2026-11-30T09:00:00Z", "kind": "tool_call", "name": null, "input": null}',
           '{"seq": 7, "at": "2026-11-30T09:00:00Z", "kind": "later", "text": "zebra"}']  # fmt: skip
    transcript(swarm, 1, "zebra\0one", "two", tail="\n".join(odd))
    assert index.bring_up_to_date()
    assert [row[8] for row in content(swarm)] == ["zebra one", "two", '{"a": ["?", 1]}']


def test_a_million_lines_of_output_are_taken_up_to_a_bound(swarm, index):
    sessions(swarm, 1, events=0)
    folder = swarm.places.state / "sessions" / "1"
    (folder / "transcript.jsonl").unlink()
    (folder / "output.log").write_bytes(b"zebra line\n" * 1_000_000 + b"\xff\xfe" + b"y" * 10_000_000)
    assert index.bring_up_to_date()
    state = state_of(swarm.places.state)
    assert 1000 < state.rows < search_units.BATCH_ROWS * 10 + 1
    with opened(swarm) as connection:
        assert max(len(text) for (text,) in connection.execute("SELECT text FROM units")) < 1600


def test_a_folder_in_a_files_place_is_no_text(swarm, index):
    sessions(swarm, 1)
    folder = swarm.places.state / "sessions" / "1"
    (folder / "transcript.jsonl").unlink()
    (folder / "transcript.jsonl").mkdir()
    assert index.bring_up_to_date()
    assert content(swarm) == []


# -- what happens to the file ---------------------------------------------------------------------------------


def cut_off(path):
    os.truncate(path, path.stat().st_size // 2)


def at_its_start(path):
    path.write_bytes(os.urandom(8192) + path.read_bytes()[8192:])


def in_its_middle(path):
    data = bytearray(path.read_bytes())
    for page in range(4096 * 3, len(data), 4096):
        data[page : page + 2000] = os.urandom(2000)
    path.write_bytes(data)


def emptied(path):
    path.write_bytes(b"")


def of_another_version(path):
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {FORMAT + 1}")


def without_a_table(path):
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TABLE units")


def gone(path):
    path.unlink()


@pytest.mark.parametrize(
    "harm", [cut_off, at_its_start, in_its_middle, emptied, of_another_version, without_a_table, gone]
)
def test_an_index_that_was_harmed_is_made_anew(swarm, harm):
    some_of_all(swarm)
    good = made_anew(swarm)
    harm(swarm.places.state / FILE)
    for _ in range(3):
        with contextlib.suppress(StoreUnusable):
            document = swarm.call("memory_search", text="zebra", n=100)
        swarm.call("ctx_set", agent="game", key="k", value="zebra")  # the store goes on
    assert len(document["items"]) == 100
    assert document["more"] is True
    assert [row for row in content(swarm) if row[0] != "key"] == [row for row in good if row[0] != "key"]


def test_an_index_of_another_store_or_of_a_later_state_of_it_is_made_anew(swarm, index):
    sessions(swarm, 5)
    index.bring_up_to_date()
    swarm.write(lambda c: c.execute("DELETE FROM sessions WHERE id > 2"))
    swarm.write(lambda c: c.execute("UPDATE sqlite_sequence SET seq = 2 WHERE name = 'sessions'"))
    index.bring_up_to_date()
    assert len(content(swarm)) == 10
    swarm.write(lambda c: c.execute("UPDATE meta SET value = 'another' WHERE key = 'store_id'"))
    with opened(swarm) as connection:
        connection.execute("DELETE FROM sources")
        connection.commit()
    index.bring_up_to_date()
    assert len(content(swarm)) == 10


def test_where_the_store_is_what_is_damaged_the_index_is_not_made_anew_again_and_again(
    swarm, index, monkeypatch
):
    sessions(swarm, 3)
    index.bring_up_to_date()
    removed = []
    monkeypatch.setattr(indexing.search_file, "remove", removed.append)

    def broken(connection):
        error = sqlite3.DatabaseError("database disk image is malformed")
        error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise error

    monkeypatch.setattr(search_due, "keys", broken)
    for _ in range(5):
        with pytest.raises(sqlite3.DatabaseError):
            index.bring_up_to_date()
    assert len(removed) == 1


def test_an_index_that_somebody_else_holds_is_left_for_later_and_read_meanwhile(swarm, index, monkeypatch):
    monkeypatch.setattr("swarmd.store.search_file.WRITERS_WAIT_SECONDS", 0.05)
    sessions(swarm, 3)
    index.bring_up_to_date()
    with opened(swarm) as connection:
        connection.execute("BEGIN IMMEDIATE")
        sessions(swarm, 1)
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            index.bring_up_to_date()
        assert len(swarm.call("session_search", text="zebra", n=100)["items"]) == 15
    assert len(swarm.call("session_search", text="zebra", n=100)["items"]) == 20


def test_where_the_index_cannot_be_made_a_search_says_so_and_the_store_goes_on(swarm):
    sessions(swarm, 1)
    (swarm.places.state / FILE).mkdir()
    with pytest.raises(StoreUnusable, match=r"search\.db is a directory: remove it"):
        swarm.call("memory_search", text="zebra")
    swarm.call("ctx_set", agent="game", key="k", value="v")
    assert state_of(swarm.places.state).complete is None


CHILD = """
import os, resource, signal, sys
from datetime import UTC, datetime
from pathlib import Path
from swarmd.errors import StoreUnusable
from swarmd.store import indexing
mode, number, state = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
indexing.COMMIT_SECONDS = 0.0
steps = 0
def pause():
    global steps
    steps += 1
    if mode == "killed" and steps == number:
        os.kill(os.getpid(), signal.SIGKILL)
if mode == "full":
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (number, number))
try:
    indexing.SearchIndex(state, lambda: datetime.now(UTC)).bring_up_to_date(pause=pause)
except Exception as error:
    sys.exit(f"{type(error).__name__}: {error}")
"""


def child(swarm, mode, number):
    ran = subprocess.run([sys.executable, "-c", CHILD, mode, str(number), str(swarm.places.state)], cwd=ROOT,
                         capture_output=True, text=True, check=False)  # fmt: skip
    return ran.returncode, ran.stderr


@pytest.mark.parametrize("step", [1, 2, 5, 20, 34])
def test_killed_while_indexing_the_next_goes_on(swarm, index, step):
    some_of_all(swarm)
    before = dump(swarm.reader)
    assert child(swarm, "killed", step)[0] == -9
    assert index.bring_up_to_date()
    assert content(swarm) == made_anew(swarm)
    assert dump(swarm.reader) == before


@pytest.mark.parametrize("room", [1, 20_000, 150_000])
def test_on_a_full_disk_nothing_is_lost_and_the_next_goes_on(swarm, index, room):
    some_of_all(swarm)
    sessions(swarm, 100, events=20)
    status, said = child(swarm, "full", room)
    assert status == 1
    assert "Error" in said
    assert index.bring_up_to_date()
    assert content(swarm) == made_anew(swarm)


def test_the_index_is_private_to_its_owner(swarm, index):
    index.bring_up_to_date()
    assert (swarm.places.state / FILE).stat().st_mode & 0o777 == 0o600


def test_a_backup_has_no_index_and_a_restored_state_makes_its_own(swarm, tmp_path):
    from swarmd.service.backup import backup, restore

    some_of_all(swarm)
    made_anew(swarm)
    backup(swarm.places, tmp_path / "b.db")
    from dataclasses import replace

    other = replace(swarm.places, state=tmp_path / "other")
    restore(other, tmp_path / "b.db")
    assert not (other.state / FILE).exists()
    assert SearchIndex(other.state, swarm.clock.now).bring_up_to_date()
    assert state_of(other.state).rows == 7


def test_a_round_that_rests_is_hurried_by_who_waits_for_the_index_and_both_come_to_their_end(swarm, index):
    some_of_all(swarm)
    inside, rested = threading.Event(), []

    def rest():
        inside.set()
        while not index.is_hurried:
            rested.append(threading.Event().wait(0.01))

    round_ = threading.Thread(target=lambda: index.bring_up_to_date(pause=rest))
    round_.start()
    assert inside.wait(10)
    assert not index.is_made
    index.make(10)
    assert index.is_made
    assert rested
    round_.join(10)
    assert not round_.is_alive()


def test_who_waits_for_the_index_waits_no_longer_than_he_said(swarm, index):
    some_of_all(swarm)
    inside, go_on = threading.Event(), threading.Event()

    def rest():
        inside.set()
        go_on.wait(10)

    round_ = threading.Thread(target=lambda: index.bring_up_to_date(pause=rest))
    round_.start()
    assert inside.wait(10)
    index.make(0.05)
    assert not index.is_made
    go_on.set()
    round_.join(10)
    assert index.is_made
