"""Revert: what a session wrote is undone where nobody has built on it; the rest is named."""

import pytest

from swarmd.errors import BadInput, NotFound
from tests.swarm import NOW


@pytest.fixture
def swarm(swarm):
    swarm.call("ctx_set", agent="studio", key="old", value="before")
    swarm.call("memory_write", agent="studio", file="MEMORY.md", text="before\n")
    swarm.call("handoff_send", to="studio", text="to be done")
    swarm.call("handoff_send", to="studio", text="to be asked")
    return swarm


async def script(part):
    await part.act("ctx_set", key="old", value="after")
    await part.act("ctx_set", key="new", value="after")
    await part.act("handoff_complete", id=1, reply="done")
    await part.act("handoff_ask", id=2, text="which?")
    await part.act("handoff_send", to="game", text="do it")
    await part.act("report", text="r")
    part.write("MEMORY.md", "after\n")
    part.write("new.md", "after\n")


def revert(swarm, *sessions):
    document = swarm.call("session_revert", sessions=[str(s) for s in sessions] or ["studio"])
    return {(r["act"], r["target"]) for r in document["undone"]}, {
        (r["act"], r["target"]): r["reason"] for r in document["not_undone"]
    }


def test_keys_memory_and_handoffs_are_put_back_and_the_rest_is_named(swarm):
    swarm.play("studio", script)
    undone, rest = revert(swarm)
    assert undone == {
        ("ctx_set", "studio/old"), ("ctx_set", "studio/new"), ("handoff_complete", "handoff 1"), ("handoff_send", "game"),
        ("memory_write", "studio:MEMORY.md"), ("memory_write", "studio:new.md"),
    }  # fmt: skip
    assert rest == {
        ("handoff_ask", "handoff 2"): "handoff 2 was moved on: it is waiting, and stays so",
        ("report", "parent"): "a report that was made cannot be taken back",
    }
    assert (swarm.value("studio", "old"), swarm.value("studio", "new")) == ("before", None)
    assert swarm.text("studio") == "before\n"
    assert not swarm.file("studio", "new.md").exists()
    assert swarm.handoff(3)["status"] == "cancelled"
    anew = swarm.handoff(4)
    assert (anew["sender"], anew["receiver"], anew["text"], anew["status"]) == (
        "operator",
        "studio",
        "to be done",
        "open",
    )
    assert swarm.handoff(1)["status"] == "completed"


def test_it_is_the_operators_act_and_stands_in_the_log(swarm):
    session = swarm.play("studio", script)
    revert(swarm)
    (line,) = [row for row in swarm.call("log")["items"] if row["what"] == "session_revert"]
    assert (line["by"], line["target"]) == ("operator:ada", f"studio/{session['id']}")
    assert swarm.call("ctx_get", agent="studio", key="old")["by"] == "operator:ada"


def test_what_was_changed_since_stays(swarm):
    swarm.play("studio", script)
    swarm.call("ctx_set", agent="studio", key="old", value="later")
    swarm.file("studio").write_text("person\n")
    swarm.call("handoff_complete", id=3, as_="game")
    undone, rest = revert(swarm)
    assert rest["ctx_set", "studio/old"] == "studio/old was changed by operator:ada since"
    assert rest["memory_write", "studio:MEMORY.md"] == "studio:MEMORY.md was changed since"
    assert rest["handoff_send", "game"] == "handoff 3 has ended already (completed)"
    assert ("ctx_set", "studio/new") in undone
    assert swarm.value("studio", "old") == "later"
    assert swarm.text("studio") == "person\n"


def test_two_sessions_are_undone_together(swarm):
    async def first(part):
        await part.act("ctx_set", key="old", value="one")
        part.write("MEMORY.md", "one\n")

    async def second(part):
        await part.act("ctx_set", key="old", value="two")
        part.write("MEMORY.md", "two\n")

    one, two = swarm.play("studio", first), swarm.play("studio", second)
    assert revert(swarm, one["id"])[0] == set()
    revert(swarm, one["id"], two["id"])
    assert swarm.value("studio", "old") == "before"
    assert swarm.text("studio") == "before\n"


def test_a_handoff_that_was_acknowledged_and_completed_is_named_once(swarm):
    async def both(part):
        await part.act("handoff_ack", id=1)
        await part.act("handoff_complete", id=1)

    swarm.play("studio", both)
    undone, rest = revert(swarm)
    assert (undone, rest) == ({("handoff_complete", "handoff 1")}, {})


def test_what_a_session_sent_and_took_back_is_not_sent_again(swarm):
    async def both(part):
        id = (await part.act("handoff_send", to="game", text="t"))["id"]
        await part.act("handoff_cancel", id=id)

    swarm.play("studio", both)
    assert revert(swarm) == (set(), {})
    assert len(swarm.call("handoff_list")["items"]) == 3


def test_what_is_sent_anew_does_not_expire_at_once(swarm):
    expires = NOW.replace(hour=10).isoformat()
    swarm.call("handoff_send", to="studio", text="soon over", expires=expires, priority="high")

    async def complete(part):
        await part.act("handoff_complete", id=3)

    swarm.play("studio", complete)
    swarm.clock.go(hours=2)
    revert(swarm)
    assert (swarm.handoff(4)["expires"], swarm.handoff(4)["priority"]) == (None, "high")


def test_what_belongs_to_somebody_who_is_gone_is_named(swarm):
    swarm.play("studio", script)
    swarm.remove("studio")
    undone, rest = revert(swarm, 1)
    assert undone == {("handoff_send", "game")}
    assert "not in force" in rest["ctx_set", "studio/old"]
    assert "not in force" in rest["handoff_complete", "handoff 1"]


def test_a_session_that_wrote_nothing_has_nothing_to_undo(swarm):
    async def fails(part):
        await script(part)
        return part.done("failed")

    swarm.play("studio", fails)
    before = {k: v for k, v in swarm.dump().items() if k != "audit"}
    assert revert(swarm) == (set(), {})
    assert {k: v for k, v in swarm.dump().items() if k in before} == before


def test_checkpoints_are_undone_too(swarm):
    async def with_checkpoint(part):
        await part.act("ctx_set", key="old", value="one")
        await part.checkpoint()
        await part.act("ctx_set", key="old", value="two")
        return part.done("failed")

    swarm.play("studio", with_checkpoint)
    revert(swarm)
    assert swarm.value("studio", "old") == "before"


def test_a_revert_is_not_reverted_by_itself(swarm):
    swarm.play("studio", script)
    revert(swarm)
    undone, rest = revert(swarm)
    assert undone == {
        ("handoff_complete", "handoff 1")
    }  # sent anew a second time: it is open work, which a person asked for
    assert ("ctx_set", "studio/old") in rest


def test_bad_names_are_told(swarm):
    with pytest.raises(BadInput):
        swarm.call("session_revert", sessions=[])
    with pytest.raises(BadInput):
        swarm.call("session_revert", sessions="1")
    with pytest.raises(NotFound):
        swarm.call("session_revert", sessions=["99"])
