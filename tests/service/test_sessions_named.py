"""A session by number, by AGENT (its last) and by AGENT@TIME."""

import pytest

from swarmd.core.agent import When
from swarmd.errors import BadInput, NotFound, Refused


@pytest.fixture
def swarm(swarm):
    swarm.change("studio", when=When(cron="0 * * * *", timezone="Europe/Berlin"))
    for agent in ("studio", "game", "studio"):
        swarm.play(agent)
        swarm.clock.go(hours=1)
    return swarm


def id_of(swarm, name, **facts):
    return swarm.call("session_show", session=name, **facts)["id"]


def test_by_number_by_agent_and_by_moment(swarm):
    assert id_of(swarm, "1") == 1
    assert id_of(swarm, 1) == 1
    assert id_of(swarm, "studio") == 3
    assert id_of(swarm, "studio@2026-11-30T09:30:00+00:00") == 1
    assert id_of(swarm, "studio@2026-11-30T11:00:00Z") == 3


def test_a_moment_without_an_offset_is_the_agents_own(swarm):
    assert id_of(swarm, "studio@2026-11-30T10:30") == 1  # 09:30 UTC
    with pytest.raises(NotFound, match="that had started by"):
        id_of(swarm, "studio@2026-11-30T09:30")  # 08:30 UTC


@pytest.mark.parametrize("name", ["99", "garage", "nobody", "garage@2026-11-30T10:30"])
def test_what_is_not_there_is_not_found(swarm, name):
    with pytest.raises(NotFound):
        id_of(swarm, name)


@pytest.mark.parametrize("name", ["", None, True, "studio@noon", "studio@0001-01-01T00:00", [], {"a": 1}])
def test_what_is_no_name_is_bad_input(swarm, name):
    with pytest.raises(BadInput):
        id_of(swarm, name)


def test_a_strangers_session_is_refused_and_its_agent_is_not_named(swarm):
    for name in ("1", "3"):
        with pytest.raises(Refused) as refused:
            id_of(swarm, name, as_="game")
        assert "studio" not in str(refused.value)
    with pytest.raises(Refused):
        id_of(swarm, "studio", as_="game")
    assert id_of(swarm, "2", as_="studio") == 2
