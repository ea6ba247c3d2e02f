"""What is typed and what call it becomes; what is refused before any call is made."""

from __future__ import annotations

import pytest

from tests.cli import documents
from tests.cli.documents import HANDOFF, KEY, MEMORY, SAMPLES, SESSION


def only(ran):
    assert ran.status == 0, ran.err
    assert len(ran.calls) == 1
    return ran.calls[0]


ACTS = [
    (["ctx", "set", "studio", "status", "POLISH"], ("ctx_set", {"agent": "studio", "key": "status", "value": "POLISH"})),
    (["ctx", "set", "studio", "status", "--", "-5 degrees"], ("ctx_set", {"agent": "studio", "key": "status", "value": "-5 degrees"})),
    (["ctx", "set", "studio", "status", ""], ("ctx_set", {"agent": "studio", "key": "status", "value": ""})),
    (["ctx", "unset", "studio", "status"], ("ctx_unset", {"agent": "studio", "key": "status"})),
    (["memory", "ctx", "set", "--node", "studio", "--key", "k", "--value", "v"], ("ctx_set", {"agent": "studio", "key": "k", "value": "v"})),
    (["memory", "write", "studio", "a.md", "text"], ("memory_write", {"agent": "studio", "file": "a.md", "text": "text"})),
    (["memory", "write", "studio", "a.md", "text", "--base", "3"], ("memory_write", {"agent": "studio", "file": "a.md", "text": "text", "base": 3})),
    (["memory", "append", "studio", "MEMORY.md", "--", "- buy milk"], ("memory_append", {"agent": "studio", "file": "MEMORY.md", "text": "- buy milk"})),
    (["memory", "restore", "studio", "3"], ("memory_restore", {"agent": "studio", "file": "MEMORY.md", "rev": 3})),
    (["memory", "conflicts", "studio", "--take", "theirs", "4"], ("memory_take", {"agent": "studio", "conflict": 4, "side": "theirs"})),
    (["memory", "write", "@team", "a.md", "text"], ("memory_write", {"agent": "@team", "file": "a.md", "text": "text"})),
    (["memory", "append", "--agent", "studio@alice", "a.md", "text"], ("memory_append", {"agent": "studio@alice", "file": "a.md", "text": "text"})),
    (["memory", "delete", "@team", "a.md"], ("memory_delete", {"agent": "@team", "file": "a.md"})),
    (["memory", "forget-subject", "studio", "alice@example.com"], ("forget_subject", {"agent": "studio", "subject": "alice@example.com"})),
    (["handoff", "ack", "7"], ("handoff_ack", {"id": 7})),
    (["handoff", "complete", "7"], ("handoff_complete", {"id": 7})),
    (["handoff", "decline", "7", "--reply", "no"], ("handoff_decline", {"id": 7, "reply": "no"})),
    (["handoff", "ask", "7", "--text", "- why?"], ("handoff_ask", {"id": 7, "text": "- why?"})),
    (["handoff", "change", "7", "--due", "2h"], ("handoff_change", {"id": 7, "due": "2026-11-30T14:00:00.000000Z"})),
    (["handoff", "requeue", "7"], ("handoff_requeue", {"id": 7})),
    (["pause", "all", "--reason", "holiday"], ("pause", {"agent": "all", "reason": "holiday", "now": False})),
    (["resume", "studio"], ("resume", {"agent": "studio"})),
    (["agent", "rename", "a", "b"], ("rename", {"old": "a", "new": "b"})),
    (["agent", "forget", "a"], ("forget", {"name": "a"})),
    (["session", "cancel", "studio"], ("session_cancel", {"session": "studio"})),
    (["session", "apply", "7", "--as-operator"], ("session_apply", {"session": "7", "as_operator": True})),
    (["session", "discard", "studio@2026-11-30T09:00"], ("session_discard", {"session": "studio@2026-11-30T09:00"})),
    (["attention", "ack", "failing:studio"], ("attention_ack", {"id": "failing:studio"})),
    (["reload", "--allow-empty"], ("reload", {"allow_empty": True})),
    (["run", "studio"], ("run", {"agent": "studio", "mode": "commit", "force": False})),
    (["run", "studio", "--dry-run", "--force"], ("run", {"agent": "studio", "mode": "dry_run", "force": True})),
    (["run", "studio", "--no-commit", "--text", "x"], ("run", {"agent": "studio", "mode": "no_commit", "force": False, "text": "x"})),
    (["run", "studio", "--subject", "alice"], ("run", {"agent": "studio", "mode": "commit", "force": False, "subject": "alice"})),
    (["memory", "consolidate", "studio"], ("run", {"agent": "studio", "mode": "commit", "force": False, "trigger": "consolidate"})),
    (["memory", "consolidate", "studio", "--no-commit", "--force"], ("run", {"agent": "studio", "mode": "no_commit", "force": True, "trigger": "consolidate"})),
    (["session", "quarantine", "7"], ("session_quarantine", {"session": "7", "revert": False})),
    (["session", "quarantine", "studio", "--reason", "a bad page", "--revert"], ("session_quarantine", {"session": "studio", "reason": "a bad page", "revert": True})),
    (["session", "unquarantine", "7"], ("session_unquarantine", {"session": "7"})),
    (["report", "all is well"], ("report", {"text": "all is well"})),
    (["report", "--", "list"], ("report", {"text": "list"})),
]  # fmt: skip
ANSWERS = {
    "ctx_set": KEY, "ctx_unset": {**KEY, "value": None}, "memory_write": MEMORY, "memory_append": MEMORY,
    "memory_restore": MEMORY, "memory_delete": MEMORY, "forget_subject": {"agent": "a", "subject": "b", "forgotten": True}, "pause": {"agent": "all", "paused": True, "reason": None, "held_by": []},
    "resume": {"agent": "studio", "paused": False, "reason": None, "held_by": []}, "run": SESSION,
    "session_quarantine": documents.QUARANTINED, "session_unquarantine": {**documents.QUARANTINED, "quarantined": None},
    "reload": {"added": [], "changed": [], "removed": [], "problems": []}, "report": documents.REPORT,
    **{f"handoff_{move}": HANDOFF for move in ("ack", "complete", "decline", "ask", "change", "requeue", "send")},
}  # fmt: skip


