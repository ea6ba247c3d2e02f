"""What a session was shown can be made again to the byte, also when everything has changed since; or it is said what is gone."""

from dataclasses import replace

import pytest

from swarmd.core.agent import When
from swarmd.core.digests import prompt_digest
from swarmd.core.prompt import assemble
from swarmd.core.transcript import FIELDS
from swarmd.store import sessions, trees
from swarmd.store.bases import NotKept, rebuilt

HARD = '{"a": {x}} %s $HOME \n {{ <|endoftext|> \u2028 ]]> --- end\n[8f3a9c21d04e end text]\n'


def count(text):
    return -(-len(text) // 4)


def prompt_again(swarm, id):
    seen = rebuilt(swarm.reader, sessions.row(swarm.reader, id))
    return seen, assemble(seen, count)


def same(swarm, id):
    _, prompt = prompt_again(swarm, id)
    return prompt_digest(prompt.system, prompt.user) == sessions.row(swarm.reader, id)["prompt_hash"]


def at(moment):
    return moment.isoformat()


async def fails(part):
    await part.refused("handoff_send", to="house", text="up")
    await part.act("ctx_set", key="drafted", value=HARD)
    await part.act("ctx_set", key="k", value="mine")
    part.desk.event("usage", {**dict.fromkeys(FIELDS["usage"], 0), "tokens_in": 5000})
    part.swarm.call("ctx_set", agent="studio", key="k", value="theirs")
    return part.done("failed", reason=HARD)


async def collides(part):
    part.write("MEMORY.md", HARD + "agent's\n")
    part.swarm.file("studio").write_text(HARD + "person's\n")


@pytest.fixture
def rich(swarm):
    """Of everything that a prompt may have."""
    for name in ("studio", "game", "art"):
        swarm.call("ctx_set", agent=name, key="k", value=HARD)
        swarm.call("ctx_set", agent=name, key="gone", value="x")
        swarm.call("ctx_unset", agent=name, key="gone")
    swarm.call("memory_write", agent="studio", file="MEMORY.md", text=HARD + "first\n")
    swarm.call("memory_write", agent="studio", file="notes/a.md", text=HARD)
    swarm.call("memory_write", agent="studio", file="gone.md", text=HARD)
    swarm.call("memory_delete", agent="studio", file="gone.md")
    swarm.change("studio", system_prompt=HARD, when=When(cron="0 * * * *", timezone="Europe/Berlin"))
    swarm.change("game", description=HARD)
    first = swarm.call("handoff_send", to="studio", text=HARD, due=at(swarm.clock.now()))["id"]
    swarm.call(
        "handoff_send", to="studio", text="urgent", priority="urgent", expires="2026-12-30T00:00+00:00"
    )
    swarm.call("handoff_ask", id=first, text=HARD, as_="studio")
    swarm.call("handoff_answer", id=first, text=HARD)
    sent = [swarm.call("handoff_send", to="game", text=HARD, as_="studio")["id"] for _ in range(3)]
    swarm.clock.go(minutes=5)
    swarm.call("handoff_ask", id=sent[0], text="which?", as_="game")
    swarm.call("handoff_complete", id=sent[1], reply=HARD, as_="game")
    swarm.call("handoff_send", to="game", text="and this")
    swarm.call("report", text=HARD, as_="game")
    swarm.call("report", text="second", as_="game")
    swarm.play("game")
    swarm.play("studio", collides)
    swarm.clock.go(hours=1)
    swarm.play("studio", fails)
    swarm.clock.go(hours=1)
    return swarm


def everything_changes(swarm):
    swarm.clock.go(days=3)
    for name in ("studio", "game", "art"):
        swarm.call("ctx_set", agent=name, key="k", value="later")
        swarm.call("ctx_set", agent=name, key="more", value="later")
    swarm.call("memory_write", agent="studio", file="MEMORY.md", text="later\n")
    swarm.call("memory_write", agent="studio", file="notes/a.md", text="later")
    swarm.call("memory_delete", agent="studio", file="notes/a.md")
    swarm.call("memory_write", agent="studio", file="new.md", text="later")
    for handoff in swarm.call("handoff_list")["items"]:
        if handoff["status"] in ("open", "waiting", "acknowledged"):
            swarm.call("handoff_change", id=handoff["id"], priority="low", due="2027-01-01T00:00+00:00")
            swarm.call("handoff_cancel", id=handoff["id"])
    swarm.call("handoff_send", to="studio", text="later")
    swarm.call("report", text="later", as_="game")
    for conflict in swarm.call("memory_conflicts", agent="studio")["items"]:
        swarm.call("memory_take", agent="studio", conflict=conflict["id"], side="ours")
    for row in swarm.rows("SELECT id FROM sessions WHERE draft = 'open'"):
        swarm.call("session_apply", session=row["id"], as_operator=True)
    swarm.change("studio", system_prompt="Other.", when=When(cron="0 1 * * *", timezone="UTC"))
    swarm.change("game", description="other", parent="garage")
    swarm.remove("art")
    swarm.play("game")
    swarm.play("studio")


@pytest.mark.parametrize("trigger", ["cron", "manual", "retry", "catch_up"])
def test_it_is_the_same_to_the_byte_after_everything_has_changed(rich, trigger):
    rich.play("studio", trigger=trigger, slot=rich.clock.now(), note="a reason", attempt=2)
    (request, id) = (rich.runner.requests[-1], rich.runner.requests[-1].session)
    before, prompt = prompt_again(rich, id)
    assert (prompt.system, prompt.user) == (request.system, request.user)
    for word in ("which?", "agent's", "drafted", "urgent", "a reason", "second"):
        assert word in prompt.user
    everything_changes(rich)
    seen, again = prompt_again(rich, id)
    assert again == prompt
    assert seen == before
    assert same(rich, id)


def test_the_correction_of_token_counts_is_the_one_of_then(rich):
    rich.play("studio")
    id = rich.runner.requests[-1].session
    _, prompt = prompt_again(rich, id)
    assert prompt.overhead > 0
    rich.write(lambda c: c.execute("DELETE FROM counted"))
    assert prompt_again(rich, id)[1] == prompt


def test_a_session_of_an_agent_with_nothing_can_be_made_again(swarm):
    swarm.play("art")
    everything_changes(swarm)
    assert same(swarm, swarm.runner.requests[0].session)


def test_more_open_work_than_is_looked_at_stays_a_number(swarm, monkeypatch):
    from swarmd.store import snapshots

    monkeypatch.setattr(snapshots, "WORK_READ", 3)
    for number in range(7):
        swarm.call("handoff_send", to="art", text=f"work {number}")
    id = swarm.play("art")["id"]
    everything_changes(swarm)
    seen, _ = prompt_again(swarm, id)
    assert (len(seen.open_handoffs), seen.more_open_handoffs) == (3, 4)
    assert same(swarm, id)


@pytest.mark.parametrize(
    ("sql", "what"),
    [
        ("DELETE FROM revisions WHERE path = 'notes/a.md'", "notes/a.md, revision 1"),
        ("DELETE FROM key_history WHERE agent = 'game' AND key = 'k'", "version 1 of game/k"),
        ("DELETE FROM handoffs", "handoff 1"),
        ("DELETE FROM handoff_entries", "handoff 1"),
        ("DELETE FROM reports", "report 1"),
        ("DELETE FROM drafts", "the draft of session"),
        ("DELETE FROM conflicts", "conflict 1"),
        ("DELETE FROM changes", "the changes of session"),
        ("DELETE FROM sessions WHERE agent = 'game'", "session 1"),
        ("UPDATE agents SET hash = 'x' WHERE 0", None),
        ("PRAGMA foreign_keys = OFF", None),
    ],
)
def test_what_is_not_kept_any_more_is_named(rich, sql, what):
    id = rich.play("studio")["id"]
    rich.write(lambda c: c.execute(sql))
    if what is None:
        assert same(rich, id)
        return
    with pytest.raises(NotKept, match=what):
        prompt_again(rich, id)


def test_a_renamed_agent_and_one_that_never_started_are_refused(swarm):
    from swarmd.store import moving

    id = swarm.play("art")["id"]
    waiting = swarm.queue("art")
    with pytest.raises(NotKept, match="never started"):
        rebuilt(swarm.reader, sessions.row(swarm.reader, waiting))
    swarm.write(lambda c: moving.rename(c, "art", "arts"))
    with pytest.raises(NotKept, match="renamed to arts"):
        rebuilt(swarm.reader, sessions.row(swarm.reader, id))


def test_a_session_of_an_earlier_version_is_refused(swarm):
    id = swarm.play("art")["id"]
    row = {
        **dict(sessions.row(swarm.reader, id)),
        "base": '{"memory":{},"keys":[],"handoffs":[],"reports":[]}',
    }
    with pytest.raises(NotKept, match="a version of swarmd before"):
        rebuilt(swarm.reader, row)


def test_another_definition_takes_the_place_of_its_own(rich):
    id = rich.play("studio")["id"]
    seen, _ = prompt_again(rich, id)
    edited = replace(trees.tree_of(rich.reader).agent("studio"), system_prompt="Edited.")
    assert assemble(replace(seen, agent=edited), count).system.startswith("Edited.")
