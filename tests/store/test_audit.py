"""The audit: append-only, and a chain in which an edit, a loss and a new order are found."""

import sqlite3

import pytest

from swarmd.store import audit
from tests.swarm import NOW


@pytest.fixture
def rows(swarm):
    for number in range(8):
        swarm.call("ctx_set", agent="studio", key="k", value=str(number))
    assert audit.faults(swarm.reader) == []
    return swarm.reader.execute("SELECT count(*) FROM audit").fetchone()[0]


def tamper(swarm, *statements):
    """As somebody who may write the file would: the triggers are no hindrance to him."""

    def work(connection):
        for name in ("audit_update", "audit_delete"):
            connection.execute(f"DROP TRIGGER IF EXISTS {name}")
        for statement in statements:
            connection.execute(statement)

    swarm.write(work)
    return audit.faults(swarm.reader)


@pytest.mark.parametrize(
    "statement", ["UPDATE audit SET by = 'x' WHERE seq = 2", "DELETE FROM audit WHERE seq = 2"]
)
def test_a_row_is_neither_changed_nor_deleted(swarm, rows, statement):
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        swarm.write(lambda connection: connection.execute(statement))


@pytest.mark.parametrize("column", ["at", "by", "act", "target", "detail", "hash"])
def test_an_edited_row_is_found(swarm, rows, column):
    faults = tamper(swarm, f"UPDATE audit SET {column} = 'forged' WHERE seq = 4")
    assert any("audit row 4" in fault for fault in faults)


def test_a_lost_row_is_found(swarm, rows):
    assert tamper(swarm, "DELETE FROM audit WHERE seq = 4")[0] == "audit rows 4 to 4 are missing"


def test_lost_rows_at_the_beginning_are_found(swarm, rows):
    assert "audit rows 1 to 3 are missing" in tamper(swarm, "DELETE FROM audit WHERE seq < 4")


def test_a_new_order_is_found(swarm, rows):
    faults = tamper(
        swarm,
        "UPDATE audit SET seq = 1000 WHERE seq = 4",
        "UPDATE audit SET seq = 4 WHERE seq = 5",
        "UPDATE audit SET seq = 5 WHERE seq = 1000",
    )
    assert faults


def test_a_row_put_in_is_found(swarm, rows):
    last = swarm.reader.execute("SELECT max(seq) FROM audit").fetchone()[0]
    faults = tamper(
        swarm,
        f"INSERT INTO audit VALUES ({last + 1}, 'x', 'operator:eve', 'pause', 'studio', '{{}}', NULL, '{'0' * 64}')",
    )
    assert len(faults) == 1


def test_verify_names_what_is_wrong(swarm, rows):
    tamper(swarm, "DELETE FROM audit WHERE seq = 4")
    document = swarm.call("verify")
    assert not document["ok"]
    assert any("audit" in item["text"] for item in document["items"])


def test_the_chain_goes_on_from_texts_of_every_kind(swarm):
    for text in ("\u2028", "\x00", "\udc80", "\U0001f680", '"', "\\"):
        swarm.write(
            lambda c, text=text: audit.write(
                c, at=NOW, by="x", act="note", detail={"text": text.encode("utf-8", "replace").decode()}
            )
        )
    assert audit.faults(swarm.reader) == []
