"""Lays an agent file over `[defaults]`, as plain values; neither is judged here, so odd shapes pass through."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from swarmd.config.problems import Path

Raw = Mapping[str, Any]

SCHEDULES = frozenset({"cron", "every", "at", "adaptive"})
"""The sorts of schedule, of which a file has one."""
_PROMPTS = frozenset({"system_prompt", "system_prompt_file"})


def normal(raw: Raw, folder: str) -> dict[str, Any]:
    """`schedule = "..."` as its table; paths absolute (sandbox, skills, credential), from the file's folder."""
    found = dict(raw)
    if isinstance(found.get("schedule"), str):
        found["schedule"] = {"cron": found["schedule"]}
    sandbox = found.get("sandbox")
    if isinstance(sandbox, dict):
        found["sandbox"] = _anchored(sandbox, folder)
    if isinstance(found.get("skills"), list):
        found["skills"] = [_absolute(path, folder) for path in found["skills"]]
    runner = found.get("runner")
    credential = runner.get("credential") if isinstance(runner, dict) else None
    if isinstance(runner, dict) and isinstance(credential, str) and credential.startswith("file:"):
        found["runner"] = {**runner, "credential": f"file:{_absolute(credential[5:], folder)}"}
    return found


def merged(defaults: Raw, own: Raw) -> dict[str, Any]:
    """Table by table; `own` wins, lists are replaced. Fields of which there can be one only replace each other."""
    found = dict(defaults)
    if _PROMPTS & own.keys():
        for name in _PROMPTS:
            found.pop(name, None)
    for name, value in own.items():
        before = found.get(name)
        if not isinstance(value, dict) or not isinstance(before, dict):
            found[name] = value
        elif name == "runner":
            found[name] = _runner(before, value)
        elif name == "schedule" and SCHEDULES & value.keys():
            found[name] = {**{k: v for k, v in before.items() if k not in SCHEDULES}, **value}
        else:
            found[name] = _tables(before, value)
    return found


def without(raw: Raw, paths: Iterable[Path]) -> dict[str, Any]:
    """A copy that lacks what stands at these paths; of a list, which loses no single part, the whole."""
    found = _tables({}, raw)
    for path in paths:
        table = found
        for number, part in enumerate(path):
            inner = table.get(str(part))
            if number + 1 < len(path) and isinstance(inner, dict):
                table[str(part)] = inner = dict(inner)
                table = inner
            else:
                table.pop(str(part), None)
                break
    return found


def _runner(before: Raw, own: Raw) -> Raw:
    """Options of another kind of runner mean nothing to this one."""
    same = own.get("kind", before.get("kind")) == before.get("kind")
    return _tables(before, own) if same else own


def _tables(before: Raw, own: Raw) -> dict[str, Any]:
    found = dict(before)
    for name, value in own.items():
        inner = found.get(name)
        both = isinstance(value, dict) and isinstance(inner, dict)
        found[name] = _tables(inner, value) if both and inner is not None else value
    return found


def _anchored(sandbox: Raw, folder: str) -> dict[str, Any]:
    found = dict(sandbox)
    if isinstance(found.get("write"), list):
        found["write"] = [_absolute(path, folder) for path in found["write"]]
    if found.get("home") != "private" and "home" in found:
        found["home"] = _absolute(found["home"], folder)
    return found


def _absolute(path: object, folder: str) -> object:
    if not isinstance(path, str) or not path or path.startswith("~"):
        return path
    return os.path.normpath(os.path.join(folder, path))
