"""The whole life of a session, on a real store: how it ends, what is written, and what the next one is told."""

import asyncio
import hashlib
from dataclasses import replace

import pytest

from swarmd.core.agent import Limits, MemoryRules, Success
from swarmd.core.snapshot import Trigger
from swarmd.core.wire import Usage
from swarmd.errors import Refused
from swarmd.runners.outcomes import RunCancelled
from swarmd.session import flow
from swarmd.store import sessions, trees
from swarmd.store.snapshots import snapshot


def verdicts(session):
    return [(change["act"], change["verdict"]) for change in session["changes"]]


def told(swarm, agent="studio"):
    """What the next session is told of the last."""
    definition = trees.tree_of(swarm.reader).agent(agent)
    return snapshot(swarm.reader, definition, Trigger(kind="cron"), swarm.clock.now()).aftermath


async def work(part):
    await part.act("ctx_set", key="status", value="POLISH")
    await part.act("handoff_send", to="game", text="do it")
    part.write("MEMORY.md", "notes\n")


# -- good ends ----------------------------------------------------------------------------------------------


async def test_what_a_session_asked_for_is_committed_when_it_ends_well(swarm):
    session = await swarm.run("studio", work)
    assert (session["outcome"], session["reason"], session["draft"]) == ("committed", "", None)
    assert verdicts(session) == [("ctx_set", "done"), ("handoff_send", "done"), ("memory_write", "done")]
    assert swarm.value("studio", "status") == "POLISH"
    assert swarm.text("studio") == "notes\n"
    assert swarm.handoff(1)["by"] == "studio#1"
    row = sessions.row(swarm.reader, 1)
    assert row["token_hash"] is None
    assert row["definition"] in {r["hash"] for r in swarm.rows("SELECT hash FROM definitions")}


async def test_nothing_is_written_before_the_end(swarm):
    async def script(part):
        await work(part)
        assert swarm.value("studio", "status") is None
        assert swarm.rows("SELECT * FROM handoffs") == []

    assert (await swarm.run("studio", script))["outcome"] == "committed"


async def test_a_session_that_changes_nothing_is_no_change(swarm):
    session = await swarm.run("studio")
    assert (session["outcome"], session["changes"], session["draft"]) == ("no_change", [], None)


async def test_the_same_value_again_is_no_change(swarm):
    swarm.call("ctx_set", agent="studio", key="status", value="POLISH")

    async def script(part):
        await part.act("ctx_set", key="status", value="POLISH")

    assert (await swarm.run("studio", script))["outcome"] == "no_change"


async def test_a_fresh_agent_with_nothing_stored_runs(swarm):
    swarm.agent("fresh")
    assert (await swarm.run("fresh"))["outcome"] == "no_change"


async def test_the_prompt_is_kept_by_hash_and_sections(swarm):
    session = await swarm.run("studio")
    (request,) = swarm.runner.requests
    whole = hashlib.sha256(f"{request.system}\x00{request.user}".encode()).hexdigest()
    assert session["prompt_hash"] == whole
    assert session["prompt"]["sections"][0]["name"]
    assert request.token
    assert request.token not in str(session)


async def test_the_snapshot_is_taken_at_the_start_not_at_queueing(swarm):
    swarm.call("ctx_set", agent="studio", key="k", value="queued")
    done = swarm.call("handoff_send", to="studio", text="completed meanwhile")["id"]
    id = swarm.queue("studio")
    swarm.clock.go(seconds=60)
    swarm.call("ctx_set", agent="studio", key="k", value="started")
    swarm.call("handoff_complete", id=done)
    swarm.call("handoff_send", to="studio", text="added meanwhile")
    swarm.file("studio").parent.mkdir(exist_ok=True)
    swarm.file("studio").write_text("saved meanwhile by hand\n")
    await swarm.start(id)
    (request,) = swarm.runner.requests
    assert "started" in request.user
    assert "queued" not in request.user
    assert "completed meanwhile" not in request.user
    assert "added meanwhile" in request.user
    assert request.memory.read("MEMORY.md") == b"saved meanwhile by hand\n"


