"""Whatever is changed in the database by something else than swarmd shows in `verify`: every table, every column."""

import contextlib
import sqlite3
from pathlib import Path

import pytest

from swarmd.core.agent import Limits
from swarmd.store import schema, sums, trees
from swarmd.store.raising import raise_attention
from swarmd.store.slots import Claim, claim
from tests.swarm import NOW, Swarm

OTHER = {
    ("agents", "state"): "removed", ("slots", "decision"): "missed", ("sessions", "state"): "running",
    ("sessions", "mode"): "no_commit", ("pending", "phase"): "todo", ("approvals", "state"): "denied",
}  # fmt: skip
"""Another value, where the table takes only some: any other is told by SQLite itself."""


def everything(swarm):
    """A store with a row of every kind."""
    swarm.call("ctx_set", agent="studio", key="k", value="one")
    swarm.call("memory_write", agent="studio", file="MEMORY.md", text="one\n")
    id = swarm.call(
        "handoff_send",
        to="studio",
        text="do it",
        due="2026-12-01T09:00Z",
        expires="2026-12-02T09:00Z",
        dedupe="d",
    )["id"]

    async def script(part):
        await part.act("handoff_ack", id=id)
        await part.act("handoff_send", to="game", text="part")
        await part.act("report", text="all is well")
        part.write("MEMORY.md", "mine\n")
        swarm.file("studio").write_text("a person's\n")

    assert swarm.play("studio", script, cause_handoff=id)["outcome"] == "committed"
    swarm.change("garage", limits=Limits(pause_after_failures=1))

    async def fails(part):
        await part.act("ctx_set", key="k", value="v")
        return part.done("failed", reason="no")

    swarm.play("garage", fails)
    swarm.change("art", approval_keys=("deploy",))

    async def asks(part):
        await part.act("ctx_set", key="deploy", value="v")

    swarm.play("art", asks)
    swarm.call("pause", agent="studio", reason="holiday")
    swarm.write(lambda c: raise_attention(c, id="x", kind="x", agent=None, text="x", next_step="x", now=NOW))
    swarm.call("attention_ack", id="x")
    swarm.write(
        lambda c: claim(
            c, [Claim(agent="art", slot=NOW, last=NOW, count=1, decision="started", reason="")], NOW
        )
    )
    fault = {"file": "f.toml", "line": 1, "field": "parent", "severity": "error", "text": "wrong"}
    swarm.write(lambda c: trees.set_problems(c, [fault], NOW))
    for table in {table for table, _ in columns()}:
        if not swarm.rows(f"SELECT 1 FROM {table} LIMIT 1"):
            swarm.write(lambda c, table=table: put_in(c, table))


def put_in(connection, table):
    """A row for a table that has none."""
    cells = {
        name: "open" if name == "state" else 1 if kind in ("INTEGER", "REAL") else "x"
        for _, name, kind, must, default, key in connection.execute(f"PRAGMA table_info({table})")
        if (must or key) and default is None
    }
    marks = ", ".join("?" * len(cells))
    connection.execute(f"INSERT INTO {table} ({', '.join(cells)}) VALUES ({marks})", tuple(cells.values()))


@pytest.fixture(scope="module")
def swarm(tmp_path_factory):
    swarm = Swarm(tmp_path_factory.mktemp("sums"))
    everything(swarm)
    yield swarm
    swarm.close()


@contextlib.contextmanager
def by_hand(swarm):
    """As somebody with sqlite3 has it, who is not stopped by triggers and leaves them as they were."""
    path = swarm.places.state / "swarmd.db"
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        triggers = connection.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").fetchall()
        connection.execute("BEGIN IMMEDIATE")
        for name, _ in triggers:
            connection.execute(f"DROP TRIGGER {name}")
        yield connection
        for _, sql in triggers:
            connection.execute(sql)
        connection.execute("COMMIT")


def found(swarm):
    return [item["text"] for item in swarm.call("verify")["items"]]


def columns():
    with contextlib.closing(sqlite3.connect(":memory:")) as fresh:
        for _, sql in schema.MIGRATIONS:
            fresh.executescript(sql)
        return fresh.execute(
            "SELECT m.name, c.name FROM sqlite_schema m JOIN pragma_table_info(m.name) c WHERE m.type = 'table' "
            "AND m.name != 'sqlite_sequence' ORDER BY 1, c.cid"
        ).fetchall()


