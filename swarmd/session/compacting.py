"""A session that makes its agent's memory small: read, summarize, judge, archive and write, in one transaction.

It acts for swarmd and not for the agent: it has no tools and no acts, and what its summarizer leaves in a memory copy
is nothing. Whatever goes wrong on the way changes nothing but the session's own row.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from swarmd.core import compaction, summaries
from swarmd.core.agent import Agent, definition_hash
from swarmd.core.calibration import measured_as
from swarmd.core.changes import WriteMemory
from swarmd.core.compaction import Summarizer
from swarmd.core.digests import prompt_digest
from swarmd.core.memory import FIRST_FILE
from swarmd.core.merge import merge
from swarmd.core.room import Count, corrected
from swarmd.core.sessions import COMPACT
from swarmd.core.world import Actor, Document
from swarmd.errors import Refused
from swarmd.session.ending import Ending, close, settled
from swarmd.session.flow import Order, fault_of, mark_running, session_folder
from swarmd.session.known_secrets import Masking
from swarmd.session.persistence import surely
from swarmd.session.ports import Ports
from swarmd.session.summarizing import Spent, Summarizing
from swarmd.store import commit as committing
from swarmd.store import compactions, sessions, usage
from swarmd.store.connections import Connection, reading
from swarmd.store.database import OutcomeUnknown
from swarmd.store.snapshots import fence
from swarmd.store.trees import tree_of
from swarmd.store.world import SqlWorld

TRIES = 3
"""How often it begins anew because the file was changed under it."""
MOVED = "moved"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """What is to be made small, and how it is counted."""

    document: Document
    data: bytes
    tokens: int
    count: Count
    secret: str

    @property
    def text(self) -> str:
        """As a summarizer is shown it: without what swarmd itself has put there."""
        return compaction.without_seed(self.data.decode("utf-8", "replace"))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Made:
    """What MEMORY.md is to be, by the name of the archive's file."""

    seen: _Seen
    text: Callable[[str], bytes]
    by: str
    keeps_lines: bool = False
    """Whether what stays of the old text is the old lines, into which others' changes can be merged."""

    def over(self, data: bytes, head: bytes) -> bytes | None:
        """The new text over what the file has become meanwhile; None where it does not stand for that. A summary
        stands for the notes as they were: what was added after them is kept after it, any other change is not in it.
        """
        if self.keeps_lines:
            merged = merge(self.seen.data, data, head)
            return None if merged.conflicts else merged.data
        old = self.seen.data
        added = head.removeprefix(old)
        if not head.startswith(old) or not (old.endswith(b"\n") or added.startswith((b"\n", b"\r\n"))):
            return None
        return data + (added if old.endswith(b"\n") else added.split(b"\n", 1)[1])


async def compact(ports: Ports, order: Order, why_cancelled: Callable[[], str]) -> str:
    """Run it to its end, and return its outcome; as flow.run does with a session of the agent's own."""
    session = _Compacting(ports, order, why_cancelled)
    for left in reversed(range(TRIES)):
        ending = await session.make()
        # Not again and again: who writes so often does not wait for a summary either.
        outcome = await surely(session.ender(last=not left), ending, agent=order.agent, session=order.id)
        if outcome != MOVED:
            break
    return outcome


