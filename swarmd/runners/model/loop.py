"""The session itself: ask, carry out what the model calls, ask again, until it has ended or a limit has.

Whatever stops a turn has an outcome of its own, and none but an answer that ended by itself is a success.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from swarmd.core.wire import Outcome, Usage
from swarmd.runners.model import compaction
from swarmd.runners.model.answers import JSON, Answer
from swarmd.runners.model.asker import Asker, Event
from swarmd.runners.model.conversation import Conversation, result
from swarmd.runners.model.limits import Limits
from swarmd.runners.model.trouble import Trouble

CUTS_IN_A_ROW = 3

Price = Callable[[str, Usage], float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """How it went. `text` is the last that the model said, `stop` why it ended there, as the API has it."""

    outcome: Outcome
    reason: str = ""
    text: str = ""
    stop: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Called:
    """What a tool gave back, for the model; `ends` says that the session is over with it."""

    text: str
    error: bool = False
    ends: bool = False


class Tools(Protocol):
    """What the model may call."""

    @property
    def definitions(self) -> list[JSON]:
        """As the Messages API takes them, always in the same order."""

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Called:
        """Carry it out; whatever goes wrong is a text for the model."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the agent's file says of the conversation. `window`: tokens that the model takes, where that is known."""

    params: JSON
    """`max_tokens`, `thinking`, `output_config`: as they are in every request."""
    max_turns: int
    compact_at: float
    summarizer: str | None = None
    summary_tokens: int = compaction.SUMMARY_TOKENS
    window: int | None = None
    dated: str = ""


@dataclass(slots=True, kw_only=True)
class Spent:
    """What the session has used so far, by the model that was asked."""

    price: Price
    by_model: dict[str, Usage] = field(default_factory=dict)

    def add(self, model: str, usage: Usage) -> Usage:
        """Count an answer; the same usage with its price, where there is one."""
        usd = self.price(model, usage)
        priced = replace(usage, usd=usd, priced_by=None if usd is None else "list")
        known = self.by_model.get(model)
        self.by_model[model] = priced if known is None else known + priced
        return priced

    @property
    def total(self) -> Usage:
        """All of it."""
        usages = list(self.by_model.values())
        return sum(usages[1:], usages[0]) if usages else Usage()


