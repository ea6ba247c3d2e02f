"""A reader is told of damage in a sentence with a next step, whichever way it reads."""

import pytest

from swarmd.errors import StoreUnusable
from swarmd.service.operator import open_reader

BY = [
    ("handoff_list", "DROP TABLE handoffs"),
    ("ctx_list", "ALTER TABLE keys RENAME COLUMN version TO versions"),
    ("agent_list", "UPDATE definitions SET json = '{'"),
    ("agent_list", "UPDATE definitions SET json = '[]'"),
    ("agent_show", "UPDATE definitions SET json = '{}'"),
    ("ctx_list", "UPDATE keys SET updated = 'yesterday'"),
    ("log", "DROP TRIGGER audit_update; UPDATE audit SET detail = 'x'"),
]


@pytest.fixture
def swarm(swarm):
    swarm.call("ctx_set", agent="studio", key="k", value="v")
    return swarm


def spoil(swarm, sql):
    swarm.write(
        lambda c: [
            c.execute(part)
            for part in [*sql.split("; "), "UPDATE meta SET value = 'x' WHERE key = 'tree_version'"]
        ]
    )


@pytest.mark.parametrize(("name", "sql"), BY)
def test_a_read_tells_of_damage(swarm, name, sql):
    spoil(swarm, sql)
    args = {"agent": "studio"} if name in ("ctx_list", "agent_show") else {}
    with pytest.raises(StoreUnusable, match=r"damaged.*restore a backup"):
        swarm.call(name, **args)
    with pytest.raises(StoreUnusable, match=r"damaged.*restore a backup"):
        open_reader(swarm.places).call(name, args)


def test_an_act_tells_of_damage_too(swarm):
    spoil(swarm, "DROP TABLE key_history")
    with pytest.raises(StoreUnusable, match="damaged"):
        swarm.call("ctx_set", agent="studio", key="k", value="w")


def test_overwritten_pages_are_told_as_damage(swarm):
    swarm.close()
    database = swarm.places.state / "swarmd.db"
    data = bytearray(database.read_bytes())
    data[4096:] = b"\xff" * (len(data) - 4096)
    database.write_bytes(data)
    with pytest.raises(StoreUnusable, match=r"damaged|malformed"):
        open_reader(swarm.places).call("agent_list", {})
    database.write_bytes(b"")
    swarm.places.state.joinpath("swarmd.db").unlink()
    with pytest.raises(StoreUnusable, match="missing beside other state"):
        open_reader(swarm.places)
    swarm.store.close = lambda: None
