"""Every act of an operator: done at once, recorded by name, with the sentence and the kind that the manual promises."""

import json

import pytest

from swarmd.errors import BadInput, Busy, Failed, NotFound, Refused
from swarmd.service import operating
from swarmd.service.reading import OPERATORS_ACTS
from tests.swarm import NOW


def audit(swarm):
    return [(row["by"], row["act"], row["target"]) for row in swarm.rows("SELECT * FROM audit ORDER BY seq")]


def test_the_names_of_operators_acts_are_those_of_the_service():
    assert set(operating.ACTS) == OPERATORS_ACTS


def test_an_act_answers_with_what_it_wrote(swarm):
    key = swarm.call("ctx_set", agent="studio", key="k", value="v")
    assert (key["agent"], key["key"], key["value"], key["version"], key["by"]) == (
        "studio",
        "k",
        "v",
        1,
        "operator:ada",
    )
    assert swarm.call("ctx_set", agent="studio", key="k", value="v")["version"] == 1
    sent = swarm.call("handoff_send", to="game", text="t", dedupe="d")
    assert (sent["sender"], sent["by"], sent["status"]) == ("operator", "operator:ada", "open")
    assert swarm.call("handoff_send", to="game", text="other", dedupe="d") == sent
    assert swarm.call("handoff_ack", id=sent["id"], as_="game")["status"] == "acknowledged"
    written = swarm.call("memory_write", agent="studio", file="MEMORY.md", text="x\n")
    assert (written["path"], written["rev"], written["bytes"]) == ("MEMORY.md", 1, 2)
    children = swarm.call("handoff_send", to="children", text="t", as_="studio")
    assert [row["receiver"] for row in children["items"]] == ["art", "game"]
    assert swarm.call("report", text="r", as_="studio")["parent"] == "house"


def test_as_an_agent_one_has_its_authority_only_and_is_recorded(swarm):
    swarm.call("ctx_set", agent="game", key="k", value="v", as_="studio")
    assert audit(swarm)[-1] == ("operator:ada as studio", "ctx_set", "game/k")
    before = swarm.dump()
    for call, args in (
        ("ctx_set", {"agent": "house", "key": "k", "value": "v"}),
        ("handoff_send", {"to": "house", "text": "up"}),
        ("handoff_send", {"to": "nobody", "text": "up"}),
        ("memory_write", {"agent": "game", "file": "MEMORY.md", "text": "x"}),
        ("memory_write", {"agent": "nobody", "file": "MEMORY.md", "text": "x"}),
        ("memory_write", {"file": "archive/x.md", "text": "x"}),
        ("handoff_requeue", {"id": 1}),
    ):
        with pytest.raises((Refused, NotFound)):
            swarm.call(call, as_="studio", **args)
    assert swarm.dump() == before


@pytest.mark.parametrize("name", sorted(operating.ACTS))
def test_what_is_an_operators_is_nobodys_as_an_agent(swarm, name):
    with pytest.raises(Refused, match="leave out --as studio"):
        swarm.call(name, as_="studio", agent="game")


def test_after_a_refusal_nothing_has_changed(swarm):
    before = swarm.dump()
    for call, args, error in (
        ("ctx_set", {"agent": "studio", "key": "bad name", "value": "v"}, Refused),
        ("ctx_set", {"agent": "nobody", "key": "k", "value": "v"}, NotFound),
        ("ctx_unset", {"agent": "studio", "key": "nothing"}, NotFound),
        ("handoff_send", {"to": "nobody", "text": "t"}, NotFound),
        ("handoff_send", {"to": "studio", "text": " "}, BadInput),
        ("handoff_send", {"to": "studio", "text": "t", "priority": "now"}, BadInput),
        ("handoff_send", {"to": "studio", "text": "t", "expires": "2020-01-01T00:00Z"}, BadInput),
        ("handoff_send", {"to": "studio", "text": "x" * 8193}, Refused),
        ("handoff_ack", {"id": 99}, NotFound),
        ("memory_write", {"agent": "studio", "file": "../x", "text": "x"}, Refused),
        ("memory_write", {"agent": "studio", "file": "a.md", "text": "x", "base": -1}, BadInput),
        ("memory_delete", {"agent": "studio", "file": "a.md"}, NotFound),
        ("report", {"text": "t"}, BadInput),
        ("nonsense", {}, NotFound),
    ):
        with pytest.raises(error):
            swarm.call(call, **args)
    assert swarm.dump() == before


