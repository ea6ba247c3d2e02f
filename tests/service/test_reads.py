"""Every read: the document has the fields that the manual promises, its lists go on, and its sentences are plain."""

import json
from pathlib import Path

import pytest

from swarmd.core.agent import MemoryRules
from swarmd.errors import BadInput, NotFound, Refused
from swarmd.service.reading import READS
from tests.cli.schema_check import faults
from tests.swarm import NOW

SCHEMAS = Path(__file__).parents[1] / "data" / "schemas"
ARGS = {
    "agent_show": {"agent": "studio"}, "agent_history": {"agent": "studio"}, "why": {"agent": "studio"},
    "prompt": {"agent": "studio"}, "session_show": {"session": "studio"}, "session_log": {"session": "1"},
    "session_trace": {"session": "studio"}, "ctx_list": {"agent": "studio"}, "ctx_get": {"agent": "studio", "key": "k"},
    "ctx_history": {"agent": "studio", "key": "k"}, "handoff_show": {"id": 1}, "memory_list": {"agent": "studio"},
    "memory_show": {"agent": "studio"}, "memory_history": {"agent": "studio"}, "memory_diff": {"agent": "studio", "rev": 1},
    "memory_search": {"text": "one"}, "session_search": {"text": "one"}, "memory_blame": {"agent": "studio"},
    "memory_conflicts": {"agent": "studio"}, "memory_export": {"agent": "studio"}, "memory_subjects": {"agent": "studio"},
    "skill_list": {"agent": "studio"}, "skill_show": {"agent": "studio", "name": "tidy"},
    "approval_list": {"all": True}, "approval_show": {"id": 1},
}  # fmt: skip
PROMISED = {
    "agent_list": "name parent enabled paused problem schedule timezone next running last_session last_outcome open_handoffs",
    "session_list": "id agent attempt trigger slot state outcome reason queued started ended by exit draft changes refusals "
    "superseded tokens_in tokens_out cache_read usd",
    "ctx_list": "agent key value version updated by",
    "handoff_list": "id sender receiver text priority status created due expires thread cause depth dedupe",
    "attention": "id kind agent since text next_step",
}


@pytest.fixture
def swarm(swarm):
    """Something in every list."""
    from swarmd.store import slots
    from swarmd.store.slots import Claim

    swarm.call("ctx_set", agent="studio", key="k", value="v")
    swarm.call("memory_write", agent="studio", file="MEMORY.md", text="one\n")
    skill = "---\nname: tidy\ndescription: How to tidy up.\n---\nSweep.\n"
    swarm.call("memory_write", agent="studio", file="skills/tidy/SKILL.md", text=skill)
    swarm.call(
        "handoff_send", to="studio", text="do it", priority="high", due="2026-12-24T18:00+01:00", dedupe="d"
    )
    swarm.call("report", text="all well", as_="house")
    swarm.call("pause", agent="garage", reason="holiday")
    missed = Claim(
        agent="studio", slot=NOW, last=NOW, count=1, decision="missed", reason="the daemon was down"
    )
    swarm.write(lambda c: slots.claim(c, [missed], NOW))

    async def script(part):
        await part.act("handoff_ack", id=1)
        await part.refused("handoff_send", to="house", text="up")
        await part.act("ctx_set", key="mine", value="v")
        part.write("MEMORY.md", "agent\n")
        swarm.file("studio").write_text("person\n")
        swarm.call("ctx_set", agent="studio", key="mine", value="the operator's")

    swarm.play("studio", script)
    swarm.clock.go(minutes=1)
    swarm.play("studio")
    return swarm


@pytest.mark.parametrize("name", sorted(READS))
def test_every_document_is_json_and_fits_its_schema(swarm, name):
    async def wants(part):
        await part.act("ctx_set", key="deploy", value="now")

    swarm.change("art", approval_keys=("deploy",))
    swarm.play("art", wants)
    document = swarm.call(name, **ARGS.get(name, {}))
    json.dumps(document, allow_nan=False)
    assert faults(json.loads((SCHEMAS / f"{name}.json").read_text()), document) == []


