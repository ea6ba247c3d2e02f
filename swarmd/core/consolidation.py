"""Putting an agent's memory in order: with which definition, and what may not come of it. Pure rules.

A consolidation is a session of the agent with a trigger of its own. It is given the memory and what was said in the
sessions since the last one, and may write that memory and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from swarmd.core.agent import Agent, Consolidate, Success
from swarmd.core.changes import AppendMemory, Change, WriteMemory
from swarmd.core.memory import FIRST_FILE, appended

LEAST_LEFT = 0.1
"""What must be left of a memory, as a part of its bytes: less is a loss, not an order."""
SMALL_BYTES = 1000
"""A memory of less may become as short as it likes."""

_NARROWED: Mapping[str, Mapping[str, Any]] = {
    # Transcripts hold what the world has said: who reads them has no hands but for the memory.
    "anthropic": {"tools": ["memory", "session_list", "session_show", "fail"], "mcp_servers": {}},
    "claude-code": {"tools": [], "allow": None, "instructions": []},
    "codex": {"instructions": []},
}
"""By kind of runner, options that are others than in the agent's other sessions."""


def is_asked(table: Consolidate) -> bool:
    """Whether it comes by itself."""
    return table.cron is not None or table.after_seconds is not None


def problem_of(agent: Agent) -> str | None:
    """Why this agent's memory cannot be consolidated, or None."""
    if not agent.memory.persistent:
        return f"{agent.name} has no memory to put in order: its file says persistent = false"
    if agent.runner_kind == "command" and not agent.consolidate.command:
        return f"the runner of {agent.name} is a command: [consolidate] command must say which one does this"
    return None


def consolidating(agent: Agent) -> Agent:
    """The definition with which the agent's memory is consolidated: another model or program, other limits, no tools
    but those for memory, no places to write, no folders of others. What it says goes into no log of the agent's.
    """
    table = agent.consolidate
    kind, options = agent.runner_kind, dict(agent.runner_options)
    options |= _NARROWED.get(kind, {})
    if table.command:
        # Of another kind's options nothing is a program's.
        kept = options if kind == "command" else {}
        kind, options = "command", {**kept, "command": list(table.command)}
    elif table.model is not None and "model" in options:
        options["model"] = table.model
    limits = replace(
        agent.limits, timeout_seconds=table.timeout_seconds, retries=0,
        tokens_per_session=table.tokens_per_session or agent.limits.tokens_per_session,
    )  # fmt: skip
    memory = replace(
        agent.memory, shared=(), log=False, read_only=(*agent.memory.read_only, *agent.memory.approval)
    )
    return replace(
        agent, runner_kind=kind, runner_options=options, limits=limits, success=Success(), skills=(), memory=memory,
        sandbox=replace(agent.sandbox, write=()),
    )  # fmt: skip


def emptied(before: Mapping[str, bytes], changes: Iterable[Change]) -> str | None:
    """Why what the changes leave of a memory is a loss, or None. `before`: its files as they were given."""
    after = dict(before)
    for change in changes:
        match change:
            case WriteMemory(data=None):
                after.pop(change.path, None)
            case WriteMemory():
                after[change.path] = change.data or b""
            case AppendMemory():
                after[change.path] = appended(
                    after.get(change.path, b""), change.text.encode("utf-8", "replace")
                )
            case _:
                pass
    if _says(before.get(FIRST_FILE, b"")) and not _says(after.get(FIRST_FILE, b"")):
        return f"it would leave nothing in {FIRST_FILE}"
    old, new = _size(before), _size(after)
    if old >= SMALL_BYTES and new < old * LEAST_LEFT:
        return f"it would leave {new:,} of {old:,} bytes of the memory, which is less than a tenth"
    return None


def _says(data: bytes) -> bool:
    return bool(data.strip())


def _size(files: Mapping[str, bytes]) -> int:
    return sum(len(data) for path, data in files.items() if not path.startswith("archive/"))