def is_untold(table, column):
    left_out = sums.UNTOLD.get(table, ())
    return left_out is None or column in left_out


def other(table, column, value):
    if (table, column) in OTHER:
        return OTHER[table, column]
    if value is None:
        return "x"
    return value + (b"x" if isinstance(value, bytes) else "x" if isinstance(value, str) else 1000)


def row_of(connection, table):
    """A row that can be pointed at, by values, and what its first cells are."""
    names = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
    where = " WHERE state = 'ended'" if table == "sessions" else ""
    row = connection.execute(f"SELECT {', '.join(names)} FROM {table}{where} LIMIT 1").fetchone()
    assert row is not None, f"the test's store has no row in {table}"
    return dict(zip(names, row, strict=True))


def pointing(row):
    return " AND ".join(f'"{name}" IS ?' for name in row), tuple(row.values())


def test_the_store_with_everything_is_whole(swarm):
    assert found(swarm) == []


@pytest.mark.parametrize(("table", "column"), [pair for pair in columns() if not is_untold(*pair)])
def test_a_change_of_any_column_shows_until_it_is_undone(swarm, table, column):
    with by_hand(swarm) as connection:
        before = row_of(connection, table)
        after = {**before, column: other(table, column, before[column])}
        where, values = pointing(before)
        assert connection.execute(
            f'UPDATE {table} SET "{column}" = ? WHERE {where}', (after[column], *values)
        ).rowcount
    told = found(swarm)
    assert told, f"{table}.{column}"
    with by_hand(swarm) as connection:
        where, values = pointing(after)
        connection.execute(f'UPDATE {table} SET "{column}" = ? WHERE {where}', (before[column], *values))
    assert found(swarm) == []


@pytest.mark.parametrize("table", sorted({table for table, _ in columns()}))
def test_a_row_that_is_gone_shows(swarm, table):
    with by_hand(swarm) as connection:
        row = row_of(connection, table)
        where, values = pointing(row)
        connection.execute(f"DELETE FROM {table} WHERE {where}", values)
    assert found(swarm), table
    with by_hand(swarm) as connection:
        names, marks = ", ".join(f'"{name}"' for name in row), ", ".join("?" * len(row))
        connection.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", tuple(row.values()))
    assert found(swarm) == []


def test_what_cannot_be_told_is_in_the_design():
    text = (
        (Path(__file__).parents[2] / "docs" / "design.md")
        .read_text()
        .partition("## What `verify` can show")[2]
    )
    for table, columns in sums.UNTOLD.items():
        for name in [table] if columns is None else [f"{table}.{column}" for column in columns]:
            assert f"`{name}`" in text, name
    assert "not ended" in text
    assert set(sums.WHEN) == {"sessions", "slots"}


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        (
            "UPDATE reports SET text = 'x'",
            "reports is not what swarmd wrote: the row 1 was changed by something else",
        ),
        (
            "UPDATE pauses SET reason = 'x' WHERE agent = 'studio'",
            "wrote: the row studio was changed by something else",
        ),
        (
            "UPDATE pauses SET reason = 'x'",
            "pauses is not what swarmd wrote: rows were changed by something else",
        ),
        ("INSERT INTO pauses VALUES ('art', '', 'eve', '')", "art was put in by something else"),
        ("INSERT INTO pauses VALUES ('a', '', '', ''), ('b', '', '', '')", "2 of its rows were put in"),
        ("DELETE FROM pauses", "the table pauses lacks 2 of the rows that swarmd wrote"),
        (
            "UPDATE sessions SET outcome = 'no_change' WHERE id = 1",
            "sessions is not what swarmd wrote: the row 1 was changed",
        ),
        ("UPDATE revisions SET size = 0 WHERE rev = 1", "wrote: the row studio/MEMORY.md/1 was changed"),
        (
            "DELETE FROM audit WHERE seq > (SELECT max(seq) - 3 FROM audit)",
            "missing from the audit, 3 of its rows",
        ),
        ("DELETE FROM sums WHERE name = 'audit'", "the head of the audit is gone"),
        ("DELETE FROM sums WHERE name = 'slots'", "the sum of the table slots is gone"),
        ("UPDATE sums SET sum = 'x' WHERE name = 'slots'", "the sum of the table slots is gone"),
        (
            "INSERT INTO blobs (hash, data) VALUES ('0', x'00')",
            "the text 0, which no revision has any more, is damaged",
        ),
    ],
)
def test_what_is_told_says_which_row_where_it_can(tmp_path, sql, told):
    swarm = Swarm(tmp_path)
    everything(swarm)
    with by_hand(swarm) as connection:
        connection.execute(sql)
    texts = found(swarm)
    assert any(told in text for text in texts), texts
    swarm.close()