@pytest.mark.parametrize(
    ("args", "call"), ACTS, ids=lambda value: " ".join(value) if isinstance(value, list) else ""
)
def test_an_act_is_one_call(args, call, swarmd):
    ran = swarmd(*args, **ANSWERS)
    assert only(ran) == call
    assert swarmd(*args, "--json", **ANSWERS).status == 0 or "--" in args


def test_a_handoff_as_it_is_typed_today(swarmd):
    ran = swarmd(
        "handoff",
        "send",
        "--to",
        "polybreak",
        "--text",
        "do it",
        "--priority",
        "high",
        "--due",
        "2026-12-24T18:00+01:00",
        handoff_send=HANDOFF,
    )
    assert only(ran) == (
        "handoff_send",
        {"to": "polybreak", "text": "do it", "priority": "high", "due": "2026-12-24T17:00:00.000000Z"},
    )
    assert ran.text == "handoff 7 from operator to studio is open, normal\n"


def test_a_handoff_as_cron_swarm_had_it(swarmd):
    ran = swarmd(
        "memory",
        "handoff",
        "send",
        "--from",
        "a",
        "--to",
        "b",
        "--text",
        "T",
        "--as-node",
        "a",
        "--priority",
        "low",
        handoff_send=HANDOFF,
    )
    assert only(ran) == ("handoff_send", {"to": "b", "text": "T", "priority": "low"})
    assert ran.options.as_agent == "a"


def test_a_handoff_to_all_children_names_each(swarmd):
    ran = swarmd(
        "handoff",
        "send",
        "--to",
        "children",
        "--text",
        "T",
        session=True,
        handoff_send={"items": [{**HANDOFF, "staged": True}, {**HANDOFF, "id": 8}]},
    )
    assert ran.text.splitlines() == [
        "handoff 7 from operator to studio is open, normal (staged: saved when the session ends well)",
        "handoff 8 from operator to studio is open, normal",
    ]