def test_an_edit_is_merged_from_the_revision_that_it_was_made_of(swarm):
    swarm.call("memory_write", agent="studio", file="MEMORY.md", text="a\nb\nc\n")
    swarm.call("memory_write", agent="studio", file="MEMORY.md", text="A\nb\nc\n")
    swarm.call("memory_write", agent="studio", file="MEMORY.md", text="a\nb\nC\n", base=1)
    assert swarm.text("studio") == "A\nb\nC\n"


async def test_where_a_persons_edit_of_a_copy_meets_a_sessions_the_persons_lines_stay(swarm):
    swarm.call("memory_write", agent="studio", file="MEMORY.md", text="a\nb\nc\n")
    swarm.call("memory_write", agent="studio", file="gone.md", text="one\n")

    async def writes(part):
        part.write("MEMORY.md", "a\nthe agent's b\nc\nthe agent's d\n")
        await part.act("memory_delete", file="gone.md")

    session = await swarm.run("studio", writes)
    written = swarm.call(
        "memory_write", agent="studio", file="MEMORY.md", text="a\nthe person's b\nc\n", base=1
    )
    assert written["conflicts"] == 1
    assert swarm.text("studio") == "a\nthe person's b\nc\nthe agent's d\n"
    swarm.call("memory_write", agent="studio", file="gone.md", text="one\ntwo\n", base=1)
    assert swarm.text("studio", "gone.md") == "one\ntwo\n"
    (conflict,) = swarm.call("memory_conflicts", agent="studio")["items"]
    assert (conflict["ours"], conflict["theirs"]) == ("the agent's b\n", "the person's b\n")
    assert conflict["by"] == f"studio#{session['id']}"
    await swarm.run("studio")
    assert "these lines of yours met other edits" in swarm.runner.requests[-1].user
    swarm.call("memory_take", agent="studio", conflict=conflict["id"], side="ours")
    assert swarm.text("studio") == "a\nthe agent's b\nc\nthe agent's d\n"
    # Whoever puts them in, they are the session's, and can be cut out with it.
    blame = {line["text"]: line["by"] for line in swarm.call("memory_blame", agent="studio")["lines"]}
    assert blame["the agent's b"] == blame["the agent's d"] == conflict["by"]
    assert [row["by"] for row in swarm.rows("SELECT * FROM audit WHERE act = 'memory_take'")] == [
        "operator:ada"
    ]
    later = await swarm.run("studio")
    trace = swarm.call("session_trace", session=str(session["id"]))["items"]
    shown = [
        one["session"] for row in trace for one in row["shown_to"] if row["target"] == "studio:MEMORY.md"
    ]
    assert later["id"] in shown
    swarm.call("session_quarantine", session=session["id"], revert=True)
    assert "agent's" not in swarm.text("studio")


async def test_lines_that_alone_a_session_wrote_are_its_own_in_a_conflict(swarm):
    swarm.call("memory_write", agent="studio", file="MEMORY.md", text="l1\nl2\n")

    async def changes(part):
        part.write("MEMORY.md", "l1\nthe agent's\n")
        swarm.call("memory_write", agent="studio", file="MEMORY.md", text="l1\na person's\n")

    session = await swarm.run("studio", changes)
    (conflict,) = swarm.call("memory_conflicts", agent="studio")["items"]
    assert (conflict["by"], conflict["session"]) == (f"studio#{session['id']}", session["id"])
    swarm.call("memory_take", agent="studio", conflict=conflict["id"], side="ours")
    assert swarm.call("memory_blame", agent="studio")["lines"][1]["by"] == f"studio#{session['id']}"


async def test_a_conflict_of_two_people_is_told_to_them_and_not_to_the_agent(swarm):
    swarm.call("memory_write", agent="studio", file="MEMORY.md", text="a\n")
    swarm.call("memory_write", agent="studio", file="MEMORY.md", text="ann's\n")
    swarm.call("memory_write", agent="studio", file="MEMORY.md", text="bob's\n", base=1)
    assert swarm.text("studio") == "bob's\n"
    assert [row["ours"] for row in swarm.call("memory_conflicts", agent="studio")["items"]] == ["ann's\n"]
    assert swarm.attention() == ["conflict:studio"]
    await swarm.run("studio")
    assert "conflicts:" not in swarm.runner.requests[-1].user