def test_a_tail_that_was_cut_off_shows_also_when_the_chain_went_on(tmp_path):
    swarm = Swarm(tmp_path)
    everything(swarm)
    with by_hand(swarm) as connection:
        connection.execute("DELETE FROM audit WHERE seq > (SELECT max(seq) - 2 FROM audit)")
    for value in ("a", "b", "c"):
        swarm.call("ctx_set", agent="art", key="k", value=value)
    assert "what was written last is missing from the audit, 2 of its rows: it was cut off" in found(swarm)
    swarm.close()


def test_a_change_stays_told_when_swarmd_writes_on(tmp_path):
    swarm = Swarm(tmp_path)
    everything(swarm)
    with by_hand(swarm) as connection:
        connection.execute("UPDATE handoffs SET sender = 'garage' WHERE id = 1")
    swarm.call("handoff_complete", id=1, as_="studio")
    swarm.close()
    swarm.open()
    assert any(
        "the table handoffs is not what swarmd wrote: the row 1 was changed" in text for text in found(swarm)
    )
    swarm.close()


@pytest.mark.parametrize("value", [1, "1", 1.5, None, "", "\u2028 \x00 \U0001f680", b"\x00\xff", 2**62])
def test_a_value_of_any_kind_is_counted_as_it_is_stored(tmp_path, value):
    swarm = Swarm(tmp_path)
    swarm.call("report", text="t", as_="studio")
    for column in ("acked", "session"):
        swarm.write(
            lambda c, column=column: c.execute(f"UPDATE reports SET {column} = ? WHERE id = 1", (value,))
        )
    swarm.play("studio")
    swarm.write(lambda c: c.execute("UPDATE sessions SET usd = ?, exit = ?", (value, value)))
    assert found(swarm) == []
    swarm.close()


@pytest.mark.parametrize("sum_", ["NULLIF(1, 1)", "'x'", "7"])
def test_a_sum_that_was_spoilt_stops_no_write(tmp_path, sum_):
    swarm = Swarm(tmp_path)
    with by_hand(swarm) as connection:
        connection.execute(f"UPDATE sums SET sum = coalesce({sum_}, 0)")
    swarm.call("ctx_set", agent="studio", key="k", value="v")
    assert "the sum of the table key_history is gone" in found(swarm)
    swarm.close()


def test_what_failed_half_way_is_not_counted(tmp_path):
    swarm = Swarm(tmp_path)
    swarm.call("pause", agent="studio", reason="")

    def caught(connection):
        with contextlib.suppress(sqlite3.IntegrityError):
            connection.execute(
                "INSERT INTO pauses SELECT * FROM (VALUES ('art', '', '', ''), ('studio', '', '', ''))"
            )
        with contextlib.suppress(sqlite3.IntegrityError):
            connection.execute("UPDATE keys SET key = 'same'")
        connection.execute("INSERT OR REPLACE INTO pauses VALUES ('studio', 'again', '', '')")
        connection.execute("INSERT OR IGNORE INTO pauses VALUES ('studio', 'no', '', '')")

    def fails(connection):
        connection.execute("DELETE FROM pauses")
        raise KeyError

    swarm.write(caught)
    with pytest.raises(KeyError):
        swarm.write(fails)
    assert found(swarm) == []
    swarm.close()


def test_a_session_is_counted_once_it_has_ended(tmp_path):
    swarm = Swarm(tmp_path)
    id = swarm.queue("studio")
    assert found(swarm) == []
    swarm.control.cancel(id, "no")
    assert found(swarm) == []
    with by_hand(swarm) as connection:
        connection.execute("UPDATE sessions SET agent = 'art', state = 'queued'")
    assert found(swarm) == ["the table sessions lacks 1 of the rows that swarmd wrote"]
    swarm.close()