@pytest.mark.parametrize(
    ("args", "session", "sentence"),
    [
        (
            ["--from", "root", "--as", "a"],
            False,
            "--from root: the sender would be a; to act as root give --as root",
        ),
        (["--from", "a"], False, "the sender would be operator; to act as a give --as a"),
        (["--from", "root"], True, "a session sends as its own agent (studio) and as no other"),
        (["--from", "operator"], True, "a session sends as its own agent (studio) and as no other"),
    ],
)
def test_a_sender_cannot_be_forged(args, session, sentence, swarmd):
    for spelling in (["handoff"], ["memory", "handoff"]):
        ran = swarmd(*spelling, "send", "--to", "b", "--text", "T", *args, session=session)
        assert (ran.status, ran.calls) == (3, [])
        assert sentence in ran.err


@pytest.mark.parametrize(
    "args",
    [
        ["--as", "studio", "status"],
        ["status", "--as", "studio"],
        ["status", "--as-node", "studio"],
        ["--as-node", "studio", "status"],
    ],
)
def test_as_stands_before_or_after(args, swarmd):
    assert swarmd(*args, status=SAMPLES["status"]).options.as_agent == "studio"


def test_places_stand_before_or_after(swarmd):
    ran = swarmd(
        "--agents",
        "/a",
        "--state",
        "/s",
        "status",
        "--runtime",
        "/r",
        "--config",
        "/c",
        "--state",
        "/t",
        status=SAMPLES["status"],
    )
    options = ran.options
    assert (options.agents, options.state, options.runtime, options.config) == ("/a", "/t", "/r", "/c")


def test_inside_a_session_the_agent_is_left_out(swarmd):
    assert only(swarmd("ctx", "set", "k", "v", session=True, ctx_set=KEY))[1] == {"key": "k", "value": "v"}
    assert only(swarmd("ctx", "get", "k", session=True, ctx_get=KEY))[1] == {"key": "k"}
    assert only(swarmd("ctx", "list", session=True))[1] == {}
    assert only(swarmd("ctx", "get", "k", "--agent", "b", session=True, ctx_get=KEY))[1] == {
        "key": "k",
        "agent": "b",
    }
    assert only(swarmd("memory", "show", session=True, memory_show=SAMPLES["memory_show"]))[1] == {
        "file": "MEMORY.md"
    }
    assert only(swarmd("memory", "append", "a.md", "x", session=True, memory_append=MEMORY))[1] == {
        "file": "a.md",
        "text": "x",
    }


def test_an_agent_too_many_in_a_session_is_explained(swarmd):
    ran = swarmd("ctx", "set", "studio", "k", "v", session=True)
    assert (ran.status, ran.calls) == (2, [])
    assert "inside a session AGENT is left out (--agent names another)" in ran.err


def test_a_missing_word_is_named(swarmd):
    ran = swarmd("ctx", "set", "studio", "k")
    assert (ran.status, ran.err) == (2, "swarmd: missing argument VALUE; see `swarmd ctx set --help`\n")


@pytest.mark.parametrize("text", ["- buy milk", "-5 degrees", "--urgent"])
@pytest.mark.parametrize(
    "command", [["report"], ["ctx", "set", "a", "k"], ["memory", "append", "a", "f"], ["fail"]]
)
def test_a_text_like_an_option_names_the_two_ways(command, text, swarmd):
    ran = swarmd(*command, text, session=command[0] == "fail")
    assert (ran.status, ran.calls) == (2, [])
    assert "behind `--`" in ran.err
    assert "standard input" in ran.err


@pytest.mark.parametrize("text", ["@file", "a\nb\nc", "x" * 100_000, "\u6f22", " padded "])
def test_any_other_text_is_taken_as_it_is(text, swarmd):
    assert only(swarmd("report", text, report=documents.REPORT))[1] == {"text": text}


