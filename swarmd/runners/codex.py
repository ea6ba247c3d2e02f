"""The runner `codex`: a session is a run of OpenAI's Codex, which acts through MCP.

All it needs stands in the config.toml of a CODEX_HOME of the session's own, key and token too: it is gone as soon as
Codex has begun, and they are neither on its command line nor in its environment.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from swarmd.core.wire import Request, Runner
from swarmd.runners import clients, credentials
from swarmd.runners.clients import Argument, ClientOptions
from swarmd.runners.codex_stream import CodexReading
from swarmd.runners.command import Text, Variable
from swarmd.runners.host import Host
from swarmd.runners.program import Plan, ProgramRunner
from swarmd.runners.reading import Say
from swarmd.runners.registry import Capability
from swarmd.runners.workspace import Workspace

kind = "codex"
measures: frozenset[str] = frozenset()
capabilities: frozenset[Capability] = frozenset(
    {"system_prompt", "tools", "usage", "cost", "tells_truncation", "hides_token"}
)

API = "https://api.openai.com/v1"
INSTEAD = {"OPENAI_API_KEY": "credential", "CODEX_API_KEY": "credential", "OPENAI_BASE_URL": "base_url"}
OWN = frozenset({"CODEX_HOME", "TMPDIR"})
UNREAD = {
    "AGENTS.md": 'instructions = ["AGENTS.md"] gives it to the agent',
    ".codex": "neither its settings and hooks nor its skills; what the agent may is said by its own file",
}
OFF = ("apps", "goals", "hooks", "plugins", "tool_suggest", "unbounded_connection_retries")
"""Features that would bring in what the agent's file does not name, or go on for ever where nobody answers."""


class Options(ClientOptions):
    """The `[runner]` table of kind `codex`."""

    program: Text = Field(default="codex", description="the client: a name on PATH or a path")
    model: Argument = Field(description="the model's name")
    credential: credentials.Reference = Field(
        default="env:OPENAI_API_KEY", description="where the key is: env:NAME, file:PATH or systemd:NAME"
    )
    effort: Literal["minimal", "low", "medium", "high", "xhigh"] | None = Field(
        default=None, description="how much the model thinks; left out: the model's own measure"
    )
    env: Annotated[dict[Variable, Text], clients.reserved(OWN, INSTEAD)] = Field(
        default_factory=dict, description="variables to set"
    )
    pass_env: Annotated[list[Variable], clients.reserved(OWN, INSTEAD)] = Field(
        default_factory=list, description="variables to take from the daemon"
    )


def make(host: Host) -> Runner:
    """The runner, at this host."""
    return ProgramRunner(host, Codex())


class Codex:
    """How Codex is started and read."""

    desk: Literal["socket", "mcp"] = "mcp"

    def plan(self, request: Request, host: Host, where: Workspace, url: str) -> Plan:
        """Prompt on standard input, all else in one private file."""
        options = Options.model_validate(dict(request.options))
        value = credentials.resolve(options.credential, host.environ, request.folder)
        # Not in the temp folder: there it would not put its own helpers on the PATH.
        home = os.path.join(where.client, "codex")
        config = os.path.join(home, "config.toml")
        return Plan(
            program=options.program,
            argv=[options.program, *_arguments()],
            stdin=request.user.encode("utf-8", "replace"),
            workdir=options.workdir,
            env={"NO_PROXY": "127.0.0.1,localhost"} | options.env,
            pass_env=options.pass_env,
            own={"CODEX_HOME": home},
            files={config: _toml(_config(options, request, value, url)).encode("utf-8", "replace")},
            home=home,
            for_start=[config],
            secrets=[value],
            facts={"credential": "api-key"},
        )

    def reading(self, request: Request, say: Say, plan: Plan) -> CodexReading:
        """Follows its stream of events."""
        return CodexReading(say, model=str(request.options["model"]), facts=plan.facts)


def command_line(request: Request, host: Host) -> list[str]:
    """What would be started, for people to see."""
    options = Options.model_validate(dict(request.options))
    return clients.place_of(request, host, options.program, _arguments())


def lacking(options: Mapping[str, Any], folder: str, environ: Mapping[str, str]) -> Iterator[clients.Lack]:
    """What this machine does not have for these options."""
    return clients.lacking(options, folder, environ, UNREAD)


def _arguments() -> list[str]:
    return ["exec", "--json", "--ephemeral", "--skip-git-repo-check", "-"]


def _config(options: Options, request: Request, key: str, url: str) -> dict[str, Any]:
    return {
        "model": options.model,
        "model_provider": "swarmd",
        **({"model_reasoning_effort": options.effort} if options.effort is not None else {}),
        "developer_instructions": request.system,
        "project_doc_max_bytes": 0,
        "check_for_update_on_startup": False,
        "web_search": "disabled",
        # The session's sandbox is swarmd's; a person to ask is not there.
        "approval_policy": "never",
        "sandbox_mode": "danger-full-access",
        "analytics": {"enabled": False},
        "otel": {"exporter": "none"},
        "history": {"persistence": "none"},
        "skills": {"include_instructions": False},
        "features": dict.fromkeys(OFF, False),
        "agents": {"enabled": False},
        # Nothing secret is in its environment but what the agent's file passes, which is for the agent's programs.
        "shell_environment_policy": {"inherit": "all", "ignore_default_excludes": True},
        "model_providers": {
            "swarmd": {
                "name": "swarmd",
                "base_url": options.base_url or API,
                "wire_api": "responses",
                "experimental_bearer_token": key,
                "request_max_retries": 3,
                "stream_max_retries": 3,
            }
        },
        "mcp_servers": {
            "swarmd": {
                "url": url,
                "http_headers": {"Authorization": f"Bearer {request.token}"},
                "required": True,
                "default_tools_approval_mode": "approve",
            }
        },
    }


def _toml(table: Mapping[str, Any], path: str = "") -> str:
    """The table as TOML, in which a text is written as in JSON, but for DEL."""
    lines = [f"{name} = {_value(value)}\n" for name, value in table.items() if not isinstance(value, dict)]
    inner = [
        (f"{path}.{name}" if path else name, value)
        for name, value in table.items()
        if isinstance(value, dict)
    ]
    return "".join([*lines, *(f"[{name}]\n{_toml(value, name)}" for name, value in inner)])


def _value(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
