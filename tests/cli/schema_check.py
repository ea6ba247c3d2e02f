"""As much of JSON Schema as the schemas of our documents use: enough to hold a document against one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,), "array": (list,), "string": (str,), "integer": (int,), "number": (int, float),
    "boolean": (bool,), "null": (type(None),),
}  # fmt: skip
KNOWN = {
    "type",
    "required",
    "properties",
    "additionalProperties",
    "items",
    "enum",
    "anyOf",
    "pattern",
    "$ref",
    "$defs",
    "$schema",
    "title",
}


def faults(
    schema: Mapping[str, Any], value: Any, at: str = "$", root: Mapping[str, Any] | None = None
) -> list[str]:
    """What does not fit, a sentence each."""
    root = schema if root is None else root
    assert schema.keys() <= KNOWN, f"{schema.keys() - KNOWN} is not known here"
    if "$ref" in schema:
        return faults(root["$defs"][schema["$ref"].rpartition("/")[2]], value, at, root)
    if "anyOf" in schema:
        found = [faults(choice, value, at, root) for choice in schema["anyOf"]]
        return [] if [] in found else found[0]
    fault = _of_itself(schema, value)
    if fault is not None:
        return [f"{at}: {fault}"]
    found = [f"{at}: {name} is missing" for name in schema.get("required", ()) if name not in value]
    for name, inner in schema.get("properties", {}).items():
        if name in value:
            found += faults(inner, value[name], f"{at}.{name}", root)
    if "items" in schema:
        for place, item in enumerate(value):
            found += faults(schema["items"], item, f"{at}[{place}]", root)
    return found


def _of_itself(schema: Mapping[str, Any], value: Any) -> str | None:
    """What is wrong with the value, whatever is inside it."""
    wanted = schema.get("type")
    if wanted is not None:
        is_bool = isinstance(value, bool) and wanted != "boolean"
        if is_bool or not isinstance(value, TYPES[wanted]):
            return f"{wanted} is expected"
    if "enum" in schema and value not in schema["enum"]:
        return f"{value!r} is none of {schema['enum']}"
    if "pattern" in schema and not re.search(schema["pattern"], value):
        return f"{value!r} is not of the form {schema['pattern']}"
    return None
