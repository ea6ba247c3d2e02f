"""A session's log is read from any place on, by whoever may see the session, while it runs and after."""

import asyncio

import pytest

from swarmd.errors import BadInput, Refused
from swarmd.service import transcripts


def texts(document):
    return [event["text"] for event in document["events"]]


async def says(part):
    part.desk.event("text", {"turn": 1, "text": "one"})
    part.desk.event("text", {"turn": 1, "text": "two"})


def test_events_come_from_a_place_on(swarm):
    id = swarm.play("studio", says)["id"]
    first = swarm.call("session_log", session=id)
    assert (texts(first), first["done"], first["events_more"]) == (["one", "two"], True, False)
    again = swarm.call("session_log", session=id, events_from=first["events_next"])
    assert (again["events"], again["events_next"]) == ([], first["events_next"])


def test_large_transcripts_come_in_pages(swarm, monkeypatch):
    monkeypatch.setattr(transcripts, "EVENTS_BYTES", 300)

    async def talks(part):
        for number in range(10):
            part.desk.event("text", {"turn": 1, "text": f"{number:0100}"})

    id = swarm.play("studio", talks)["id"]
    found, place = [], 0
    while True:
        page = swarm.call("session_log", session=id, events_from=place)
        found += texts(page)
        place = page["events_next"]
        if not page["events_more"]:
            break
    assert [int(text) for text in found] == list(range(10))


def test_a_running_session_is_followed_line_by_line(swarm):
    async def runs(part):
        folder = swarm.places.state / "sessions" / str(part.request.session)
        log = folder / "output.log"
        log.write_bytes(b"eins\nz")
        await says(part)
        first = swarm.call("session_log", session=part.request.session, output_from=0)
        assert (first["output"], first["done"], texts(first)) == ("eins\n", False, ["one", "two"])
        log.write_bytes("eins\nzwei\ndrei ü".encode()[:-1])
        with (folder / "transcript.jsonl").open("ab") as file:
            file.write(b'{"kind": "text", "text": "on its way')
        second = swarm.call("session_log", session=part.request.session, output_from=first["output_next"],
                            events_from=first["events_next"])  # fmt: skip
        assert (second["output"], second["events"]) == ("zwei\n", [])
        assert swarm.call("session_log", session=part.request.session)["output"].startswith(
            "eins\nzwei\ndrei"
        )

    session = swarm.play("studio", runs)
    assert session["outcome"] == "no_change", session["reason"]
    document = swarm.call("session_log", session=session["id"], output_from=10)
    assert document["output"] == "drei \ufffd"


def test_a_session_reads_the_logs_of_itself_and_below(swarm):
    below = swarm.play("game", says)["id"]
    beside = swarm.play("garage", says)["id"]

    async def reads(part):
        await says(part)
        own = await part.act("session_log", session=str(part.request.session))
        assert texts(own) == ["one", "two"]
        assert texts(await part.act("session_log", session=str(below))) == ["one", "two"]
        assert "neither one of studio" in await part.refused("session_log", session=str(beside))

    assert swarm.play("studio", reads)["outcome"] == "no_change"
    with pytest.raises(Refused):
        swarm.call("session_log", session=below, as_="art")


@pytest.mark.parametrize("place", [-1, "5", True, 1.5, 2**70])
def test_a_place_is_a_number(swarm, place):
    id = swarm.play("studio", says)["id"]
    with pytest.raises(BadInput, match="events_from"):
        swarm.call("session_log", session=id, events_from=place)


def test_a_session_without_events_has_none(swarm):
    document = swarm.call("session_log", session=swarm.play("studio")["id"])
    assert (document["events"], document["output"], document["events_next"]) == ([], "", 0)


async def test_what_is_written_when_a_daemon_is_killed_is_there_after_it(swarm):
    """Nothing is flushed or closed, and the last line may be torn."""
    reached = asyncio.Event()

    async def hangs(part):
        await says(part)
        reached.set()
        await asyncio.Event().wait()

    swarm.script = hangs
    id = swarm.queue("studio")
    task = asyncio.ensure_future(swarm.start(id, hangs))
    await reached.wait()
    assert texts(swarm.call("session_log", session=id)) == ["one", "two"]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def test_the_prompts_text_is_given_where_it_is_the_very_same(swarm):
    swarm.call("ctx_set", agent="studio", key="k", value="v")
    session = swarm.play("studio")
    request = swarm.runner.requests[-1]
    swarm.call("ctx_set", agent="studio", key="k", value="other")
    found = swarm.call("session_show", session=session["id"], prompt_text=True)["prompt_text"]
    assert (found["from"], found["system"], found["user"]) == ("rebuilt", request.system, request.user)
    swarm.write(lambda c: c.execute("UPDATE sessions SET prompt_hash = 'x'"))
    found = swarm.call("session_show", session=session["id"], prompt_text=True)["prompt_text"]
    assert (found["from"], found["user"]) == (None, None)
    assert "comes out differently" in found["why_not"]
    swarm.write(lambda c: c.execute("DELETE FROM key_history"))
    found = swarm.call("session_show", session=session["id"], prompt_text=True)["prompt_text"]
    assert "version 1 of studio/k" in found["why_not"]
    assert "prompt_text" not in swarm.call("session_show", session=session["id"])
