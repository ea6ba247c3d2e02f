"""Yesterday's snapshot given to an edited definition: it sees and is judged by what was then, and nothing is saved."""

from dataclasses import replace

import pytest

from swarmd.core.agent import When
from swarmd.session import flow
from swarmd.session.given_again import past_for
from swarmd.store import sessions, trees
from swarmd.store.past import PastWorld, past_of
from tests.swarm import nothing


def count(text):
    return -(-len(text) // 4)


async def what_if(swarm, id, script=nothing, definition=None, agent="studio"):
    """The session that is given what session `id` was given."""
    swarm.script = script
    new = swarm.queue(agent, "manual", mode="no_commit", by="operator:ada")
    order = flow.order_of(sessions.row(swarm.reader, new), definition, from_session=id)
    await flow.run(swarm.ports(), order)
    return swarm.session(new)


@pytest.fixture
def then(swarm):
    """A session of studio, and what was there at its start; since then everything is otherwise."""
    swarm.call("ctx_set", agent="studio", key="mood", value="calm")
    swarm.call("ctx_set", agent="game", key="level", value="1")
    swarm.call("memory_write", agent="studio", file="MEMORY.md", text="one\n")
    work = swarm.call("handoff_send", to="studio", text="the work of then")["id"]
    sent = swarm.call("handoff_send", to="game", text="below", as_="studio", dedupe="d")["id"]
    swarm.clock.go(hours=1)
    session = swarm.play("studio")
    swarm.clock.go(hours=1)
    swarm.call("ctx_set", agent="studio", key="mood", value="cross")
    swarm.call("ctx_set", agent="studio", key="new", value="x")
    swarm.call("ctx_set", agent="game", key="level", value="2")
    swarm.call("memory_write", agent="studio", file="MEMORY.md", text="changed entirely\n")
    swarm.call("memory_write", agent="studio", file="later.md", text="later")
    swarm.call("handoff_cancel", id=work)
    swarm.call("handoff_cancel", id=sent)
    later = swarm.call("handoff_send", to="studio", text="the work of now")["id"]
    swarm.change("game", parent="garage")
    swarm.remove("art")
    swarm.clock.go(hours=1)
    return swarm, session["id"], {"work": work, "sent": sent, "later": later}


async def test_the_same_definition_is_given_the_very_same_bytes(then):
    swarm, id, _ = then
    first = swarm.runner.requests[-1]
    session = await what_if(swarm, id)
    again = swarm.runner.requests[-1]
    assert (again.system, again.user, again.memory) == (first.system, first.user, first.memory)
    assert (session["outcome"], session["mode"]) == ("dry_run", "no_commit")
    assert session["prompt_hash"] == swarm.session(id)["prompt_hash"]


async def test_it_reads_and_is_judged_by_what_was_then(then):
    swarm, id, ids = then

    async def script(part):
        assert (await part.act("ctx_get", key="mood"))["value"] == "calm"
        assert [k["key"] for k in (await part.act("ctx_list"))["items"]] == ["mood"]
        assert (await part.act("ctx_get", agent="game", key="level"))["value"] == "1"
        assert (await part.act("handoff_show", id=ids["work"]))["status"] == "open"
        assert "no handoff" in await part.refused("handoff_show", id=ids["later"])
        assert [h["id"] for h in (await part.act("handoff_list"))["items"]] == [ids["sent"], ids["work"]]
        assert (await part.act("memory_show"))["text"] == "one\n"
        await part.act("ctx_set", key="mood", value="glad")
        await part.act("handoff_complete", id=ids["work"], reply="done")
        await part.act("ctx_set", agent="game", key="level", value="3")
        await part.act("handoff_send", to="art", text="for one that is gone now")
        again = await part.act("handoff_send", to="game", text="twice", dedupe="d")
        assert again["id"] == ids["sent"]
        await part.refused("ctx_set", agent="garage", key="k", value="v")
        part.write("MEMORY.md", "one\ntwo\n")

    before = {
        k: v
        for k, v in swarm.dump().items()
        if k not in ("sessions", "changes", "audit", "sums", "meta", "definitions", "sqlite_sequence")
    }
    session = await what_if(swarm, id, script)
    assert (session["outcome"], session["reason"]) == ("dry_run", "nothing was saved: --no-commit")
    assert [(c["act"], c["verdict"], c["before"]) for c in session["changes"]] == [
        ("ctx_set", "done", "calm"), ("handoff_complete", "done", "open"), ("ctx_set", "done", "1"),
        ("handoff_send", "done", None), ("memory_write", "done", "revision 1, 4 bytes"),
    ]  # fmt: skip
    after = swarm.dump()
    assert {name: after[name] for name in before} == before
    assert swarm.text("studio") == "changed entirely\n"


async def test_an_edited_definition_takes_the_place_of_the_one_of_then(then):
    swarm, id, _ = then
    edited = replace(
        trees.tree_of(swarm.reader).agent("studio"), system_prompt="Edited.", keys_scope="own",
        when=When(cron="0 1 * * *", timezone="Asia/Tokyo"),
    )  # fmt: skip

    async def script(part):
        await part.refused("ctx_set", agent="game", key="level", value="3")
        await part.act("ctx_set", key="mood", value="edited")

    session = await what_if(swarm, id, script, edited)
    request = swarm.runner.requests[-1]
    assert request.system.startswith("Edited.")
    assert "the work of then" in request.user
    assert "19:00" in request.user, "by its own clock it was 19:00 then"
    assert [r["target"] for r in session["refusals"]] == ["game/level"]
    assert [c["target"] for c in session["changes"]] == ["studio/mood"]


async def test_another_model_is_counted_in_its_own_way(then):
    from swarmd.core.calibration import Pair
    from swarmd.store import usage

    swarm, id, _ = then
    edited = replace(trees.tree_of(swarm.reader).agent("studio"), runner_options={"model": "other"})
    swarm.write(lambda c: usage.learn(c, "studio", "command:other", 99, Pair(ours=100, tools=0, theirs=150)))
    assert past_for(swarm.reader, id, edited, count, "/nowhere").seen.token_ratio == 1.5
    same = trees.tree_of(swarm.reader).agent("studio")
    assert past_for(swarm.reader, id, same, count, "/nowhere").seen.token_ratio == 1.0


async def test_a_draft_of_then_can_be_taken_up_though_it_was_closed_since(swarm):
    async def fails(part):
        await part.act("ctx_set", key="drafted", value="v")
        return part.done("failed", reason="no")

    failed = await swarm.run("studio", fails)
    id = (await swarm.run("studio"))["id"]
    swarm.call("session_discard", session=failed["id"])

    async def script(part):
        assert (await part.act("draft_show"))["session"] == failed["id"]
        await part.act("draft_apply")

    session = await what_if(swarm, id, script)
    assert [(c["target"], c["verdict"]) for c in session["changes"]] == [("studio/drafted", "done")]
    assert swarm.session(failed["id"])["draft"] == "discarded"


async def test_a_checkpoint_of_it_saves_nothing(then):
    swarm, id, _ = then

    async def script(part):
        await part.act("ctx_set", key="mood", value="saved?")
        assert (await part.checkpoint()).value["checkpoint"] is None

    await what_if(swarm, id, script)
    assert swarm.value("studio", "mood") == "cross"


async def test_it_counts_for_no_handoff_and_teaches_no_counts(then):
    swarm, id, _ = then

    async def script(part):
        part.desk.event(
            "usage",
            {
                "turn": 1,
                "model": "m",
                "tokens_in": 5,
                "tokens_out": 1,
                "cache_read": 0,
                "cache_write": 0,
                "usd": None,
            },
        )

    session = await what_if(swarm, id, script)
    assert swarm.rows("SELECT cause_handoff FROM sessions WHERE id = ?", session["id"]) == [
        {"cause_handoff": None}
    ]
    assert swarm.rows("SELECT * FROM counted") == []


async def test_a_what_if_of_a_what_if_is_given_the_same(then):
    swarm, id, _ = then
    first = await what_if(swarm, id)
    swarm.clock.go(days=1)
    second = await what_if(swarm, first["id"])
    assert second["prompt_hash"] == first["prompt_hash"]
    shown = swarm.call("session_show", session=second["id"], prompt_text=True)["prompt_text"]
    assert shown["from"] == "rebuilt"


async def test_where_something_is_gone_it_does_not_start(then):
    swarm, id, _ = then
    ran = len(swarm.runner.requests)
    swarm.write(lambda c: c.execute("DELETE FROM revisions WHERE path = 'MEMORY.md' AND rev = 1"))
    session = await what_if(swarm, id)
    assert session["outcome"] == "failed"
    assert "MEMORY.md, revision 1" in session["reason"]
    assert len(swarm.runner.requests) == ran


async def test_a_prompt_that_comes_out_differently_does_not_start(then):
    swarm, id, _ = then
    swarm.write(lambda c: c.execute("UPDATE sessions SET prompt_hash = 'x' WHERE id = ?", (id,)))
    session = await what_if(swarm, id)
    assert "comes out differently" in session["reason"]


async def test_instructions_are_read_as_they_are_now(swarm, tmp_path):
    (tmp_path / "AGENTS.md").write_text("Be brief.\n")
    swarm.change("studio", runner_options={"workdir": str(tmp_path), "instructions": ["AGENTS.md"]})
    id = (await swarm.run("studio"))["id"]
    assert (await what_if(swarm, id))["outcome"] == "dry_run"
    assert "Be brief." in swarm.runner.requests[-1].system
    (tmp_path / "AGENTS.md").write_text("Be long.\n")
    assert "instructions that have changed" in (await what_if(swarm, id))["reason"]
    (tmp_path / "AGENTS.md").unlink()
    assert (await what_if(swarm, id))["outcome"] == "failed"
    shown = swarm.call("session_show", session=id, prompt_text=True)["prompt_text"]
    assert "cannot be made again" in shown["why_not"]


def test_the_past_is_what_the_world_was(swarm):
    """Of agents that the session was not shown, too."""
    swarm.call("ctx_set", agent="garage", key="k", value="1")
    swarm.call("ctx_set", agent="garage", key="gone", value="x")
    swarm.call("ctx_unset", agent="garage", key="gone")
    swarm.call("memory_write", agent="garage", file="MEMORY.md", text="then")
    swarm.call("memory_write", agent="garage", file="gone.md", text="then")
    sent = swarm.call("handoff_send", to="garage", text="t", dedupe="x")["id"]
    swarm.clock.go(minutes=1)
    swarm.call("handoff_ack", id=sent, as_="garage")
    swarm.clock.go(minutes=1)
    id = swarm.play("art")["id"]
    swarm.clock.go(minutes=1)
    swarm.call("ctx_set", agent="garage", key="k", value="2")
    swarm.call("memory_write", agent="garage", file="MEMORY.md", text="now")
    swarm.call("memory_delete", agent="garage", file="gone.md")
    swarm.call("handoff_complete", id=sent, as_="garage")
    swarm.agent("newcomer", "garage")
    world = PastWorld(swarm.reader, past_of(swarm.reader, sessions.row(swarm.reader, id)))
    assert list(world.tree) == ["art", "game", "garage", "house", "studio"]
    assert [k.value for k in world.keys("garage")] == ["1"]
    assert (world.key("garage", "k").value, world.key("garage", "gone").value, world.key("garage", "no")) == (
        "1",
        None,
        None,
    )
    assert {d.path: d.data for d in world.documents("garage")} == {"MEMORY.md": b"then", "gone.md": b"then"}
    assert world.document("garage", "MEMORY.md").rev == 1
    assert world.revision("garage", "MEMORY.md", 1) == b"then"
    assert world.blob("none") is None
    assert (world.handoff(sent).status, len(world.handoff(sent).thread)) == ("acknowledged", 1)
    assert [h.id for h in world.handoffs(receiver="garage", statuses=["acknowledged"])] == [sent]
    assert world.handoffs(sender="art") == []
    assert world.open_with_dedupe("operator", "garage", "x").id == sent
    assert world.open_with_dedupe("operator", "garage", "y") is None
    assert world.sent_in_session(id) == 0