# -- refused ------------------------------------------------------------------------------------------------


async def test_authority_lost_by_a_new_parent_refuses_all_and_is_told_to_the_next_session(swarm):
    before = swarm.call("ctx_list", agent="studio")["items"]

    async def script(part):
        await work(part)
        await part.act("ctx_set", agent="art", key="k", value="v")
        swarm.change("game", parent="garage")
        swarm.change("art", parent="garage")

    session = await swarm.run("studio", script)
    assert (session["outcome"], session["draft"]) == ("refused", "open")
    assert [r["target"] for r in session["refusals"]] == ["game", "art/k"]
    assert verdicts(session) == [
        ("ctx_set", "not_written"), ("handoff_send", "refused"), ("ctx_set", "refused"), ("memory_write", "not_written"),
    ]  # fmt: skip
    assert swarm.call("ctx_list", agent="studio")["items"] == before
    assert swarm.rows("SELECT * FROM handoffs") == []
    assert swarm.rows("SELECT * FROM heads") == []
    after = told(swarm)
    assert len(after.refusals) == 2
    assert after.draft_session == session["id"]
    await swarm.run("studio")
    assert "stands below studio" in swarm.runner.requests[-1].user


async def test_a_read_only_file_that_became_so_meanwhile_refuses_all(swarm):
    async def script(part):
        part.write("policies/a.md", "mine\n")
        swarm.change("studio", memory=MemoryRules(read_only=("policies/**",)))

    session = await swarm.run("studio", script)
    assert session["outcome"] == "refused"
    assert swarm.rows("SELECT * FROM heads") == []


async def test_what_is_refused_at_the_act_is_not_in_the_change_set_and_the_rest_commits(swarm):
    async def script(part):
        reason = await part.refused("handoff_send", to="house", text="up")
        assert reason == "no agent named 'house' stands below studio"
        await part.refused("ctx_set", key="bad name", value="v")
        await part.act("ctx_set", key="good", value="v")

    session = await swarm.run("studio", script)
    assert session["outcome"] == "committed"
    assert verdicts(session) == [("ctx_set", "done")]
    assert [(r["act"], r["target"]) for r in session["refusals"]] == [
        ("handoff_send", "house"), ("ctx_set", "studio/bad name"),
    ]  # fmt: skip
    assert swarm.value("studio", "good") == "v"


async def test_problems_of_the_memory_copy_refuse_and_are_named(swarm):
    swarm.call("memory_write", agent="studio", file="kept.md", text="kept\n")

    async def script(part):
        await part.act("ctx_set", key="k", value="v")
        part.write("kept.md", None)  # not read because of the problem: it may still be there
        part.write("new.md", "new\n")
        return part.done(memory_problems=("evil.md is a symbolic link",))

    session = await swarm.run("studio", script)
    assert (session["outcome"], session["reason"]) == ("refused", "evil.md is a symbolic link")
    assert session["refusals"][0]["reason"] == "evil.md is a symbolic link"
    assert swarm.value("studio", "k") is None
    acts = [(c["act"], c["target"]) for c in session["changes"]]
    assert acts == [("ctx_set", "studio/k"), ("memory_write", "studio:new.md")]
    assert any("symbolic link" in reason for reason in told(swarm).refusals)


async def test_the_change_set_of_an_agent_that_was_removed_stays_a_draft(swarm):
    async def script(part):
        await part.act("ctx_set", key="before", value="v")
        swarm.remove("studio")
        await part.act("ctx_set", key="after", value="v")
        reply = await part.checkpoint()
        assert "not in force" in reply.error

    session = await swarm.run("studio", script)
    assert (session["outcome"], session["draft"]) == ("refused", "open")
    assert "not in force any more" in session["reason"]
    assert [c["target"] for c in session["changes"]] == ["studio/before", "studio/after"]
    assert swarm.call("ctx_list", agent="studio")["items"] == []