@pytest.mark.parametrize("name", PROMISED)
def test_every_row_has_the_promised_fields(swarm, name):
    items = swarm.call(name)["items"] if name != "ctx_list" else swarm.call(name, agent="studio")["items"]
    assert items
    for item in items:
        assert set(PROMISED[name].split()) <= item.keys()


def test_the_shape_of_changes_refusals_and_superseded(swarm):
    session = swarm.call("session_show", session="1")
    for change in session["changes"]:
        assert {"act", "target", "before", "after", "verdict"} <= change.keys()
    assert session["refusals"] == [
        {"act": "handoff_send", "target": "house", "reason": "no agent named 'house' stands below studio"}
    ]
    (overtaken,) = session["superseded"]
    assert (overtaken["act"], overtaken["target"]) == ("ctx_set", "studio/mine")
    assert (session["tokens_in"], session["usd"], session["exit"]) == (None, None, None)


def test_status_counts(swarm):
    status = swarm.call("status")
    assert status["places"]["state"] == str(swarm.places.state)
    assert status["daemon"] == {"running": False}  # the lock is held by a command, not by a daemon
    assert status["agents"] == {"in_force": 5, "paused": 1, "problems": 0}
    assert status["running"] == {"queued": 0, "running": 0}
    assert status["attention"]["kinds"] == {"conflict": 1, "paused": 1, "report": 1}
    swarm.call("pause", agent="house")
    assert swarm.call("status")["agents"]["paused"] == 5


# -- agents -------------------------------------------------------------------------------------------------


def test_the_tree_nests_and_the_list_is_sorted(swarm):
    assert [row["name"] for row in swarm.call("agent_list")["items"]] == [
        "art",
        "game",
        "garage",
        "house",
        "studio",
    ]
    (root,) = swarm.call("agent_tree")["roots"]
    assert (root["name"], [child["name"] for child in root["children"]]) == ("house", ["garage", "studio"])


def test_an_agent_says_how_it_fares(swarm):
    swarm.queue("studio")
    row = swarm.call("agent_show", agent="studio")
    assert (row["last_outcome"], row["last_session"], row["open_handoffs"], row["running"]) == (
        "no_change",
        2,
        1,
        None,
    )
    assert row["next"] == "2026-11-30T10:00:00.000000Z"
    assert (row["children"], row["above"], row["in_force"]) == (["art", "game"], ["house"], True)
    assert row["definition"]["system_prompt"] == "You are studio."
    assert row["text"] == 'parent = "house"\n'
    held = swarm.call("agent_show", agent="garage")
    assert (held["paused"], held["next"], held["held_by"]) == (True, None, ["garage"])


def test_the_definition_of_a_session_is_shown_as_it_was(swarm):
    swarm.change("studio", description="another")
    assert swarm.call("agent_show", agent="studio")["definition"]["description"] == "another"
    assert swarm.call("agent_show", agent="studio", at="1")["definition"]["description"] == ""
    with pytest.raises(BadInput, match="one of studio, not of game"):
        swarm.call("agent_show", agent="game", at="1")
    waiting = swarm.queue("game")
    with pytest.raises(NotFound, match="never started"):
        swarm.call("agent_show", agent="game", at=str(waiting))


def test_an_agent_that_was_removed_is_shown_by_its_last_definition(swarm):
    swarm.remove("studio")
    row = swarm.call("agent_show", agent="studio")
    assert set(PROMISED["agent_list"].split()) <= row.keys()
    assert (row["in_force"], row["next"], row["last_session"]) == (False, None, 2)
    assert "not in force" in row["problem"]
    assert faults(json.loads((SCHEMAS / "agent_show.json").read_text()), row) == []
    assert "studio" not in [r["name"] for r in swarm.call("agent_list")["items"]]
    assert swarm.call("agent_show", agent="studio", at="1")["name"] == "studio"
    assert [r["what"] for r in swarm.call("agent_history", agent="studio")["items"]] == ["removed", "added"]
    assert swarm.call("why", agent="studio")["next_reason"] == "it is not in force"


