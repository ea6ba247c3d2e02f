"""Checkpoints: commits of their own, numbered, that stay whatever comes; people may edit in between."""

import asyncio

from swarmd.core.agent import Limits


async def test_a_checkpoint_is_saved_at_once_and_numbered(swarm):
    async def script(part):
        await part.act("ctx_set", key="a", value="1")
        part.write("MEMORY.md", "one\n")
        reply = await part.checkpoint()
        assert reply.value["checkpoint"] == 1
        assert [(c["act"], c["verdict"]) for c in reply.value["changes"]] == [
            ("ctx_set", "done"),
            ("memory_write", "done"),
        ]
        assert swarm.value("studio", "a") == "1"
        assert swarm.text("studio") == "one\n"
        await part.act("ctx_set", key="b", value="2")
        assert (await part.checkpoint()).value["checkpoint"] == 2
        await part.act("ctx_set", key="c", value="3")

    session = await swarm.run("studio", script)
    assert (session["outcome"], session["checkpoints"]) == ("committed", 2)
    rows = swarm.rows("SELECT part, target FROM changes ORDER BY seq")
    assert [(row["part"], row["target"]) for row in rows] == [
        (1, "studio/a"), (1, "studio:MEMORY.md"), (2, "studio/b"), (3, "studio/c"),
    ]  # fmt: skip
    acts = [row["act"] for row in swarm.rows("SELECT act FROM audit WHERE session = 1 ORDER BY seq")]
    assert acts == ["checkpoint", "checkpoint", "commit"]


async def test_what_a_checkpoint_wrote_stays_and_the_failed_session_is_not_retried(swarm):
    swarm.change("studio", limits=Limits(retries=3))

    async def script(part):
        await part.act("ctx_set", key="a", value="1")
        await part.act("handoff_send", to="game", text="do it")
        await part.checkpoint()
        await part.act("ctx_set", key="b", value="2")
        return part.done("failed", reason="exit status 1")

    session = await swarm.run("studio", script)
    assert (session["outcome"], session["draft"]) == ("failed", "open")
    assert [(c["target"], c["verdict"]) for c in session["changes"]] == [
        ("studio/a", "done"), ("game", "done"), ("studio/b", "not_written"),
    ]  # fmt: skip
    assert (swarm.value("studio", "a"), swarm.value("studio", "b")) == ("1", None)
    assert swarm.live() == []


async def test_a_session_that_only_made_checkpoints_has_committed(swarm):
    async def script(part):
        await part.act("ctx_set", key="a", value="1")
        await part.checkpoint()

    assert (await swarm.run("studio", script))["outcome"] == "committed"


async def test_a_refused_checkpoint_saves_nothing_and_the_session_goes_on(swarm):
    async def script(part):
        await part.act("ctx_set", key="a", value="1")
        await part.act("ctx_set", agent="game", key="k", value="v")
        swarm.change("game", parent="garage")
        reply = await part.checkpoint()
        assert reply.kind == "refused"
        assert "nothing was saved" in reply.error
        assert swarm.value("studio", "a") is None
        swarm.change("game", parent="studio")
        assert (await part.checkpoint()).value["checkpoint"] == 1

    assert (await swarm.run("studio", script))["outcome"] == "committed"


async def test_problems_of_the_copy_refuse_a_checkpoint(swarm):
    async def script(part):
        await part.act("ctx_set", key="a", value="1")
        reply = await part.checkpoint(problems=("evil.md is a symbolic link",))
        assert "evil.md" in reply.error
        assert swarm.value("studio", "a") is None

    assert (await swarm.run("studio", script))["outcome"] == "committed"


# -- a person edits in between ------------------------------------------------------------------------------


async def test_no_line_of_a_person_is_lost_between_checkpoint_and_end(swarm):
    swarm.call("memory_write", agent="studio", file="MEMORY.md", text="top\nmiddle\nend\n")

    async def script(part):
        part.write("MEMORY.md", "top\nmiddle\nagent one\nend\n")
        await part.checkpoint()
        swarm.file("studio").write_text("top\nperson\nmiddle\nagent one\nend\n")
        part.write("MEMORY.md", "top\nmiddle\nagent one\nagent two\nend\n")
        await part.checkpoint()
        swarm.file("studio").write_text(swarm.text("studio") + "person at the end\n")
        part.write("MEMORY.md", "top\nmiddle\nagent one\nagent two\nagent three\nend\n")

    session = await swarm.run("studio", script)
    assert session["outcome"] == "committed"
    assert (
        swarm.text("studio")
        == "top\nperson\nmiddle\nagent one\nagent two\nagent three\nend\nperson at the end\n"
    )
    assert swarm.call("memory_conflicts", agent="studio")["items"] == []


