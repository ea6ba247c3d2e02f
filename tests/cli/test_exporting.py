"""An exported session is the same values in every format, and no text in it can pass for anything else."""

import json
import re

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from swarmd.cli.exporting import as_document, as_markdown, as_yaml
from tests.cli.documents import LOG, NASTY, SESSION

TEXTS = st.text(st.characters()) | st.text(
    st.sampled_from("\n\t\r :-#|>'\"\\{}[]&*!%@`~?,ab\x85\u2028\ufeff\ufffe\u202e\x00\ud800")
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)
PROMPT = {"from": "rebuilt", "system": "S\n```\n# not a heading\n", "user": f"U {NASTY}", "why_not": None}
EVENTS = [
    {"seq": 1, "at": "2026-11-30T09:00:00.000000Z", "kind": "text", "turn": 1, "text": "`````\n## forged\n" + NASTY},
    {"seq": 2, "at": "2026-11-30T09:00:00.000000Z", "kind": "tool_call", "turn": 1, "id": "1", "name": "bash", "input": {"command": "ls\nrm"}},
    {"seq": 3, "at": "2026-11-30T09:00:00.000000Z", "kind": "usage", "turn": 1, "model": "m", "tokens_in": 5, "usd": 1e-05},
]  # fmt: skip
USED = {
    "model": "m",
    "tokens_in": 5,
    "tokens_out": None,
    "cache_read": 0,
    "cache_write": 0,
    "usd": 1e-05,
    "priced_by": "list",
}


def whole():
    session = {
        **SESSION,
        "usage": [USED],
        "prompt": {"tokens": 7, "sections": [{"name": "keys", "tokens": 7, "left_out": ""}]},
    }
    return as_document({**session, "prompt_text": PROMPT}, {**LOG, "events": EVENTS})


@settings(max_examples=600, deadline=None)
@given(VALUES)
@example("no")
@example("\udc80\\\udcff")
@example("2026-11-30")
@example("1e5")
@example("\n")
@example(" \n x")
@example("a\n\n\n")
@example("  indented\n first\n")
@example("tab\there\n\tand\n")
@example("# no comment\n--- \n...\n")
@example([[["a\nb"], []], {}, {"x": [{"y": "a\n b\n"}]}])
@example({"no": "yes", "1": 1e-05, "2": 1e22, "3": -0.0, "null": None})
def test_yaml_comes_back_as_it_was(value):
    assert yaml.safe_load(as_yaml(value)) == value


@given(TEXTS)
def test_yaml_on_a_terminal_is_what_it_is_in_a_file(text):
    from swarmd.core.text import escaped

    made = as_yaml({"text": text})
    assert escaped(made) == made


def test_a_session_as_yaml_is_the_session_as_json(swarmd):
    document = whole()
    answers = {
        "session_show": {**document["session"], "prompt_text": PROMPT},
        "session_log": document["log"],
    }
    as_json = swarmd("session", "export", "studio", **answers).json
    assert as_json == document
    assert yaml.safe_load(swarmd("session", "export", "studio", "--format", "yaml", **answers).out) == as_json
    assert swarmd("session", "export", "studio", "--format", "yaml", "--json", **answers).json == as_json
    ran = swarmd("session", "export", "studio", "--format", "md", **answers)
    assert ran.calls == [
        ("session_show", {"session": "studio", "prompt_text": True}),
        ("session_log", {"session": "7"}),
    ]
    assert ran.text == as_markdown(document) + "\n"


def test_texts_of_several_lines_are_readable_in_yaml():
    assert as_yaml({"user": "one\ntwo\n"}) == "user: |2\n  one\n  two\n"


def test_markdown_has_no_heading_fence_or_control_character_but_its_own():
    page = as_markdown(whole())
    assert "\x1b" not in page
    assert "\u202e" not in page
    fence, headings = None, []
    for line in page.split("\n"):
        marks = re.fullmatch("(`{3,}).*", line)
        if fence is not None:
            fence = None if line == fence else fence
        elif marks:
            fence = marks[1]
        elif line.startswith("#"):
            headings.append(line)
    assert fence is None
    assert headings == [
        "# Session 7 of studio", "## Changes", "## Usage", "## Prompt", "## Transcript", "### 1. text", "### 2. tool_call",
        "### 3. usage", "## Output",
    ]  # fmt: skip


def test_where_the_prompts_text_is_not_to_be_had_it_says_why():
    none = {"from": None, "system": None, "user": None, "why_not": "what it was shown is not kept any more"}
    page = as_markdown(as_document({**SESSION, "prompt_text": none}, LOG))
    assert "Its text is not to be had: what it was shown is not kept any more" in page


@pytest.mark.parametrize("text", ["```", "````\n```", "`" * 50, "~~~\n```\n"])
def test_a_fence_is_longer_than_any_in_its_text(text):
    page = as_markdown(as_document(SESSION, {**LOG, "output": text}))
    output = page.partition("## Output\n\n")[2]
    fence = output.partition("\n")[0]
    assert fence not in text
    assert output.rstrip("\n").endswith(f"\n{fence}")


def test_json_stays_ascii(swarmd):
    ran = swarmd("session", "export", "studio", session_show=SESSION, session_log=LOG)
    assert ran.out.isascii()
    assert json.loads(ran.out)["prompt"] is None