class Loop:
    """One session's conversation."""

    def __init__(
        self, conversation: Conversation, tools: Tools, asker: Asker, *, settings: Settings, limits: Limits,
        spent: Spent, event: Event,
    ) -> None:  # fmt: skip
        self._talk = conversation
        self._tools = tools
        self._asker = asker
        self._settings = settings
        self._limits = limits
        self._spent = spent
        self._event = event
        self._turn = 0
        self._cuts = 0
        self._acted = False
        self._compacted = False
        """Whether the history was summarized and has not been seen to fit since."""
        self._context = 0

    async def run(self) -> Finish:
        """To the end. Cancelling it cancels the request or the tool that is under way."""
        try:
            while True:
                over = self._limits.over(self._turn, self._settings.max_turns, self._spent.total)
                if over is not None:
                    return Finish(outcome="failed", reason=over)
                finish = await self._react(await self._answer())
                if finish is not None:
                    return finish
        except Trouble as trouble:
            return Finish(outcome="unavailable" if trouble.unavailable else "failed", reason=str(trouble))

    # -- asking ---------------------------------------------------------------------------------------------

    async def _answer(self) -> Answer:
        """The next answer; where the conversation is too long for the model, it is made shorter, once."""
        while True:
            params = {**self._settings.params, **self._talk.request(self._tools.definitions)}
            try:
                answer = await self._asker.ask(params, lost=self._tell_usage)
            except Trouble as trouble:
                if trouble.kind == "too_long" and await self._compact(str(trouble)):
                    continue
                if self._asker.next_model(trouble):
                    continue
                raise
            self._turn += 1
            self._note(answer)
            return answer

    def _note(self, answer: Answer) -> None:
        self._context = answer.context
        self._tell_usage(self._asker.model, answer.usage, answer.model)
        for block in answer.content:
            kind = block.get("type")
            if kind == "text" and block.get("text"):
                self._event("text", {"turn": self._turn, "text": block["text"]})
            elif kind == "thinking" and block.get("thinking"):
                self._event("thinking", {"turn": self._turn, "text": block["thinking"]})
            elif kind == "tool_use":
                called = {name: block.get(name) for name in ("id", "name", "input")}
                self._event("tool_call", {"turn": self._turn, **called})
            elif kind not in ("text", "thinking", "redacted_thinking"):
                self._event("warning", {"text": f"the answer holds a block of type {str(kind)[:60]!r}"})

    def _tell_usage(self, asked: str, used: Usage, named: str = "") -> None:
        """Count what an answer has cost, also one that broke off; `named`: the model that says it has answered."""
        usage = self._spent.add(asked, used)
        self._event(
            "usage",
            {"turn": self._turn, "model": named or asked, "tokens_in": usage.tokens_in,
             "tokens_out": usage.tokens_out, "cache_read": usage.cache_read, "cache_write": usage.cache_write,
             "usd": usage.usd},
        )  # fmt: skip

    # -- reacting -------------------------------------------------------------------------------------------

    async def _react(self, answer: Answer) -> Finish | None:
        """What the answer means; None: the session goes on."""
        if answer.stop != "max_tokens" and not answer.cut:
            self._cuts = 0
        match answer.stop:
            case "tool_use":
                return await self._carry_out(answer)
            case "max_tokens":
                return await self._go_on_after_cut(answer)
            case "pause_turn":
                self._talk.heard(answer)
                return None
            case "end_turn" | "stop_sequence":
                return self._ended(answer)
            case "refusal":
                return Finish(outcome="failed", reason=_refusal(answer), text=answer.text)
            case "model_context_window_exceeded":
                return await self._overflowed()
            case _:
                said = f"the answer ended for a reason that is not known: {answer.stop[:100]!r}"
                self._event("warning", {"text": f"{said}; its calls were not made"})
                return self._ended(answer)

    def _ended(self, answer: Answer) -> Finish:
        if not answer.text and not self._acted:
            return Finish(outcome="failed", reason="the model answered nothing")
        return Finish(outcome="success", text=answer.text, stop=answer.stop)

    async def _carry_out(self, answer: Answer) -> Finish | None:
        if not answer.calls:
            return Finish(
                outcome="failed", reason="the model stopped for a tool and named none", text=answer.text
            )
        if answer.cut:
            self._cuts += 1
            if self._cuts > CUTS_IN_A_ROW:
                reason = (
                    f"calls whose arguments were cut off or are no JSON object, {self._cuts} times in a row"
                )
                return Finish(outcome="failed", reason=reason, text=answer.text)
        self._talk.heard(answer)
        ends = await self._make_calls(answer)
        if ends:
            return Finish(outcome="success", text=answer.text)
        notice = self._limits.notice(self._spent.total)
        if notice is not None:
            self._event("warning", {"text": notice})
            self._talk.say_text(notice)
        await self._compact_in_time(answer)
        return None

    async def _make_calls(self, answer: Answer) -> bool:
        """Make the calls one after another, and answer each. Those whose arguments were cut off are not made."""
        ends = False
        for call in answer.calls:
            id, name = str(call.get("id")), str(call.get("name"))
            if id in answer.cut:
                text = f"{name} was not called: its arguments were cut off or are no JSON object. {_SHORTER}"
                called = Called(text=text, error=True)
            else:
                called = await self._tools.call(name, call["input"])
                self._acted = self._acted or not called.error
            ends = ends or called.ends
            self._event("tool_result", {"id": id, "text": called.text, "error": called.error})
            self._talk.say([result(id, called.text, error=called.error)])
        return ends

    async def _go_on_after_cut(self, answer: Answer) -> Finish | None:
        self._cuts += 1
        last = self._turn >= self._settings.max_turns and not answer.calls
        if last or self._cuts > CUTS_IN_A_ROW:
            tokens = self._settings.params.get("max_tokens")
            often = f", {self._cuts} times in a row" if self._cuts > 1 else ""
            reason = f"max_tokens: the answer was cut off at {tokens} tokens{often}"
            return Finish(outcome="failed", reason=reason, text=answer.text)
        self._talk.heard(answer)
        ends = await self._make_calls(answer) if answer.calls else False
        self._talk.say_text(f"Your answer was cut off at its greatest length. {_SHORTER}")
        if ends:
            return Finish(outcome="success", text=answer.text)
        await self._compact_in_time(answer)
        return None

    # -- the window -----------------------------------------------------------------------------------------

    async def _overflowed(self) -> Finish | None:
        window = self._settings.window or "unknown"
        said = f"the model's window is full: {self._context} tokens, and it takes {window}"
        return None if await self._compact(said) else Finish(outcome="failed", reason=said)

    async def _compact_in_time(self, answer: Answer) -> None:
        window = self._settings.window
        if window is None:
            return
        if answer.context < self._settings.compact_at * window:
            self._compacted = False
            return
        await self._compact(f"{answer.context} of {window} tokens are used")

    async def _compact(self, why: str) -> bool:
        """Put a summary in the history's place; False where none is to be had, and the history stays."""
        if self._compacted or len(self._talk) < 2:
            return False
        self._compacted = True
        turns = self._talk.turns
        try:
            model = self._settings.summarizer or self._asker.model
            most = self._settings.summary_tokens
            asked = compaction.request(turns, dated=self._settings.dated, tokens=most)
            answer = await self._asker.ask(asked, lost=self._tell_usage, model=model)
            self._tell_usage(model, answer.usage, answer.model)
            text = compaction.summary(answer, turns)
        except (Trouble, compaction.Refused) as refused:
            self._event("warning", {"text": f"the history stays as it is ({why}): {refused}"})
            return False
        self._talk.restart(text)
        self._event("compaction", {"before": self._context or None, "after": None, "text": text})
        return True


_SHORTER = "Go on where you were, in smaller steps: shorter texts, one call at a time."


def _refusal(answer: Answer) -> str:
    category = str(answer.stop_details.get("category") or "")[:100]
    return f"refusal: {category}" if category else "refusal"