async def test_what_the_merge_brought_in_is_not_taken_for_the_agents_deletion(swarm):
    """The working copy does not have the person's line; the next commit must not take it away."""
    swarm.call("memory_write", agent="studio", file="MEMORY.md", text="one\n")

    async def script(part):
        swarm.file("studio").write_text("one\nperson\n")
        part.write("MEMORY.md", "zero\none\n")
        await part.checkpoint()
        assert swarm.text("studio") == "zero\none\nperson\n"
        part.write("MEMORY.md", "minus one\nzero\none\n")
        await part.checkpoint()
        part.write("MEMORY.md", "minus two\nminus one\nzero\none\n")

    await swarm.run("studio", script)
    assert swarm.text("studio") == "minus two\nminus one\nzero\none\nperson\n"


async def test_where_lines_collide_the_persons_stay_and_the_agents_are_kept_as_a_conflict(swarm):
    swarm.call("memory_write", agent="studio", file="MEMORY.md", text="one\ntwo\n")

    async def script(part):
        part.write("MEMORY.md", "one\nagent's two\n")
        swarm.file("studio").write_text("one\nperson's two\n")

    session = await swarm.run("studio", script)
    assert session["outcome"] == "committed"
    assert swarm.text("studio") == "one\nperson's two\n"
    (conflict,) = swarm.call("memory_conflicts", agent="studio")["items"]
    assert (conflict["ours"], conflict["theirs"], conflict["session"]) == (
        "agent's two\n",
        "person's two\n",
        session["id"],
    )
    await swarm.run("studio")
    assert "agent's two" in swarm.runner.requests[-1].user


async def test_a_conflict_alone_leaves_nothing_to_revert(swarm):
    swarm.call("memory_write", agent="studio", file="MEMORY.md", text="one\n")

    async def script(part):
        part.write("MEMORY.md", "agent's\n")
        swarm.file("studio").write_text("person's\n")

    session = await swarm.run("studio", script)
    swarm.call("memory_append", agent="studio", file="MEMORY.md", text="and later\n")
    document = swarm.call("session_revert", sessions=[str(session["id"])])
    assert document["undone"] == []
    assert swarm.text("studio") == "person's\nand later\n"


async def test_a_file_that_was_deleted_in_a_checkpoint_and_comes_again_is_written(swarm):
    swarm.call("memory_write", agent="studio", file="a.md", text="old\n")

    async def script(part):
        part.write("a.md", None)
        await part.checkpoint()
        assert not swarm.file("studio", "a.md").exists()
        part.write("a.md", "new\n")

    await swarm.run("studio", script)
    assert swarm.text("studio", "a.md") == "new\n"


async def test_what_was_not_touched_is_not_written(swarm):
    swarm.call("memory_write", agent="studio", file="a.md", text="old\n")

    async def script(part):
        part.write("b.md", "new\n")
        await part.checkpoint()
        swarm.file("studio", "a.md").write_text("person\n")

    await swarm.run("studio", script)
    assert swarm.text("studio", "a.md") == "person\n"
    by = [row["by"] for row in swarm.call("memory_history", agent="studio", file="a.md")["items"]]
    assert by == ["operator:ada", "operator:ada"]


async def test_the_asker_of_a_checkpoint_may_go_away_and_it_is_made_all_the_same(swarm):
    async def script(part):
        await part.act("ctx_set", key="a", value="1")
        asker = asyncio.ensure_future(part.checkpoint())
        await asyncio.sleep(0)
        asker.cancel()
        await asyncio.wait({asker})
        await part.act("ctx_set", key="b", value="2")

    session = await swarm.run("studio", script)
    assert (session["outcome"], session["checkpoints"]) == ("committed", 1)
    assert [c["target"] for c in session["changes"]] == ["studio/a", "studio/b"]