def test_an_edit_of_a_revision_that_never_was_is_refused(swarm):
    for base in (1, 7):
        with pytest.raises(BadInput, match=f"studio has no revision {base} of a.md: it is not there"):
            swarm.call("memory_write", agent="studio", file="a.md", text="a\n", base=base)


def test_a_hand_edit_is_taken_in_before_an_act_on_memory(swarm):
    swarm.call("memory_write", agent="studio", file="MEMORY.md", text="a\n")
    swarm.file("studio").write_text("a\nperson\n")
    swarm.call("memory_append", agent="studio", file="MEMORY.md", text="and more")
    assert swarm.text("studio") == "a\nperson\nand more\n"


@pytest.mark.parametrize("text", ["\udc80"])
def test_what_is_no_utf8_is_a_sentence_and_changes_nothing(swarm, text):
    before = swarm.dump()
    for call, args in (
        ("ctx_set", {"agent": "studio", "key": "k", "value": text}),
        ("ctx_set", {"agent": text, "key": "k", "value": "v"}),
        ("ctx_get", {"agent": "studio", "key": text}),
        ("handoff_send", {"to": text, "text": "t"}),
        ("handoff_send", {"to": "studio", "text": text}),
        ("handoff_list", {"to": text}),
        ("memory_write", {"agent": "studio", "file": "a.md", "text": text}),
        ("memory_write", {"agent": "studio", "file": "a.md", "text": "x", "base": 2**70}),
        ("pause", {"agent": "studio", "reason": text}),
        ("pause", {"agent": text}),
        ("rename", {"old": text, "new": "studio"}),
        ("forget", {"name": text}),
        ("session_show", {"session": text}),
        ("session_list", {"outcome": text}),
        ("attention_ack", {"id": text}),
        ("run", {"agent": "studio", "mode": text}),
    ):
        with pytest.raises((BadInput, NotFound, Refused)):
            swarm.call(call, **args)
    looked_at = ("meta", "problems", "raised")  # `rename` looks at the files first
    after = swarm.dump()
    assert {k: v for k, v in after.items() if k not in looked_at} == {
        k: v for k, v in before.items() if k not in looked_at
    }


# -- handoffs to nobody -------------------------------------------------------------------------------------


def test_a_handoff_whose_receiver_is_gone_waits_is_listed_and_can_be_cancelled(swarm):
    for _ in range(2):
        swarm.call("handoff_send", to="game", text="t")
    swarm.remove("game")
    assert swarm.attention() == ["dead:1", "dead:2"]
    assert swarm.call("handoff_list", to="game")["items"][0]["status"] == "open"
    swarm.call("handoff_cancel", id=1)
    assert swarm.attention() == ["dead:2"]
    swarm.agent("game", "studio")
    assert swarm.attention() == []
    assert swarm.handoff(2)["status"] == "open"
    with pytest.raises(NotFound):
        swarm.call("handoff_send", to="nobody", text="t")


def test_an_operator_requeues(swarm):
    id = swarm.call("handoff_send", to="game", text="t")["id"]
    swarm.call("handoff_decline", id=id, reply="no", as_="game")
    again = swarm.call("handoff_requeue", id=id)
    assert (again["status"], [e["kind"] for e in again["thread"]]) == ("open", ["decline", "requeue"])
    swarm.call("handoff_complete", id=id, as_="game")
    with pytest.raises(Refused, match="completed"):
        swarm.call("handoff_requeue", id=id)


# -- pause and resume ---------------------------------------------------------------------------------------


def test_a_pause_covers_all_below_and_resume_lifts_only_its_own(swarm):
    assert swarm.call("pause", agent="house", reason="holiday") == {
        "agent": "house", "paused": True, "reason": "holiday", "by": "operator:ada", "held_by": ["house"],
    }  # fmt: skip
    swarm.call("pause", agent="studio")
    swarm.call("pause", agent="all", reason="night")
    assert swarm.call("agent_show", agent="game")["held_by"] == ["studio", "house", "all"]
    after = swarm.call("resume", agent="studio")
    assert (after["paused"], after["held_by"], after["reason"]) == (True, ["house", "all"], None)
    assert swarm.call("resume", agent="game")["held_by"] == ["house", "all"]
    assert swarm.call("resume", agent="all")["held_by"] == []
    assert swarm.call("resume", agent="house")["paused"] is False
    assert swarm.call("agent_show", agent="game")["paused"] is False


