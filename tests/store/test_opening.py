"""Opening a store: who may, what is never overwritten, and what an older or newer one is told."""

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime

import pytest

from swarmd.errors import Failed, NotFound, StoreUnusable
from swarmd.store import migrating, opening, schema
from swarmd.store.connections import open_reading
from swarmd.store.copies import keep_copy
from swarmd.store.opening import Lock, connect_reading, is_locked
from swarmd.store.store import open_store

NOW = datetime(2026, 11, 30, tzinfo=UTC)
LONG_AGO = "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;"


def opened(state, **facts):
    return open_store(state, lambda: NOW, operator="ada", **facts)


def make(state):
    opened(state).close()
    return state / "swarmd.db"


@pytest.fixture
def state(tmp_path):
    return tmp_path / "state"


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


# -- fresh --------------------------------------------------------------------------------------------------


def test_a_fresh_state_is_made_and_is_private(state):
    make(state)
    assert sorted(path.name for path in state.iterdir()) == [
        "homes",
        "memory",
        "operator.key",
        "sessions",
        "swarmd.db",
    ]
    assert state.stat().st_mode & 0o777 == 0o700
    for path in state.iterdir():
        assert path.stat().st_mode & 0o077 == 0, path


def test_the_operators_key_stays_the_same(state):
    make(state)
    key = (state / "operator.key").read_text()
    make(state)
    assert (state / "operator.key").read_text() == key
    assert len(key.strip()) == 64


def test_a_start_that_was_killed_half_way_is_gone_on_with(state):
    """Each point at which the first start may have been killed: before, within and after the tables."""
    state.mkdir()
    (state / "swarmd.db").touch()
    make(state)
    with closing(sqlite3.connect(state / "swarmd.db")) as connection:
        connection.execute("DELETE FROM meta")
        connection.commit()
    with closing(opened(state)) as store:
        secrets = (
            store.reader().execute("SELECT key FROM meta WHERE length(value) = 32 ORDER BY key").fetchall()
        )
        assert [row[0] for row in secrets] == ["fence", "store_id"]


def test_the_migrations_own_table_alone_is_no_damage(state):
    state.mkdir()
    with closing(sqlite3.connect(state / "swarmd.db")) as connection:
        connection.execute(
            "CREATE TABLE _sqlite_migrations (id INTEGER PRIMARY KEY, migration_set TEXT, name TEXT, applied_at TEXT)"
        )
        connection.execute("CREATE UNIQUE INDEX _one ON _sqlite_migrations (migration_set, name)")
    make(state)


# -- one writer ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["same", "symlink", "dots"])
def test_a_second_opener_is_refused_whatever_path_it_comes_by(state, tmp_path, way):
    (tmp_path / "link").symlink_to(state)
    (tmp_path / "other").mkdir()
    path = {"same": state, "symlink": tmp_path / "link", "dots": tmp_path / "other" / ".." / "state"}[way]
    with closing(opened(state)):
        assert is_locked(path)
        with pytest.raises(StoreUnusable, match="another swarmd has the state"):
            opened(path)
    assert not is_locked(path)
    opened(path).close()


def test_a_second_process_is_refused_too(state):
    code = (
        "import sys\nfrom pathlib import Path\nfrom datetime import UTC, datetime\n"
        "from swarmd.store.store import open_store\n"
        "open_store(Path(sys.argv[1]), lambda: datetime.now(UTC), operator='x')\n"
    )
    with closing(opened(state)):
        ran = subprocess.run([sys.executable, "-c", code, state], capture_output=True, text=True, check=False)
    assert "StoreUnusable: another swarmd has the state" in ran.stderr


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="mounts")
def test_a_second_opener_is_refused_by_a_bind_mount(state, tmp_path):
    bound = tmp_path / "bound"
    bound.mkdir()
    make(state)
    code = (
        "import subprocess, sys\nfrom pathlib import Path\nfrom datetime import UTC, datetime\n"
        "subprocess.run(['mount', '--bind', sys.argv[1], sys.argv[2]], check=True)\n"
        "from swarmd.store.store import open_store\n"
        "open_store(Path(sys.argv[2]), lambda: datetime.now(UTC), operator='x')\n"
    )
    command = ["unshare", "--mount", sys.executable, "-c", code, str(state), str(bound)]
    with closing(opened(state)):
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if "permission" in ran.stderr.lower() or "not permitted" in ran.stderr.lower():
        pytest.skip("this machine lets nobody mount")
    assert "another swarmd has the state" in ran.stderr


