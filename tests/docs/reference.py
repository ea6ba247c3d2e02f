"""The generated parts of docs/reference.md: commands, fields of agent files, fields of JSON documents.

`python -m tests.docs.reference` rewrites them in place; a test holds that they are up to date.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from swarmd.cli.base import global_options
from swarmd.cli.main import SECTIONS, root
from swarmd.config.schema import json_schema
from swarmd.service.loading import kinds

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference.md"
SCHEMAS = ROOT / "tests" / "data" / "schemas"
_GLOBAL = {param.name for param in global_options(hidden=True)}


def commands() -> Iterator[tuple[str, click.Command]]:
    """Every command that is no group, by the words that call it; those of the old spelling too."""
    for rows in SECTIONS.values():
        for name in rows:
            command = root.get_command(click.Context(root), name)
            assert command is not None
            yield from _below(name, command)


def _below(words: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    if not isinstance(command, click.Group):
        yield words, command
        return
    default = getattr(command, "default", None)
    for name in sorted(command.commands, key=lambda each: (each != default, each)):
        yield from _below(words if name == default else f"{words} {name}", command.commands[name])


def options_of(command: click.Command) -> list[click.Option]:
    """The options of its own, not the global ones."""
    return [
        p for p in command.params if isinstance(p, click.Option) and p.name not in _GLOBAL and not p.hidden
    ]


def _usage(words: str, command: click.Command) -> str:
    pieces = command.collect_usage_pieces(click.Context(command, info_name=words))
    return " ".join([f"swarmd {words}", *pieces])


def _sentences(text: str | None) -> str:
    return " ".join((text or "").split())


def commands_block() -> str:
    lines = ["Global options, before or after any command:", "", "| option | |", "|---|---|"]
    lines += [_option(param) for param in global_options(hidden=False) if isinstance(param, click.Option)]
    for heading, rows in SECTIONS.items():
        lines += ["", f"### {heading}"]
        for words, command in commands():
            if words.split()[0] in rows:
                lines += ["", f"**`{_usage(words, command)}`**", "", _sentences(command.help), ""]
                lines += [f"- {_as_item(option)}" for option in options_of(command)]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


def _names(option: click.Option) -> str:
    value = "" if option.is_flag else f" {option.metavar or _metavar(option)}"
    return ", ".join(option.opts) + value


def _metavar(option: click.Option) -> str:
    if isinstance(option.type, click.Choice):
        return "|".join(str(choice) for choice in option.type.choices)
    return (option.name or "").upper()


def _option(option: click.Option) -> str:
    return f"| `{_cell(_names(option))}` | {_cell(_sentences(option.help))} |"


def _as_item(option: click.Option) -> str:
    must = " (required)" if option.required else ""
    return f"`{_names(option)}`{must}: {_sentences(option.help)}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def fields(schema: Mapping[str, Any] | None = None) -> Iterator[tuple[str, str, Mapping[str, Any], bool]]:
    """Every field of an agent file: its table ('' at the top), name, schema, whether it must be there."""
    schema = schema or json_schema(kinds())
    top = schema["properties"]
    for name, field in top.items():
        if name == "runner":
            for choice in field["oneOf"]:
                yield from _table("runner", _resolved(schema, choice), schema)
        elif name == "schedule":
            yield from _table("schedule", _resolved(schema, field["anyOf"][-1]), schema)
        elif "$ref" in field:
            yield from _table(name, _resolved(schema, field), schema)
        else:
            yield "", name, field, False


def _table(
    table: str, found: Mapping[str, Any], schema: Mapping[str, Any]
) -> Iterator[tuple[str, str, Mapping[str, Any], bool]]:
    """A table's fields; those of a table in it, or of a list of tables, after the field that holds them."""
    for name, field in found["properties"].items():
        inner = field.get("items", field) if table != "runner" else {}
        yield table, name, field, name in found.get("required", ())
        if "$ref" in inner:
            yield from _table(f"{table}.{name}", _resolved(schema, inner), schema)


def _resolved(schema: Mapping[str, Any], field: Mapping[str, Any]) -> Mapping[str, Any]:
    return schema["$defs"][field["$ref"].rpartition("/")[2]] if "$ref" in field else field


def _kind(field: Mapping[str, Any]) -> str:
    if "const" in field:
        return json.dumps(field["const"])
    if "enum" in field:
        return ", ".join(json.dumps(choice) for choice in field["enum"])
    if "PT15M" in field.get("examples", ()):
        return "duration"
    if "$ref" in field.get("items", {}):
        return "list of tables"
    kind = "object" if "$ref" in field else str(field.get("type", ""))
    words = {
        "string": "text",
        "integer": "number",
        "boolean": "true, false",
        "object": "table",
        "array": "list of texts",
    }
    bounds = [
        f"{word} {field[name]:,}" for name, word in (("minimum", "from"), ("maximum", "to")) if name in field
    ]
    return " ".join([words.get(kind, kind), *bounds])


def _default(name: str, field: Mapping[str, Any], must: bool) -> str:
    if must:
        return "required"
    if "default" not in field:
        return "none" if field.get("type") not in ("array", "object") else "empty"
    value = field["default"]
    return "empty" if value in ("", []) else f"`{json.dumps(value)}`"


def fields_block() -> str:
    lines = ["| field | what it holds | default | meaning |", "|---|---|---|---|"]
    for table, name, field, must in fields():
        path = f"{table}.{name}" if table else name
        lines.append(
            f"| `{path}` | {_cell(_kind(field))} | {_cell(_default(name, field, must))} "
            f"| {_cell(_sentences(field.get('description')))} |"
        )
    return "\n".join(lines)


def documents() -> Iterator[tuple[str, list[str]]]:
    """Each JSON document's title and its fields, as the tests hold them."""
    for file in sorted(SCHEMAS.glob("*.json")):
        schema = json.loads(file.read_text())
        yield schema["title"].removesuffix(" --json"), list(_fields(schema, ""))


def _fields(schema: Mapping[str, Any], lead: str) -> Iterator[str]:
    for choice in schema.get("anyOf", ()):
        yield from _fields(choice, lead)
    if "items" in schema and isinstance(schema["items"], Mapping):
        yield from _fields(schema["items"], f"{lead}[]")
    for name, field in schema.get("properties", {}).items():
        path = f"{lead}.{name}" if lead else name
        inner = list(dict.fromkeys(_fields(field, path)))
        yield from inner or [path]


def documents_block() -> str:
    lines = ["| command, with `--json` | fields |", "|---|---|"]
    for title, names in documents():
        lines.append(f"| `{title}` | {', '.join(f'`{name}`' for name in dict.fromkeys(names))} |")
    return "\n".join(lines)


BLOCKS = {"commands": commands_block, "fields": fields_block, "documents": documents_block}


def written(text: str) -> str:
    """The text with its generated parts as they should be."""
    for name, make in BLOCKS.items():
        start, end = f"<!-- generated: {name} -->\n", f"<!-- end: {name} -->"
        before, _, rest = text.partition(start)
        _, found, after = rest.partition(end)
        assert found, f"docs/reference.md has no part {name!r}"
        text = f"{before}{start}{make()}\n{end}{after}"
    return text


if __name__ == "__main__":
    REFERENCE.write_text(written(REFERENCE.read_text()))
