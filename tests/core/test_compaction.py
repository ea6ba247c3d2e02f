"""When a memory is to be made small, by whom, and what its file then is; no model, no clock, no file."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarmd.core import compaction
from swarmd.core.agent import Agent, MemoryRules
from swarmd.core.memory import path_problem

AT = datetime(2026, 4, 20, 14, 30, 45, 123, tzinfo=UTC)
NAME = "archive/history_2026-04-20_14-30-45.md"


def words(text: str) -> int:
    return len(text.split())


def agent(kind: str = "command", options: dict | None = None, **memory) -> Agent:
    return Agent(
        name="a", runner_kind=kind, runner_options=options or {"command": ["x"]}, memory=MemoryRules(**memory)
    )


MODEL = {"model": "m-own", "base_url": "http://h", "credential": "env:K", "fallback_models": ["m-2"],
         "tools": ["acts"], "mcp_servers": {"s": {}}, "thinking": 2048}  # fmt: skip


# -- when ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rules", "room", "due", "most"),
    [
        ({}, 4000, 3600, 2000),
        ({"context_tokens": 1000}, 1000, 900, 200),
        ({"context_tokens": 100_000}, 4000, 3600, 2000),
        ({"compact_at": 0.5, "summary_tokens": 300}, 4000, 2000, 300),
        ({"compact_at": 0.25}, 4000, 1000, 999),
    ],
)
def test_the_room_is_the_prompts_or_the_smaller_window_and_a_summary_stays_below_what_is_due(
    rules, room, due, most
):
    found = MemoryRules(**rules)
    assert (compaction.room(found), compaction.due_at(found), compaction.summary_most(found)) == (
        room,
        due,
        most,
    )


def test_a_small_file_is_not_counted_and_a_large_one_is():
    assert not compaction.may_be_due(MemoryRules(), 1000)
    assert compaction.may_be_due(MemoryRules(), 3600)


def test_failures_wait_twice_as_long_each_time_up_to_a_day():
    minutes = [compaction.delay_after(n) / timedelta(minutes=1) for n in (0, 1, 2, 3, 20, 1000)]
    assert minutes == [0, 5, 10, 20, 1440, 1440]


# -- by whom ------------------------------------------------------------------------------------------------


def test_a_command_summarizes_with_the_agents_own_environment_and_nothing_else_of_its_options():
    found = compaction.summarizer_of(
        agent("anthropic", {**MODEL, "workdir": "/w", "env": {"A": "b"}}, summarizer_command=("sum", "-x")),
        asked=False,
    )
    assert (found.kind, found.options) == (
        "command", {"workdir": "/w", "env": {"A": "b"}, "command": ["sum", "-x"]},
    )  # fmt: skip


def test_a_model_summarizes_without_tools_with_the_agents_credential_where_it_has_one():
    found = compaction.summarizer_of(agent("anthropic", MODEL, summarizer_model="m-sum"), asked=False)
    assert found.kind == "anthropic"
    assert found.options == {"model": "m-sum", "tools": [], "max_turns": 1, "max_tokens": 10_500,
                             "base_url": "http://h", "credential": "env:K"}  # fmt: skip
    assert "credential" not in compaction.summarizer_of(agent(summarizer_model="m"), asked=False).options


@pytest.mark.parametrize(
    ("log", "asked", "model"), [(True, False, "m-own"), (False, True, "m-own"), (False, False, None)]
)
def test_an_agent_that_is_a_model_summarizes_itself_where_it_keeps_a_log_or_is_asked_to(log, asked, model):
    found = compaction.summarizer_of(agent("anthropic", MODEL, log=log), asked=asked)
    assert (found and found.options["model"]) == model
    assert compaction.summarizer_of(agent("claude-code", {"model": "x"}, log=log), asked=asked) is None


def test_only_who_has_a_summarizer_or_a_log_is_looked_at():
    assert not compaction.is_automatic(agent("anthropic", MODEL))
    assert compaction.is_automatic(agent(log=True))
    assert compaction.is_automatic(agent(summarizer_command=("x",)))
    assert not compaction.is_automatic(agent(log=True, persistent=False))


# -- names --------------------------------------------------------------------------------------------------


def test_an_archive_is_named_by_the_moment_in_utc():
    assert compaction.archive_name(AT, ()) == NAME
    assert compaction.archive_name(AT.astimezone(timezone(timedelta(hours=5))), ()) == NAME
    assert path_problem(NAME) is None


def test_no_name_is_ever_used_twice_not_within_a_second_nor_in_another_case():
    taken = {"MEMORY.md"}
    names = []
    for _ in range(3):
        names.append(compaction.archive_name(AT, taken))
        taken.add(names[-1])
    assert names == [NAME, NAME.replace(".md", "_2.md"), NAME.replace(".md", "_3.md")]
    assert (
        compaction.archive_name(AT, {NAME.replace("history", "HISTORY")}) == "archive/history_2026-04-20_14-30-45_2.md"
    )  # fmt: skip


# -- what the file then is ----------------------------------------------------------------------------------


def test_the_new_file_says_what_it_is_and_where_it_comes_from_and_the_next_summary_is_not_made_of_that():
    data = compaction.seeded("\n- one\n- two\n\n", NAME, AT)
    assert data.decode() == (
        "## Summary of earlier notes\n\n"
        f"(Made by swarmd on 2026-04-20 14:30 UTC; the whole text is in {NAME}.)\n\n- one\n- two\n"
    )
    assert compaction.without_seed(data.decode() + "- three\n") == "- one\n- two\n- three\n"
    assert compaction.without_seed("## Summary of earlier notes\n\nmine\n") == (
        "## Summary of earlier notes\n\nmine\n"
    )


def test_what_swarmd_says_of_a_summary_is_no_note_either_where_somebody_has_written_a_line_before_it():
    data = compaction.seeded("- one\n", NAME, AT).decode()
    heading, _, rest = data.partition("\n")
    assert compaction.without_seed(f"{heading}\n- mine\n{rest}") == f"{heading}\n- mine\n\n\n- one\n"


BLOCKS = [
    f"### agent (session {day}) \u2014 2026-04-{day:02}T10:00:00+00:00\n\n## said\n{'word ' * 20}\n\n---\n\n"
    for day in range(1, 11)
]
LOGGED = "# Notes\n\n- fact\n\n## Interaction Log\n\n" + "".join(BLOCKS)
SMALL = MemoryRules(prompt_tokens=300, log=True, summary_tokens=90)


def test_the_oldest_blocks_go_whole_and_the_newest_that_fit_stay_with_a_line_that_says_where():
    rotation = compaction.rotated(LOGGED.encode(), SMALL, words)
    text = rotation.text(NAME).decode()
    assert text == (
        f"# Notes\n\n- fact\n\n## Interaction Log\n\n(Older blocks are in {NAME}.)\n\n" + "".join(BLOCKS[-3:])
    )


def test_a_second_rotation_has_one_such_line():
    first = compaction.rotated(LOGGED.encode(), SMALL, words).text(NAME).decode()
    again = first + "".join(BLOCKS)
    text = compaction.rotated(again.encode(), SMALL, words).text("archive/history_x.md").decode()
    assert text.count("(Older blocks are in") == 1
    assert "archive/history_x.md" in text


def test_what_somebody_wrote_behind_a_block_stays_with_the_notes_when_the_block_goes():
    own = [block.replace("## said", "said") for block in BLOCKS]
    text = LOGGED.replace("## said", "said").replace(own[4], own[4] + "- the key is under the mat\n\n")
    new = compaction.rotated(text.encode(), SMALL, words).text(NAME).decode()
    assert new == (
        "# Notes\n\n- fact\n- the key is under the mat\n\n## Interaction Log\n\n"
        f"(Older blocks are in {NAME}.)\n\n" + "".join(own[-3:])
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("# Notes\n", "has no blocks"),
        ("## Interaction Log\n\n", "has no blocks"),
        ("## Interaction Log\n\n" + BLOCKS[0], "within summary_tokens already"),
        ("note " * 300 + "\n## Interaction Log\n\n" + BLOCKS[0], "beside its interaction log has"),
    ],
)
def test_where_no_block_can_go_it_says_why(text, said):
    assert said in compaction.rotated(text.encode(), SMALL, words)


def test_a_heading_after_the_log_ends_it_and_one_inside_a_block_does_not():
    log = compaction.log_of((LOGGED + "## Later\n\nby hand\n").encode())
    assert [block.decode() for block in log.blocks] == BLOCKS
    assert log.after == b"## Later\n\nby hand\n"


@given(
    st.lists(
        st.sampled_from(["### b \u2014 2026-04-20\n", "---\n", "x\r\n", "text ", "\n", "## h\n", "\udcff"]),
        max_size=30,
    )
)
def test_a_memory_is_its_parts_to_the_byte(parts):
    data = ("before\n## Interaction Log\n" + "".join(parts)).encode("utf-8", "surrogateescape")
    log = compaction.log_of(data)
    assert log.before + b"".join(log.blocks) + log.after == data
    assert all(block.startswith(b"### ") for block in log.blocks)
