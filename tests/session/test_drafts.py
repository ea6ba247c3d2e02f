"""Drafts: what a session wanted and did not get is shown to the next one, applied once or dropped."""

from swarmd.store.sessions import newest_draft


async def leaves_a_draft(part):
    await part.act("ctx_set", key="k", value="drafted")
    await part.act("handoff_send", to="game", text="drafted")
    await part.act("report", text="drafted")
    part.write("MEMORY.md", "drafted\n")
    return part.done("failed", reason="exit status 1")


async def test_a_draft_is_shown_and_applied_and_then_it_is_gone(swarm):
    first = await swarm.run("studio", leaves_a_draft)

    async def script(part):
        shown = await part.act("draft_show")
        assert shown["session"] == first["id"]
        assert [c["act"] for c in shown["changes"]] == ["ctx_set", "handoff_send", "report", "memory_write"]
        applied = await part.act("draft_apply")
        assert {c["verdict"] for c in applied["changes"]} == {"done"}
        assert (await part.act("ctx_get", key="k"))["value"] == "drafted"
        assert "no open draft" in await part.refused("draft_apply")
        assert "no open draft" in await part.refused("draft_show")

    session = await swarm.run("studio", script)
    assert session["outcome"] == "committed"
    assert swarm.session(first["id"])["draft"] == "applied"
    assert swarm.value("studio", "k") == "drafted"
    assert swarm.text("studio") == "drafted\n"
    (handoff,) = swarm.call("handoff_list")["items"]
    assert (handoff["by"], handoff["text"]) == (f"studio#{session['id']}", "drafted")


async def test_a_discarded_draft_is_gone_only_when_the_session_commits(swarm):
    first = await swarm.run("studio", leaves_a_draft)

    async def fails(part):
        await part.act("draft_discard")
        return part.done("failed")

    await swarm.run("studio", fails)
    assert newest_draft(swarm.reader, "studio") == first["id"]

    async def succeeds(part):
        await part.act("draft_discard")

    assert (await swarm.run("studio", succeeds))["outcome"] == "committed"
    assert swarm.session(first["id"])["draft"] == "discarded"
    assert swarm.value("studio", "k") is None


async def test_a_checkpoint_settles_a_draft_for_good(swarm):
    first = await swarm.run("studio", leaves_a_draft)

    async def script(part):
        await part.act("draft_apply")
        await part.checkpoint()
        assert swarm.session(first["id"])["draft"] == "applied"
        return part.done("failed")

    second = await swarm.run("studio", script)
    assert second["draft"] is None
    assert swarm.value("studio", "k") == "drafted"


async def test_a_draft_that_is_taken_up_and_fails_again_stands_in_the_new_draft_only(swarm):
    first = await swarm.run("studio", leaves_a_draft)

    async def again(part):
        await part.act("draft_apply")
        await part.act("ctx_set", key="more", value="v")
        return part.done("failed")

    second = await swarm.run("studio", again)
    assert swarm.session(first["id"])["draft"] == "taken_up"

    async def script(part):
        await part.act("draft_apply")

    await swarm.run("studio", script)
    assert swarm.session(second["id"])["draft"] == "applied"
    assert newest_draft(swarm.reader, "studio") is None
    assert len(swarm.call("handoff_list")["items"]) == 1
    assert len(swarm.call("report_list")["items"]) == 1


async def test_what_of_a_draft_is_not_allowed_any_more_is_refused_and_the_rest_is_staged(swarm):
    await swarm.run("studio", leaves_a_draft)
    swarm.change("game", parent="garage")

    async def script(part):
        applied = await part.act("draft_apply")
        assert [c["verdict"] for c in applied["changes"]] == ["done", "refused", "done", "done"]

    session = await swarm.run("studio", script)
    assert session["outcome"] == "committed"
    assert [r["target"] for r in session["refusals"]] == ["game"]
    assert swarm.call("handoff_list")["items"] == []
    assert swarm.value("studio", "k") == "drafted"


async def test_what_of_a_draft_was_overtaken_is_superseded(swarm):
    await swarm.run("studio", leaves_a_draft)
    swarm.call("ctx_set", agent="studio", key="k", value="the operator's")

    async def script(part):
        await part.act("draft_apply")

    session = await swarm.run("studio", script)
    assert [s["target"] for s in session["superseded"]] == ["studio/k"]
    assert swarm.value("studio", "k") == "the operator's"


async def test_a_draft_that_an_operator_applies_meanwhile_is_not_written_twice(swarm):
    first = await swarm.run("studio", leaves_a_draft)

    async def script(part):
        await part.act("draft_apply")
        await part.act("ctx_set", key="own", value="v")
        swarm.call("session_apply", session=str(first["id"]))
        done = swarm.call("handoff_list")["items"][0]["id"]
        swarm.call("handoff_complete", id=done)

    session = await swarm.run("studio", script)
    assert session["outcome"] == "committed"
    assert swarm.value("studio", "own") == "v"
    (handoff,) = swarm.call("handoff_list")["items"]
    assert handoff["status"] == "completed"
    assert len(swarm.call("report_list")["items"]) == 1
    assert len(session["superseded"]) == 4
    assert "closed by somebody else" in session["reason"]


async def test_an_operator_applies_a_draft_as_the_agent(swarm):
    first = await swarm.run("studio", leaves_a_draft)
    document = swarm.call("session_apply", session="studio")
    assert document["draft"] == "applied"
    assert swarm.value("studio", "k") == "drafted"
    assert swarm.text("studio") == "drafted\n"
    (handoff,) = swarm.call("handoff_list")["items"]
    assert (handoff["sender"], handoff["by"]) == ("studio", "operator:ada as studio")
    assert handoff["cause"]["session"] == first["id"]
    assert swarm.call("report_list")["items"][0]["agent"] == "studio"
    (line,) = [row for row in swarm.call("log")["items"] if row["what"] == "session_apply"]
    assert line["by"] == "operator:ada as studio"


async def test_what_an_operator_applied_can_be_reverted_with_its_session(swarm):
    await swarm.run("studio", leaves_a_draft)
    swarm.call("session_apply", session="studio")
    document = swarm.call("session_revert", sessions=["studio"])
    assert {row["act"] for row in document["undone"]} == {"ctx_set", "handoff_send", "memory_write"}
    assert [row["act"] for row in document["not_undone"]] == ["report"]
    assert swarm.value("studio", "k") is None
