"""One session in a worker: its tools are set up, its loop runs under its clock, and all is taken down again."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from swarmd.core.tools import TOOLS
from swarmd.runners.masking import SHORTEST, mask_value
from swarmd.runners.model import compaction
from swarmd.runners.model.api import Api
from swarmd.runners.model.asker import Asker
from swarmd.runners.model.breaker import Breaker
from swarmd.runners.model.conversation import Conversation
from swarmd.runners.model.job import Done, Job
from swarmd.runners.model.limits import Limits
from swarmd.runners.model.loop import Finish, Loop, Settings, Spent
from swarmd.runners.model.memory_tool import MemoryKit
from swarmd.runners.model.programs import BashKit, FileKit, Programs
from swarmd.runners.model.toolbox import ActKit, DeskPort, Kit, Toolbox
from swarmd.runners.model.trouble import Trouble
from swarmd.runners.prices import price


class Desk(DeskPort, Protocol):
    """The session's desk, and the way for events."""

    def event(self, kind: str, detail: Mapping[str, Any]) -> None:
        """Something for the transcript."""


class _Masked:
    """A desk that is told of no secret by events."""

    def __init__(self, desk: Desk, secrets: Sequence[str]) -> None:
        self.ask = desk.ask
        self._event = desk.event
        self._secrets = [secret for secret in secrets if len(secret) >= SHORTEST]

    def event(self, kind: str, detail: Mapping[str, Any]) -> None:
        self._event(kind, mask_value(detail, self._secrets))


class Models(Protocol):
    """The models' APIs, as the sessions of a worker share them."""

    def of(self, key: str, base_url: str | None) -> tuple[Api, Breaker]:
        """The API for this credential at this address, and its breaker."""

    async def window(self, key: str, base_url: str | None, model: str) -> tuple[int | None, int | None]:
        """How many tokens go into a model and come out at most, asked for once. Raises Trouble."""


async def run_session(job: Job, desk: Desk, models: Models) -> Done:
    """Run it to its end, or to its deadline. Cancelling it ends whatever it does."""
    desk = _Masked(desk, job.programs.secrets)
    spent = Spent(price=price)
    begun = asyncio.get_running_loop().time()
    finish = Finish(outcome="timed_out", reason=f"timed out after {job.timeout_seconds:g} seconds")
    try:
        async with asyncio.timeout(job.timeout_seconds) as clock:
            finish = await _run(job, desk, models, spent, begun)
    except TimeoutError:
        if not clock.expired():
            raise
    desk.event("result", {"outcome": finish.outcome, "reason": finish.reason, "text": finish.text,
                          "stop": finish.stop})  # fmt: skip
    return Done(outcome=finish.outcome, reason=finish.reason, text=finish.text, by_model=spent.by_model)


async def _run(job: Job, desk: Desk, models: Models, spent: Spent, begun: float) -> Finish:
    now = asyncio.get_running_loop().time
    options, deadline = job.options, begun + job.timeout_seconds
    api, breaker = models.of(job.key, options.get("base_url"))
    async with contextlib.AsyncExitStack() as stack:
        try:
            tools = Toolbox(await _kits(job, desk, stack))
        except Unusable as unusable:
            return Finish(outcome="failed", reason=str(unusable))
        # The definitions are counted with the prompt: the provider's figure for it has them in it.
        definitions = json.dumps(tools.definitions, ensure_ascii=False)
        told = {"runner": "anthropic", "model": options["model"], "tools": definitions}
        desk.event("started", told)
        asker = Asker(
            api, breaker, models=[options["model"], *(options.get("fallback_models") or ())], deadline=deadline,
            event=desk.event, now=now,
        )  # fmt: skip
        loop = Loop(
            Conversation(system=job.system, user=job.user, ends=job.user_ends), tools, asker,
            settings=await _settings(job, desk, models),
            limits=Limits(begun=begun, deadline=deadline, tokens=job.token_limit, now=now),
            spent=spent, event=desk.event,
        )  # fmt: skip
        return await loop.run()


class Unusable(Exception):
    """A tool that the agent's file asks for cannot be had."""


async def _kits(job: Job, desk: Desk, stack: contextlib.AsyncExitStack) -> list[Kit]:
    wanted = list(job.options["tools"])
    programs = Programs(job.programs)
    kits: list[Kit] = []
    if names := [name for name in TOOLS if name in wanted or "acts" in wanted]:
        kits.append(ActKit(desk, names))
    if "memory" in wanted:
        kits.append(MemoryKit(desk))
    if "files" in wanted:
        kits.append(FileKit(programs))
    if "bash" in wanted:
        kits.append(BashKit(programs))
    servers = job.options.get("mcp_servers") or {}
    if servers:
        # Half a second and 30 MB, for those who have any.
        from swarmd.runners.model.mcp_kit import Unreachable, open_server

        for name, server in sorted(servers.items()):
            try:
                kits.append(
                    await stack.enter_async_context(open_server(name, server, programs, job.keys.get(name)))
                )
            except Unreachable as error:
                raise Unusable(str(error)) from error
    return kits


async def _settings(job: Job, desk: Desk, models: Models) -> Settings:
    options = job.options
    window, most = await _window(job, desk, models, options["model"])
    summarizer, shortest = options.get("summarizer_model"), most
    if summarizer:
        _, shortest = await _window(job, desk, models, summarizer)
    params: dict[str, Any] = {"max_tokens": min(options["max_tokens"], most or options["max_tokens"])}
    if options.get("effort"):
        params["output_config"] = {"effort": options["effort"]}
    if options.get("thinking"):
        params["thinking"] = _thinking(options["thinking"])
    return Settings(
        params=params, max_turns=options["max_turns"], compact_at=options["compact_at"],
        summarizer=summarizer, summary_tokens=min(compaction.SUMMARY_TOKENS, shortest or compaction.SUMMARY_TOKENS),
        window=window, dated=job.dated,
    )  # fmt: skip


async def _window(job: Job, desk: Desk, models: Models, model: str) -> tuple[int | None, int | None]:
    try:
        return await models.window(job.key, job.options.get("base_url"), model)
    except Trouble as trouble:
        desk.event("warning", {"text": f"the window of {model} is not known: {trouble}"})
        return None, None


def _thinking(chosen: str | int) -> dict[str, Any]:
    """`adaptive`, `off`, or how many tokens it may think."""
    if isinstance(chosen, int):
        return {"type": "enabled", "budget_tokens": chosen}
    return {"type": "disabled" if chosen == "off" else chosen}