def test_a_dash_reads_standard_input_byte_for_byte(swarmd):
    stdin = b"- line one\r\n\nline \xe6\xbc\xa2" + b"x" * 200_000
    for args in (
        ["report", "-"],
        ["handoff", "send", "--to", "b", "--text", "-"],
        ["ctx", "set", "a", "k", "-"],
        ["memory", "write", "a", "f", "-"],
    ):
        ran = swarmd(*args, stdin=stdin, **ANSWERS)
        assert stdin.decode() in only(ran)[1].values()


@pytest.mark.parametrize(
    ("stdin", "sentence"),
    [
        (b"caf\xe9", "standard input is not UTF-8: byte 4 is 0xe9"),
        (b" \n", "a report may not be empty"),
        (b"x" * (16 * 1024 * 1024 + 1), "more than 16777216 bytes"),
    ],
)
def test_standard_input_that_is_no_text_is_refused(stdin, sentence, swarmd):
    ran = swarmd("report", "-", stdin=stdin)
    assert (ran.status, ran.calls) == (2, [])
    assert sentence in ran.err


@pytest.mark.parametrize(
    "args",
    [
        ["report", ""],
        ["report", "  "],
        ["handoff", "send", "--to", "b", "--text", ""],
        ["fail", ""],
        ["memory", "append", "a", "f", ""],
    ],
)
def test_an_empty_text_is_refused(args, swarmd):
    ran = swarmd(*args, session=args[0] == "fail")
    assert (ran.status, ran.calls) == (2, [])
    assert "may not be empty" in ran.err


def test_bytes_that_are_no_text_are_refused_before_anything_else(swarmd):
    ran = swarmd("report", "caf\udce9")
    assert (ran.status, ran.calls) == (2, [])
    assert ran.err == "swarmd: argument 2 is not UTF-8 text: 'caf\\xe9'; give it as UTF-8\n"


@pytest.mark.parametrize(
    "name",
    [
        "../root",
        "a/b",
        ".",
        "",
        "con\nx",
        "a" * 300,
        "a\x00",
        "\xe9",
        "e\u0301",
        "BOB",
        "operator",
        "all",
        "-",
    ],
)
@pytest.mark.parametrize(
    "command", [["agent", "show"], ["ctx", "list"], ["prompt"], ["session", "show"], ["why"]]
)
def test_an_agents_name_is_checked_as_in_a_file(command, name, swarmd):
    ran = swarmd(*command, "--", name)
    assert (ran.status, ran.calls) == (2, [])
    assert ran.err.startswith("swarmd: ")
    assert ran.err.count("\n") == 1


def test_lists_take_their_bounds(swarmd):
    want = {"since": "2026-11-30T10:00:00.000000Z", "until": "2026-11-30T11:30:00.000000Z", "n": 3}
    for command, call in (
        (["handoff", "list"], "handoff_list"),
        (["session", "list"], "session_list"),
        (["log"], "log"),
        (["report", "list"], "report_list"),
    ):
        ran = swarmd(
            *command, "--since", "2h", "--until", "30m", "-n", "3", **{call: {"items": [], "next": None}}
        )
        assert only(ran) == (call, want)


def test_a_list_that_its_call_gives_whole_is_cut_here(swarmd):
    rows = [
        {**KEY, "key": str(hour), "updated": f"2026-11-30T{hour:02d}:00:00.000000Z"} for hour in range(8, 12)
    ]
    ran = swarmd(
        "ctx",
        "list",
        "a",
        "--since",
        "2026-11-30T09:00Z",
        "--until",
        "2026-11-30T11:00Z",
        "-n",
        "1",
        "--json",
        ctx_list={"items": rows, "next": None},
    )
    assert [row["key"] for row in ran.json["items"]] == ["9"]


def test_filters_become_arguments(swarmd):
    ran = swarmd(
        "handoff",
        "list",
        "--to",
        "a",
        "--from",
        "operator",
        "--status",
        "open",
        handoff_list=SAMPLES["handoff_list"],
    )
    assert only(ran)[1] == {"to": "a", "from": "operator", "status": "open"}
    ran = swarmd(
        "session", "list", "--agent", "a", "--outcome", "timed_out", session_list=SAMPLES["session_list"]
    )
    assert only(ran)[1] == {"agent": "a", "outcome": "timed_out"}


