"""The runner `anthropic`: a session that is a conversation with a model by the Messages API, held in a worker."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from swarmd.core.tools import TOOLS
from swarmd.core.wire import Desk, Request, Result, Runner
from swarmd.errors import SwarmdError
from swarmd.runners import credentials
from swarmd.runners.bubblewrap import usable
from swarmd.runners.clients import Lack
from swarmd.runners.command import Text, Variable
from swarmd.runners.confinement import environment, make_home, secrets, session_policy
from swarmd.runners.host import Host
from swarmd.runners.leftovers import kill_leftovers
from swarmd.runners.memory_copy import read_memory
from swarmd.runners.memory_desk import MemoryDesk
from swarmd.runners.model.job import Done, Job, ProgramsJob, usage_of
from swarmd.runners.outcomes import CANCELLED, RunCancelled
from swarmd.runners.program import not_set_up
from swarmd.runners.registry import Capability
from swarmd.runners.workers import WorkerLost, Workers
from swarmd.runners.workspace import Workspace, clear_but_memory, places, prepare

kind = "anthropic"
measures: frozenset[str] = frozenset({"tokens_per_session"})
capabilities: frozenset[Capability] = frozenset(
    {
        "system_prompt",
        "tools",
        "usage",
        "cost",
        "max_turns",
        "tells_truncation",
        "tells_refusal",
        "hides_token",
        "offline",  # it is the worker that asks the model, not what runs in the sandbox
    }
)

GROUPS = ("acts", "memory", "files", "bash")
KEY = "env:ANTHROPIC_API_KEY"


def _tool(name: str) -> str:
    if name not in GROUPS and name not in TOOLS:
        raise ValueError(
            f"expected one of {', '.join(GROUPS)}, or a single act such as ctx_set; found {name!r}"
        )
    return name


def _http(url: str) -> str:
    if not url.startswith(("https://", "http://")):
        raise ValueError(f"expected an address that begins with https:// (or http://), found {url!r}")
    return url.rstrip("/")


Address = Annotated[Text, AfterValidator(_http)]
Model = Annotated[str, Field(min_length=1, max_length=200)]


class McpServer(BaseModel):
    """One of `mcp_servers`: a program to start, or an address."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    command: list[Text] = Field(default_factory=list, description="the program and its arguments; no shell")
    env: dict[Variable, Text] = Field(default_factory=dict, description="variables to set for it")
    pass_env: list[Variable] = Field(default_factory=list, description="variables to take from the daemon")
    url: Address | None = Field(default=None, description="the address of a server over streamable HTTP")
    credential: credentials.Reference | None = Field(
        default=None, description="its bearer token, by reference"
    )

    @model_validator(mode="after")
    def _one_way(self) -> McpServer:
        if bool(self.command) == (self.url is not None):
            raise ValueError("expected either a command or a url")
        if self.url is None and self.credential is not None:
            raise ValueError("a credential is for a url; a command gets what it needs by pass_env")
        return self


class Options(BaseModel):
    """The `[runner]` table of kind `anthropic`."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    model: Model = Field(description="the model's name")
    max_tokens: int = Field(default=16_000, ge=1, le=1_000_000, description="the longest answer")
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = Field(
        default=None, description="how much work goes into an answer; left out: the model's own measure"
    )
    thinking: Literal["adaptive", "off"] | Annotated[int, Field(ge=1024, le=1_000_000)] | None = Field(
        default=None, description="adaptive, off, or so many tokens; left out: as the model does by itself"
    )
    max_turns: int = Field(default=100, ge=1, le=10_000, description="the most answers of one session")
    base_url: Address | None = Field(default=None, description="another address of the Messages API")
    credential: credentials.Reference = Field(
        default=KEY, description="where the key is: env:NAME, file:PATH or systemd:NAME"
    )
    tools: list[Annotated[str, AfterValidator(_tool)]] = Field(
        default=["acts", "memory"], description="acts, memory, files, bash, or single acts"
    )
    mcp_servers: dict[Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,40}$")], McpServer] = Field(
        default_factory=dict, description="further tools, by the servers' names"
    )
    workdir: Text | None = Field(default=None, description="the folder of files and bash; left out: the home")
    env: dict[Variable, Text] = Field(default_factory=dict, description="variables to set for bash")
    pass_env: list[Variable] = Field(default_factory=list, description="variables to take from the daemon")
    compact_at: float = Field(
        default=0.9,
        gt=0.1,
        le=1.0,
        description="the share of the model's window at which history is summarized",
    )
    summarizer_model: Model | None = Field(
        default=None, description="who summarizes; left out: the model itself"
    )
    fallback_models: list[Model] = Field(
        default_factory=list, description="who is asked where the model fails"
    )


def lacking(options: Mapping[str, Any], folder: str, environ: Mapping[str, str]) -> Iterator[Lack]:
    """What would keep sessions with these options from going well on this machine."""
    for problem in credentials.problems(options["credential"], environ, folder):
        yield ("credential",), problem
    for name, server in options["mcp_servers"].items():
        if server["credential"] is not None:
            for problem in credentials.problems(server["credential"], environ, folder):
                yield ("mcp_servers", name, "credential"), problem


def make(host: Host) -> Runner:
    """The runner, at this host."""
    return Anthropic(host)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Prepared:
    """A session's folder, what it may do, and its desk."""

    where: Workspace
    job: Job
    memory: MemoryDesk