async def test_a_removed_agents_session_without_changes_is_no_change(swarm):
    async def script(part):
        swarm.remove("studio")

    assert (await swarm.run("studio", script))["outcome"] == "no_change"


# -- superseded ---------------------------------------------------------------------------------------------


async def test_what_others_have_overtaken_is_superseded_and_the_rest_commits(swarm):
    id = swarm.call("handoff_send", to="studio", text="do it")["id"]
    swarm.call("ctx_set", agent="studio", key="k", value="old")

    async def script(part):
        await part.act("handoff_complete", id=id, reply="done")
        await part.act("ctx_set", key="k", value="mine")
        await part.act("ctx_set", key="other", value="mine")
        swarm.call("handoff_cancel", id=id)
        swarm.call("ctx_set", agent="studio", key="k", value="the operator's")

    session = await swarm.run("studio", script)
    assert session["outcome"] == "committed"
    assert [s["target"] for s in session["superseded"]] == [f"handoff {id}", "studio/k"]
    assert session["refusals"] == []
    assert swarm.value("studio", "k") == "the operator's"
    assert swarm.value("studio", "other") == "mine"
    assert "was cancelled by operator:ada meanwhile" in session["reason"]
    assert len(told(swarm).superseded) == 2
    await swarm.run("studio")
    assert "overtaken" in swarm.runner.requests[-1].user


# -- failures -----------------------------------------------------------------------------------------------


async def test_an_agent_may_say_itself_that_it_failed(swarm):
    async def script(part):
        await work(part)
        await part.act("fail", reason="the API key has expired")

    session = await swarm.run("studio", script)
    assert (session["outcome"], session["reason"], session["draft"]) == (
        "failed",
        "the API key has expired",
        "open",
    )
    assert swarm.value("studio", "status") is None


async def test_its_own_words_are_worth_more_than_an_exit_status(swarm):
    async def script(part):
        await part.act("fail", reason="the API key has expired")
        return part.done("failed", reason="exit status 1", exit=1)

    session = await swarm.run("studio", script)
    assert (session["reason"], session["exit"]) == ("the API key has expired", 1)


@pytest.mark.parametrize("outcome", ["failed", "unavailable", "timed_out"])
async def test_a_session_that_did_not_end_well_leaves_a_draft(swarm, outcome):
    async def script(part):
        await work(part)
        return part.done(outcome, reason="because", exit=7)

    session = await swarm.run("studio", script)
    assert (session["outcome"], session["reason"], session["exit"], session["draft"]) == (
        outcome,
        "because",
        7,
        "open",
    )
    assert {verdict for _, verdict in verdicts(session)} == {"not_written"}
    assert told(swarm).draft == (
        "ctx_set studio/status",
        "handoff_send game",
        "memory_write studio:MEMORY.md",
    )
    assert swarm.rows("SELECT * FROM keys") == []


async def test_success_keys_changed_is_checked_before_the_commit(swarm):
    swarm.change("studio", success=Success(keys_changed=("last_run", "report")))

    async def script(part):
        await part.act("ctx_set", key="report", value="x")

    session = await swarm.run("studio", script)
    assert session["outcome"] == "failed"
    assert session["reason"] == "success.keys_changed: the session did not set last_run"

    async def both(part):
        await script(part)
        await part.act("ctx_set", key="last_run", value="now")

    assert (await swarm.run("studio", both))["outcome"] == "committed"


async def test_success_command_is_asked_before_the_commit(swarm):
    swarm.change("studio", success=Success(command=("test", "-s", "report.html")))
    swarm.checks = ["success.command 'test' did not succeed", None]
    first = await swarm.run("studio", work)
    assert (first["outcome"], first["reason"]) == ("failed", "success.command 'test' did not succeed")
    assert swarm.value("studio", "status") is None
    assert (await swarm.run("studio", work))["outcome"] == "committed"


async def test_a_plug_in_that_breaks_ends_its_session_and_not_more(swarm):
    async def script(part):
        await work(part)
        raise KeyError("a fault")

    session = await swarm.run("studio", script)
    assert (session["outcome"], session["draft"]) == ("failed", "open")
    assert "broke" in session["reason"]
    assert [c["act"] for c in session["changes"]] == ["ctx_set", "handoff_send"]