def test_the_lock_does_not_hang_on_any_file(state):
    with closing(opened(state)):
        for path in list(state.iterdir()):
            if path.is_file() and path.name != "swarmd.db":
                path.unlink()
        with pytest.raises(StoreUnusable):
            opened(state)


def test_two_that_only_look_do_not_see_each_other(state):
    make(state)
    assert not any(is_locked(state) for _ in range(100))
    held = Lock(state)
    assert held.acquire()
    assert is_locked(state)
    held.release()


def test_whoever_waits_gets_the_lock_when_it_is_free(state):
    make(state)
    first = opened(state)
    assert not Lock(state).acquire(wait_seconds=5, give_up=lambda: True)
    first.close()
    opened(state, wait_seconds=5).close()


def test_a_start_that_fails_gives_the_lock_back(state):
    database = make(state)
    database.write_bytes(b"no database at all, but long enough to look like one" * 100)
    for _ in range(2):
        with pytest.raises(StoreUnusable, match="damaged"):
            opened(state)
        assert not is_locked(state)


# -- damage is never overwritten ----------------------------------------------------------------------------


def test_a_database_that_is_missing_beside_other_state_is_not_made_anew(state):
    make(state).unlink()
    before = contents(state)
    with pytest.raises(StoreUnusable, match="missing beside other state"):
        opened(state)
    assert contents(state) == before
    with pytest.raises(StoreUnusable, match="missing beside other state"):
        connect_reading(state)


def test_a_folder_with_no_sign_of_a_state_has_no_store_yet(state):
    state.mkdir()
    with pytest.raises(NotFound, match="no store"):
        connect_reading(state)


def test_a_log_without_its_database_is_damage_too(state):
    state.mkdir()
    (state / "swarmd.db-wal").write_bytes(b"x")
    with pytest.raises(StoreUnusable, match="missing beside other state"):
        opened(state)


def test_an_emptied_database_is_not_made_anew(state):
    make(state).write_bytes(b"")
    with pytest.raises(StoreUnusable, match="missing beside other state"):
        opened(state)
    assert (state / "swarmd.db").stat().st_size == 0


