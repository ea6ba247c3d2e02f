"""`agent history`: an agent's definitions, pauses and renames, under every name that it had."""

import pytest

from swarmd.errors import NotFound


def told(swarm, agent):
    return [row["what"] for row in swarm.call("agent_history", agent=agent)["items"]]


def test_pauses_and_resumes_stand_in_an_agents_history(swarm):
    swarm.clock.go(minutes=1)
    swarm.call("pause", agent="game", reason="too loud")
    swarm.clock.go(minutes=1)
    swarm.call("resume", agent="game")
    assert told(swarm, "game") == ["resumed", "paused", "added"]
    paused = swarm.call("agent_history", agent="game")["items"][1]
    assert (paused["by"], paused["reason"]) == ("operator:ada", "too loud")
    assert told(swarm, "art") == ["added"]


def test_a_rename_stands_in_the_history_of_both_names(swarm, monkeypatch):
    monkeypatch.setattr(swarm.control, "reload", lambda **_: {})
    swarm.clock.go(minutes=1)
    swarm.call("pause", agent="game", reason="moving")
    swarm.clock.go(minutes=1)
    swarm.remove("game")
    swarm.agent("play", "studio")
    swarm.clock.go(minutes=1)
    swarm.call("rename", old="game", new="play")
    assert told(swarm, "play")[0] == "renamed from game"
    assert "paused" in told(swarm, "play")
    assert told(swarm, "game")[0] == "renamed to play"
    with pytest.raises(NotFound, match="agent list"):
        told(swarm, "gamer")
