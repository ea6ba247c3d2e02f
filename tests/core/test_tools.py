"""The tools that models are shown: one for every call of a session, with a schema that says what the call takes."""

from __future__ import annotations

import pytest

from swarmd.core.acts import ACTS, OPERATORS_ONLY
from swarmd.core.handoffs import PRIORITIES
from swarmd.core.tools import TOOLS


def test_every_act_of_a_session_is_a_tool_and_no_act_of_operators_is():
    assert set(ACTS) - set(TOOLS) == OPERATORS_ONLY == {"handoff_requeue"}


@pytest.mark.parametrize("tool", TOOLS.values(), ids=list(TOOLS))
def test_a_tool_says_what_it_does_and_what_it_takes(tool):
    assert tool.name == tool.name.lower()
    assert len(tool.name) <= 64
    assert tool.description.endswith(".")
    schema = tool.schema
    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False
    assert set(schema["required"]) <= set(schema["properties"])
    assert all(one["description"] for one in schema["properties"].values())


def test_an_acts_schema_has_its_arguments_with_their_kinds_and_who_may_ask():
    tool = TOOLS["handoff_send"]
    properties = tool.schema["properties"]
    assert tool.schema["required"] == ["to", "text"]
    assert properties["priority"]["enum"] == list(PRIORITIES)
    assert properties["due"] == {
        "type": "string",
        "format": "date-time",
        "description": "when it should be done",
    }
    assert tool.description == "Hand work to an agent below you. Allowed: only to an agent below."
    assert not tool.reads
    assert TOOLS["handoff_show"].schema["properties"]["id"]["type"] == "integer"
    assert TOOLS["handoff_show"].reads
