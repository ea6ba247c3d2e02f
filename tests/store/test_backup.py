"""Backup and restore: consistent while others write, private, and paused when it comes back."""

import os
import sqlite3
import threading
from contextlib import closing
from dataclasses import replace

import pytest

from swarmd.errors import BadInput, Failed, NotFound, StoreUnusable
from swarmd.service.backup import backup, restore
from swarmd.store import opening
from swarmd.store.connections import open_reading
from swarmd.store.store import open_store


@pytest.fixture
def swarm(swarm):
    swarm.call("ctx_set", agent="studio", key="k", value="v")
    swarm.call("memory_write", agent="studio", file="MEMORY.md", text="notes\n")
    swarm.call("memory_write", agent="game", file="topics/a.md", text="a\n")
    return swarm


def elsewhere(swarm):
    return replace(swarm.places, state=swarm.root / "elsewhere")


def reopened(places, swarm):
    return open_store(places.state, swarm.clock.now, operator="ada")


def test_a_backup_is_one_private_file_and_never_overwrites(swarm):
    file = swarm.root / "kept.db"
    document = backup(swarm.places, file)
    assert document == {"file": str(file), "bytes": file.stat().st_size, "left_out": []}
    assert file.stat().st_mode & 0o777 == 0o600
    with pytest.raises(BadInput, match="exists already"):
        backup(swarm.places, file)
    with pytest.raises(BadInput, match="no folder"):
        backup(swarm.places, swarm.root / "nowhere" / "kept.db")


def test_what_people_have_put_into_memory_folders_and_is_not_taken_over_is_named(swarm):
    folder = swarm.file("studio").parent
    (folder / "memory.md").write_text("a twin\n")
    (folder / "Rene\u0301.md").write_text("decomposed\n")
    (folder / os.fsdecode(b"bad\xff.md")).write_text("no UTF-8\n")
    (folder / "link.md").symlink_to("/etc/hostname")
    (folder / "new.md").write_text("just now\n")
    swarm.file("game", "topics/a.md").write_text("edited\n")
    (folder / ".x.swp").write_text("an editor's\n")
    document = backup(swarm.places, swarm.root / "kept.db")
    assert {(one["agent"], one["file"]): one["reason"] for one in document["left_out"]} == {
        ("game", "topics/a.md"): "it was edited, and is not taken over yet",
        (
            "studio",
            "Rene\u0301.md",
        ): "'Rene\u0301.md': a memory path must be in Unicode's composed form (NFC)",
        (
            "studio",
            "bad\\xff.md",
        ): "'bad\\xff.md': a memory path must be UTF-8; this one holds bytes that are not",
        ("studio", "link.md"): "it is a link, and links are not followed: put the file itself there",
        (
            "studio",
            "memory.md",
        ): "'memory.md': MEMORY.md is always a file of this very name, and nothing else may have it",
        ("studio", "new.md"): "it was edited, and is not taken over yet",
    }


def test_a_backup_is_consistent_while_the_store_is_written(swarm):
    stop = threading.Event()

    def write():
        number = 0
        while not stop.is_set():
            number += 1
            swarm.call("handoff_send", to="game", text=str(number))

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for number in range(5):
            backup(swarm.places, swarm.root / f"{number}.db")
    finally:
        stop.set()
        thread.join()
    for number in range(5):
        with closing(sqlite3.connect(swarm.root / f"{number}.db")) as copy:
            assert copy.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
            sent = copy.execute("SELECT count(*) FROM handoffs").fetchone()[0]
            assert copy.execute("SELECT count(*) FROM audit WHERE act = 'handoff_send'").fetchone()[0] == sent


def test_a_restored_state_is_whole_and_starts_paused(swarm):
    backup(swarm.places, swarm.root / "kept.db")
    there = elsewhere(swarm)
    document = restore(there, swarm.root / "kept.db")
    assert document["paused"]
    assert (there.state / "memory/studio/MEMORY.md").read_text() == "notes\n"
    assert (there.state / "memory/game/topics/a.md").read_text() == "a\n"
    assert there.state.stat().st_mode & 0o777 == 0o700
    with closing(reopened(there, swarm)) as store:
        (pause,) = store.reader().execute("SELECT * FROM pauses").fetchall()
        assert (pause["agent"], pause["reason"]) == ("all", "restored from kept.db")
        assert store.reader().execute("SELECT value FROM keys WHERE key = 'k'").fetchone()[0] == "v"
        assert store.reader().execute("SELECT count(*) FROM revisions").fetchone()[0] == 2
        assert (
            store.reader().execute("SELECT act FROM audit ORDER BY seq DESC LIMIT 1").fetchone()[0]
            == "restore"
        )
    assert (there.state / "memory/studio/MEMORY.md").read_text() == "notes\n"


def test_what_lived_in_the_backup_is_ended(swarm):
    running, queued = swarm.queue("studio"), swarm.queue("game")
    swarm.write(
        lambda c: c.execute(
            "UPDATE sessions SET state = 'running', token_hash = 'x' WHERE id = ?", (running,)
        )
    )
    backup(swarm.places, swarm.root / "kept.db")
    there = elsewhere(swarm)
    restore(there, swarm.root / "kept.db")
    with closing(open_reading(there.state / "swarmd.db")) as connection:
        rows = connection.execute(
            "SELECT id, state, outcome, reason, token_hash FROM sessions ORDER BY id"
        ).fetchall()
    assert [tuple(row) for row in rows] == [
        (running, "ended", "lost", "restored from a backup", None), (queued, "ended", "lost", "restored from a backup", None),
    ]  # fmt: skip


def test_a_state_that_holds_something_is_never_restored_into(swarm):
    backup(swarm.places, swarm.root / "kept.db")
    before = swarm.dump()
    with pytest.raises(StoreUnusable, match="not empty"):
        restore(swarm.places, swarm.root / "kept.db")
    assert swarm.dump() == before


@pytest.mark.parametrize("content", [b"", b"no database" * 1000])
def test_what_is_no_backup_is_refused_and_nothing_is_made(swarm, content):
    file = swarm.root / "kept.db"
    file.write_bytes(content)
    there = elsewhere(swarm)
    with pytest.raises((BadInput, StoreUnusable)):
        restore(there, file)
    assert not there.state.exists()
    with pytest.raises(BadInput, match="no such backup"):
        restore(there, swarm.root / "nowhere.db")


def test_a_damaged_backup_is_refused(swarm):
    file = swarm.root / "kept.db"
    backup(swarm.places, file)
    data = bytearray(file.read_bytes())
    for page in range(4096, len(data), 4096):
        data[page : page + 64] = b"\xff" * 64
    file.write_bytes(data)
    with pytest.raises(StoreUnusable, match="damaged"):
        restore(elsewhere(swarm), file)


def test_a_restore_that_ends_half_way_leaves_nothing_that_could_be_started(swarm, monkeypatch):
    backup(swarm.places, swarm.root / "kept.db")
    there = elsewhere(swarm)

    def full(part, target):
        raise OSError(28, "No space left on device", str(target))

    monkeypatch.setattr(opening, "put_in_place", full)
    with pytest.raises(Failed, match="No space left"):
        restore(there, swarm.root / "kept.db")
    assert list(there.state.iterdir()) == []
    monkeypatch.undo()
    restore(there, swarm.root / "kept.db")


def test_a_backup_of_nothing_is_not_found(swarm):
    with pytest.raises(NotFound):
        backup(elsewhere(swarm), swarm.root / "kept.db")