def test_a_pause_survives_a_restart(swarm):
    swarm.call("pause", agent="studio")
    swarm.close()
    swarm.open()
    assert swarm.call("agent_show", agent="game")["paused"]


def test_pause_now_ends_what_waits_below(swarm):
    waits, other = swarm.queue("game"), swarm.queue("garage")
    swarm.call("pause", agent="studio", now=True)
    assert swarm.session(waits)["reason"] == "paused by operator:ada"
    assert swarm.session(other)["state"] == "queued"


def test_a_pause_of_nobody_is_not_found_and_its_reason_is_bounded(swarm):
    with pytest.raises(NotFound):
        swarm.call("pause", agent="studoi")
    with pytest.raises(BadInput, match="2048"):
        swarm.call("pause", agent="studio", reason="x" * 2049)


# -- run ----------------------------------------------------------------------------------------------------


def test_a_paused_agent_is_run_only_by_force(swarm):
    swarm.call("pause", agent="house")
    with pytest.raises(Refused, match=r"paused at house.*--force"):
        swarm.call("run", agent="game")
    assert swarm.call("run", agent="game", mode="dry_run", force=True)["outcome"] == "dry_run"


def test_a_running_agent_is_busy(swarm):
    async def script(part):
        with pytest.raises(Busy, match="already runs"):
            swarm.call("run", agent="studio")

    swarm.play("studio", script)


def test_a_run_needs_a_daemon_and_an_agent(swarm):
    with pytest.raises(Failed, match="no daemon"):
        swarm.call("run", agent="studio")
    with pytest.raises(NotFound):
        swarm.call("run", agent="studoi")
    swarm.remove("game")
    with pytest.raises(NotFound, match="not in force"):
        swarm.call("run", agent="game")
    with pytest.raises(BadInput, match="mode"):
        swarm.call("run", agent="studio", mode="maybe")


def test_a_dry_run_is_a_session_document_and_starts_nothing(swarm):
    swarm.change("studio", runner_options={"command": ["python3", "agent.py"]})
    before = swarm.dump()
    document = swarm.call("run", agent="studio", mode="dry_run")
    promised = (
        "id agent attempt trigger slot state outcome reason queued started ended by exit draft changes refusals superseded "
        "tokens_in tokens_out cache_read usd"
    )
    assert set(promised.split()) <= document.keys()
    assert document["command_line"][1:] == ["agent.py"]
    assert document["prompt_tokens"] > 0
    assert "python3" in document["would"]
    json.dumps(document)
    assert swarm.dump() == before


# -- sessions -----------------------------------------------------------------------------------------------


async def drafts(part):
    await part.act("ctx_set", key="k", value="v")
    await part.act("handoff_send", to="game", text="t")
    await part.act("report", text="r")
    return part.done("failed")


def test_a_queued_session_is_cancelled_and_an_ended_one_is_not(swarm):
    id = swarm.queue("studio")
    assert swarm.call("session_cancel", session=str(id))["outcome"] == "cancelled"
    assert audit(swarm)[-1] == ("operator:ada", "session_cancel", f"studio/{id}")
    with pytest.raises(Refused, match="has ended already"):
        swarm.call("session_cancel", session="studio")


def test_a_draft_is_judged_as_its_agent_and_refused_as_a_whole(swarm):
    swarm.play("studio", drafts)
    swarm.change("game", parent="garage")
    before = swarm.dump()
    with pytest.raises(Refused, match="stands below studio"):
        swarm.call("session_apply", session="studio")
    assert swarm.dump() == before
    document = swarm.call("session_apply", session="studio", as_operator=True)
    assert document["draft"] == "applied"
    handoff = swarm.handoff(1)
    assert (handoff["sender"], handoff["by"]) == ("operator", "operator:ada")
    (report,) = swarm.call("report_list")["items"]
    assert (report["agent"], report["parent"], report["by"]) == ("studio", "house", "operator:ada")


