"""The JSON Schema of an agent file, for editors; made from the models that check the file."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema

from swarmd.config.fields import DURATION_FORMAT
from swarmd.config.kinds import Kinds
from swarmd.config.model import AgentFile
from swarmd.core.durations import format_duration

JsonSchema = dict[str, Any]

_DURATION_PATTERN = "^(0|([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?|P.+)$"


def json_schema(kinds: Kinds) -> JsonSchema:
    """The schema of `agents.d/NAME.toml` where these runners are installed.

    It requires nothing at the top: `[defaults]` may give what a file leaves out.
    """
    schema: JsonSchema = _plain(AgentFile.model_json_schema(schema_generator=_Generator))
    definitions: JsonSchema = schema.setdefault("$defs", {})
    runners = []
    for kind, runner in sorted(kinds.items()):
        name = f"runner-{kind}"
        definitions[name] = _runner_schema(kind, runner.options, definitions)
        runners.append({"$ref": f"#/$defs/{name}"})
    properties: JsonSchema = schema["properties"]
    properties["runner"] = {
        "title": "Runner",
        "description": "What runs the agent's sessions; each kind has its own options",
        "oneOf": runners,
    }
    table = properties["schedule"]
    properties["schedule"] = {
        "title": "Schedule",
        "description": "When the agent starts by itself; a text alone is `cron`",
        "anyOf": [{"type": "string", "examples": ["0 * * * *"]}, {"$ref": table.get("$ref", "")}],
    }
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "An agent of swarmd"
    return schema


class _Generator(GenerateJsonSchema):
    """pydantic's own, silent about defaults that are values of another type than the text that stands in the file."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012 - pydantic reads it so


def _runner_schema(kind: str, options: type[BaseModel], definitions: JsonSchema) -> JsonSchema:
    schema: JsonSchema = _plain(options.model_json_schema(schema_generator=_Generator))
    definitions.update(schema.pop("$defs", {}))
    schema["title"] = f"Runner {kind}"
    schema["properties"] = {
        "kind": {"const": kind, "description": "Which runner"},
        **schema.get("properties", {}),
    }
    schema["required"] = ["kind", *schema.get("required", ())]
    schema.setdefault("additionalProperties", False)
    return schema


def _plain(value: Any) -> Any:
    """Without null, which TOML does not have, and with durations and their defaults as the text that a file holds."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if not isinstance(value, dict):
        return value
    found = {name: _plain(inner) for name, inner in value.items()}
    choices = [choice for choice in found.get("anyOf", ()) if choice != {"type": "null"}]
    if len(choices) < len(found.get("anyOf", ())):
        del found["anyOf"]
        found.update(choices[0] if len(choices) == 1 else {"anyOf": choices})
    if found.get("format") == DURATION_FORMAT:
        del found["format"]
        found["pattern"] = _DURATION_PATTERN
        if isinstance(found.get("default"), (int, float)):
            found["default"] = format_duration(found["default"])
    if found.get("default", ...) is None or isinstance(found.get("default"), dict):
        del found["default"]
    return found
