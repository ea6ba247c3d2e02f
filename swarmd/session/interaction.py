"""What one session says and does, gathered as blocks for the interaction log of its memory (`[memory] log`).

Each block is in the session's journal at once, so that a daemon that dies leaves it in the draft. They become one
change, the last of the change set. No fault of a log ends a session.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from swarmd.core.agent import Agent
from swarmd.core.changes import AppendMemory, Change, WriteMemory
from swarmd.core.counts import counted
from swarmd.core.digests import digest
from swarmd.core.interaction_log import (
    BLOCK_BYTES,
    HEADING,
    Block,
    appended_under,
    is_log,
    shortened,
    stamp,
    written,
)
from swarmd.core.memory import FIRST_FILE, FIRST_FILE_BYTES
from swarmd.core.snapshot import Snapshot
from swarmd.core.staging import Verdict
from swarmd.core.transcript import call_text, result_text
from swarmd.core.wire import Captured, MemoryTree, Result
from swarmd.core.world import Actor
from swarmd.errors import Failed
from swarmd.session.journal import Base, Journal
from swarmd.session.known_secrets import Masking

SESSION_BYTES = 32 * 1024
LEAST_SESSION_BYTES = 4 * 1024
BYTES_PER_TOKEN = 4
"""A session's log may fill the room of MEMORY.md in the prompt, but no more than SESSION_BYTES."""
OUTPUT_BYTES = BLOCK_BYTES - 64
"""Of what a program printed, and room for the note on what it printed before."""
CALL_BYTES = 400
RESULT_BYTES = 700
"""A tool's result: what it was about, and not what it held."""
GIVEN_BYTES = 800
"""Of a handoff's text: all of it is kept with the handoff."""
SHOWN = 20
REWRITES = 100
"""How often the last block is kept in the journal again, once the log is full."""
SAID_OF_ALL = frozenset({"ended", "result", "warning", "refused"})
"""Events of any program, also of one whose output nobody reads."""
NOT_LOGGED = frozenset({"compact", "consolidate"})
"""Triggers of sessions that put the memory in order: they are not part of what the agent has done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AtCheckpoint:
    """The log's part in a checkpoint. `own` is what the session has made of MEMORY.md with the blocks that are saved
    already, `base` the same with these.
    """

    log: SessionLog
    text: str
    numbers: frozenset[int]
    own: bytes
    base: bytes

    @property
    def texts(self) -> dict[str, bytes]:
        """What is to be kept by its digest, for the merge of what comes later."""
        return {digest(text): text for text in (self.own, self.base)}

    def settle(self, changes: Sequence[Change], verdicts: Sequence[Verdict], bases: dict[str, Base]) -> None:
        """The checkpoint is committed: from here on the next one goes."""
        if not self.text:
            return
        kept = left_out(changes, verdicts) == ""
        self.log.saved(self.text if kept else "", self.numbers)
        if kept:
            bases[FIRST_FILE] = (-1, digest(self.base))


class SessionLog:
    """Of one session. It lives on the daemon's loop, as the desk that writes it does; no call of it raises."""

    def __init__(
        self, *, session: int, owner: str, room_tokens: int, journal: Journal, now: Callable[[], datetime],
        masking: Masking,
    ) -> None:  # fmt: skip
        self._session = session
        self._owner = owner
        self._room = min(max(room_tokens * BYTES_PER_TOKEN, LEAST_SESSION_BYTES), SESSION_BYTES)
        self._journal = journal
        self._now = now
        self._masking = masking
        self._blocks: dict[int, str] = {}
        """What no checkpoint has taken yet, by number."""
        self._saved = ""
        """What checkpoints have taken."""
        self._next = 0
        self._calls: dict[str, tuple[int, str, str]] = {}
        """Of calls that have no result yet: their block, its time, its text."""
        self._full = False
        self._left_out = self._rewrites = 0
        self._end: tuple[int, int] | None = None
        """The numbers of the note on what is left out, and of what was said last."""
        self._waking: int | None = None
        """The first block, while nothing has followed it."""
        self._tells = self._told_anything = False
        """Whether the runner tells of what goes on, and whether something of that is in the log."""
        self._closed = False

    def woken(self, seen: Snapshot) -> None:
        """The session begins: why, and what it was given. Alone this is no entry: it is kept with what comes next."""
        self._next += 1
        block = self._block("user", _given(seen), stamp(self._now()))
        self._blocks[self._next] = block
        self._room -= _size(block)
        self._waking = self._next

    def event(self, kind: str, detail: Mapping[str, Any]) -> None:
        """An event of the session's transcript."""
        with suppress(Exception):  # events come from plug-ins; the transcript tells of what is wrong with one
            self._event(kind, detail)

    def _event(self, kind: str, detail: Mapping[str, Any]) -> None:
        if self._closed:
            return
        self._tells |= kind not in SAID_OF_ALL
        match kind:
            case "text" if str(detail.get("text") or "").strip():
                self._told_anything = True
                self._add("assistant", str(detail["text"]))
            case "tool_call":
                self._told_anything = True
                self._called(str(detail.get("id")), self._cut(call_text(detail), CALL_BYTES))
            case "tool_result":
                self._answered(str(detail.get("id")), self._cut(result_text(detail), RESULT_BYTES))

    def ended(self, result: Result | None) -> None:
        """The session's runner is at its end. Of a program that told of nothing, what it printed last is kept."""
        if not self._closed and not self._tells and result is not None:
            printed = self._masking.text(_printed(result.stdout)).strip("\n")
            if printed.strip():
                self._told_anything = True
                self._add("output", shortened(printed, OUTPUT_BYTES, tail=True, before=_lost(result.stdout)))
        self._closed = True

    def change(self, *, did_something: bool = True) -> AppendMemory | None:
        """All blocks that no checkpoint has taken, as one change; None where there are none. A session that has said
        nothing and not `did_something` leaves no trace.
        """
        if not self._blocks or not (self._told_anything or did_something):
            return None
        if self._end is not None and self._left_out:
            self._blocks[self._end[0]] = self._note(counted(self._left_out, "more turn"))
        text = "".join(block for _, block in sorted(self._blocks.items()))
        return AppendMemory(agent=self._owner, path=FIRST_FILE, text=text, under=HEADING)

    def beside(self, changes: Sequence[Change]) -> list[Change]:
        """What a session has made of its MEMORY.md, with the blocks that its checkpoints have saved: they are not in
        the working copy, and nobody has deleted them.
        """
        return [
            replace(c, data=self._with_saved(c.data))
            if isinstance(c, WriteMemory) and c.path == FIRST_FILE and c.data is not None
            else c
            for c in changes
        ]

    def _with_saved(self, data: bytes) -> bytes:
        return appended_under(data, self._saved.encode(), HEADING) if self._saved else data

    def at_checkpoint(self, changes: Sequence[Change], memory: MemoryTree) -> AtCheckpoint:
        """These changes are going to be committed, while the working copy is `memory`."""
        text = "".join(c.text for c in changes if isinstance(c, AppendMemory) and is_log(c))
        own = self._with_saved(memory.read(FIRST_FILE) or b"")
        base = appended_under(own, text.encode(), HEADING) if text else own
        return AtCheckpoint(log=self, text=text, numbers=frozenset(self._blocks), own=own, base=base)

    def saved(self, text: str, numbers: frozenset[int]) -> None:
        """These blocks are saved, or found no room; what came after them stays."""
        self._saved += text
        for number in numbers:
            self._blocks.pop(number, None)
        self._waking = None if self._waking in numbers else self._waking
        self._calls = {id: call for id, call in self._calls.items() if call[0] not in numbers}
        if self._end is not None and numbers.intersection(self._end):
            self._end, self._left_out = None, 0

    # -- blocks -------------------------------------------------------------------------------------------------------

    def _called(self, id: str, text: str) -> None:
        at = stamp(self._now())
        number = self._add("tool", text, at)
        if number is not None:
            self._calls[id] = number, at, text

    def _answered(self, id: str, text: str) -> None:
        known = self._calls.pop(id, None)
        if known is not None:
            number, at, call = known
            self._put(number, self._block("tool", f"{call}\n\n{text}", at))
        elif not self._full:
            self._add("tool", text)  # its call is in an earlier checkpoint

    def _add(self, role: str, text: str, at: str | None = None) -> int | None:
        """A new block; its number, or None where the log has no room for it."""
        block = self._block(role, text, at or stamp(self._now()))
        if self._full or _size(block) > self._room:
            self._full = True
            self._leave_out(role, block)
            return None
        self._next += 1
        self._put(self._next, block)
        return self._next

    def _leave_out(self, role: str, block: str) -> None:
        """The log is full. What is said last is worth most: it takes the place of what was said last before."""
        if self._end is None:
            self._end = self._next + 1, self._next + 2
            self._next += 2
        note, last = self._end
        if role == "assistant":
            self._left_out += last in self._blocks
            self._blocks[last] = block
            self._rewrites += 1
            if self._rewrites <= REWRITES:
                self._keep(last, block)
        else:
            self._left_out += 1
        if self._left_out == 1:
            self._blocks[note] = self._note("more turns")
            self._keep(note, self._blocks[note])

    def _note(self, what: str) -> str:
        text = f"({what} left out here: `swarmd session log {self._session}` has all)"
        return self._block("system", text, stamp(self._now()))

    def _put(self, number: int, block: str) -> None:
        self._room -= _size(block) - _size(self._blocks.get(number, ""))
        self._blocks[number] = block
        self._keep(number, block)

    def _keep(self, number: int, block: str) -> None:
        if self._waking is not None:
            waking, self._waking = self._waking, None
            self._keep(waking, self._blocks[waking])
        # The transcript has it too, and so has the change set of a session that comes to its end.
        with suppress(Failed, OSError):
            self._journal.logged(number, block)

    def _block(self, role: str, text: str, at: str) -> str:
        return written(Block(role=role, at=at, text=self._cut(text, BLOCK_BYTES), session=self._session))

    def _cut(self, text: str, room: int) -> str:
        """The text without secrets, in so many bytes, with a note of what is left out."""
        shown, left = self._masking.head(text, room)
        kept = shown.encode("utf-8", "replace")[:room].decode("utf-8", "ignore")
        left += len(shown) - len(kept)
        return f"{kept}\n[{left:,} more characters]" if left else kept