class Anthropic:
    """Runs one session in a worker; its acts come back to the desk by the worker's channel."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._workers = Workers(host)

    async def close(self) -> None:
        """No session comes any more: the workers end."""
        await self._workers.close()

    async def run(self, request: Request, desk: Desk) -> Result:
        """Run to the end or the deadline; on cancellation raise RunCancelled when every process is dead."""
        stop = asyncio.Event()
        work = asyncio.ensure_future(self._whole(request, desk, stop))
        while not work.done():
            try:
                await asyncio.wait({work})
            except asyncio.CancelledError:
                stop.set()
        result = work.result()
        if stop.is_set():
            raise RunCancelled(replace(result, outcome="cancelled", reason=CANCELLED))
        return result

    async def _whole(self, request: Request, desk: Desk, stop: asyncio.Event) -> Result:
        """All steps, each to its end; `stop` ends the conversation, and nothing else."""
        where = places(self._host, str(request.session))
        try:
            prepared = await asyncio.to_thread(_prepare, request, self._host, where, desk)
            done = await self._talk(prepared, desk, stop)
            memory, problems = await asyncio.to_thread(
                read_memory, where.memory, request.memory, request.read_only
            )
        except (SwarmdError, OSError) as error:
            return not_set_up(error)
        finally:
            await asyncio.to_thread(clear_but_memory, where)
        return Result(
            outcome=done.outcome, reason=done.reason, memory=memory, memory_problems=problems,
            usage=usage_of(done), by_model=done.by_model,
        )  # fmt: skip

    async def _talk(self, prepared: _Prepared, desk: Desk, stop: asyncio.Event) -> Done:
        job = prepared.job
        talking = asyncio.ensure_future(self._workers.run(job, prepared.memory.answer, desk.event))
        stopping = asyncio.ensure_future(stop.wait())
        await asyncio.wait({talking, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not talking.done():
            talking.cancel()
            await asyncio.wait({talking})
        stopping.cancel()
        try:
            return await talking
        except asyncio.CancelledError:
            return Done(outcome="cancelled", reason=CANCELLED)
        except WorkerLost as lost:
            # Its programs end with it; whoever got away from that is found by the session's mark.
            await asyncio.to_thread(kill_leftovers, job.programs.marker)
            return Done(outcome="lost", reason=str(lost))


def _prepare(request: Request, host: Host, where: Workspace, desk: Desk) -> _Prepared:
    """The session's folder and its job; Failed where it cannot be."""
    options = Options.model_validate(dict(request.options))
    key = credentials.resolve(options.credential, host.environ, request.folder)
    keys = {
        name: credentials.resolve(server.credential, host.environ, request.folder)
        for name, server in options.mcp_servers.items()
        if server.credential is not None
    }
    prepare(host, str(request.session), prompt=b"", memory=request.memory, read_only=request.read_only)
    make_home(request, host)
    known = (key, *keys.values())
    job = Job(
        session=request.session, agent=request.agent, system=request.system, user=request.user,
        user_ends=request.user_ends, options=_options(options, host), key=key, keys=keys,
        timeout_seconds=request.timeout_seconds, token_limit=request.token_limit, dated=_dated(request.timezone),
        programs=_programs(request, host, where, options, known),
    )  # fmt: skip
    return _Prepared(where=where, job=job, memory=MemoryDesk.of(request, where.memory, desk))


def _options(options: Options, host: Host) -> Mapping[str, Any]:
    """As they travel: what MCP servers are passed of the daemon's environment is put in."""
    plain = options.model_dump(mode="json")
    for server in plain["mcp_servers"].values():
        passed = {name: host.environ[name] for name in server.pop("pass_env") if name in host.environ}
        server["env"] |= passed
    return plain


def _programs(
    request: Request, host: Host, where: Workspace, options: Options, known: Sequence[str]
) -> ProgramsJob:
    passed = [
        *options.pass_env,
        *(name for server in options.mcp_servers.values() for name in server.pass_env),
    ]
    # SWARMD_SESSION without a token: `swarmd` refuses, and does not take the model's shell for an operator.
    own = {**request.about_itself, "SWARMD_MEMORY": where.memory}
    return ProgramsJob(
        session=request.session, workdir=host.workdir(request, options.workdir),
        env=environment(request, host, where, env=options.env, pass_env=options.pass_env) | own,
        policy=session_policy(request, host, where, options.workdir), marker=where.temp,
        secrets=(*secrets(request, host, passed), *known), python=host.python, cgroup=host.cgroup,
        bubblewrap=usable() if request.sandbox.get("level", "auto") != "none" else None,
    )  # fmt: skip


def _dated(zone: str) -> str:
    """The moment for whoever summarizes, so that dates stay dates."""
    with contextlib.suppress(OSError, ValueError, LookupError):
        return datetime.now(ZoneInfo(zone)).isoformat(timespec="minutes")
    return datetime.now(UTC).isoformat(timespec="minutes")
