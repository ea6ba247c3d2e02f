"""Putting memory in order, as rules: with which definition, when, what is no order, and what is written as one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from swarmd.core.agent import Agent, Consolidate, Limits, MemoryRules, Sandbox, Success
from swarmd.core.changes import AppendMemory, SetKey, WriteMemory
from swarmd.core.condensed import condensed, middle_cut
from swarmd.core.consolidation import consolidating, emptied, problem_of
from swarmd.core.consolidation_due import Facts, due
from swarmd.core.judge import fold
from swarmd.core.lineage import key_of
from swarmd.core.prompt import assemble
from swarmd.core.snapshot import Snapshot, Transcripts, TranscriptSeen, Trigger
from tests.core.worlds import DictWorld, session_of

NOON = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)


# -- the definition -----------------------------------------------------------------------------------------


def agent(**facts) -> Agent:
    facts.setdefault("name", "a")
    return Agent(**facts)


def test_a_model_keeps_its_runner_and_has_another_name_other_bounds_and_the_memorys_tools():
    made = consolidating(agent(
        runner_kind="anthropic", runner_options={"model": "large", "tools": ["acts", "bash"], "mcp_servers": {"x": {}}, "max_turns": 9},
        consolidate=Consolidate(model="small", tokens_per_session=7, timeout_seconds=60),
        limits=Limits(tokens_per_session=99, timeout_seconds=5, retries=3), sandbox=Sandbox(write=("/srv",), network=False),
        success=Success(keys_changed=("k",)),
    ))  # fmt: skip
    assert made.runner_options == {
        "model": "small", "tools": ["memory", "session_list", "session_show", "fail"], "mcp_servers": {}, "max_turns": 9,
    }  # fmt: skip
    assert (made.limits.tokens_per_session, made.limits.timeout_seconds, made.limits.retries) == (7, 60, 0)
    assert (made.sandbox, made.success) == (Sandbox(network=False), Success())


def test_without_a_model_and_a_budget_of_its_own_it_has_the_agents():
    made = consolidating(agent(runner_kind="claude-code", runner_options={"model": None, "tools": ["Bash"], "instructions": ["A.md"]},
                               limits=Limits(tokens_per_session=99)))  # fmt: skip
    assert made.runner_options == {"model": None, "tools": [], "allow": None, "instructions": []}
    assert made.limits.tokens_per_session == 99


def test_a_command_takes_the_runners_place_whatever_that_is():
    table = Consolidate(command=("tidy", "-q"))
    same = consolidating(agent(runner_options={"command": ["work"], "env": {"A": "b"}}, consolidate=table))
    assert (same.runner_kind, same.runner_options) == (
        "command",
        {"command": ["tidy", "-q"], "env": {"A": "b"}},
    )
    other = consolidating(
        agent(runner_kind="anthropic", runner_options={"model": "large"}, consolidate=table)
    )
    assert (other.runner_kind, other.runner_options) == ("command", {"command": ["tidy", "-q"]})


def test_who_has_nobody_for_it_or_no_memory_cannot():
    assert "[consolidate] command" in problem_of(agent())
    assert problem_of(agent(consolidate=Consolidate(command=("tidy",)))) is None
    assert problem_of(agent(runner_kind="anthropic")) is None
    assert "persistent = false" in problem_of(
        agent(runner_kind="anthropic", memory=MemoryRules(persistent=False))
    )


# -- when ---------------------------------------------------------------------------------------------------

AFTER = Consolidate(after_seconds=3600)


def facts(**given) -> Facts:
    return Facts(**{"since": NOON - 24 * HOUR, "pending": 5, "last_ended": NOON, **given})


@pytest.mark.parametrize(
    ("given", "at"),
    [
        ({}, NOON + HOUR),
        ({"pending": None}, None),
        ({"last_ended": None}, None),
        ({"attempted": NOON - HOUR}, NOON + HOUR),
        ({"attempted": NOON + HOUR}, NOON + 2 * HOUR),
        ({"attempted": NOON + HOUR, "failures": 1}, NOON + 3 * HOUR),
        ({"attempted": NOON + HOUR, "failures": 3}, NOON + 9 * HOUR),
        ({"attempted": NOON + HOUR, "failures": 90}, NOON + 25 * HOUR),
    ],
)
def test_after_quiet_it_is_due_by_the_last_end_and_later_with_each_failure(given, at):
    assert due(AFTER, "UTC", facts(**given)).at == at


def test_a_wait_that_is_longer_than_a_day_is_not_cut_by_failures():
    week = Consolidate(after_seconds=7 * 86400)
    assert due(week, "UTC", facts(failures=5)).at == NOON + 7 * 24 * HOUR


def test_by_cron_it_is_due_at_the_first_moment_since_the_last_one_in_the_agents_zone():
    nightly = Consolidate(cron="0 3 * * *")
    assert due(nightly, "UTC", facts(pending=None)).at == datetime(2026, 11, 30, 3, 0, tzinfo=UTC)
    assert due(nightly, "UTC", facts(attempted=NOON)).at == datetime(2026, 12, 1, 3, 0, tzinfo=UTC)
    assert due(nightly, "Asia/Tokyo", facts(attempted=NOON)).at == datetime(2026, 11, 30, 18, 0, tzinfo=UTC)


def test_who_does_not_ask_is_never_due():
    assert due(Consolidate(), "UTC", facts()).at is None


# -- what is no order ---------------------------------------------------------------------------------------

BIG = {"MEMORY.md": b"x" * 3000, "topics.md": b"y" * 2000, "archive/old.md": b"z" * 100_000}


def write(path, data):
    return WriteMemory(agent="a", path=path, data=data, base=1)


@pytest.mark.parametrize(
    ("before", "changes", "what"),
    [
        (BIG, [], None),
        (BIG, [write("MEMORY.md", b"x" * 300), write("topics.md", b"y" * 300)], None),
        (BIG, [write("topics.md", None), write("MEMORY.md", b"x" * 499)], "less than a tenth"),
        (BIG, [write("topics.md", None), write("MEMORY.md", b"x" * 500)], None),
        (BIG, [write("MEMORY.md", None)], "nothing in MEMORY.md"),
        (BIG, [write("MEMORY.md", b" \n")], "nothing in MEMORY.md"),
        (BIG, [write("MEMORY.md", b""), AppendMemory(agent="a", path="MEMORY.md", text="n" * 600)], None),
        ({}, [write("MEMORY.md", b"new")], None),
        ({}, [], None),
        ({"MEMORY.md": b"n" * 999}, [write("MEMORY.md", b"n")], None),
        ({"topics.md": b"n" * 5000}, [write("topics.md", None)], "less than a tenth"),
    ],
)
def test_what_leaves_next_to_nothing_is_a_loss(before, changes, what):
    found = emptied(before, changes)
    assert (found is None) == (what is None), found
    assert what is None or what in found


# -- what is written ----------------------------------------------------------------------------------------


def tidying(**facts):
    return session_of("studio", only_memory=True, **facts)


def decisions(folded):
    return [verdict.decision for verdict in folded.verdicts]


def test_its_changes_are_written_as_one_or_not_at_all():
    world = DictWorld()
    world.put_file("studio", "MEMORY.md", b"new", rev=3)
    world.put_file("studio", "topics.md", b"old", rev=1)
    changes = [
        WriteMemory(agent="studio", path="topics.md", data=b"moved", base=1),
        WriteMemory(agent="studio", path="MEMORY.md", data=b"mine", base=2),
        AppendMemory(agent="studio", path="more.md", text="more"),
    ]
    folded = fold(tidying(), changes, world)
    assert decisions(folded) == ["superseded"] * 3
    assert folded.effects == []
    assert all("operator:ada meanwhile" in verdict.reason for verdict in folded.verdicts)
    assert decisions(fold(session_of("studio"), changes, world)) == ["done", "done", "done"], (
        "another is merged"
    )


def test_who_wrote_the_very_same_has_overtaken_nobody():
    world = DictWorld()
    world.put_file("studio", "MEMORY.md", b"same", rev=3)
    change = WriteMemory(agent="studio", path="MEMORY.md", data=b"same", base=2)
    assert decisions(fold(tidying(), [change], world)) == ["nothing"]


def test_what_is_not_its_own_memory_is_refused_whoever_it_is_about():
    world = DictWorld()
    for change in (
        SetKey(agent="studio", key="k", value="v"), WriteMemory(agent="game", path="MEMORY.md", data=b"x"),
        AppendMemory(agent="@team", path="MEMORY.md", text="x"),
        WriteMemory(agent="studio", path="archive/x.md", data=b"x"),
    ):  # fmt: skip
        assert decisions(fold(tidying(), [change], world)) == ["refused"], change


# -- transcripts --------------------------------------------------------------------------------------------


def test_a_transcript_is_cut_by_rule_and_each_cut_is_told():
    events = [
        {"kind": "started", "runner": "r", "model": "m"}, {"kind": "thinking", "turn": 1, "text": "SECRET THOUGHT"},
        {"kind": "text", "turn": 1, "text": "I look."},
        {"kind": "tool_call", "turn": 1, "id": "1", "name": "bash", "input": {"command": "x" * 1000}},
        {"kind": "tool_result", "id": "1", "text": "a" * 5000 + "END", "error": False},
        {"kind": "tool_result", "id": "2", "text": "no such file", "error": True},
        {"kind": "usage", "turn": 1}, {"kind": "refused", "act": "ctx_set", "reason": "not below"},
        {"kind": "text", "turn": 2, "text": "Done."}, {"kind": "result", "outcome": "success", "reason": "", "text": "Done."},
    ]  # fmt: skip
    text = condensed(events, "")
    lines = text.splitlines()
    assert lines[0] == "said: I look."
    assert lines[1].startswith('called bash({"command":"xxx')
    assert "characters left out" in lines[1]
    assert lines[2].endswith("END")
    assert lines[3:] == ["failed: no such file", "refused: ctx_set: not below", "said: Done."]
    assert "SECRET" not in text
    assert len(text) < 1500


def test_what_is_odd_in_a_transcript_stops_nothing():
    odd = [
        {},
        {"kind": None},
        {"kind": "text"},
        {"kind": "text", "text": 7},
        {"kind": "tool_call"},
        {"kind": "later"},
    ]
    assert condensed(odd, "") == "said: 7\ncalled None(null)"
    assert condensed([], "  \n") == ""
    assert condensed([], " out\n") == "printed: out"


def test_a_cut_keeps_beginning_and_end():
    assert middle_cut("a" * 10, 10) == "a" * 10
    assert middle_cut("abcdefghij", 6) == "abcd [... 4 characters left out ...] ij"


def shown(count, size=100, **facts):
    seen = tuple(
        TranscriptSeen(session=n, trigger="cron", started=NOON + n * HOUR, outcome="committed", reason="", text=f"said: {n} " + "w " * size)
        for n in range(1, count + 1)
    )  # fmt: skip
    return Snapshot(agent=agent(system_prompt="S" * 100_000), now=NOON, zone="UTC", trigger=Trigger(kind="consolidate"),
                    transcripts=Transcripts(seen=seen, more=2, since=0, until=count), fence="f", **facts)  # fmt: skip


def words(text):
    return -(-len(text) // 4)


@pytest.mark.parametrize(("count", "size"), [(1, 10), (20, 100), (20, 24_000), (1000, 24_000)])
def test_however_much_there_is_the_prompt_has_its_bounds_and_says_what_is_missing(count, size):
    prompt = assemble(shown(count, size), words)
    assert prompt.tokens < 50_000
    section = next(section for section in prompt.sections if section.name == "sessions")
    assert "older sessions are left out" in section.left_out
    assert f"session {count}, " in prompt.user, "the newest is always there"
    if count == 20 and size == 24_000:
        assert "session 1, " in prompt.user, "each has its share"
        assert prompt.user.count("characters left out") == 20


def test_equal_snapshots_give_equal_prompts_of_no_section_of_work():
    first, second = (assemble(shown(3), words) for _ in range(2))
    assert first == second
    assert [section.name for section in first.sections] == [
        "system",
        "agent",
        "memory",
        "files",
        "sessions",
        "time",
    ]


# -- lines --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ("- the key", "the key"), ("  *  the   key ", "the key"), ("> 1. the key", "the key"), ("### the key", "the key"),
        ("the key", "the key"), ("---", None), ("", None), ("```", None), ("| a | b |", "a | b |"), ("-5 degrees", "-5 degrees"),
        ("\u00e9t\u00e9", "\u00e9t\u00e9"),
    ],
)  # fmt: skip
def test_a_line_is_known_by_its_words(line, key):
    assert key_of(line) == key