def _size(block: str) -> int:
    return len(block.encode("utf-8", "replace"))


def _printed(output: Captured) -> str:
    data = output.tail if output.dropped else output.head + output.tail
    return data.decode("utf-8", "replace")


def _lost(output: Captured) -> int:
    """How many bytes stood before what _printed gives."""
    return len(output.head) + output.dropped if output.dropped else 0


def _given(seen: Snapshot) -> str:
    """Why the session was started, and what has come for it since the last one. What the prompt holds beside that is
    the same each time, or in the memory, and not told again.
    """
    trigger = seen.trigger
    slot = f" at {stamp(trigger.slot)}" if trigger.slot is not None else ""
    again = f", attempt {trigger.attempt}" if trigger.attempt > 1 else ""
    lines = [f"{trigger.kind}{slot}{again}", *trigger.reasons]
    known = seen.last_started
    new = [h for h in seen.open_handoffs if known is None or h.created > known]
    for handoff in new:
        text = shortened(handoff.text, GIVEN_BYTES)
        lines.append(f"handoff {handoff.id} from {handoff.sender} ({handoff.priority}): {text}")
    old = [str(h.id) for h in seen.open_handoffs if h not in new]
    if old:
        lines.append(f"still open: handoff {', '.join(old[:SHOWN])}{' and more' if len(old) > SHOWN else ''}")
    for handoff in seen.sent[:SHOWN]:
        said = shortened(handoff.thread[-1].text, GIVEN_BYTES) if handoff.thread else ""
        lines.append(f"handoff {handoff.id} to {handoff.receiver} is {handoff.status}{said and ': '}{said}")
    return "\n".join(lines)


