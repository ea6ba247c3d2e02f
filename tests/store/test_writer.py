"""The writer: one transaction for all that wait, and each wish alone with its fault."""

import asyncio
import sqlite3
import threading
import time
from concurrent.futures import wait
from contextlib import closing

import pytest

from swarmd.errors import Refused, StoreUnusable
from swarmd.store.connections import open_reading, open_writing
from swarmd.store.database import OutcomeUnknown, StoreGone, Writer


class Disk:
    """A writing connection whose COMMIT can fail, and which tells how many there were."""

    def __init__(self, connection):
        self.connection = connection
        self.commits = 0
        self.fault = None

    def execute(self, sql, *args):
        if sql == "COMMIT":
            self.commits += 1
            if self.fault is not None:
                raise self.fault
        return self.connection.execute(sql, *args)

    @property
    def in_transaction(self):
        return self.connection.in_transaction

    @property
    def total_changes(self):
        return self.connection.total_changes

    def close(self):
        self.connection.close()


def io_error(code=sqlite3.SQLITE_IOERR_FSYNC):
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = code
    return error


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "a.db"
    with closing(open_writing(path)) as connection:
        connection.execute("CREATE TABLE t (x INTEGER UNIQUE)")
    return path


@pytest.fixture
def disk(path):
    return Disk(open_writing(path))


@pytest.fixture
def writer(disk):
    writer = Writer(disk)
    yield writer
    writer.close()


def put(number):
    return lambda connection: connection.execute("INSERT INTO t VALUES (?)", (number,)).lastrowid


def rows(path):
    with closing(open_reading(path)) as connection:
        return sorted(row[0] for row in connection.execute("SELECT x FROM t"))


def together(writer, *works):
    """Submit all while the writer is busy, so that they become one batch."""
    gate = threading.Event()
    writer.submit(lambda connection: gate.wait(10) and None)
    time.sleep(0.05)
    futures = [writer.submit(work) for work in works]
    gate.set()
    wait(futures, timeout=10)
    return futures


def test_what_is_done_is_there_when_the_answer_comes(writer, path):
    assert writer.do(put(1)) == 1
    assert rows(path) == [1]


def test_all_that_wait_share_one_commit(writer, disk, path):
    together(writer, *(put(n) for n in range(50)))
    assert disk.commits == 2
    assert rows(path) == list(range(50))


def test_the_failure_of_one_does_not_touch_the_rows_of_the_others(writer, path):
    def half(connection):
        put(7)(connection)
        raise Refused("no")

    first, failed, last = together(writer, put(1), half, put(2))
    assert (first.exception(), last.exception()) == (None, None)
    assert isinstance(failed.exception(), Refused)
    assert rows(path) == [1, 2]


@pytest.mark.parametrize("fault", [KeyboardInterrupt(), SystemExit(1), RuntimeError("x"), MemoryError()])
def test_whatever_a_function_raises_the_transaction_is_not_left_open(writer, disk, path, fault):
    def work(connection):
        put(7)(connection)
        raise fault

    with pytest.raises(type(fault)):
        writer.do(work)
    assert not disk.in_transaction
    writer.do(put(1))
    assert rows(path) == [1]


def test_a_violated_constraint_undoes_only_its_own(writer, path):
    def twice(connection):
        put(3)(connection)
        put(3)(connection)

    with pytest.raises(sqlite3.IntegrityError):
        writer.do(twice)
    writer.do(put(3))
    assert rows(path) == [3]


def test_a_full_disk_is_a_sentence_and_passes(writer, disk, path):
    writer.do(put(1))
    pages = disk.connection.execute("PRAGMA page_count").fetchone()[0]
    disk.connection.execute(f"PRAGMA max_page_count = {pages}")

    def much(connection):
        connection.execute("CREATE TABLE big (x)")
        connection.execute("INSERT INTO big VALUES (zeroblob(1000000))")

    with pytest.raises(StoreUnusable, match="disk that holds the store is full"):
        writer.do(much)
    assert not disk.in_transaction
    disk.connection.execute("PRAGMA max_page_count = 1000000")
    writer.do(much)
    writer.do(put(2))
    assert rows(path) == [1, 2]


def test_where_sqlite_rolls_everything_back_the_others_are_done_by_themselves(writer, disk, path):
    def rolled_back(connection):
        put(7)(connection)
        connection.execute("ROLLBACK")
        raise io_error(sqlite3.SQLITE_FULL)

    first, failed, last = together(writer, put(1), rolled_back, put(2))
    assert (first.exception(), last.exception()) == (None, None)
    assert isinstance(failed.exception(), StoreUnusable)
    assert rows(path) == [1, 2]


