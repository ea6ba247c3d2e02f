"""Sessions whose writes wait for an operator's yes: what is saved, what is held, what the agent is told."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from swarmd.core.agent import MemoryRules, SharedFolder, Success
from swarmd.core.prompt import assemble
from swarmd.core.snapshot import Trigger
from swarmd.errors import Refused
from swarmd.store import audit, moving
from swarmd.store.bases import rebuilt, shown
from swarmd.store.snapshots import snapshot
from swarmd.store.trees import tree_of


@pytest.fixture
def swarm(swarm):
    swarm.change(
        "studio",
        approval_keys=("deploy", "deploy.*"),
        memory=MemoryRules(approval=("policies/**",)),
        approval_expires_seconds=86400.0,
    )
    return swarm


def sets(**keys):
    async def script(part):
        for key, value in keys.items():
            await part.act("ctx_set", key=key, value=value)

    return script


def writes(path, text):
    async def script(part):
        part.write(path, text)

    return script


def verdicts(session):
    return {change["target"]: change["verdict"] for change in session["changes"]}


def approvals(swarm, **args):
    return swarm.call("approval_list", all=True, **args)["items"]


def states(swarm):
    return {one["id"]: one["state"] for one in approvals(swarm)}


def prompt(swarm, agent="studio"):
    return swarm.call("prompt", agent=agent)["user"]


# -- holding ------------------------------------------------------------------------------------------------


def test_what_is_free_is_saved_and_what_is_held_waits(swarm):
    swarm.call("ctx_set", agent="studio", key="deploy", value="old")

    async def script(part):
        held = await part.act("ctx_set", key="deploy", value="new")
        assert (held["staged"], held["held"]) == (True, "held: needs an operator's approval")
        free = await part.act("ctx_set", key="status", value="ok")
        assert "held" not in free
        part.write("policies/a.md", "be kind\n")
        part.write("MEMORY.md", "notes\n")

    session = swarm.play("studio", script)
    assert session["outcome"] == "committed"
    assert verdicts(session) == {
        "studio/deploy": "held", "studio/status": "done", "studio:policies/a.md": "held", "studio:MEMORY.md": "done",
    }  # fmt: skip
    assert (swarm.value("studio", "deploy"), swarm.value("studio", "status")) == ("old", "ok")
    assert swarm.text("studio") == "notes\n"
    assert not swarm.file("studio", "policies/a.md").exists()
    assert [(one["target"], one["state"], one["by"]) for one in approvals(swarm)] == [
        ("studio:policies/a.md", "open", "studio#1"), ("studio/deploy", "open", "studio#1"),
    ]  # fmt: skip
    assert {item for item in swarm.attention() if item.startswith("approval")} == {"approval:1", "approval:2"}


def test_a_session_that_only_asked_for_what_is_held_has_committed(swarm):
    assert swarm.play("studio", sets(deploy="new"))["outcome"] == "committed"


def test_a_key_below_is_held_by_the_writers_file(swarm):
    async def script(part):
        await part.act("ctx_set", agent="game", key="deploy", value="new")

    assert verdicts(swarm.play("studio", script)) == {"game/deploy": "held"}
    assert swarm.play("game", sets(deploy="own"))["changes"][0]["verdict"] == "done"


def test_a_session_reads_what_it_has_asked_for_and_the_next_one_does_not(swarm):
    async def script(part):
        await part.act("ctx_set", key="deploy", value="new")
        assert (await part.act("ctx_get", key="deploy"))["value"] == "new"
        await part.checkpoint()
        assert (await part.act("ctx_get", key="deploy"))["value"] == "new"
        await part.act("ctx_set", key="status", value="ok")
        await part.checkpoint()
        assert (await part.act("ctx_get", key="deploy"))["value"] == "new"

    async def later(part):
        await part.refused("ctx_get", key="deploy")
        assert "policies/a.md" not in part.files

    swarm.play("studio", script)
    swarm.play("studio", later)


def test_a_refused_act_is_refused_at_once_also_where_it_would_be_held(swarm):
    async def script(part):
        assert "stands below" in await part.refused("ctx_set", agent="house", key="deploy", value="x")
        assert "65536" in await part.refused("ctx_set", key="deploy", value="x" * 70_000)

    assert swarm.play("studio", script)["outcome"] == "no_change"
    assert approvals(swarm) == []


def test_a_key_that_was_asked_for_counts_as_changed_for_the_check_of_success(swarm):
    swarm.change("studio", success=Success(keys_changed=("deploy",)))
    assert swarm.play("studio", sets(deploy="new"))["outcome"] == "committed"


def test_without_commit_the_verdict_shows_and_nothing_is_kept(swarm):
    session = swarm.play("studio", sets(deploy="new"), mode="no_commit")
    assert (session["outcome"], verdicts(session)) == ("dry_run", {"studio/deploy": "held"})
    assert approvals(swarm) == []


def test_what_a_checkpoint_held_stays_whatever_comes_after(swarm):
    async def script(part):
        await part.act("ctx_set", key="deploy", value="new")
        reply = await part.checkpoint()
        assert [(change["verdict"], change["approval"]) for change in reply.value["changes"]] == [("held", 1)]
        return part.done("failed", reason="exit status 1")

    assert swarm.play("studio", script)["outcome"] == "failed"
    assert states(swarm) == {1: "open"}


def test_a_failed_session_holds_nothing_its_draft_does_when_it_is_applied(swarm):
    async def script(part):
        await part.act("ctx_set", key="deploy", value="new")
        await part.act("ctx_set", key="status", value="ok")
        return part.done("failed", reason="exit status 1")

    swarm.play("studio", script)
    assert approvals(swarm) == []
    session = swarm.call("session_apply", session=1)
    assert {(c["target"], c["verdict"]) for c in session["changes"]} >= {
        ("studio/deploy", "held"), ("studio/status", "done"),
    }  # fmt: skip
    (held,) = approvals(swarm)
    assert (held["by"], held["session"]) == ("operator:ada as studio", 1)
    applied = {change["target"]: (change["verdict"], change["approval"]) for change in session["applied"]}
    assert applied["studio/deploy"] == ("held", held["id"])
    assert applied["studio/status"] == ("done", None)


def test_a_draft_in_the_operators_own_name_is_his_decision(swarm):
    async def script(part):
        await part.act("ctx_set", key="deploy", value="new")
        return part.done("failed", reason="exit status 1")

    swarm.play("studio", script)
    swarm.call("session_apply", session=1, as_operator=True)
    assert (swarm.value("studio", "deploy"), approvals(swarm)) == ("new", [])


def test_an_agent_that_takes_up_its_draft_is_told_what_will_be_held(swarm):
    async def fails(part):
        await part.act("ctx_set", key="deploy", value="new")
        return part.done("failed", reason="exit status 1")

    async def takes(part):
        (line,) = (await part.act("draft_apply"))["changes"]
        assert line["verdict"] == "held"

    swarm.play("studio", fails)
    assert verdicts(swarm.play("studio", takes)) == {"studio/deploy": "held"}


# -- the same wish, and newer ones --------------------------------------------------------------------------


def test_a_newer_wish_takes_the_place_of_an_open_one(swarm):
    swarm.play("studio", sets(deploy="one"))
    swarm.play("studio", sets(deploy="two"))
    assert states(swarm) == {1: "superseded", 2: "open"}
    with pytest.raises(
        Refused, match="approval 1 was superseded already by studio#2: approval 2 has taken its place"
    ):
        swarm.call("approval_approve", id=1)
    swarm.call("approval_approve", id=2)
    assert swarm.value("studio", "deploy") == "two"


def test_the_same_wish_again_is_the_same_approval(swarm):
    """Or an agent that runs each minute would always be faster than any operator."""
    swarm.play("studio", sets(deploy="one"))
    session = swarm.play("studio", sets(deploy="one"))
    assert (session["outcome"], verdicts(session)) == ("committed", {"studio/deploy": "held"})
    assert "approval 1" in session["changes"][0]["reason"]
    assert states(swarm) == {1: "open"}


def test_a_wish_for_what_is_there_already_takes_the_open_one_back(swarm):
    swarm.call("ctx_set", agent="studio", key="deploy", value="old")
    swarm.play("studio", sets(deploy="new"))
    session = swarm.play("studio", sets(deploy="old"))
    assert session["outcome"] == "no_change"
    assert states(swarm) == {1: "superseded"}


def test_a_wish_that_comes_to_nothing_in_its_own_session_is_none(swarm):
    swarm.call("ctx_set", agent="studio", key="deploy", value="old")

    async def script(part):
        await part.act("ctx_set", key="deploy", value="new")
        await part.act("ctx_set", key="deploy", value="old")

    assert swarm.play("studio", script)["outcome"] == "no_change"
    assert approvals(swarm) == []


def test_wishes_for_other_targets_stand_beside_each_other(swarm):
    swarm.play("studio", sets(deploy="one"))
    swarm.play("studio", sets(**{"deploy.eu": "one"}))
    assert states(swarm) == {1: "open", 2: "open"}


async def test_after_a_checkpoint_the_whole_text_is_asked_for_and_made_from_the_first_base(swarm):
    swarm.call("memory_write", agent="studio", file="policies/a.md", text="one\n")

    async def script(part):
        part.write("policies/a.md", "one\ntwo\n")
        await part.checkpoint()
        swarm.call("memory_write", agent="studio", file="policies/a.md", text="zero\none\n")
        part.write("policies/a.md", "one\ntwo\nthree\n")

    await swarm.run("studio", script)
    assert states(swarm) == {1: "superseded", 2: "open"}
    swarm.call("approval_approve", id=2)
    assert swarm.text("studio", "policies/a.md") == "zero\none\ntwo\nthree\n"
    assert swarm.rows("SELECT * FROM conflicts") == []


async def test_an_approval_between_two_checkpoints_is_what_the_next_text_is_made_from(swarm):
    swarm.call("memory_write", agent="studio", file="policies/a.md", text="one\n")

    async def script(part):
        part.write("policies/a.md", "one\ntwo\n")
        await part.checkpoint()
        swarm.call("approval_approve", id=1)
        part.write("policies/a.md", "one\ntwo\nthree\n")

    await swarm.run("studio", script)
    assert states(swarm) == {1: "approved", 2: "open"}
    swarm.call("approval_approve", id=2)
    assert swarm.text("studio", "policies/a.md") == "one\ntwo\nthree\n"
    assert swarm.rows("SELECT * FROM conflicts") == []


async def test_a_text_that_is_not_touched_after_the_checkpoint_is_not_asked_for_twice(swarm):
    async def script(part):
        part.write("policies/a.md", "one\n")
        await part.checkpoint()
        await part.act("ctx_set", key="status", value="ok")

    await swarm.run("studio", script)
    assert states(swarm) == {1: "open"}


async def test_a_deletion_that_is_held_and_a_new_text_after_it(swarm):
    swarm.call("memory_write", agent="studio", file="policies/a.md", text="one\n")

    async def script(part):
        part.write("policies/a.md", None)
        await part.checkpoint()
        part.write("policies/a.md", "one\ntwo\n")

    await swarm.run("studio", script)
    assert states(swarm) == {1: "superseded", 2: "open"}
    swarm.call("approval_approve", id=2)
    assert swarm.text("studio", "policies/a.md") == "one\ntwo\n"


async def test_a_draft_made_after_a_held_text_is_made_from_what_that_was_made_from(swarm):
    swarm.call("memory_write", agent="studio", file="policies/a.md", text="one\n")

    async def script(part):
        part.write("policies/a.md", "one\ntwo\n")
        await part.checkpoint()
        part.write("policies/a.md", "one\ntwo\nthree\n")
        return part.done("failed", reason="exit status 1")

    await swarm.run("studio", script)
    swarm.call("session_apply", session=1)
    assert states(swarm) == {1: "superseded", 2: "open"}
    swarm.call("approval_approve", id=2)
    assert swarm.text("studio", "policies/a.md") == "one\ntwo\nthree\n"


async def test_the_log_of_each_session_is_wanted_for_itself_beside_what_it_has_noted(swarm):
    swarm.change("studio", memory=MemoryRules(approval=("MEMORY.md",), log=True))

    def says(word):
        async def script(part):
            part.desk.event("text", {"text": f"I said {word}.", "turn": 1})
            part.write("MEMORY.md", f"# Notes\n{word}\n")
            await part.checkpoint()
            part.write("MEMORY.md", f"# Notes\n{word}\nmore\n")

        return script

    await swarm.run("studio", says("one"))
    await swarm.run("studio", says("two"))
    assert [item for item in swarm.attention() if item.startswith("log")] == []
    kinds = {one["id"]: (one["session"], one["acts"], one["state"]) for one in approvals(swarm)}
    assert kinds == {
        1: (1, ["memory_write"], "superseded"), 2: (1, ["memory_append"], "open"),
        3: (1, ["memory_write"], "superseded"), 4: (2, ["memory_write"], "superseded"),
        5: (2, ["memory_append"], "open"), 6: (2, ["memory_write"], "open"),
    }  # fmt: skip
    for id in (6, 2, 5):
        swarm.call("approval_approve", id=id)
    text = swarm.text("studio")
    assert text.startswith("# Notes\ntwo\nmore\n")
    assert "I said one." in text
    assert "I said two." in text
    assert swarm.rows("SELECT * FROM conflicts") == []


# -- deciding -----------------------------------------------------------------------------------------------


def test_what_is_approved_is_the_sessions_write_and_the_audit_names_the_operator(swarm):
    swarm.play("studio", sets(deploy="new"))
    document = swarm.call("approval_approve", id=1)
    assert (document["state"], document["decided_by"]) == ("approved", "operator:ada")
    assert swarm.value("studio", "deploy") == "new"
    (history,) = swarm.call("ctx_history", agent="studio", key="deploy")["items"]
    assert history["by"] == "studio#1"
    (row,) = swarm.rows("SELECT * FROM audit WHERE act = 'approve'")
    assert (row["by"], row["target"], row["session"]) == ("operator:ada", "approval 1: studio/deploy", None)
    assert '"by":"studio#1"' in row["detail"]
    (line,) = (line for line in swarm.call("log")["items"] if line["what"] == "approve")
    assert line["by"] == "operator:ada"
    rows = [(c["verdict"], c["reason"]) for c in swarm.session(1)["changes"]]
    assert rows[1] == ("done", "approved by operator:ada")
    assert swarm.call("session_trace", session=1)["items"][0]["target"] == "studio/deploy"
    assert swarm.call("verify")["ok"]
    assert [item for item in swarm.attention() if item.startswith("approval")] == []


def told_in_log(swarm, **args):
    lines = [
        line for line in reversed(swarm.call("log", **args)["items"]) if "approv" in str(line.get("target"))
    ]
    return [(line["what"], line["target"], line["by"]) for line in lines]


def test_the_log_of_the_agent_and_of_all_tell_what_was_asked_for_and_decided(swarm):
    swarm.change("garage", memory=MemoryRules(shared=(SharedFolder(name="team", write=True, approval=True),)))
    swarm.play("studio", sets(deploy="new"))
    swarm.clock.go(seconds=1)
    swarm.play("studio", sets(deploy="newer"))

    async def shares(part):
        await part.act("memory_append", agent="@team", file="MEMORY.md", text="tiles\n")

    swarm.clock.go(seconds=1)
    swarm.play("garage", shares)
    swarm.clock.go(seconds=1)
    swarm.call("approval_approve", id=2)
    swarm.call("approval_deny", id=3)
    studios = [
        ("held", "approval 1: studio/deploy", "studio#1"),
        ("superseded", "approval 1: studio/deploy", "studio#2"),
        ("held", "approval 2: studio/deploy", "studio#2"),
        ("approve", "approval 2: studio/deploy", "operator:ada"),
    ]
    garages = [
        ("held", "approval 3: @team:MEMORY.md", "garage#3"),
        ("deny", "approval 3: @team:MEMORY.md", "operator:ada"),
    ]
    assert sorted(told_in_log(swarm, agent="studio")) == sorted(studios)
    assert told_in_log(swarm, agent="garage") == garages
    assert sorted(told_in_log(swarm)) == sorted(studios + garages)
    assert told_in_log(swarm, agent="house") == []


def test_that_an_approval_expired_stands_in_the_log_of_its_agent(swarm):
    swarm.play("studio", sets(deploy="new"))
    swarm.clock.go(days=2)
    with pytest.raises(Refused, match="has expired"):
        swarm.call("approval_approve", id=1)
    expired = [
        line for line in swarm.call("log", agent="studio")["items"] if line["what"] == "approval_expire"
    ]
    assert [line["by"] for line in expired] == ["system"]
    assert [
        line["what"]
        for line in swarm.call("log", agent="game")["items"]
        if line["kind"] in ("act", "approval")
    ] == []


def test_what_was_held_is_not_told_in_a_sessions_own_log(swarm):
    swarm.play("studio", sets(deploy="new"))

    async def looks(part):
        assert told_in_log(swarm) != []
        assert {line["kind"] for line in (await part.act("log"))["items"]} == {"session"}

    swarm.play("studio", looks)


def test_a_revert_of_several_sessions_stands_in_the_log_of_each_agent(swarm):
    swarm.play("studio", sets(free="1"))
    swarm.play("garage", sets(free="1"))
    swarm.call("session_revert", sessions=["1", "2"])
    for agent in ("studio", "garage"):
        assert "session_revert" in {line["what"] for line in swarm.call("log", agent=agent)["items"]}


def test_memory_is_merged_three_ways_from_what_the_session_was_given(swarm):
    swarm.call("memory_write", agent="studio", file="policies/a.md", text="a\nb\nc\nd\n")
    swarm.play("studio", writes("policies/a.md", "a\nb\nc\nagent\n"))
    swarm.call("memory_write", agent="studio", file="policies/a.md", text="person\nb\nc\nd\n")
    shown_ = swarm.call("approval_show", id=1)
    assert shown_["changes"][0]["after"] == {"text": "person\nb\nc\nagent\n"}
    assert "-d\n+agent" in shown_["changes"][0]["diff"]
    swarm.call("approval_approve", id=1)
    assert swarm.text("studio", "policies/a.md") == "person\nb\nc\nagent\n"
    assert swarm.call("memory_history", agent="studio", file="policies/a.md")["items"][0]["by"] == "studio#1"


LINES = "a\nb\nc\nd\ne\n"


@pytest.mark.parametrize(
    ("wanted", "text", "lines"),
    [
        ("a\nagent\nc\nd\ne\n", "a\nperson\nc\nd\ne\n", 1),
        ("a\nagent\nmore\nc\nd\nlast\n", "a\nperson\nc\nd\nlast\n", 2),
    ],
)
def test_lines_that_a_yes_would_set_aside_are_told_before_it_and_after_it(swarm, wanted, text, lines):
    swarm.call("memory_write", agent="studio", file="policies/a.md", text=LINES)
    swarm.play("studio", writes("policies/a.md", wanted))
    swarm.call("memory_write", agent="studio", file="policies/a.md", text=LINES.replace("b", "person"))
    seen = swarm.call("approval_show", id=1)
    (change,) = seen["changes"]
    assert (seen["verdict"], seen["problem"], seen["set_aside"]) == ("done", None, lines)
    assert change["after"] == {"text": text}
    assert bool(change["diff"]) is (change["before"] != change["after"])
    document = swarm.call("approval_approve", id=1)
    were = (
        "1 of its lines met other edits and was" if lines == 1 else "2 of its lines met other edits and were"
    )
    assert (document["state"], document["set_aside"]) == ("approved", lines)
    assert document["decided_reason"] == f"{were} set aside as a conflict"
    assert swarm.text("studio", "policies/a.md") == text
    (conflict,) = swarm.call("memory_conflicts", agent="studio")["items"]
    assert change["conflicts"] == [{name: conflict[name] for name in ("line", "ours", "theirs")}]
    told = prompt(swarm)
    assert "approved by operator:ada" in told
    assert ": it is saved, but for what the reason tells" in told
    assert f"reason = {were} set aside as a conflict" in told


def test_what_a_person_has_deleted_meanwhile_is_set_aside_whole(swarm):
    swarm.call("memory_write", agent="studio", file="policies/a.md", text=LINES)
    swarm.play("studio", writes("policies/a.md", f"{LINES}f\n"))
    swarm.call("memory_delete", agent="studio", file="policies/a.md")
    seen = swarm.call("approval_show", id=1)
    assert seen["set_aside"] == 6
    assert seen["changes"][0]["conflicts"] == [{"line": 1, "ours": f"{LINES}f\n", "theirs": ""}]
    assert swarm.call("approval_approve", id=1)["set_aside"] == 6
    assert not swarm.file("studio", "policies/a.md").exists()


def test_where_nothing_is_set_aside_nothing_is_said(swarm):
    swarm.play("studio", writes("policies/a.md", LINES))
    swarm.play("studio", sets(deploy="new"))
    for id in (1, 2):
        seen = swarm.call("approval_show", id=id)
        assert (seen["set_aside"], seen["changes"][0]["conflicts"]) == (0, [])
        document = swarm.call("approval_approve", id=id)
        assert (document["set_aside"], document["decided_reason"]) == (0, None)
        assert swarm.call("approval_show", id=id)["set_aside"] is None


def test_what_a_session_in_quarantine_wants_is_shown_with_why_it_cannot_be_approved(swarm):
    swarm.play("studio", sets(deploy="new"))
    swarm.call("session_quarantine", session=1)
    seen = swarm.call("approval_show", id=1)
    assert seen["verdict"] == "refused"
    assert "session 1, which is in quarantine" in seen["problem"]


def test_a_hand_edit_that_nobody_has_taken_over_yet_is_in_the_merge(swarm):
    swarm.call("memory_write", agent="studio", file="policies/a.md", text="a\nb\nc\n")
    swarm.play("studio", writes("policies/a.md", "a\nb\nagent\n"))
    swarm.file("studio", "policies/a.md").write_text("person\nb\nc\n")
    swarm.call("approval_approve", id=1)
    assert swarm.text("studio", "policies/a.md") == "person\nb\nagent\n"


def test_an_overtaken_key_is_told_and_not_written(swarm):
    swarm.play("studio", sets(deploy="new"))
    swarm.call("ctx_set", agent="studio", key="deploy", value="the operator's")
    assert "was changed by operator:ada" in swarm.call("approval_show", id=1)["problem"]
    document = swarm.call("approval_approve", id=1)
    assert document["state"] == "superseded"
    assert "was changed by operator:ada" in document["decided_reason"]
    assert swarm.value("studio", "deploy") == "the operator's"


def test_authority_that_was_lost_meanwhile_refuses_and_it_stays_open(swarm):
    async def script(part):
        await part.act("ctx_set", agent="game", key="deploy", value="new")

    swarm.play("studio", script)
    swarm.change("game", parent="garage")
    before = swarm.dump()
    with pytest.raises(Refused, match="no agent named 'game' stands below studio"):
        swarm.call("approval_approve", id=1)
    assert swarm.dump() == before
    assert "stands below studio" in swarm.call("approval_show", id=1)["problem"]
    swarm.change("game", parent="studio")
    assert swarm.call("approval_approve", id=1)["state"] == "approved"


def test_an_agent_that_is_gone_has_nothing_written(swarm):
    swarm.play("studio", sets(deploy="new"))
    swarm.remove("studio")
    with pytest.raises(Refused, match="not in force any more"):
        swarm.call("approval_approve", id=1)
    assert states(swarm) == {1: "open"}


def test_each_can_be_decided_on_once(swarm):
    swarm.play("studio", sets(deploy="new"))
    swarm.call("approval_approve", id=1)
    for act in ("approval_approve", "approval_deny"):
        with pytest.raises(Refused, match="approval 1 was approved already by operator:ada"):
            swarm.call(act, id=1)
    assert len(swarm.call("ctx_history", agent="studio", key="deploy")["items"]) == 1


async def test_of_two_operators_at_once_exactly_one_succeeds(swarm):
    await swarm.run("studio", sets(deploy="new"))
    asked = [asyncio.to_thread(swarm.call, "approval_approve", id=1) for _ in range(8)]
    answers = await asyncio.gather(*asked, return_exceptions=True)
    assert sum(isinstance(answer, dict) for answer in answers) == 1
    assert sum(isinstance(answer, Refused) for answer in answers) == 7
    assert len(swarm.rows("SELECT * FROM key_history")) == 1


async def test_it_may_be_approved_while_a_session_of_the_agent_runs(swarm):
    await swarm.run("studio", sets(deploy="new"))

    async def script(part):
        swarm.call("approval_approve", id=1)
        await part.act("ctx_set", key="status", value="ok")

    assert (await swarm.run("studio", script))["outcome"] == "committed"
    assert swarm.value("studio", "deploy") == "new"


@pytest.mark.parametrize(
    "edit",
    [
        "changes = replace(changes, 'new', 'evil')",
        "changes = 'no JSON'",
        'changes = \'[{"kind": "rm"}]\'',
        "session = 2",
        "by = 'house#1'",
        "expires = '2099-01-01T00:00:00.000000Z'",
        "hash = '00'",
    ],
)
def test_a_row_that_was_edited_by_hand_is_not_approved(swarm, edit):
    swarm.play("studio", sets(deploy="new"))
    swarm.play("garage")
    swarm.write(lambda connection: connection.execute(f"UPDATE approvals SET {edit}"))
    assert swarm.call("approval_show", id=1)["whole"] is False
    with pytest.raises(Refused, match="is not what was held"):
        swarm.call("approval_approve", id=1)
    assert swarm.value("studio", "deploy") is None
    assert "approval 1 is not what was held" in str(swarm.call("verify")["items"])
    assert swarm.call("approval_deny", id=1)["state"] == "denied"


def test_what_nobody_decides_on_expires(swarm):
    swarm.play("studio", sets(deploy="new"))
    swarm.clock.go(hours=24)
    assert swarm.call("approval_list")["items"] == []
    assert states(swarm) == {1: "expired"}
    assert [item for item in swarm.attention() if item.startswith("approval")] == []
    with pytest.raises(Refused, match="approval 1 has expired"):
        swarm.call("approval_approve", id=1)
    (row,) = swarm.rows("SELECT state, decided_by FROM approvals")
    assert row == {"state": "expired", "decided_by": "system"}
    assert swarm.value("studio", "deploy") is None


def test_it_expires_as_the_file_said_when_it_was_held(swarm):
    swarm.play("studio", sets(deploy="new"))
    swarm.change("studio", approval_expires_seconds=60.0)
    swarm.clock.go(hours=23)
    assert swarm.call("approval_approve", id=1)["state"] == "approved"


def test_nothing_of_what_is_denied_is_written(swarm):
    swarm.play("studio", writes("policies/a.md", "be mean\n"))
    document = swarm.call("approval_deny", id=1, reason="no")
    assert (document["state"], document["decided_reason"]) == ("denied", "no")
    assert not swarm.file("studio", "policies/a.md").exists()
    (row,) = swarm.rows("SELECT by, target FROM audit WHERE act = 'deny'")
    assert row == {"by": "operator:ada", "target": "approval 1: studio:policies/a.md"}


def test_no_agent_sees_or_decides_anything(swarm):
    swarm.play("studio", sets(deploy="new"))
    for call, args in (
        ("approval_approve", {"id": 1}),
        ("approval_deny", {"id": 1}),
        ("approval_list", {}),
        ("approval_show", {"id": 1}),
    ):
        for agent in ("studio", "house"):
            with pytest.raises(Refused):
                swarm.call(call, as_=agent, **args)

    async def script(part):
        for call, args in (
            ("approval_approve", {"id": 1}),
            ("approval_deny", {"id": 1}),
            ("approval_list", {}),
        ):
            assert "operators" in await part.refused(call, **args)

    swarm.play("house", script)
    assert states(swarm) == {1: "open"}


# -- shared folders and subjects ----------------------------------------------------------------------------


@pytest.fixture
def team(swarm):
    rules = MemoryRules(shared=(SharedFolder(name="team", write=True, approval=True),))
    for name in ("studio", "game"):
        swarm.change(name, memory=rules)
    swarm.change("garage", memory=MemoryRules(shared=(SharedFolder(name="team", write=True),)))
    swarm.call("memory_write", agent="@team", file="a.md", text="one\n")
    return swarm


def adds(text, file="a.md"):
    async def script(part):
        reply = await part.act("memory_append", agent="@team", file=file, text=text)
        assert reply["held"] == "held: needs an operator's approval"
        assert text in (await part.act("memory_show", agent="@team", file=file))["text"]

    return script


def test_what_is_added_to_a_shared_folder_waits_each_for_itself(team):
    team.play("studio", adds("two"))
    team.play("game", adds("three"))
    team.play("studio", adds("four"))
    assert states(team) == {1: "open", 2: "open", 3: "open"}
    assert team.text("@team", "a.md") == "one\n"
    for id in (3, 1, 2):
        assert team.call("approval_approve", id=id)["state"] == "approved"
    assert team.text("@team", "a.md") == "one\nfour\ntwo\nthree\n"
    assert [row["by"] for row in team.call("memory_history", agent="@team", file="a.md")["items"]][:3] == [
        "game#2", "studio#1", "studio#3",
    ]  # fmt: skip


def test_who_needs_no_approval_writes_at_once_in_the_same_folder(team):
    async def script(part):
        assert "held" not in await part.act("memory_append", agent="@team", file="a.md", text="free")

    team.play("garage", script)
    assert team.text("@team", "a.md") == "one\nfree\n"


def test_a_whole_text_of_a_shared_folder_is_merged_with_what_others_saved_meanwhile(team):
    async def script(part):
        await part.act("memory_show", agent="@team", file="a.md")
        await part.act("memory_write", agent="@team", file="a.md", text="one\ntwo\n")
        await part.act("memory_write", agent="@team", file="a.md", text="one\ntwo\nthree\n")
        await part.checkpoint()
        team.call("memory_write", agent="@team", file="a.md", text="zero\none\n")
        await part.act("memory_write", agent="@team", file="a.md", text="one\ntwo\nthree\nfour\n")

    team.play("studio", script)
    assert states(team) == {1: "superseded", 2: "open"}
    assert "+four" in team.call("approval_show", id=2)["changes"][0]["diff"]
    team.call("approval_approve", id=2)
    assert team.text("@team", "a.md") == "zero\none\ntwo\nthree\nfour\n"
    assert team.rows("SELECT * FROM conflicts") == []


def test_who_may_not_write_there_any_more_has_nothing_approved(team):
    team.play("studio", adds("two"))
    team.change("studio", memory=MemoryRules(shared=(SharedFolder(name="team"),)))
    with pytest.raises(Refused):
        team.call("approval_approve", id=1)
    assert team.text("@team", "a.md") == "one\n"


def test_memory_about_a_subject_is_held_and_approved_in_its_own_folder(swarm):
    session = swarm.play("studio", writes("policies/a.md", "kind to alice\n"), subject="alice")
    assert verdicts(session) == {"studio@alice:policies/a.md": "held"}
    assert "approval 1" not in prompt(swarm)
    assert "approval 1" in swarm.call("prompt", agent="studio", subject="alice")["user"]
    swarm.call("approval_approve", id=1)
    assert swarm.text("studio@alice", "policies/a.md") == "kind to alice\n"
    assert not swarm.file("studio", "policies/a.md").exists()


def test_what_is_forgotten_about_a_subject_does_not_wait_any_more(swarm):
    swarm.play("studio", writes("policies/a.md", "a secret of alice\n"), subject="alice")
    swarm.play("studio", sets(deploy="new"))
    swarm.call("forget_subject", agent="studio", subject="alice")
    assert "a secret of alice" not in str(swarm.rows("SELECT * FROM approvals"))
    assert [one["target"] for one in approvals(swarm)] == ["studio/deploy"]


# -- what the agent is told ---------------------------------------------------------------------------------


def test_the_prompt_tells_until_a_session_has_gone_well(swarm):
    async def fails(part):
        return part.done("failed", reason="exit status 1")

    swarm.play("studio", sets(deploy="new"))
    assert "approval 1, asked in session 1: waits for an operator's yes" in prompt(swarm)
    swarm.play("studio")
    assert "approval 1, asked in session 1: waits for an operator's yes" in prompt(swarm)
    swarm.call("approval_deny", id=1, reason="not before Friday")
    swarm.play("studio", fails)
    for text in (prompt(swarm), prompt(swarm)):
        assert "approval 1, asked in session 1: denied by operator:ada" in text
        assert "reason = not before Friday" in text
    swarm.play("studio")
    assert "approval 1" not in prompt(swarm)


def test_an_approval_and_an_end_by_time_are_told_once_too(swarm):
    swarm.play("studio", sets(deploy="new", **{"deploy.eu": "x"}))
    swarm.call("approval_approve", id=1)
    swarm.clock.go(hours=25)
    text = prompt(swarm)
    assert "approval 1, asked in session 1: approved by operator:ada" in text
    assert "approval 2, asked in session 1: expired" in text
    swarm.play("studio")
    assert "asked in session 1" not in prompt(swarm)


def test_a_wish_that_a_later_session_has_replaced_is_told(swarm):
    swarm.play("studio", sets(deploy="one"))
    swarm.play("studio", sets(deploy="two"))
    text = prompt(swarm)
    assert "approval 1, asked in session 1: replaced by you" in text
    assert "approval 2, asked in session 2: waits" in text


def test_a_decision_that_falls_while_a_session_starts_is_told_to_the_next(swarm):
    """It was not in the prompt of the session that ran."""
    swarm.play("studio", sets(deploy="new"))

    async def script(part):
        assert "waits" in part.request.user
        swarm.call("approval_approve", id=1)

    swarm.play("studio", script)
    assert "approved by operator:ada" in prompt(swarm)


def test_the_same_snapshot_comes_out_of_history(swarm):
    swarm.play("studio", sets(deploy="new", **{"deploy.eu": "x", "deploy.us": "y"}))
    swarm.call("approval_approve", id=1)
    swarm.call("approval_deny", id=2, reason="no")
    swarm.play("studio")
    seen = snapshot(
        swarm.reader, tree_of(swarm.reader).agent("studio"), Trigger(kind="cron"), swarm.clock.now()
    )
    assert [one.state for one in seen.approvals] == ["open"]
    (row,) = swarm.rows("SELECT * FROM sessions WHERE id = 2")
    swarm.call("approval_deny", id=3, reason="no")
    again = rebuilt(swarm.reader, row)
    assert [(one.id, one.state) for one in again.approvals] == [(3, "open"), (2, "denied"), (1, "approved")]
    assert shown(again) == row["base"]
    assert assemble(again, swarm.ports().count).user == swarm.runner.requests[-1].user


# -- what else concerns them --------------------------------------------------------------------------------


def test_what_a_session_in_quarantine_wanted_is_not_approved_and_in_no_prompt(swarm):
    swarm.play("studio", sets(deploy="new"))
    swarm.call("session_quarantine", session="1")
    with pytest.raises(Refused, match="is of session 1, which is in quarantine"):
        swarm.call("approval_approve", id=1)
    assert "approval 1" not in prompt(swarm)
    swarm.call("session_unquarantine", session="1")
    assert "approval 1" in prompt(swarm)
    assert swarm.call("approval_approve", id=1)["state"] == "approved"


def test_reverting_a_session_withdraws_what_still_waits_of_it(swarm):
    swarm.play("studio", sets(deploy="new", status="ok"))
    document = swarm.call("session_revert", sessions=["1"])
    assert {one["target"] for one in document["undone"]} == {"studio/status", "approval 1: studio/deploy"}
    assert states(swarm) == {1: "denied"}


def test_what_was_approved_can_be_reverted_with_its_session(swarm):
    swarm.call("ctx_set", agent="studio", key="deploy", value="old")
    swarm.play("studio", sets(deploy="new"))
    swarm.call("approval_approve", id=1)
    swarm.call("session_revert", sessions=["1"])
    assert swarm.value("studio", "deploy") == "old"


def test_a_renamed_agent_keeps_what_waits(swarm):
    swarm.play("studio", sets(deploy="new"))
    swarm.play("studio", writes("policies/a.md", "x\n"))
    swarm.agent("atelier", "house", approval_keys=("deploy",))
    swarm.remove("studio")
    swarm.write(lambda connection: moving.rename(connection, "studio", "atelier"))
    assert [(one["agent"], one["target"]) for one in approvals(swarm)] == [
        ("atelier", "atelier:policies/a.md"), ("atelier", "atelier/deploy"),
    ]  # fmt: skip
    swarm.call("approval_approve", id=1)
    assert swarm.value("atelier", "deploy") == "new"


def test_a_rename_does_not_whitewash_a_row_that_was_edited(swarm):
    swarm.play("studio", sets(deploy="new"))
    swarm.write(lambda c: c.execute("UPDATE approvals SET changes = replace(changes, 'new', 'evil')"))
    swarm.agent("atelier", "house")
    swarm.remove("studio")
    swarm.write(lambda connection: moving.rename(connection, "studio", "atelier"))
    with pytest.raises(Refused, match="is not what was held"):
        swarm.call("approval_approve", id=1)


def test_nothing_waits_of_an_agent_that_is_forgotten(swarm):
    swarm.play("studio", sets(deploy="new"))
    swarm.remove("studio")
    swarm.write(lambda connection: moving.forget(connection, "studio"))
    assert approvals(swarm) == []
    swarm.agent("studio", "house", approval_keys=("deploy",))
    swarm.play("studio", sets(deploy="new"))
    assert [one["id"] for one in approvals(swarm)] == [2], "a number is given once"


def test_the_commit_says_in_the_audit_what_it_held_and_the_sums_are_right(swarm):
    swarm.play("studio", sets(deploy="new"))
    (row,) = swarm.rows("SELECT detail FROM audit WHERE act = 'commit'")
    (held,) = swarm.rows("SELECT id, hash FROM approvals")
    assert f'"held":[[{held["id"]},"{held["hash"]}"]]' in row["detail"]
    assert audit.faults(swarm.reader) == []
    assert swarm.call("verify")["ok"]


def test_secrets_are_masked_in_what_is_held(swarm):
    swarm.secrets = ("hunter22-hunter22",)
    swarm.play("studio", sets(deploy="token hunter22-hunter22"))
    assert "hunter22" not in str(swarm.rows("SELECT * FROM approvals"))


def test_lists_have_an_agent_and_a_window(swarm):
    swarm.change("game", approval_keys=("*",))
    swarm.play("studio", sets(deploy="new"))
    swarm.clock.go(hours=1)
    swarm.play("game", sets(a="1"))
    assert [one["id"] for one in approvals(swarm, agent="game")] == [2]
    assert [one["id"] for one in approvals(swarm, n=1)] == [2]
    since = (swarm.clock.now() - timedelta(minutes=5)).isoformat()
    assert [one["id"] for one in approvals(swarm, since=since)] == [2]
