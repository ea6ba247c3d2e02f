"""What the store keeps as JSON comes back as the value that it was."""

import json
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from swarmd.core import agent as agents
from swarmd.core.agent import Agent, Limits, MemoryRules, Sandbox, Success, When
from swarmd.core.changes import (
    AppendMemory,
    ChangeHandoff,
    MoveHandoff,
    Report,
    SendHandoff,
    SetKey,
    UnsetKey,
    WriteMemory,
    act_of,
    change_from_json,
    change_to_json,
    last_writes,
    target_of,
)
from swarmd.core.handoffs import PRIORITIES, Move
from swarmd.core.instants import from_text, to_text

TEXT = st.text(max_size=20)
NAME = st.from_regex(r"[a-z0-9][a-z0-9_-]{0,10}", fullmatch=True)
NUMBER = st.integers(1, 2**60)
PRIORITY = st.sampled_from(PRIORITIES)
MOMENT = st.datetimes(datetime(1970, 1, 2), datetime(2200, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
VERSION = st.none() | st.integers(0, 1000)
CHANGES = st.one_of(
    st.builds(SetKey, agent=NAME, key=TEXT, value=TEXT, seen=VERSION),
    st.builds(UnsetKey, agent=NAME, key=TEXT, seen=VERSION),
    st.builds(
        SendHandoff, id=NUMBER, to=NAME, text=TEXT, priority=PRIORITY, due=st.none() | MOMENT,
        expires=st.none() | MOMENT, dedupe=st.none() | TEXT, sender=st.none() | NAME,
    ),
    st.builds(MoveHandoff, id=NUMBER, move=st.sampled_from(Move), text=TEXT),
    st.builds(ChangeHandoff, id=NUMBER, priority=st.none() | PRIORITY, due=st.none() | MOMENT),
    st.builds(
        WriteMemory, agent=NAME, path=TEXT, data=st.none() | st.binary(max_size=50), base=st.integers(-1, 100),
        base_hash=st.none() | st.from_regex(r"[0-9a-f]{64}", fullmatch=True),
    ),
    st.builds(AppendMemory, agent=NAME, path=TEXT, text=TEXT),
    st.builds(Report, text=TEXT, agent=st.none() | NAME),
)  # fmt: skip
SECONDS = st.floats(0, 1e6)
WORDS = st.lists(TEXT, max_size=3).map(tuple)
OPTION = st.recursive(
    TEXT | st.booleans() | st.integers(-(2**53), 2**53) | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)
AGENTS = st.builds(
    Agent, name=NAME, description=TEXT, parent=st.none() | NAME, gone_parent=st.none() | NAME, enabled=st.booleans(),
    system_prompt=TEXT, folder=TEXT, runner_kind=NAME, runner_options=st.dictionaries(TEXT, OPTION, max_size=3),
    when=st.builds(
        When, cron=st.none() | TEXT, every_seconds=st.none() | SECONDS, at=st.none() | TEXT, timezone=TEXT,
        jitter_seconds=SECONDS, catch_up=st.sampled_from(["none", "last", "all"]), catch_up_max_age_seconds=SECONDS,
        overlap=st.sampled_from(["skip", "queue", "cancel_running"]),
    ),
    sandbox=st.builds(
        Sandbox, level=st.sampled_from(["auto", "none", "landlock"]), write=WORDS, home=TEXT, network=st.booleans()
    ),
    limits=st.builds(
        Limits, timeout_seconds=SECONDS, retries=st.integers(0, 9), retry_delay_seconds=SECONDS,
        tokens_per_session=st.none() | NUMBER, pause_after_failures=st.integers(0, 9),
        handoffs_per_session=st.integers(0, 9), handoff_depth=st.integers(0, 9), sessions_per_cause=st.integers(0, 9),
    ),
    memory=st.builds(MemoryRules, prompt_tokens=st.integers(0, 9999), read_only=WORDS, reads=WORDS),
    keys_scope=st.sampled_from(["own", "below"]),
    success=st.builds(Success, keys_changed=WORDS, command=WORDS),
)  # fmt: skip


@given(change=CHANGES)
def test_a_change_comes_back_as_it_was(change):
    assert change_from_json(json.loads(json.dumps(change_to_json(change)))) == change
    assert act_of(change)
    assert target_of(change) is not None


@given(agent=AGENTS)
def test_a_definition_comes_back_as_it_was_and_has_one_name(agent):
    again = agents.from_json(agents.to_json(agent))
    assert again == agent
    assert agents.definition_hash(again) == agents.definition_hash(agent)


@given(agent=AGENTS, other=AGENTS)
def test_definitions_that_differ_have_different_names(agent, other):
    assert (agent == other) == (agents.definition_hash(agent) == agents.definition_hash(other))


def test_fields_that_this_version_does_not_know_are_left_out():
    raw = json.loads(agents.to_json(Agent(name="studio")))
    raw |= {"wish": 1}
    raw["limits"] |= {"sessions_per_moon": 4}
    assert agents.from_json(json.dumps(raw)) == Agent(name="studio")


@given(moment=MOMENT, other=MOMENT)
def test_instants_as_text_sort_as_instants(moment, other):
    assert from_text(to_text(moment)) == moment
    assert (to_text(moment) < to_text(other)) == (moment < other)


def test_of_several_writes_of_a_key_the_last_is_kept_and_all_else_stays():
    first, other = SetKey(agent="a", key="k", value="1"), SetKey(agent="a", key="other", value="2")
    report, last = Report(text="same"), UnsetKey(agent="a", key="k")
    assert last_writes([first, report, other, last, report]) == [report, other, last, report]