def test_a_full_disk_at_the_commit_rolls_back_and_can_be_tried_again(writer, disk, path):
    disk.fault = io_error(sqlite3.SQLITE_FULL)
    with pytest.raises(StoreUnusable, match="full"):
        writer.do(put(1))
    disk.fault = None
    writer.do(put(2))
    assert rows(path) == [2]


def test_a_store_that_took_nothing_is_well_again_when_a_write_went_through_and_not_before(writer, disk, path):
    disk.fault = io_error(sqlite3.SQLITE_FULL)
    with pytest.raises(StoreUnusable, match="full"):
        writer.do(put(1))
    disk.fault = None
    writer.do(lambda connection: connection.execute("SELECT * FROM t").fetchall())
    assert "full" in writer.trouble
    writer.do(put(2))
    assert writer.trouble is None


def test_once_the_guard_says_that_the_store_is_gone_nothing_more_is_written(writer, disk, path):
    writer.do(put(1))

    def gone():
        raise StoreGone("the store is gone")

    writer.guard = gone
    for _ in range(2):
        with pytest.raises(StoreGone, match=r"^the store is gone$"):
            writer.do(put(2))
        writer.guard = lambda: None
    assert rows(path) == [1]


@pytest.mark.parametrize(
    "code", [sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_IOERR_WRITE]
)
def test_after_an_io_error_at_a_commit_nothing_more_is_written(writer, disk, path, code):
    disk.fault = io_error(code)
    with pytest.raises(OutcomeUnknown):
        writer.do(put(1))
    disk.fault = None
    with pytest.raises(OutcomeUnknown):
        writer.do(put(2))
    assert 2 not in rows(path)


def test_what_waits_behind_an_io_error_is_not_written_either(writer, disk, path):
    gate = threading.Event()

    def slow(connection):
        gate.wait(10)
        disk.fault = io_error()

    first = writer.submit(slow)
    time.sleep(0.05)
    behind = writer.submit(put(2))
    gate.set()
    for future in (first, behind):
        assert isinstance(future.exception(timeout=10), OutcomeUnknown)
    assert rows(path) == []


def test_an_io_error_within_a_statement_is_a_sentence(writer):
    def work(connection):
        raise io_error(sqlite3.SQLITE_IOERR_READ)

    with pytest.raises(StoreUnusable, match="disk I/O error"):
        writer.do(work)


def test_another_programs_lock_is_waited_for_then_told(path, monkeypatch):
    monkeypatch.setattr("swarmd.store.connections.BUSY_SECONDS", 0.3)
    writer = Writer(open_writing(path))
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        started = time.monotonic()
        with pytest.raises(StoreUnusable, match="another program holds a lock"):
            writer.do(put(1))
        assert time.monotonic() - started >= 0.3
        future = writer.submit(put(2))
        time.sleep(0.05)
        other.execute("ROLLBACK")
        future.result(timeout=10)
    writer.close()
    assert rows(path) == [2]


def test_readers_are_never_blocked(writer, path):
    gate = threading.Event()
    writer.do(put(1))
    future = writer.submit(lambda connection: (put(2)(connection), gate.wait(10)))
    time.sleep(0.05)
    assert rows(path) == [1]
    gate.set()
    future.result(timeout=10)
    assert rows(path) == [1, 2]


async def test_to_cancel_the_waiter_does_not_undo_the_work(writer, path):
    gate = threading.Event()
    task = asyncio.ensure_future(writer.run(lambda connection: (gate.wait(10), put(1)(connection))))
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    gate.set()
    await writer.run(put(2))
    assert rows(path) == [1, 2]


def test_what_was_given_up_before_its_turn_is_not_done(writer, path):
    gate = threading.Event()
    writer.submit(lambda connection: gate.wait(10) and None)
    time.sleep(0.05)
    given_up = writer.submit(put(1))
    assert given_up.cancel()
    gate.set()
    writer.do(put(2))
    assert rows(path) == [2]


def test_to_close_is_to_finish_what_waits_and_to_refuse_what_comes(path):
    writer = Writer(open_writing(path))
    futures = [writer.submit(put(n)) for n in range(300)]
    writer.close()
    assert all(future.done() for future in futures)
    assert len(rows(path)) == 300
    with pytest.raises(StoreUnusable, match="closed"):
        writer.do(put(999))
