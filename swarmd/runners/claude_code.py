"""The runner `claude-code`: a session is a run of Claude Code, which acts through MCP.

What it is started with is exact, for its working folder may be hostile: without `--setting-sources ""` a file in there
could send the key away, start programs and change what is allowed.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from swarmd.core.wire import Request, Runner
from swarmd.runners import clients, credentials
from swarmd.runners.claude_stream import SERVER, ClaudeReading
from swarmd.runners.clients import Argument, ClientOptions
from swarmd.runners.command import Text, Variable
from swarmd.runners.host import Host
from swarmd.runners.program import Plan, ProgramRunner
from swarmd.runners.reading import Say
from swarmd.runners.registry import Capability
from swarmd.runners.workspace import Workspace, places

kind = "claude-code"
measures: frozenset[str] = frozenset({"tokens_per_session"})
capabilities: frozenset[Capability] = frozenset({
    "system_prompt", "tools", "usage", "cost", "max_turns", "tells_truncation", "tells_refusal", "hides_token",
})  # fmt: skip

SUBSCRIPTION_PREFIX = "sk-ant-oat"
FIXED = {
    # Nothing but the API is asked, nothing is updated, no memory but swarmd's is kept or shown.
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",
    "CLAUDE_CODE_DISABLE_CLAUDE_MDS": "1",
    # A task in the background would keep the client alive after its result.
    "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",
    # "@path" in a handoff or a memory would else put that file into the prompt.
    "CLAUDE_CODE_DISABLE_FILE_MENTIONS": "1",
    # No other model than the agent's file names, unasked.
    "CLAUDE_CODE_NO_MODEL_FALLBACK": "1",
    "CLAUDE_CODE_DISABLE_REFUSAL_FALLBACK": "1",
    "CLAUDE_CODE_DISABLE_REFUSAL_RETRY": "1",
    "CLAUDE_CODE_DISABLE_MODEL_ACCESS_FALLBACK": "1",
}
# Its own ten retries take minutes, and a session is tried again by `retries`.
USUAL = {"CLAUDE_CODE_MAX_RETRIES": "3", "MCP_TIMEOUT": "10000", "NO_PROXY": "127.0.0.1,localhost"}
OWN = frozenset({*FIXED, "CLAUDE_CONFIG_DIR", "CLAUDE_CODE_TMPDIR", "TMPDIR"})
INSTEAD = {
    "ANTHROPIC_API_KEY": "credential",
    "ANTHROPIC_AUTH_TOKEN": "credential",
    "CLAUDE_CODE_OAUTH_TOKEN": "credential",
    "ANTHROPIC_BASE_URL": "base_url",
    "ANTHROPIC_MODEL": "model",
    "CLAUDE_CODE_MAX_TURNS": "max_turns",
}
UNREAD = {
    "CLAUDE.md": 'instructions = ["CLAUDE.md"] gives it to the agent',
    ".claude": "neither its settings and hooks nor its agents and skills; what the agent may is said by its own file",
    ".mcp.json": "no MCP server is started but swarmd's own",
}


def _tool(name: str) -> str:
    if not name.isidentifier() or not name.isascii():
        raise ValueError(f"expected the name of a built-in tool such as Bash, found {name!r:.60}")
    return name


class Options(ClientOptions):
    """The `[runner]` table of kind `claude-code`."""

    program: Text = Field(default="claude", description="the client: a name on PATH or a path")
    credential: credentials.Reference = Field(
        default="env:ANTHROPIC_API_KEY", description="where the key is: env:NAME, file:PATH or systemd:NAME"
    )
    credential_kind: Literal["auto", "api-key", "subscription"] = Field(
        default="auto",
        description=f"what it is; auto: a subscription's token begins with {SUBSCRIPTION_PREFIX}",
    )
    tools: list[Annotated[str, AfterValidator(_tool)]] = Field(
        default=["Bash", "Read", "Edit", "Write"], description="its built-in tools; [] leaves the acts alone"
    )
    allow: list[Argument] | None = Field(
        default=None, description="permission rules such as Bash(git *); left out: all of `tools`"
    )
    max_turns: int | None = Field(
        default=None, ge=1, le=10_000, description="the most answers of one session"
    )
    max_usd: float | None = Field(
        default=None,
        gt=0,
        le=100_000,
        description="the most that one session may cost; looked at after each answer",
    )
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = Field(
        default=None, description="how much work goes into an answer; left out: the model's own measure"
    )
    env: Annotated[dict[Variable, Text], clients.reserved(OWN, INSTEAD)] = Field(
        default_factory=dict, description="variables to set"
    )
    pass_env: Annotated[list[Variable], clients.reserved(OWN, INSTEAD)] = Field(
        default_factory=list, description="variables to take from the daemon"
    )


def make(host: Host) -> Runner:
    """The runner, at this host."""
    return ProgramRunner(host, ClaudeCode())


class ClaudeCode:
    """How Claude Code is started and read."""

    desk: Literal["socket", "mcp"] = "mcp"

    def plan(self, request: Request, host: Host, where: Workspace, url: str) -> Plan:
        """Prompt on standard input, all else in private files: nothing secret is on the command line or in the
        environment, which its Bash would inherit.
        """
        options = Options.model_validate(dict(request.options))
        value, kind = _credential(options, host.environ, request.folder)
        config = os.path.join(where.temp, "claude")
        settings: dict[str, Any] = {"attribution": {"commit": "", "pr": ""}, "autoMemoryEnabled": False}
        files = {_at(where, "system.txt"): request.system.encode("utf-8", "replace")}
        if kind == "subscription":
            files[os.path.join(config, ".credentials.json")] = _json(_subscription(value))
        else:
            files[_at(where, "key")] = value.encode()
            settings["apiKeyHelper"] = f"cat {shlex.quote(_at(where, 'key'))}"
        files[_at(where, "settings.json")] = _json(settings)
        files[_at(where, "mcp.json")] = _json(_mcp(url, request.token))
        base = {"ANTHROPIC_BASE_URL": options.base_url} if options.base_url is not None else {}
        return Plan(
            program=options.program,
            argv=[options.program, *_arguments(options, where)],
            stdin=request.user.encode("utf-8", "replace"),
            workdir=options.workdir,
            env=USUAL | options.env,
            pass_env=options.pass_env,
            own={**FIXED, "CLAUDE_CONFIG_DIR": config, "CLAUDE_CODE_TMPDIR": where.temp, **base},
            files=files,
            for_start=[_at(where, "mcp.json")],
            secrets=[value],
            facts={"credential": kind},
        )

    def reading(self, request: Request, say: Say, plan: Plan) -> ClaudeReading:
        """Follows its stream of events."""
        return ClaudeReading(say, request.token_limit, facts=plan.facts)


def command_line(request: Request, host: Host) -> list[str]:
    """What would be started, for people to see."""
    options = Options.model_validate(dict(request.options))
    return clients.place_of(request, host, options.program, _arguments(options, places(host, "ID")))


def lacking(options: Mapping[str, Any], folder: str, environ: Mapping[str, str]) -> Iterator[clients.Lack]:
    """What this machine does not have for these options."""
    return clients.lacking(options, folder, environ, UNREAD)


def _arguments(options: Options, where: Workspace) -> list[str]:
    allowed = options.tools if options.allow is None else options.allow
    # Each of the three lists swallows all that follows it, up to the next option; the prompt is on standard input.
    return [
        "-p", "--output-format", "stream-json", "--verbose", "--include-partial-messages",
        "--setting-sources", "", "--settings", _at(where, "settings.json"), "--no-session-persistence",
        "--disable-slash-commands", "--system-prompt-file", _at(where, "system.txt"),
        "--strict-mcp-config", "--mcp-config", _at(where, "mcp.json"),
        *(["--model", options.model] if options.model is not None else []),
        *(["--effort", options.effort] if options.effort is not None else []),
        *(["--max-turns", str(options.max_turns)] if options.max_turns is not None else []),
        *(["--max-budget-usd", f"{options.max_usd:g}"] if options.max_usd is not None else []),
        "--permission-mode", "dontAsk", "--tools", ",".join(options.tools),
        "--allowedTools", f"mcp__{SERVER}", *allowed,
    ]  # fmt: skip


def _credential(options: Options, environ: Mapping[str, str], folder: str) -> tuple[str, str]:
    value = credentials.resolve(options.credential, environ, folder)
    if options.credential_kind != "auto":
        return value, options.credential_kind
    return value, "subscription" if value.startswith(SUBSCRIPTION_PREFIX) else "api-key"


def _subscription(token: str) -> dict[str, Any]:
    """As Claude Code keeps a login itself: its token neither expires here nor is it refreshed."""
    return {
        "claudeAiOauth": {
            "accessToken": token,
            "refreshToken": None,
            "expiresAt": 4_102_444_800_000,
            "scopes": ["user:inference"],
            "subscriptionType": None,
        }
    }


def _mcp(url: str, token: str) -> dict[str, Any]:
    """`alwaysLoad`: else its tools would have to be searched for before they can be called."""
    server = {"type": "http", "url": url, "headers": {"Authorization": f"Bearer {token}"}, "alwaysLoad": True}
    return {"mcpServers": {SERVER: server}}


def _at(where: Workspace, name: str) -> str:
    return os.path.join(where.client, name)


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()