async def test_an_agent_that_is_not_in_force_when_its_turn_comes_fails(swarm):
    id = swarm.queue("studio")
    swarm.remove("studio")
    session = await swarm.start(id)
    assert (session["outcome"], session["started"]) == ("failed", None)


async def test_a_failed_session_is_retried_and_a_good_one_is_not(swarm):
    swarm.change("studio", limits=Limits(retries=1))

    async def fail(part):
        return part.done("failed")

    session = await swarm.run("studio", fail)
    (retry,) = swarm.live()
    assert (retry["retry_of"], retry["attempt"]) == (session["id"], 2)
    assert (await swarm.start(retry["id"]))["outcome"] == "no_change"
    assert swarm.live() == []


# -- cancelled ----------------------------------------------------------------------------------------------


async def cancelled_while(swarm, script, **ports):
    """Cancel the session as soon as its script says so."""
    reached = asyncio.Event()

    async def until(part):
        part.reached = reached
        return await script(part)

    swarm.script = until
    order = flow.order_of(sessions.row(swarm.reader, swarm.queue("studio")))
    task = asyncio.ensure_future(flow.run(swarm.ports(**ports), order, lambda: "cancelled by ada"))
    await asyncio.wait({asyncio.ensure_future(reached.wait()), task}, return_when=asyncio.FIRST_COMPLETED)
    task.cancel()
    await asyncio.wait({task})
    return swarm.session(order.id)


async def test_a_cancelled_session_leaves_its_draft_with_its_memory(swarm):
    async def script(part):
        await work(part)
        part.reached.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            raise RunCancelled(part.done("cancelled")) from None

    session = await cancelled_while(swarm, script)
    assert (session["outcome"], session["reason"], session["draft"]) == (
        "cancelled",
        "cancelled by ada",
        "open",
    )
    assert [c["act"] for c in session["changes"]] == ["ctx_set", "handoff_send", "memory_write"]
    assert swarm.rows("SELECT * FROM keys") == []


async def test_one_cancelled_during_its_success_command_keeps_its_memory_too(swarm):
    swarm.change("studio", success=Success(command=("sleep", "60")))
    reached = asyncio.Event()

    async def check(*_):
        reached.set()
        await asyncio.sleep(60)

    async def script(part):
        part.reached = reached
        await work(part)
        asyncio.get_running_loop().call_later(0.05, part.reached.set)

    swarm.script = script
    order = flow.order_of(sessions.row(swarm.reader, swarm.queue("studio")))
    task = asyncio.ensure_future(flow.run(swarm.ports(check=check), order, lambda: "cancelled by ada"))
    await reached.wait()
    task.cancel()
    await asyncio.wait({task})
    session = swarm.session(order.id)
    assert session["outcome"] == "cancelled"
    assert [c["act"] for c in session["changes"]] == ["ctx_set", "handoff_send", "memory_write"]


async def test_one_cancelled_in_the_middle_of_a_checkpoint_has_that_checkpoint_and_no_double(swarm):
    async def script(part):
        await part.act("ctx_set", key="k", value="v")
        await part.act("handoff_send", to="game", text="once")
        part.reached.set()
        await part.checkpoint()
        raise AssertionError("not reached")

    session = await cancelled_while(swarm, script)
    assert session["outcome"] == "cancelled"
    assert session["checkpoints"] == 1
    assert session["draft"] is None
    assert len(swarm.rows("SELECT * FROM handoffs")) == 1
    assert swarm.value("studio", "k") == "v"


# -- no_commit ----------------------------------------------------------------------------------------------


