"""The schema for editors: it knows every field that the loader knows, and shows values as a file holds them."""

from __future__ import annotations

import json
import re
import tomllib

import pytest

from swarmd.config.model import TABLES, AgentFile
from swarmd.config.schema import json_schema
from tests.config.kit import DATA, KINDS

SCHEMA = json_schema(KINDS)


def resolved(schema):
    return SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema


def test_it_can_be_printed_and_names_every_table_and_field():
    assert json.loads(json.dumps(SCHEMA, allow_nan=False)) == SCHEMA
    assert set(SCHEMA["properties"]) == set(AgentFile.model_fields)
    for name, model in TABLES.items():
        if name != "schedule":
            assert set(resolved(SCHEMA["properties"][name])["properties"]) == set(model.model_fields)


def test_every_field_is_described_and_unknown_ones_are_errors():
    for name, table in SCHEMA["$defs"].items():
        assert table["additionalProperties"] is False, name
        if not name.startswith("runner-"):
            assert all(field.get("description") for field in table["properties"].values()), name
    assert SCHEMA["additionalProperties"] is False


def test_durations_are_texts_with_their_default_and_nothing_is_null():
    limits = resolved(SCHEMA["properties"]["limits"])["properties"]
    assert limits["timeout"]["default"] == "1h"
    assert limits["timeout"]["type"] == "string"
    assert re.fullmatch(limits["timeout"]["pattern"], "1h30m")
    assert not re.fullmatch(limits["timeout"]["pattern"], "60")
    assert limits["retries"] == {
        "default": 0, "description": "How often a slot is tried again", "maximum": 100, "minimum": 0, "title": "Retries",
        "type": "integer",
    }  # fmt: skip
    assert "null" not in json.dumps(SCHEMA)
    assert "default" not in limits["tokens_per_session"]


def test_a_schedule_is_a_text_or_a_table_and_a_runner_one_of_its_kinds():
    text, table = SCHEMA["properties"]["schedule"]["anyOf"]
    assert text["type"] == "string"
    assert "catch_up" in resolved(table)["properties"]
    kinds = [resolved(one) for one in SCHEMA["properties"]["runner"]["oneOf"]]
    assert [kind["properties"]["kind"]["const"] for kind in kinds] == ["command", "model"]
    assert kinds[0]["required"] == ["kind", "command"]
    assert "type" in kinds[0]["properties"]["workdir"]


@pytest.mark.parametrize("sample", ["agent_small.toml", "agent_full.toml"])
def test_the_samples_use_only_what_it_knows_and_what_is_not_there_yet(sample):
    document = tomllib.loads((DATA / sample).read_text())
    assert set(document) - set(SCHEMA["properties"]) <= {"wake", "gate"}