@pytest.mark.parametrize("name", [name for name, args in ARGS.items() if args.get("agent")])
def test_an_unknown_agent_is_not_found(swarm, name):
    with pytest.raises(NotFound, match="no agent is named 'studoi'"):
        swarm.call(name, **{**ARGS[name], "agent": "studoi"})


def test_why_names_slots_sessions_and_what_comes_next(swarm):
    document = swarm.call("why", agent="studio")
    (slot,) = document["items"]
    assert (slot["decision"], slot["reason"], slot["count"]) == ("missed", "the daemon was down", 1)
    assert document["next_fire"] == "2026-11-30T10:00:00.000000Z"
    assert [row["id"] for row in document["sessions"]] == [2, 1]
    around = swarm.call("why", agent="studio", time="2026-11-30T09:00:30+00:00")
    assert [slot["slot"] for slot in around["items"]] == ["2026-11-30T09:00:00.000000Z"]
    assert "paused at garage by operator:ada: holiday" in swarm.call("why", agent="garage")["next_reason"]
    swarm.change("game", enabled=False)
    assert "disabled" in swarm.call("why", agent="game")["next_reason"]


def test_next_tells_the_starts_of_all(swarm):
    fires = swarm.call("next", n=7)["fires"]
    assert [fire["agent"] for fire in fires] == ["art", "game", "garage", "house", "studio", "art", "game"]
    assert [fire["slot"][11:16] for fire in swarm.call("next", agent="studio", n=3)["fires"]] == [
        "10:00",
        "11:00",
        "12:00",
    ]


# -- lists --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("session_list", lambda swarm, n: swarm.queue("game")),
        ("handoff_list", lambda swarm, n: swarm.call("handoff_send", to="game", text=str(n))),
        ("report_list", lambda swarm, n: swarm.call("report", text=str(n), as_="game")),
        ("log", lambda swarm, n: swarm.call("ctx_set", agent="game", key="k", value=str(n))),
    ],
)
@pytest.mark.parametrize("as_", [None, "studio"])
def test_a_list_goes_on_until_its_end_by_next(swarm, name, make, as_):
    swarm.clock.go(hours=1)
    since = {"since": swarm.clock.now().isoformat()}  # what is before has one time
    for number in range(10):
        make(swarm, number)
        swarm.clock.go(seconds=1)
    whole = swarm.call(name, as_=as_, **since)
    assert whole["next"] is None
    found, until = [], {}
    for _ in range(20):
        page = swarm.call(name, as_=as_, n=3, **since, **until)
        found += page["items"]
        if page["next"] is None:
            break
        assert len(page["items"]) == 3
        until = {"until": page["next"]}
    assert len(found) == (0 if (name, as_) == ("log", "studio") else 10)  # acts are the operator's to see
    assert [json.dumps(row) for row in found] == [json.dumps(row) for row in whole["items"]]


def test_a_page_of_one_single_time_has_a_next_that_leads_on(swarm):
    for number in range(10):
        swarm.call("ctx_set", agent="game", key="k", value=str(number))
    page = swarm.call("log", n=3)
    assert swarm.call("log", n=3, until=page["next"])["items"] != page["items"]


def test_exactly_as_many_as_were_asked_for_is_no_reason_to_go_on(swarm):
    assert len(swarm.call("session_list", n=2)["items"]) == 2
    assert swarm.call("session_list", n=2)["next"] is None
    assert swarm.call("session_list", n=1)["next"] is not None