class _Compacting:
    def __init__(self, ports: Ports, order: Order, why_cancelled: Callable[[], str]) -> None:
        self._ports = ports
        self._order = order
        self._why_cancelled = why_cancelled
        self._agent: Agent | None = None
        self._epoch: int | None = None
        self._masking = Masking()
        self._made: _Made | None = None
        self._spent = Spent(began=ports.clock.monotonic())
        self._summarizing: Summarizing | None = None

    # -- making ---------------------------------------------------------------------------------------------

    async def make(self) -> Ending:
        """The new text, for `ender` to write; whatever happens is an ending."""
        self._made = None
        try:
            return replace(await self._make(), result=self._spent.result)
        except OutcomeUnknown:
            raise
        except Exception as error:  # noqa: BLE001 - a boundary: a fault of one session is that session's end, not more
            reason = fault_of("the memory could not be summarized", error)
            return Ending(outcome="failed", reason=reason, result=self._spent.result)
        except asyncio.CancelledError:
            return Ending(outcome="cancelled", reason=self._why_cancelled(), result=self._spent.result)

    async def _make(self) -> Ending:
        ports, order = self._ports, self._order
        await ports.settle(order.owner)
        agent = order.definition or tree_of(ports.reader).agent(order.agent)
        if agent is None:
            raise Refused(f"the agent {order.agent!r} is not in force any more")
        self._agent = agent
        summarizer = None
        if order.summary is None:
            summarizer = compaction.summarizer_of(agent, asked=order.by != "system")
        seen = await asyncio.to_thread(self._look, agent)
        if self._epoch is None:
            await self._mark(agent, seen, summarizer)
        if seen is None:
            return Ending(outcome="no_change", reason=f"{FIRST_FILE} is empty")
        if order.by == "system" and seen.tokens < compaction.due_at(agent.memory):
            return Ending(outcome="no_change", reason=f"{FIRST_FILE} is small again: {seen.tokens:,} tokens")
        if order.summary is not None:
            return await asyncio.to_thread(self._given, agent, seen, order.summary)
        if summarizer is None:
            return await asyncio.to_thread(self._rotated, agent, seen)
        return await self._summarized(agent, seen, summarizer)

    def _look(self, agent: Agent) -> _Seen | None:
        reader = self._ports.own_reader() if self._ports.own_reader else self._ports.reader
        with reading(reader):
            document = SqlWorld(reader, self._ports.clock.now()).document(self._order.owner, FIRST_FILE)
            ratio = usage.learnt(reader, agent.name, measured_as(agent)).ratio
            secret = fence(reader, agent.name)
        if document is None or not document.data or not document.data.strip():
            return None
        count = corrected(self._ports.count, ratio)
        tokens = count(document.data.decode("utf-8", "replace"))
        return _Seen(document=document, data=document.data, tokens=tokens, count=count, secret=secret)

    async def _mark(self, agent: Agent, seen: _Seen | None, summarizer: Summarizer | None) -> None:
        ports, options = self._ports, summarizer.options if summarizer is not None else {}
        secrets = {
            *ports.secrets(agent.runner_options, agent.folder), *ports.secrets(options, agent.folder)
        }  # fmt: skip
        self._masking = Masking(tuple(sorted(secrets)))
        facts = _facts(agent, seen)
        self._epoch = await ports.writer.run(
            lambda connection: mark_running(connection, self._order, agent, ports.clock.now(), facts)
        )
        folder = session_folder(ports, self._order.id)
        self._summarizing = Summarizing(ports, self._order, agent, self._epoch, self._masking, folder)

    def _given(self, agent: Agent, seen: _Seen, summary: str) -> Ending:
        """A person's own summary."""
        summary = summaries.cleaned(summary)
        fault = summaries.plain_fault(summary, summaries.Notes(seen.text), count=seen.count)
        return self._judged(seen, summary, fault, f"with a summary that {self._order.by} gave")

    def _rotated(self, agent: Agent, seen: _Seen) -> Ending:
        """The old blocks of its log move away; nobody is asked."""
        rules = agent.memory
        rotation = compaction.rotated(seen.data, rules, seen.count)
        if not rules.log and isinstance(rotation, str):
            return Ending(
                outcome="failed",
                reason=f"nobody is there to summarize: set memory.summarizer_model or memory.summarizer_command in "
                f"{agent.name}.toml, or give a summary with --summary-file",
            )
        if isinstance(rotation, str):
            outcome = "failed" if seen.tokens >= compaction.due_at(rules) else "no_change"
            return Ending(outcome=outcome, reason=rotation)
        self._made = _Made(seen=seen, text=rotation.text, by="by moving old blocks of its log",
                           keeps_lines=True)  # fmt: skip
        return Ending(outcome="success")

    async def _summarized(self, agent: Agent, seen: _Seen, summarizer: Summarizer) -> Ending:
        rules, text = agent.memory, seen.text
        most, window = compaction.summary_most(rules), rules.context_tokens or summaries.WINDOW
        assert self._summarizing is not None
        pieces = await asyncio.to_thread(summaries.split, text, window=window, most=most, count=seen.count)
        if isinstance(pieces, str):
            return Ending(outcome="failed", reason=pieces)
        summary, done = "", summaries.Notes()
        for number, piece in enumerate(pieces, 1):
            asked = summaries.asked(piece, agent=agent.name, secret=seen.secret, most=most, part=number,
                                    parts=len(pieces), so_far=summary)  # fmt: skip
            answered = await self._summarizing.ask(summarizer, asked, self._spent, seen.count)
            if isinstance(answered, Ending):
                return answered
            summary = self._masking.text(summaries.cleaned(answered))
            await asyncio.to_thread(done.add, piece)
            fault = await asyncio.to_thread(summaries.fault, summary, done, most=most, count=seen.count)
            if fault is not None:
                break
        return self._judged(seen, summary, fault, f"summarized by {summarizer.name}")

    def _judged(self, seen: _Seen, summary: str, fault: str | None, by: str) -> Ending:
        rules = self._agent.memory if self._agent is not None else None

        def text(archive: str) -> bytes:
            return compaction.seeded(summary, archive, self._ports.clock.now())

        if fault is None and rules is not None:
            tokens = seen.count(text(compaction.archive_name(self._ports.clock.now(), ())).decode())
            if tokens >= seen.tokens:
                fault = (
                    f"with its heading the summary has {tokens:,} tokens, and the notes have {seen.tokens:,}"
                )
            elif self._order.by == "system" and tokens >= compaction.due_at(rules):
                fault = f"with its heading the summary has {tokens:,} tokens, and would be summarized again at once"
        if fault is not None:
            return Ending(outcome="failed", reason=f"nothing is changed: {fault}")
        self._made = _Made(seen=seen, text=text, by=by)
        return Ending(outcome="success")

    # -- writing --------------------------------------------------------------------------------------------

    def ender(self, *, last: bool) -> Callable[[Ending], Any]:
        """What ends the session; it gives MOVED, and has ended nothing, where the file was changed so that the summary
        does not stand for it any more. `last`: then it has failed.
        """

        async def end(ending: Ending) -> str:
            return await self._end(ending, last=last)

        return end

    async def _end(self, ending: Ending, *, last: bool) -> str:
        ports, order = self._ports, self._order
        await settled(ports, order.owner)
        try:
            outcome = await ports.writer.run(lambda connection: self._ended(connection, ending))
        except _Moved as moved:
            if not last:
                return MOVED
            failed = Ending(outcome="failed", reason=str(moved), result=ending.result)
            outcome = await ports.writer.run(lambda connection: self._ended(connection, failed))
        if self._summarizing is not None:
            self._summarizing.close()
        if outcome == "committed":
            await settled(ports, order.owner)
        return outcome

    def _ended(self, connection: Connection, ending: Ending) -> str:
        order, now = self._order, self._ports.clock.now()
        if self._epoch is not None:
            sessions.still_running(connection, order.id, self._epoch)
        outcome, reason = ending.outcome, ending.reason
        if outcome == "success" and self._made is not None:
            outcome, reason = self._written(connection, self._made)
        reason = self._masking.text(reason)
        close(connection, order, Ending(outcome=outcome, reason=reason, result=ending.result), now)
        if outcome in ("committed", "no_change"):
            compactions.over(connection, order.owner)
        elif outcome != "cancelled" and order.by == "system":
            compactions.tell(connection, order.owner, order.id, outcome, reason, now)
        return outcome

    def _written(self, connection: Connection, made: _Made) -> tuple[str, str]:
        """Both files, or none: the old text to the byte under a name of its own, and the new one."""
        ports, order, seen = self._ports, self._order, made.seen
        now, path = ports.clock.now(), seen.document.path
        archive = compaction.archive_name(now, compactions.paths(connection, order.owner))
        data, head = made.text(archive), SqlWorld(connection, now).document(order.owner, path)
        if head is None or head.data is None:
            raise _Moved(f"{path} was deleted while it was summarized")
        if head.rev != seen.document.rev:
            over = made.over(data, head.data)
            if over is None:
                raise _Moved(f"{path} was changed while it was summarized, {TRIES} times in a row")
            data = over
        changes = [
            WriteMemory(agent=order.owner, path=path, data=data, base=head.rev),
            # Last: what was the file's older text is then one in force, and kept whole.
            WriteMemory(agent=order.owner, path=archive, data=seen.data),
        ]
        after = seen.count(data.decode("utf-8", "replace"))
        told = {"archive": archive, "before": seen.tokens, "after": after, "made_by": made.by}
        # Not as the agent: agents may not write the archive. History names the session all the same.
        actor = Actor(by=f"{order.agent}#{order.id}", session=order.id, subject=order.subject)
        done = committing.commit(connection, actor, changes, now, act=COMPACT, target=order.owner, part=1,
                                 how=COMPACT, told=told)  # fmt: skip
        if done.refusals:
            return "failed", f"nothing is changed: {'; '.join(dict.fromkeys(done.refusals))}"
        reason = (
            f"{path} had {seen.tokens:,} tokens and has {after:,} ({made.by}); the whole text is in {archive}"
        )
        return "committed", reason


class _Moved(Exception):
    """The file is not any more what was summarized."""


def _facts(agent: Agent, seen: _Seen | None) -> Mapping[str, Any]:
    """What the row tells of its start. It has no token: nobody acts for it."""
    sections: Sequence[Mapping[str, Any]] = ()
    shown: Mapping[str, int] = {}
    system = summaries.system_text(compaction.summary_most(agent.memory))
    if seen is not None:
        shown = {seen.document.path: seen.document.rev}
        sections = (
            {"name": "system", "tokens": seen.count(system), "left_out": ""},
            {"name": "memory", "tokens": seen.tokens, "left_out": ""},
        )
    return {
        "token_hash": None, "definition": definition_hash(agent),
        "prompt_hash": prompt_digest(system, seen.text if seen is not None else ""),
        "prompt": json.dumps({"tokens": sum(part["tokens"] for part in sections), "sections": list(sections)}),
        # What `session trace` looks at: it was shown this revision, and nothing else.
        "base": json.dumps({"memory": shown, "keys": [], "handoffs": [], "reports": []}),
        "depth": 0, "cause_handoff": None,
    }  # fmt: skip