def test_a_truncated_database_is_refused(state):
    database = make(state)
    data = database.read_bytes()
    database.write_bytes(data[: len(data) // 2])
    before = contents(state)
    with pytest.raises(StoreUnusable, match="damaged"):
        opened(state, thorough=True)
    assert contents(state) == before


def test_overwritten_pages_are_found_by_a_thorough_start(state):
    database = make(state)
    data = bytearray(database.read_bytes())
    for page in range(4096, len(data), 4096):
        data[page : page + 64] = os.urandom(64)
    database.write_bytes(data)
    with pytest.raises(StoreUnusable, match="damaged"):
        opened(state, thorough=True)
    assert database.read_bytes() == bytes(data)


def test_another_programs_database_is_refused(state):
    state.mkdir()
    with closing(sqlite3.connect(state / "swarmd.db")) as connection:
        connection.execute("CREATE TABLE songs (title TEXT)")
    with pytest.raises(StoreUnusable, match="not a store of swarmd"):
        opened(state)


def test_a_lock_of_another_program_is_no_damage(state, monkeypatch):
    monkeypatch.setattr("swarmd.store.connections.BUSY_SECONDS", 0.1)
    make(state)
    with closing(sqlite3.connect(state / "swarmd.db", isolation_level=None)) as other:
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StoreUnusable, match="another program") as refused:
            connect_reading(state)
        assert "damaged" not in str(refused.value)


# -- versions -----------------------------------------------------------------------------------------------


@pytest.fixture
def older(state, monkeypatch):
    """A state that a program of the version before has made."""
    monkeypatch.setattr(migrating, "MIGRATIONS", (("0001_long_ago", LONG_AGO),))
    for module in (opening, migrating):
        monkeypatch.setattr(module, "VERSION", 1)
    state.mkdir(mode=0o700)
    with closing(opening.connect_writing(state)) as connection:
        connection.execute("INSERT INTO meta VALUES ('age', 'old')")
    steps = (
        ("0001_long_ago", LONG_AGO),
        ("0002_words", "CREATE TABLE words (word TEXT);\nINSERT INTO words VALUES ('a;b');"),
        ("0003_more", "ALTER TABLE words ADD COLUMN length INTEGER;"),
    )
    monkeypatch.setattr(migrating, "MIGRATIONS", steps)
    for module in (opening, migrating):
        monkeypatch.setattr(module, "VERSION", 3)
    return state


def version(path):
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("PRAGMA user_version").fetchone()[0]


def test_an_older_store_is_migrated_after_a_copy_is_kept(older):
    with closing(opening.connect_writing(older)) as connection:
        assert [tuple(row) for row in connection.execute("SELECT word, length FROM words")] == [("a;b", None)]
        assert connection.execute("SELECT value FROM meta WHERE key = 'age'").fetchone()[0] == "old"
    kept = older / "before-3.db"
    assert (version(kept), version(older / "swarmd.db")) == (1, 3)
    assert kept.stat().st_mode & 0o777 == 0o600


def test_a_migration_that_fails_leaves_the_steps_before_it_and_is_gone_on_with(older, monkeypatch):
    good = migrating.MIGRATIONS
    monkeypatch.setattr(
        migrating, "MIGRATIONS", (*good[:2], ("0003_more", "CREATE TABLE half (x);\nNONSENSE;"))
    )
    with pytest.raises(StoreUnusable, match="syntax error"):
        opening.connect_writing(older)
    assert (version(older / "swarmd.db"), version(older / "before-3.db")) == (2, 1)
    monkeypatch.setattr(migrating, "MIGRATIONS", good)
    with closing(opening.connect_writing(older)) as connection:
        tables = [
            row[0]
            for row in connection.execute("SELECT name FROM sqlite_schema WHERE name IN ('words', 'half')")
        ]
        assert tables == ["words"]
    assert version(older / "before-3.db") == 1  # what was half migrated did not take the copy's place


def test_a_second_upgrade_keeps_what_is_newest(older):
    opening.connect_writing(older).close()
    (older / "swarmd.db").write_bytes((older / "before-3.db").read_bytes())  # gone back, and lived on
    with closing(sqlite3.connect(older / "swarmd.db")) as connection:
        connection.execute("UPDATE meta SET value = 'older' WHERE key = 'age'")
        connection.commit()
    opening.connect_writing(older).close()
    with closing(sqlite3.connect(older / "before-3.db")) as kept:
        assert kept.execute("SELECT value FROM meta WHERE key = 'age'").fetchone()[0] == "older"


def test_an_older_store_is_not_read_but_migrated_first(older):
    with pytest.raises(StoreUnusable, match="older version"):
        connect_reading(older)


def test_a_newer_store_is_refused_and_the_copy_is_named(state):
    database = make(state)
    with closing(sqlite3.connect(database)) as connection:
        connection.execute(f"PRAGMA user_version = {schema.VERSION + 6}")
    copy = state / f"before-{schema.VERSION + 6}.db"
    for there in (False, True):
        if there:
            copy.touch()
        before = contents(state)
        for way in (opened, connect_reading):
            with pytest.raises(StoreUnusable, match="newer swarmd") as refused:
                way(state)
            assert (str(copy) in str(refused.value)) == there
        assert contents(state) == before


def test_a_migration_that_this_program_does_not_know_makes_the_store_newer(state):
    database = make(state)
    with closing(sqlite3.connect(database)) as connection:
        connection.execute(
            "INSERT INTO _sqlite_migrations (migration_set, name, applied_at) VALUES ('swarmd', '0099_later', '')"
        )
        connection.commit()
    before = contents(state)
    for way in (opened, connect_reading):
        with pytest.raises(StoreUnusable, match="newer swarmd"):
            way(state)
    assert contents(state) == before


# -- copies -------------------------------------------------------------------------------------------------


def test_a_copy_is_whole_or_not_there(state, tmp_path):
    database = make(state)
    with closing(open_reading(database)) as connection:
        keep_copy(connection, tmp_path / "kept.db")
        assert (tmp_path / "kept.db").stat().st_mode & 0o777 == 0o600
        with pytest.raises(OSError, match="kept"):
            keep_copy(connection, tmp_path / "nowhere" / "kept.db")
    with closing(sqlite3.connect(tmp_path / "kept.db")) as copy:
        assert copy.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        assert copy.execute("PRAGMA journal_mode").fetchone()[0] == "delete"
    assert not [path for path in tmp_path.iterdir() if path.name.endswith(".part")]


def test_a_copy_that_cannot_be_made_says_so_and_leaves_nothing(state, tmp_path):
    make(state)
    connection = sqlite3.connect(state / "swarmd.db")
    connection.close()
    with pytest.raises(Failed, match="could not be written"):
        keep_copy(connection, tmp_path / "kept.db")
    assert [path.name for path in tmp_path.iterdir()] == ["state"]


def test_reading_says_what_is_missing(tmp_path):
    with pytest.raises(NotFound, match="no state"):
        connect_reading(tmp_path / "nowhere")
    (tmp_path / "state").mkdir()
    with pytest.raises(NotFound, match="no store"):
        connect_reading(tmp_path / "state")
