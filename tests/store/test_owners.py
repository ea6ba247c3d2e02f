"""A state is written by its owner alone: what root would make there, its owner could not use."""

import os

import pytest

from swarmd.errors import StoreUnusable
from swarmd.service import operator

pytestmark = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="gives files away")]


@pytest.fixture
def others(swarm):
    swarm.call("ctx_set", agent="studio", key="k", value="v")
    swarm.store.close()
    state = swarm.places.state
    for path in (state, *state.rglob("*")):
        os.chown(path, 65534, -1)
    yield swarm
    for path in (state, *state.rglob("*")):
        os.chown(path, 0, -1)
    swarm.open()


def test_a_state_of_another_user_is_read_but_not_written(others):
    state = others.places.state
    before = {path: path.stat().st_uid for path in state.rglob("*")}
    with pytest.raises(StoreUnusable, match="runuser -u nobody"):
        others.open()
    with pytest.raises(StoreUnusable, match="run it as its owner"), operator.open_local(others.places, None):
        raise AssertionError("it must not open")
    found = operator.open_reader(others.places).call("ctx_get", {"agent": "studio", "key": "k"})
    assert found["value"] == "v"
    assert set(before.values()) == {65534}
    assert {path.stat().st_uid for path in state.rglob("*")} == {65534}