def of_session(
    agent: Agent, actor: Actor, trigger: str, journal: Journal, now: Callable[[], datetime], masking: Masking
) -> SessionLog | None:
    """The log of a session whose agent keeps one."""
    rules, owner = agent.memory, actor.owner
    if not rules.log or owner is None or actor.session is None or trigger in NOT_LOGGED:
        return None
    return SessionLog(session=actor.session, owner=owner, room_tokens=rules.prompt_tokens, journal=journal, now=now,
                      masking=masking)  # fmt: skip


def lacks_room(changes: Sequence[Change], memory: MemoryTree) -> str:
    """What the transcript says where the log will find no room beside this memory; the commit decides. Else nothing."""
    size = sum(
        len(c.text.encode("utf-8", "replace")) for c in changes if isinstance(c, AppendMemory) and is_log(c)
    )
    held = len(memory.read(FIRST_FILE) or b"")
    if not size or held + size <= FIRST_FILE_BYTES:
        return ""
    return (
        f"{FIRST_FILE} has {held:,} of {FIRST_FILE_BYTES:,} bytes: there is no room for the {size:,} of this session's "
        "log, and it is left out"
    )


def left_out(changes: Sequence[Change], verdicts: Sequence[Verdict]) -> str | None:
    """Why the log among these changes was not written; nothing where it was; None where there is none, or where it
    waits for an operator's yes with all else of its file.
    """
    for change, verdict in zip(changes, verdicts, strict=True):
        if is_log(change) and verdict.decision != "held":
            return "" if verdict.decision == "done" else verdict.reason
    return None


def did_more(changes: Sequence[Change], verdicts: Sequence[Verdict]) -> bool:
    """Whether anything but a log was written, or waits for a yes."""
    return any(
        (v.effects or v.decision == "held") and not is_log(c) for c, v in zip(changes, verdicts, strict=True)
    )