def test_the_draft_of_an_agent_that_is_gone_is_applied_by_nobody(swarm):
    swarm.play("studio", drafts)
    swarm.remove("studio")
    with pytest.raises(Refused, match="not in force"):
        swarm.call("session_apply", session="1")
    with pytest.raises(NotFound, match="no agent is named 'studio'"):
        swarm.call("session_apply", session="1", as_operator=True)


def test_a_draft_is_applied_or_discarded_once(swarm):
    swarm.play("studio", drafts)
    assert swarm.call("session_discard", session="studio")["draft"] == "discarded"
    for name in ("session_apply", "session_discard"):
        with pytest.raises((NotFound, Refused), match="no open draft"):
            swarm.call(name, session="studio")


# -- memory -------------------------------------------------------------------------------------------------


def test_a_revision_is_brought_back(swarm):
    for text in ("one\n", "two\n"):
        swarm.call("memory_write", agent="studio", file="MEMORY.md", text=text)
    swarm.call("memory_delete", agent="studio", file="MEMORY.md")
    assert swarm.call("memory_restore", agent="studio", rev=1)["rev"] == 4
    assert swarm.text("studio") == "one\n"
    swarm.call("memory_restore", agent="studio", rev=3)
    assert not swarm.file("studio").exists()
    with pytest.raises(NotFound, match="no revision 9"):
        swarm.call("memory_restore", agent="studio", rev=9)
    assert audit(swarm)[-1] == ("operator:ada", "memory_restore", "studio:MEMORY.md")


def conflict(swarm, base, agent, person):
    swarm.call("memory_write", agent="studio", file="MEMORY.md", text=base)

    async def script(part):
        part.write("MEMORY.md", agent)
        swarm.file("studio").write_text(person)

    swarm.play("studio", script)
    return swarm.call("memory_conflicts", agent="studio")["items"][0]["id"]


def test_a_conflict_is_settled_by_taking_a_side(swarm):
    id = conflict(swarm, "a\nb\nc\n", "a\nagent\nc\n", "a\nperson\nc\n")
    with pytest.raises(BadInput, match="neither ours"):
        swarm.call("memory_take", agent="studio", conflict=id, side="mine")
    swarm.call("memory_take", agent="studio", conflict=id, side="ours")
    assert swarm.text("studio") == "a\nagent\nc\n"
    assert swarm.call("memory_conflicts", agent="studio")["items"] == []
    with pytest.raises(NotFound):
        swarm.call("memory_take", agent="studio", conflict=id, side="ours")


def test_a_conflict_is_settled_as_the_file_is_and_the_audit_tells(swarm):
    id = conflict(swarm, "a\nb\nc\n", "a\nagent\nc\n", "a\nperson\nc\n")
    swarm.call("memory_take", agent="studio", conflict=id, side="theirs")
    assert swarm.text("studio") == "a\nperson\nc\n"
    assert audit(swarm)[-1][1] == "memory_take"


def test_lines_are_put_back_as_whole_lines_where_the_file_has_gone_on(swarm):
    id = conflict(swarm, "data\nb\nc\n", "data\nagent\nc\n", "data\na\nc\n")
    swarm.call("memory_write", agent="studio", file="MEMORY.md", text="data\nc\n")
    swarm.call("memory_take", agent="studio", conflict=id, side="ours")
    assert swarm.text("studio") == "data\nagent\nc\n"


# -- attention ----------------------------------------------------------------------------------------------


def test_reload_and_names_are_checked(swarm):
    with pytest.raises(NotFound, match="no open item"):
        swarm.call("attention_ack", id="nothing")
    with pytest.raises(BadInput):
        swarm.call("attention_ack")
    assert swarm.clock.now() == NOW


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("memory_write", {"agent": "studoi", "file": "MEMORY.md", "text": "x"}),
        ("memory_append", {"agent": "studoi", "file": "MEMORY.md", "text": "x"}),
        ("ctx_set", {"agent": "studoi", "key": "k", "value": "v"}),
        ("handoff_send", {"to": "studoi", "text": "t"}),
        ("run", {"agent": "studoi"}),
    ],
)
def test_an_unknown_agent_is_told_with_what_to_do_next(swarm, name, args):
    with pytest.raises(
        NotFound, match="no agent is named 'studoi'; swarmd agent list shows all, and swarmd reload"
    ):
        swarm.call(name, **args)
