"""Turns what pydantic says of a table into sentences that a person can act on; it knows nothing of files."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from swarmd.config.fields import REFUSAL
from swarmd.config.model import LATER, TABLES, AgentFile, fields_at
from swarmd.config.problems import (
    Complaint,
    Path,
    at,
    did_you_mean,
    expected_found,
    field_name,
    one_of,
    shown,
)

_KINDS = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "list_type": "a list",
    "tuple_type": "a list",
    "set_type": "a list",
    "frozen_set_type": "a list",
    "dict_type": "a table",
    "model_type": "a table",
    "model_attributes_type": "a table",
    "mapping_type": "a table",
    "path_type": "a path",
}
_BOUNDS: dict[str, tuple[str, str]] = {
    "greater_than_equal": ("ge", "at least {}"),
    "greater_than": ("gt", "more than {}"),
    "less_than_equal": ("le", "at most {}"),
    "less_than": ("lt", "less than {}"),
    "string_too_short": ("min_length", "text of at least {} characters"),
    "string_too_long": ("max_length", "text of at most {} characters"),
    "too_short": ("min_length", "a list of at least {}"),
    "too_long": ("max_length", "a list of at most {}"),
    "string_pattern_mismatch": ("pattern", "text that matches {}"),
}
_UNKNOWN_NAME_HINTS = {"name": "an agent's name is the name of its file"}


def complaints(model: type[BaseModel], data: object, *, under: Path = ()) -> tuple[Any, list[Complaint]]:
    """The checked model and no complaints, or None and all that is wrong. `under`: where `data` stands in its file."""
    try:
        return model.model_validate(data), []
    except ValidationError as error:
        found = error.errors(include_url=False)
    return None, list(_told(found, data, under, model))


def _told(
    errors: Iterable[Mapping[str, Any]], data: object, under: Path, model: type[BaseModel]
) -> Iterator[Complaint]:
    seen: set[tuple[Path, str]] = set()
    for error in errors:
        path = (*under, *_real_path(error["loc"], data, error["type"]))
        complaint = _complaint(path, error, model)
        if (complaint.path, complaint.text) not in seen:
            seen.add((complaint.path, complaint.text))
            yield complaint


def _real_path(loc: Iterable[str | int], data: object, kind: str) -> Path:
    """`loc` without what pydantic adds to it (names of union members and validators)."""
    parts = list(loc)
    path: list[str | int] = []
    for number, part in enumerate(parts, 1):
        inner = at(data, part)
        if inner is not None:
            data = inner
        elif not (kind == "missing" and number == len(parts)):
            continue
        path.append(part)
    return tuple(path)


def _complaint(path: Path, error: Mapping[str, Any], model: type[BaseModel]) -> Complaint:
    kind, context, value = str(error["type"]), error.get("ctx") or {}, error["input"]
    if path[-1:] == ("credential",):
        value = "..."  # it may be the secret itself, which nothing that is kept or shown may hold
    if kind == "extra_forbidden":
        return Complaint(
            path=path, text="unknown field", hint=_field_hint(path, fields_at(model, error["loc"][:-1]))
        )
    if kind == "missing":
        return Complaint(path=path, text="is missing")
    if kind == REFUSAL:
        return Complaint(
            path=path,
            text=context["text"],
            found=shown(value),
            expected=context["expected"],
            hint=context["hint"],
        )
    if kind == "literal_error":
        allowed = _words(str(context["expected"]))
        return _wrong(path, one_of(allowed), value, did_you_mean(value, allowed))
    if path == ("schedule",) and kind in _KINDS:
        return _wrong(path, "a cron line in quotes or a table", value, None)
    if kind in _KINDS:
        return _wrong(path, _KINDS[kind], value, _kind_hint(kind, value))
    if kind in _BOUNDS:
        name, wording = _BOUNDS[kind]
        return _wrong(path, wording.format(context[name]), value, None)
    text = str(error["msg"]).removeprefix("Value error, ").removeprefix("Assertion failed, ")
    if text[1:2].islower():
        text = text[0].lower() + text[1:]
    return Complaint(path=path, text=text, found=shown(value))


def _wrong(path: Path, expected: str, value: object, hint: str | None) -> Complaint:
    found = shown(value)
    return Complaint(
        path=path, text=expected_found(expected, found), found=found, expected=expected, hint=hint
    )


def _words(expected: str) -> list[str]:
    """The allowed values, which pydantic gives as one text: `'a', 'b' or 'c'`."""
    return [word.strip().strip("'") for word in expected.replace(" or ", ", ").split(",")]


def _kind_hint(kind: str, value: object) -> str | None:
    if kind == "bool_type" and value in ("true", "false"):
        return f"write {value} without quotes"
    if kind in ("int_type", "float_type") and isinstance(value, str) and value.isascii() and value.isdigit():
        return f"write {value[:20]} without quotes"
    if kind == "list_type" and isinstance(value, str):
        return "write it in brackets, each part in quotes"
    return None


def _field_hint(path: Path, own: frozenset[str]) -> str | None:
    """The field that was meant: in the same table, or else one of that very name somewhere else."""
    name, table = str(path[-1]), path[:-1]
    if field_name(path) in LATER:
        return "this version of swarmd does not have it"
    near = did_you_mean(name, own)
    if near is not None:
        return near
    if table and name in AgentFile.model_fields:
        return f"{name!r} belongs above the first [table] of the file"
    elsewhere: dict[str, str] = {}
    for table_name, other in TABLES.items():
        for field in other.model_fields:
            elsewhere.setdefault(field, table_name)
    meant = did_you_mean(name, elsewhere)
    if meant is not None:
        field = meant.split("'")[1]
        return f"did you mean {field!r} in [{elsewhere[field]}]?"
    return _UNKNOWN_NAME_HINTS.get(name) if not table else None


def nul_complaints(data: Mapping[str, Any]) -> list[Complaint]:
    """NUL characters can stand in no text of ours: no argument of a program and no column can hold one."""
    found = []
    for path, value in leaves(data):
        if (isinstance(value, str) and "\x00" in value) or any("\x00" in str(part) for part in path):
            found.append(Complaint(path=path, text="may not hold a NUL character"))
    return found


def with_nul(found: Iterable[Complaint], data: Mapping[str, Any]) -> list[Complaint]:
    """These complaints and those about NUL characters, which are told once, whoever else has met them."""
    told = nul_complaints(data)
    places = {complaint.path for complaint in told}
    return [*(complaint for complaint in found if complaint.path not in places), *told]


def number_complaints(data: Mapping[str, Any], under: Path) -> list[Complaint]:
    """Numbers that JSON cannot carry, for tables whose fields are not ours to bound."""
    expected = "a number of at most 64 bits"
    return [
        Complaint(
            path=path, text=expected_found(expected, shown(value)), found=shown(value), expected=expected
        )
        for path, value in leaves(data, under)
        if (isinstance(value, int) and not -(2**63) <= value < 2**63)
        or (isinstance(value, float) and not math.isfinite(value))
    ]


def leaves(value: object, path: Path = ()) -> Iterator[tuple[Path, object]]:
    """Every value of a document that is no list and no table, with its path; an empty one counts as such."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from leaves(inner, (*path, key))
    elif isinstance(value, list) and value:
        for index, inner in enumerate(value):
            yield from leaves(inner, (*path, index))
    elif path:
        yield path, value
