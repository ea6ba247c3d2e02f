"""`prompt` is byte for byte what the session of that trigger and time is given."""

import hashlib
import json

import pytest

from swarmd.core.agent import Consolidate, When
from swarmd.errors import BadInput, NotFound, Refused
from swarmd.service import prompting
from swarmd.session.tokens import TokenCounter

HARD = '{"a": {x}} {0} %s $HOME ${x} \\n {{ <|endoftext|> \u2028 ]]> --- end'


@pytest.fixture
def swarm(swarm, monkeypatch):
    """With the counter that a daemon has, too."""
    ports = swarm.ports
    counter = TokenCounter(None, {}, lambda _: None)
    monkeypatch.setattr(swarm, "ports", lambda **other: ports(count=counter.count, **other))
    swarm.call("ctx_set", agent="studio", key="k", value=HARD)
    swarm.call("memory_write", agent="studio", file="MEMORY.md", text=HARD)
    swarm.call("handoff_send", to="studio", text=HARD, due="2026-11-30T08:00+00:00")
    swarm.call("report", text=HARD, as_="game")
    swarm.change("studio", system_prompt=HARD, consolidate=Consolidate(command=("true",)))

    async def fails(part):
        await part.refused("handoff_send", to="house", text="up")
        await part.act("ctx_set", key="drafted", value=HARD)
        return part.done("failed", reason=HARD)

    swarm.play("studio", fails)
    swarm.clock.go(hours=1)
    return swarm


def hashed(document):
    return hashlib.sha256(f"{document['system']}\x00{document['user']}".encode()).hexdigest()


@pytest.mark.parametrize("trigger", prompting.TRIGGERS)
def test_the_prompt_that_is_printed_is_the_one_that_a_session_gets(swarm, trigger):
    if trigger == "every":
        swarm.change("studio", when=When(every_seconds=900.0))
    if trigger == "at":
        swarm.change("studio", when=When(at="2026-11-30T10:00"))
    document = swarm.call("prompt", agent="studio", trigger=trigger)
    slot = swarm.clock.now() if trigger in prompting.OF_A_SLOT else None
    session = swarm.play("studio", trigger=trigger, slot=slot)
    request = swarm.runner.requests[-1]
    assert (document["system"], document["user"]) == (request.system, request.user)
    assert hashed(document) == session["prompt_hash"]
    assert session["prompt"] == {"tokens": document["tokens"], "sections": document["sections"]}


def test_of_another_moment_it_is_what_that_sessions_would_be(swarm):
    at = "2026-11-30T12:00:00+00:00"
    document = swarm.call("prompt", agent="studio", at=at)
    swarm.clock.go(hours=2)
    session = swarm.play("studio", slot=swarm.clock.now())
    assert hashed(document) == session["prompt_hash"]
    assert "12:00" in document["user"]


def test_texts_are_in_it_byte_for_byte(swarm):
    document = swarm.call("prompt", agent="studio")
    assert document["system"].startswith(HARD)
    assert HARD in document["user"]


def test_printing_it_changes_nothing(swarm):
    before = swarm.dump()
    swarm.call("prompt", agent="studio")
    assert swarm.dump() == before


def test_what_does_not_change_comes_before_the_time(swarm):
    for number in range(50):
        swarm.call("ctx_set", agent="studio", key=f"k{number:02}", value="v")
    first = swarm.call("prompt", agent="studio", at="2026-11-30T12:00:00+00:00")
    second = swarm.call("prompt", agent="studio", at="2026-11-30T12:01:30+00:00")
    assert first["system"] == second["system"]
    same = next(n for n, (a, b) in enumerate(zip(first["user"], second["user"], strict=False)) if a != b)
    assert first["user"].rindex("k49") < same
    names = [line for line in first["user"].splitlines() if line.startswith("k")]
    assert names == sorted(names)


def test_bad_triggers_and_times_are_told(swarm):
    with pytest.raises(BadInput, match="trigger"):
        swarm.call("prompt", agent="studio", trigger="moon")
    with pytest.raises(BadInput, match="at:"):
        swarm.call("prompt", agent="studio", at="noon")
    swarm.remove("game")
    with pytest.raises(NotFound, match="not in force"):
        swarm.call("prompt", agent="game")


def test_an_edited_file_is_tried_out_by_operators_only(swarm):
    text = 'system_prompt = "Edited."\nrunner = { kind = "command", command = ["true"] }\n'
    assert swarm.call("prompt", agent="studio", file_text=text)["system"].startswith("Edited.")
    with pytest.raises(BadInput, match="unknown"):
        swarm.call("prompt", agent="studio", file_text=text + "wish = 1\n")
    with pytest.raises(Refused, match="the operator's"):
        swarm.call("prompt", agent="studio", file_text=text, as_="studio")
    assert json.dumps(swarm.call("prompt", agent="studio", file_text=text))
