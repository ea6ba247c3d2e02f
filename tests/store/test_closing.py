"""Closing a store while threads still read: each ends its read, and the process lives."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime

import pytest

from swarmd.store.database import StoreClosed
from swarmd.store.store import open_store

CLOSED_UNDER_READERS = """
import sqlite3, sys, threading
from datetime import UTC, datetime
from pathlib import Path
from swarmd.store.database import StoreClosed
from swarmd.store.store import open_store

COUNT = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200) SELECT i FROM n"


def read(store, began, ended):
    try:
        connection = store.reader()
        began.release()
        for _ in range(2000):
            assert len(connection.execute(COUNT).fetchall()) == 200
        ended.append("read to the end")
    except (StoreClosed, sqlite3.OperationalError) as error:
        began.release()
        ended.append(str(error))


for number in range(int(sys.argv[2])):
    store = open_store(Path(sys.argv[1]) / str(number), lambda: datetime.now(UTC), operator="tester")
    began, ended = threading.Semaphore(0), []
    threads = [threading.Thread(target=read, args=(store, began, ended)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in threads:
        began.acquire()
    store.close()
    for thread in threads:
        thread.join()
    assert len(ended) == 3 and set(ended) <= {"read to the end", "interrupted"}, ended
print("whole")
"""


def test_threads_that_read_while_the_store_closes_do_not_crash_the_process(tmp_path):
    ran = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", CLOSED_UNDER_READERS, str(tmp_path), "12"],
        check=False, capture_output=True, text=True, timeout=100,
    )  # fmt: skip
    assert (ran.returncode, ran.stdout) == (0, "whole\n"), ran.stderr[-2000:]


def test_after_its_close_a_store_is_read_no_more(tmp_path):
    store = open_store(tmp_path / "state", lambda: datetime.now(UTC), operator="tester")
    store.reader().execute("SELECT count(*) FROM sessions")
    store.close()
    with pytest.raises(StoreClosed):
        store.reader()
    assert [path.name for path in (tmp_path / "state").glob("*.db*")] == ["swarmd.db"]