def test_a_list_has_its_window(swarm):
    since = "2026-11-30T09:01:00+00:00"
    assert [row["id"] for row in swarm.call("session_list", since=since)["items"]] == [2]
    assert [row["id"] for row in swarm.call("session_list", until=since)["items"]] == [1]
    assert [row["id"] for row in swarm.call("session_list", outcome="no_change")["items"]] == [2]
    assert swarm.call("session_list", agent="game")["items"] == []


@pytest.mark.parametrize(
    "bad",
    [
        {"n": 0},
        {"n": -1},
        {"n": "3"},
        {"n": True},
        {"n": 10**9},
        {"since": "yesterday"},
        {"until": 5},
        {"since": "2026-11-30"},
    ],
)
def test_a_bad_window_is_bad_input(swarm, bad):
    with pytest.raises(BadInput):
        swarm.call("session_list", **bad)


def test_handoffs_are_listed_by_whom_and_how(swarm):
    id = swarm.call("handoff_send", to="game", text="b", as_="studio")["id"]
    assert [h["id"] for h in swarm.call("handoff_list")["items"]] == [id, 1]
    assert [h["id"] for h in swarm.call("handoff_list", to="game")["items"]] == [id]
    assert [h["id"] for h in swarm.call("handoff_list", from_="operator")["items"]] == [1]
    assert [h["id"] for h in swarm.call("handoff_list", status="acknowledged")["items"]] == [1]
    with pytest.raises(BadInput, match="none of open"):
        swarm.call("handoff_list", status="opened")


def test_a_handoff_to_nobody_says_so(swarm):
    assert swarm.handoff(1)["receiver_missing"] is False
    swarm.remove("studio")
    assert swarm.handoff(1)["receiver_missing"] is True


def test_the_log_is_all_that_happened_newest_first(swarm):
    lines = [(row["kind"], row["what"]) for row in swarm.call("log")["items"]]
    assert lines[0] == ("session", "no_change")
    assert ("slot", "missed") in lines
    assert ("act", "pause") in lines
    assert ("act", "handoff_send") in lines
    times = [row["at"] for row in swarm.call("log")["items"]]
    assert times == sorted(times, reverse=True)


def test_the_log_of_one_agent_is_of_that_one(swarm):
    swarm.agent("studio_2", "house")
    swarm.agent("studiox2", "house")
    swarm.call("ctx_set", agent="studiox2", key="k", value="v")
    assert swarm.call("log", agent="studio_2")["items"] == []
    acts = [row["target"] for row in swarm.call("log", agent="studio")["items"] if row["kind"] == "act"]
    assert {target.partition("/")[0].partition(":")[0] for target in acts} == {"studio"}
    assert "report" in [row["what"] for row in swarm.call("log", agent="house")["items"]]  # done as house


# -- as an agent --------------------------------------------------------------------------------------------


def test_as_an_agent_one_sees_what_that_agent_sees(swarm):
    assert {row["name"] for row in swarm.call("agent_list", as_="studio")["items"]} == {
        "studio",
        "game",
        "art",
    }
    (root,) = swarm.call("agent_tree", as_="studio")["roots"]
    assert root["name"] == "studio"
    assert {row["agent"] for row in swarm.call("session_list", as_="studio")["items"]} == {"studio"}
    assert swarm.call("session_list", as_="garage")["items"] == []
    assert swarm.call("report_list", as_="studio")["items"] == []
    assert swarm.call("log", as_="garage")["items"] == []
    with pytest.raises(Refused):
        swarm.call("ctx_list", agent="house", as_="studio")
    with pytest.raises(Refused, match="for operators"):
        swarm.call("status", as_="studio")


def test_memory_reads_are_followed(swarm):
    with pytest.raises(Refused, match=r"memory\.reads"):
        swarm.call("memory_show", agent="studio", as_="garage")
    swarm.change("garage", memory=MemoryRules(reads=("studio",)))
    assert swarm.call("memory_show", agent="studio", as_="garage")["text"] == "person\n"
    with pytest.raises(Refused):
        swarm.call("session_show", session="studio", as_="garage")


