"""Exported conversations become entries of a log, each with its own time; nothing is stamped with the present."""

import json
from pathlib import Path

import pytest

from swarmd.core.conversations import NoConversation, conversation
from swarmd.core.interaction_log import UNDATED, blocks

FOLDER = Path(__file__).parents[1] / "data" / "memories" / "conversations"


def read(document):
    found = conversation(document)
    return [(b.role, b.at, b.text) for b in found.blocks]


def test_a_list_of_messages_as_swarms_exports_it():
    found = conversation(json.loads((FOLDER / "swarms.json").read_text()))
    assert [(b.role, b.at, b.text) for b in found.blocks] == [
        ("User", "2026-03-01T10:00:00.250000", "Which berth is free?"),
        ("Clerk", "2026-03-01T10:00:09.750000", '{"berth": 7, "until": "noon"}'),
        ("User", UNDATED, "Thank you."),
    ]
    assert found.static == ["You are the harbour pilot's clerk."]
    assert (found.empty, found.undated) == (1, 1)
    assert [b.at for b in blocks(found.text)] == [b.at for b in found.blocks]


def test_messages_of_blocks_and_of_calls():
    assert read(json.loads((FOLDER / "blocks.json").read_text())) == [
        ("user", "2026-03-01T10:00:00+00:00", "Look at this.\n\n[image]"),
        ("assistant", UNDATED, 'I read it.\n\nread {"path": "a.md"}'),
        ("user", UNDATED, "error: ## heading\n### assistant — 2026-01-01T00:00:00"),
        ("assistant", "2026-03-01T10:01:00+00:00", 'f {"x": 1}'),
    ]


@pytest.mark.parametrize("name", ["messages", "conversation_history", "history", "conversation"])
def test_the_list_may_stand_below_a_name(name):
    assert read({"metadata": {"x": 1}, name: [{"role": "user", "content": "hi"}]}) == [
        ("user", UNDATED, "hi")
    ]
    assert read({"conversation": {"messages": [{"role": "user", "content": "hi"}]}}) == [
        ("user", UNDATED, "hi")
    ]


def test_a_line_of_a_coding_agents_transcript_has_its_message_inside():
    line = {
        "type": "user",
        "timestamp": "2026-02-03T04:05:06.789Z",
        "message": {"role": "user", "content": "go"},
    }
    assert read([line]) == [("user", "2026-02-03T04:05:06.789Z", "go")]


@pytest.mark.parametrize(
    ("value", "at", "text"),
    [
        ("2026-02-03T04:05:06", "2026-02-03T04:05:06", "x"),
        ("2026-02-03 04:05:06", "2026-02-03 04:05:06", "x"),
        ("2026-02-03", "2026-02-03", "x"),
        ("1772359200", "2026-03-01T10:00:00+00:00", "x"),
        (1772359200.5, "2026-03-01T10:00:00+00:00", "x"),
        ("last Tuesday", UNDATED, "(dated last Tuesday)\n\nx"),
        (True, UNDATED, "(dated True)\n\nx"),
        (1e300, UNDATED, "(dated 1e+300)\n\nx"),
        ({"a": 1}, UNDATED, "(dated {'a': 1})\n\nx"),
        ("", UNDATED, "x"),
        (None, UNDATED, "x"),
    ],
)
def test_times_are_kept_as_they_are_and_what_is_none_is_told(value, at, text):
    assert read([{"role": "user", "content": "x", "timestamp": value}]) == [("user", at, text)]


def test_a_system_prompt_is_no_part_of_the_log_and_a_later_summary_is():
    found = conversation([
        {"role": "system", "content": "You are."}, {"role": "developer", "content": "Rules."},
        {"role": "user", "content": "hi"}, {"role": "System", "content": "Summary."},
    ])  # fmt: skip
    assert found.static == ["You are.", "Rules."]
    assert [b.text for b in found.blocks] == ["hi", "Summary."]


def session(**log):
    return {
        "session": {"id": 7, "agent": "studio", "trigger": "cron", "started": "2026-11-30T09:00:00.000000Z",
                    "ended": "2026-11-30T09:05:00.000000Z"},
        "prompt": None,
        "log": {"output": "", "events": [], **log},
    }  # fmt: skip


def test_a_session_that_swarmd_exported_is_its_turns():
    at = "2026-11-30T09:01:00.000000Z"
    events = [
        {"kind": "started", "at": at},
        {"kind": "thinking", "at": at, "text": "hm"},
        {"kind": "tool_call", "at": at, "id": "1", "name": "bash", "input": {"command": "ls"}},
        {"kind": "tool_result", "at": at, "id": "1", "text": "a b", "error": False},
        {"kind": "text", "at": at, "text": "done"},
    ]
    assert read(session(events=events, output="noise")) == [
        ("user", "2026-11-30T09:00:00.000000Z", "cron (session 7 of studio)"),
        ("tool", at, 'bash {"command": "ls"}\n\na b'),
        ("assistant", at, "done"),
    ]
    assert read(session(output="printed\n"))[1] == ("output", "2026-11-30T09:05:00.000000Z", "printed\n")


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        ({"a": 1}, "it holds no list of messages (an object with a was found"),
        ("text", "it holds no list of messages: a text was found"),
        (None, "it holds no list of messages: nothing was found"),
        (["text"], "entry 1 is no message: a text was found"),
        ([{"role": "user", "content": "x"}, 7], "entry 2 is no message: a number was found"),
    ],
)
def test_what_is_no_conversation_is_told(document, sentence):
    with pytest.raises(NoConversation) as caught:
        conversation(document)
    assert sentence in str(caught.value)


def test_odd_messages_do_no_harm():
    assert read([{}, {"role": None, "content": []}, {"role": 7, "content": 8}, {"content": [None, 1, ["x"], {"a": 1}]}]) == [
        ("7", UNDATED, "8"), ("unknown", UNDATED, 'null\n\n1\n\n["x"]\n\n{"a": 1}'),
    ]  # fmt: skip
