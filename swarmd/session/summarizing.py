"""Asks a summarizer for one answer, by the runner of its kind, and keeps what that costs; it judges no answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from swarmd.core.agent import Agent
from swarmd.core.compaction import ERRORS_BYTES, Summarizer, output_most
from swarmd.core.room import Count
from swarmd.core.sessions import COMPACT
from swarmd.core.snapshot import Prompt
from swarmd.core.summaries import Asked
from swarmd.core.wire import MemoryTree, Message, Reply, Result, Usage
from swarmd.runners.outcomes import RunCancelled
from swarmd.runners.workspace import drop_memory
from swarmd.session.ending import Ending
from swarmd.session.flow import Order
from swarmd.session.known_secrets import Masking
from swarmd.session.persistence import through
from swarmd.session.ports import Ports
from swarmd.session.requests import request_of
from swarmd.session.transcript import Transcript

log = logging.getLogger("swarmd")
ENDS = ("", "end_turn", "stop_sequence")
"""Why an answer ends that is whole, as far as a runner tells."""


@dataclass(slots=True, kw_only=True)
class Spent:
    """What all requests of the session have used. `began` is of the steady clock."""

    began: float
    usage: Usage | None = None
    by_model: dict[str, Usage] = field(default_factory=dict)
    exit: int | None = None

    def add(self, result: Result) -> None:
        """Count one request's."""
        self.usage = result.usage if self.usage is None else self.usage + result.usage
        self.exit = result.exit
        for model, used in result.by_model.items():
            known = self.by_model.get(model)
            self.by_model[model] = used if known is None else known + used

    @property
    def result(self) -> Result | None:
        """As the end of a session takes it; None where nobody was asked."""
        if self.usage is None:
            return None
        return Result(outcome="success", exit=self.exit, usage=self.usage, by_model=dict(self.by_model))


class _Desk:
    """What a summarizer has of a desk: it can say what happens, and do nothing."""

    def __init__(self, transcript: Transcript) -> None:
        self._transcript = transcript
        self.text = self.stop = ""

    async def call(self, message: Message) -> Reply:
        """Whoever summarizes has no acts."""
        return Reply(error="a compaction has no acts", kind="refused")

    async def checkpoint(self, message: Message, memory: MemoryTree, problems: tuple[str, ...]) -> Reply:
        """Nor anything to save."""
        return await self.call(message)

    def event(self, kind: str, detail: Mapping[str, Any]) -> None:
        """Kept as those of other sessions; the answer is taken from the last of them."""
        if kind == "started":
            detail = {name: value for name, value in detail.items() if name != "tools"}
        self._transcript.add(kind, detail)
        if kind == "result":
            self.text, self.stop = str(detail.get("text") or ""), str(detail.get("stop") or "")


class Summarizing:
    """Of one session at one epoch. It lives on the daemon's loop."""

    def __init__(
        self, ports: Ports, order: Order, agent: Agent, epoch: int, masking: Masking, folder: Path
    ) -> None:
        self._ports = ports
        self._order = order
        self._agent = agent
        self._epoch = epoch
        self._masking = masking
        self._folder = folder
        self.transcript = Transcript(folder, ports.clock.now, masking)

    async def ask(self, summarizer: Summarizer, asked: Asked, spent: Spent, count: Count) -> str | Ending:
        """The answer as it came; an ending where there is none that is whole."""
        limits = self._agent.limits
        too_late = Ending(outcome="timed_out", reason=f"timed out after {limits.timeout_seconds:g} seconds")
        left = limits.timeout_seconds - (self._ports.clock.monotonic() - spent.began)
        if left <= 0:
            return too_late
        tokens = None
        if limits.tokens_per_session is not None and summarizer.kind != "command":
            used = spent.usage.counted if spent.usage is not None else 0
            tokens, wanted = limits.tokens_per_session - used, count(asked.system) + count(asked.user)
            if wanted >= tokens:
                return Ending(outcome="failed", reason=(
                    f"tokens_per_session: {used:,} tokens are used, the next request has {wanted:,}, and "
                    f"{limits.tokens_per_session:,} are allowed"
                ))  # fmt: skip
        desk = _Desk(self.transcript)
        result = await self._run(summarizer, asked, desk, left, tokens)
        spent.add(result)
        if result.outcome == "cancelled":
            raise asyncio.CancelledError
        if result.outcome == "timed_out":
            return too_late
        return self._answer(summarizer, result, desk)

    def _answer(self, summarizer: Summarizer, result: Result, desk: _Desk) -> str | Ending:
        """What was answered in full, or why there is nothing."""
        printed, most = result.stdout, output_most(self._agent.memory)
        if printed.size > most:
            return _failed(
                f"the summary is too long: the summarizer ({summarizer.name}) printed more than {most:,} bytes"
            )
        if result.stderr.size > ERRORS_BYTES:
            return _failed(
                f"the summarizer ({summarizer.name}) printed more than {ERRORS_BYTES:,} bytes on standard error"
            )
        if result.outcome != "success":
            return Ending(
                outcome=result.outcome, reason=f"the summarizer ({summarizer.name}): {result.reason}"
            )
        if desk.stop not in ENDS:
            return _failed(f"the summary was not finished: {desk.stop[:100]}")
        if summarizer.kind != "command":
            return desk.text
        if printed.dropped:
            return _failed("the summary is cut: the summarizer printed too much to be kept")
        try:
            return (printed.head + printed.tail).decode("utf-8")
        except UnicodeDecodeError as error:
            return _failed(f"the summary is no UTF-8 text: byte {error.start + 1} is no part of it")

    async def _run(
        self, summarizer: Summarizer, asked: Asked, desk: _Desk, seconds: float, tokens: int | None
    ) -> Result:
        prompt = Prompt(system=asked.system, user=asked.user, tokens=0, sections=())
        request = request_of(
            self._agent, session=self._order.id, epoch=self._epoch, trigger=COMPACT, prompt=prompt,
            secrets=self._masking.secrets, subject=self._order.subject,
        )  # fmt: skip
        request = replace(
            request,
            options=summarizer.options,
            timeout_seconds=seconds,
            token_limit=tokens,
            acts=False,
            output_limit=output_most(self._agent.memory),
            errors_limit=ERRORS_BYTES,
        )
        try:
            return await self._ports.runner(summarizer.kind).run(request, desk)
        except RunCancelled as stop:
            return stop.result
        finally:
            # What it has made of the copy, which was empty, is nothing.
            await through(asyncio.ensure_future(asyncio.to_thread(drop_memory, str(self._folder))))

    def close(self) -> None:
        """Nothing more is asked."""
        if unkept := self.transcript.finish():
            log.warning("%s", unkept, extra={"agent": self._order.agent, "session": self._order.id})


def _failed(reason: str) -> Ending:
    return Ending(outcome="failed", reason=reason)