async def test_no_commit_runs_for_real_and_saves_nothing(swarm):
    swarm.call("ctx_set", agent="studio", key="old", value="v")
    written = (
        "sessions",
        "sqlite_sequence",
        "changes",
        "audit",
        "meta",
    )  # that it ran, and what it would have done
    before = {k: v for k, v in swarm.dump().items() if k not in written}

    async def script(part):
        await work(part)
        reply = await part.checkpoint()
        assert reply.value["checkpoint"] is None
        await part.act("ctx_unset", key="old")

    session = await swarm.run("studio", script, mode="no_commit")
    assert (session["outcome"], session["draft"], session["checkpoints"]) == ("dry_run", None, 0)
    assert verdicts(session) == [
        ("ctx_set", "done"), ("handoff_send", "done"), ("ctx_unset", "done"), ("memory_write", "done"),
    ]  # fmt: skip
    assert {k: v for k, v in swarm.dump().items() if k in before} == before
    assert not swarm.file("studio").exists()


async def test_no_commit_shows_what_would_be_refused(swarm):
    async def script(part):
        await work(part)
        swarm.change("game", parent="garage")

    session = await swarm.run("studio", script, mode="no_commit")
    assert session["outcome"] == "refused"
    assert [r["target"] for r in session["refusals"]] == ["game"]


async def test_a_no_commit_session_that_fails_leaves_no_draft(swarm):
    async def script(part):
        await work(part)
        return part.done("failed", reason="exit status 1")

    session = await swarm.run("studio", script, mode="no_commit")
    assert (session["outcome"], session["draft"]) == ("failed", None)
    assert swarm.live() == []


# -- an edited definition -----------------------------------------------------------------------------------


async def test_a_session_can_run_with_a_definition_that_is_not_in_force(swarm):
    edited = replace(trees.tree_of(swarm.reader).agent("studio"), system_prompt="Another one.")
    order = flow.order_of(sessions.row(swarm.reader, swarm.queue("studio")), edited)
    await flow.run(swarm.ports(), order)
    assert swarm.runner.requests[-1].system.startswith("Another one.")
    session = swarm.session(order.id)
    assert trees.definition(swarm.reader, session["definition"]) == edited
    assert trees.tree_of(swarm.reader).agent("studio").system_prompt == "You are studio."


# -- the end is written once --------------------------------------------------------------------------------


async def test_a_session_that_was_ended_by_somebody_else_writes_nothing(swarm):
    async def script(part):
        await part.act("ctx_set", key="k", value="v")
        swarm.control.cancel(part.request.session, "by force")

    with pytest.raises(Refused):
        await swarm.run("studio", script)
    assert swarm.value("studio", "k") is None
    assert swarm.session(1)["outcome"] == "cancelled"


async def test_files_that_cannot_be_settled_do_not_keep_a_session_from_its_end(swarm):
    async def script(part):
        await work(part)
        folder = swarm.file("studio").parent
        folder.mkdir(parents=True, exist_ok=True)
        swarm.file("studio").mkdir()

    session = await swarm.run("studio", script)
    assert session["outcome"] == "committed"
    assert swarm.call("memory_show", agent="studio")["text"] == "notes\n"


async def test_figures_that_can_be_none_are_unknown_and_end_no_session_for_ever(swarm):
    wild = Usage(tokens_in=10**30, tokens_out=-5, cache_read=2**63, cache_write=7, usd=-1.0)

    async def script(part):
        await part.act("ctx_set", key="k", value="v")
        return part.done("success", usage=wild, by_model={"m": wild})

    session = await swarm.run("studio", script)
    assert session["outcome"] == "committed"
    row = swarm.rows(
        "SELECT tokens_in, tokens_out, cache_read, cache_write, usd FROM sessions WHERE id = ?", session["id"]
    )
    assert [tuple(one.values()) for one in row] == [(None, None, None, 7, None)]


async def test_what_a_runner_gives_back_and_nobody_can_store_fails_its_session_and_holds_no_place(swarm):
    async def script(part):
        await part.act("ctx_set", key="k", value="v")
        return part.done("success", exit=2**70)

    session = await asyncio.wait_for(swarm.run("studio", script), 5)
    assert session["outcome"] == "failed"
    assert session["reason"].startswith("its end could not be written")
    assert session["draft"] == "open"