def test_nobody_acts_as_one_who_is_not_there(swarm):
    with pytest.raises(NotFound, match="no agent is named 'studoi'"):
        swarm.call("ctx_list", as_="studoi")


# -- memory -------------------------------------------------------------------------------------------------


def test_memory_is_shown_as_it_is_and_as_it_was(swarm):
    assert swarm.call("memory_show", agent="studio")["text"] == "person\n"
    first = swarm.call("memory_show", agent="studio", rev=1)
    assert (first["text"], first["rev"], first["base64"]) == ("one\n", 1, None)
    assert [r["rev"] for r in swarm.call("memory_history", agent="studio", file="MEMORY.md")["items"]] == [
        2,
        1,
    ]
    assert "-one\n+person" in swarm.call("memory_diff", agent="studio", rev=1)["diff"]
    (line,) = swarm.call("memory_blame", agent="studio")["lines"]
    assert (line["text"], line["rev"], line["by"]) == ("person", 2, "operator:ada")
    (conflict,) = swarm.call("memory_conflicts", agent="studio")["items"]
    assert (conflict["ours"], conflict["theirs"]) == ("agent\n", "person\n")
    for name in ("memory_show", "memory_diff"):
        with pytest.raises(NotFound, match="no revision 9"):
            swarm.call(name, agent="studio", rev=9)
    with pytest.raises(BadInput):
        swarm.call("memory_show", agent="studio", file="../swarmd.db")


def test_a_file_that_is_no_text_is_given_as_base64(swarm):
    swarm.file("studio", "a.bin").write_bytes(b"\xff\x00")
    swarm.store.folders.settle("studio")
    document = swarm.call("memory_show", agent="studio", file="a.bin")
    assert (document["base64"], document["bytes"]) == ("/wA=", 2)


def test_a_deleted_file_is_not_found_and_its_revisions_are(swarm):
    swarm.call("memory_delete", agent="studio", file="MEMORY.md")
    with pytest.raises(NotFound, match="any more"):
        swarm.call("memory_show", agent="studio")
    assert swarm.call("memory_show", agent="studio", rev=1)["text"] == "one\n"
    left = swarm.call("memory_list", agent="studio")["items"]
    assert [file["path"] for file in left] == ["skills/tidy/SKILL.md"]


# -- trace --------------------------------------------------------------------------------------------------


def test_a_trace_tells_who_was_shown_what_a_session_wrote(swarm):
    async def script(part):
        await part.act("ctx_set", key="seen", value="v")
        await part.act("handoff_send", to="game", text="t")
        await part.act("report", text="r")
        await part.act("ctx_set", key="unseen", value="v")
        part.write("topics.md", "notes\n")

    session = swarm.play("studio", script)
    swarm.play("game")
    swarm.play("house")
    swarm.play("studio")
    swarm.call("ctx_unset", agent="studio", key="unseen")
    trace = swarm.call("session_trace", session=str(session["id"]))
    shown = {row["target"]: [reader["agent"] for reader in row["shown_to"]] for row in trace["items"]}
    assert shown == {
        "studio/seen": ["house", "studio"], "game": ["game"], "parent": ["house"], "studio/unseen": ["house", "studio"],
        "studio:topics.md": ["studio"],
    }  # fmt: skip


def test_a_trace_of_what_was_not_written_is_empty(swarm):
    async def script(part):
        await part.act("ctx_set", key="k9", value="v")
        await part.act("handoff_send", to="game", text="t")
        swarm.change("game", parent="garage")

    session = swarm.play("studio", script)
    assert session["outcome"] == "refused"
    swarm.call("ctx_set", agent="studio", key="k9", value="another's")
    swarm.play("studio")
    assert swarm.call("session_trace", session=str(session["id"]))["items"] == []