def test_a_global_option_before_a_default_command_hides_no_command(swarmd):
    assert only(swarmd("report", "--json", "list", report_list=SAMPLES["report_list"]))[0] == "report_list"
    assert only(swarmd("report", "--as", "list", "hello", report=documents.REPORT))[1] == {"text": "hello"}
    assert only(swarmd("attention", "--json", attention=SAMPLES["attention"]))[0] == "attention"


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (["handoff", "show", "abc"], "'abc' is no handoff: a whole number from 1 on is expected, `swarmd handoff list` shows them"),
        (["handoff", "ack", "0"], "'0' is no handoff: a whole number from 1 on is expected"),
        (["handoff", "ack", "9" * 30], "is no handoff: a whole number from 1 on"),
        (["memory", "show", "a", "--rev", "x"], "'x' is no revision: a whole number from 1 on is expected"),
        (["log", "-n", "x"], "'x' is no count: a whole number from 1 to 100000 is expected"),
        (["next", "-n", "0"], "'0' is no count: a whole number from 1 to 10000 is expected"),
    ],
)  # fmt: skip
def test_what_is_no_number_is_told_what_it_should_be(args, sentence, swarmd):
    ran = swarmd(*args)
    assert (ran.status, ran.calls) == (2, [])
    assert sentence in ran.err


def test_an_empty_value_and_a_dash_differ(swarmd):
    rows = [{**KEY, "key": "empty", "value": ""}, {**KEY, "key": "dash", "value": "-"}]
    lines = swarmd("ctx", "list", "a", ctx_list=documents.listing(*rows)).text.splitlines()
    assert [line.split()[:2] for line in lines[1:]] == [["empty", '""'], ["dash", "-"]]
    assert (
        swarmd("ctx", "set", "studio", "status", "", ctx_set={**KEY, "value": ""}).text
        == 'studio status = ""\n'
    )


def test_a_key_that_was_overtaken_is_not_set_and_no_failure(swarmd):
    answer = {**KEY, "superseded": "the operator has changed it", "staged": True}
    ran = swarmd("ctx", "set", "status", "x", session=True, ctx_set=answer)
    assert (ran.status, ran.text, ran.err) == (0, "", "swarmd: not set: the operator has changed it\n")
    ran = swarmd("ctx", "set", "status", "x", "--json", session=True, ctx_set=answer)
    assert (ran.status, ran.json) == (0, answer)


def test_in_a_session_no_base_is_given(swarmd):
    ran = swarmd("memory", "write", "MEMORY.md", "hello", "--base", "2", session=True)
    assert (ran.status, ran.calls) == (2, [])
    assert "--base is for operators" in ran.err


def test_a_sessions_own_copy_of_memory_is_shown_by_its_files(swarmd):
    ran = swarmd(
        "memory", "write", "MEMORY.md", "hello", session=True, memory_write={"file": "MEMORY.md", "bytes": 5}
    )
    assert ran.text == "MEMORY.md: 5 bytes (staged: saved when the session ends well)\n"
    copy = documents.listing({"file": "MEMORY.md", "bytes": 5})
    assert (
        swarmd("memory", "list", session=True, memory_list=copy).text.splitlines()[1].startswith("MEMORY.md ")
    )
    assert swarmd("memory", "write", "studio", "a", "b", memory_write=MEMORY).text == (
        "studio MEMORY.md: revision 2, 6 bytes\n"
    )


def test_unknown_words_are_answered_with_the_nearest(swarmd):
    assert (
        swarmd("stauts").err
        == "swarmd: no such command 'stauts' (did you mean 'status'?); see `swarmd --help`\n"
    )
    assert "(did you mean 'send'?)" in swarmd("handoff", "sent").err
    assert "(did you mean '--priority'?)" in swarmd("handoff", "change", "7", "--priorty", "low").err
    assert swarmd("handoff", "change", "7", "--priority", "hihg").status == 2
