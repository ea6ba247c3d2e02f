"""Every kind of runner that the contract is for: how each is made to play the same script.

A script is a list of steps: `{"act": NAME, ...}`, `{"say": TEXT}`, `{"shell": COMMAND}`, `{"sleep": SECONDS}`, and at
its end `{"end": HOW}`. A stand-in plays it as a program; a real client plays it with a scripted model.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from swarmd.core.wire import Result
from swarmd.runners import anthropic, registry
from tests import clients
from tests.model_server import answers
from tests.model_server.answers import Answer
from tests.model_server.scripts import turns
from tests.model_server.server import ModelServer
from tests.runners.machines import Machine

STAND_IN = Path(__file__).with_name("stand_in.py")
KEY = "sk-ant-api03-the-key-of-the-contract"
Step = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One entry. `play` runs a session of that kind; `endings` are those that it can tell."""

    name: str
    kind: str
    play: Callable[..., Awaitable[Result]]
    endings: frozenset[str]
    start_seconds: float = 0.3
    """How long it takes until the script begins, at most."""
    tool: str = "mcp__swarmd__{}"
    """What the model calls an act."""
    keeps: tuple[str, ...] = ("memory", "output.log")
    """What is in the session's folder after it."""


async def run(machine: Machine, kind: str, options: dict[str, Any], request: dict[str, Any]) -> Result:
    runner = registry.load(kind).make(machine.host)
    checked = registry.load(kind).Options.model_validate(options).model_dump(mode="json")
    return await runner.run(machine.request(options=checked, **request), machine.desk)


def stand_in(kind: str) -> Callable[..., Awaitable[Result]]:
    """A session with the project's own program in the client's place."""

    async def play(
        machine: Machine, steps: Sequence[Step], *, script: Step | None = None, **request: Any
    ) -> Result:
        file = machine.agents / "play.json"
        file.write_text(json.dumps({"as": kind, "steps": list(steps), **(script or {})}))
        program = machine.script(f'exec {sys.executable} {STAND_IN} "$@"\n', "stand-in")
        shared = {"env": {"PLAY": str(file)}}
        if kind == "command":
            return await run(machine, kind, {"command": [program], "pass_env": ["KEY"], **shared}, request)
        model = {"model": "gpt-5.5"} if kind == "codex" else {}
        return await run(
            machine, kind, {"program": program, "credential": "env:KEY", **model, **shared}, request
        )

    return play


async def real_claude(machine: Machine, steps: Sequence[Step], **request: Any) -> Result:
    script = [_claude_answer(step) for step in steps]
    script += script[-1:] * 5  # it goes on by itself where an answer was cut off
    with ModelServer(turns(*script)) as server:
        options = {"program": clients.place_of("claude"), "credential": "env:KEY", "base_url": server.url,
                   "model": "claude-opus-4-8", "env": {"CLAUDE_CODE_MAX_RETRIES": "0"}}  # fmt: skip
        return await run(machine, "claude-code", options, request)


def _claude_answer(step: Step) -> Answer:
    match step:
        case {"act": name, **args}:
            return answers.tools(answers.call(f"mcp__swarmd__{name}", args))
        case {"shell": command}:
            return answers.tools(answers.call("Bash", command=command))
    return _answer(step)


async def real_codex(machine: Machine, steps: Sequence[Step], **request: Any) -> Result:
    script = [_codex_answer(step) for step in steps]
    with ModelServer(turns(*script)) as server:
        options = {"program": clients.place_of("codex"), "credential": "env:KEY", "base_url": f"{server.url}/v1",
                   "model": "gpt-5.5"}  # fmt: skip
        return await run(machine, "codex", options, request)


def _codex_answer(step: Step) -> Answer:
    match step:
        case {"act": name, **args}:
            call = {"type": "function_call", "call_id": f"call_{name}", "namespace": "mcp__swarmd", "name": name,
                    "arguments": json.dumps(args)}  # fmt: skip
            return answers.blocks(call)
        case {"shell": command}:
            return answers.tools(answers.call("exec_command", cmd=command))
    return _answer(step)


async def model(machine: Machine, steps: Sequence[Step], **request: Any) -> Result:
    """A session with the Messages API, in a worker of its own."""
    script = [_model_answer(step) for step in steps]
    script += script[-1:] * 6  # it asks again where that may help
    options = {"model": "claude-opus-4-8", "credential": "env:KEY", "tools": ["acts", "memory", "bash"]}
    with ModelServer(turns(*script)) as server:
        checked = anthropic.Options.model_validate({**options, "base_url": server.url}).model_dump(
            mode="json"
        )
        runner = anthropic.Anthropic(machine.host)
        try:
            return await runner.run(machine.request(options=checked, **request), machine.desk)
        finally:
            await runner.close()


def _model_answer(step: Step) -> Answer:
    match step:
        case {"act": name, **args}:
            return answers.tools(answers.call(name, args))
        case {"shell": command}:
            return answers.tools(answers.call("bash", command=command))
        case {"say": words}:
            return answers.tools(answers.call("ctx_list"), text=words)  # an answer without calls is the end
        case {"end": "overloaded"}:
            return answers.error(503, "busy", should_retry=False)
    return _answer(step)


def _answer(step: Step) -> Answer:
    """What a model says at an end, or in the place of one."""
    match step:
        case {"say": words}:
            return answers.text(words)
        case {"sleep": _}:
            return answers.hang()
        case {"end": "refusal"}:
            return answers.refusal()
        case {"end": "truncated"}:
            return answers.text("half a sent", stop="max_tokens")
        case {"end": "overloaded"}:
            return answers.error(503, "busy")
        case {"end": "auth"}:
            return answers.error(401, "invalid x-api-key")
    return answers.text("All done.")


COMMAND = Kind(name="command", kind="command", play=stand_in("command"), endings=frozenset({"overloaded"}))
CLAUDE_ENDINGS = frozenset({"refusal", "truncated", "overloaded", "auth"})
CODEX_ENDINGS = frozenset({"truncated", "overloaded", "auth"})
MODEL = Kind(
    name="anthropic", kind="anthropic", play=model, endings=CLAUDE_ENDINGS, start_seconds=5.0, tool="{}",
    keeps=("memory",),
)  # fmt: skip
STAND_INS = [
    COMMAND,
    Kind(
        name="claude-code-stand-in", kind="claude-code", play=stand_in("claude-code"), endings=CLAUDE_ENDINGS
    ),
    Kind(name="codex-stand-in", kind="codex", play=stand_in("codex"), endings=CODEX_ENDINGS),
]
CLIENTS = [kind for kind in STAND_INS if kind is not COMMAND]
REAL = [
    pytest.param(
        Kind(
            name="claude-code",
            kind="claude-code",
            play=real_claude,
            endings=CLAUDE_ENDINGS,
            start_seconds=3.0,
        ),
        marks=clients.needs("claude"),
    ),
    pytest.param(
        Kind(name="codex", kind="codex", play=real_codex, endings=CODEX_ENDINGS, start_seconds=3.0),
        marks=clients.needs("codex"),
    ),
]


def every(kinds: Sequence[Any]) -> pytest.MarkDecorator:
    """A test for each of these kinds, by their names."""
    return pytest.mark.parametrize("kind", kinds, ids=lambda kind: kind.name)
