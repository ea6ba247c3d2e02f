"""What the events of `claude --output-format stream-json` mean, as version 2.1 prints them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from swarmd.core.wire import Usage
from swarmd.runners.reading import NO_ACTS, Final, Reading, Say, money, number, rows, table, text

SERVER = "swarmd"
"""The name of our MCP server: its tools are `mcp__swarmd__...`."""
CUT = "the model's answer was cut off"
NOT_WHOLE = {
    "max_tokens": f"{CUT}: it reached its limit of tokens",
    "model_context_window_exceeded": f"{CUT}: the context window is full",
    "pause_turn": "the model paused in the middle of its answer",
    "refusal": "refusal",
    "tool_use": "the model asked for a tool, and nobody answered it",
}
"""Stop reasons with which an answer is not whole, even where the client calls it a success."""
PASSING = frozenset({"rate_limit", "overloaded", "server_error", "billing_error", "timeout", "network_error"})
"""Kinds of errors that are nobody's fault here: later it may go."""


class ClaudeReading(Reading):
    """One session of Claude Code."""

    def __init__(self, say: Say, token_limit: int | None, *, facts: Mapping[str, Any]) -> None:
        super().__init__(say, token_limit)
        self._facts = facts
        self._turn = 0
        self._message: Any = None
        self._open: dict[str | None, dict[str, Any]] = {}
        """The usage of messages that are being streamed, by the subagent (None: the agent itself)."""
        self._error = ""
        """The kind of the last error that stands in the place of an answer."""
        self._reached = False

    def take(self, said: Mapping[str, Any]) -> bool:
        """The next event; deltas are left out of the log, since the whole comes after them."""
        match said["type"]:
            case "stream_event":
                self._streamed(said)
                return False
            case "system":
                self._system(said)
            case "assistant":
                self._assistant(said)
            case "user":
                self._results(said)
            case "result":
                self.final = self._final(said)
        return True

    # -- system ---------------------------------------------------------------------------------------------

    def _system(self, said: Mapping[str, Any]) -> None:
        match said.get("subtype"):
            case "init":
                self._init(said)
            case "api_retry":
                wait = number(said.get("retry_delay_ms"))
                seconds = None if wait is None else wait / 1000
                status = f" ({said['error_status']})" if said.get("error_status") else ""
                self.say("retry", reason=text(said.get("error")) + status, attempt=number(said.get("attempt")),
                         wait_seconds=seconds)  # fmt: skip
            case "compact_boundary":
                before = number(table(said.get("compact_metadata")).get("pre_tokens"))
                self.say("compaction", before=before, after=None, text="")
            case "permission_denied":
                self.say(
                    "warning", text=f"{text(said.get('tool_name'))} was denied: {text(said.get('message'))}"
                )

    def _init(self, said: Mapping[str, Any]) -> None:
        if self.started:
            return
        self.started = True
        status = next(
            (s.get("status") for s in rows(said.get("mcp_servers")) if s.get("name") == SERVER), None
        )
        self.say("started", runner="claude-code", model=text(said.get("model")),
                 version=text(said.get("claude_code_version")), **self._facts)  # fmt: skip
        self._reached = status == "connected"
        if not self._reached:
            # The client would go on without them, and call the outcome a success.
            self.stop = f"{NO_ACTS}: its MCP server is {status or 'missing'}"

    # -- what the model says --------------------------------------------------------------------------------

    def _assistant(self, said: Mapping[str, Any]) -> None:
        message = table(said.get("message"))
        if isinstance(said.get("error"), str):
            self._error = said["error"]
        if message.get("model") == "<synthetic>":
            return  # the client's own words: they come again with the result
        if message.get("id") != self._message:
            self._message = message.get("id")
            self._turn += 1
        for block in rows(message.get("content")):
            match block.get("type"):
                case "text":
                    self.text = text(block.get("text"))
                    self.say("text", turn=self._turn, text=self.text)
                case "thinking":
                    self.say("thinking", turn=self._turn, text=text(block.get("thinking")))
                case "tool_use" | "server_tool_use":
                    self.say("tool_call", turn=self._turn, id=text(block.get("id")), name=text(block.get("name")),
                             input=table(block.get("input")))  # fmt: skip

    def _results(self, said: Mapping[str, Any]) -> None:
        for block in rows(table(said.get("message")).get("content")):
            if block.get("type") == "tool_result":
                content = block.get("content")
                shown = (
                    content if isinstance(content, str) else "\n".join(_part(part) for part in rows(content))
                )
                self.say("tool_result", id=text(block.get("tool_use_id")), text=shown,
                         error=block.get("is_error") is True)  # fmt: skip

    # -- usage ----------------------------------------------------------------------------------------------

    def _streamed(self, said: Mapping[str, Any]) -> None:
        """A request's usage: of `assistant` lines it is not known how much was put out."""
        inner, who = table(said.get("event")), said.get("parent_tool_use_id")
        match inner.get("type"):
            case "message_start":
                message = table(inner.get("message"))
                known = {k: v for k, v in table(message.get("usage")).items() if v is not None}
                self._open[who] = {**known, "model": message.get("model")}
                if len(self._open) > 1000:
                    self._open.pop(next(iter(self._open)))
            case "message_delta":
                known = {k: v for k, v in table(inner.get("usage")).items() if v is not None}
                self._open.setdefault(who, {}).update(known)
            case "message_stop":
                found = self._open.pop(who, {})
                usage = _usage(found)
                self.say("usage", turn=self._turn, model=text(found.get("model")), tokens_in=usage.tokens_in,
                         tokens_out=usage.tokens_out, cache_read=usage.cache_read, cache_write=usage.cache_write,
                         usd=None)  # fmt: skip
                self.spend(usage)

    # -- the end --------------------------------------------------------------------------------------------

    def _final(self, said: Mapping[str, Any]) -> Final:
        by_model = {name: _model_usage(table(used)) for name, used in table(said.get("modelUsage")).items()}
        whole = _usage(table(said.get("usage")), money(said.get("total_cost_usd")))
        if by_model:  # of all models and subagents
            first, *others = by_model.values()
            for other in others:
                first += other
            whole = Usage(tokens_in=first.tokens_in, tokens_out=first.tokens_out, cache_read=first.cache_read,
                          cache_write=first.cache_write, usd=whole.usd, priced_by=whole.priced_by)  # fmt: skip
        self.usage = whole
        self.spend(Usage())
        outcome, reason = self._judged(said)
        last = text(said.get("result")) or self.text
        return Final(outcome=outcome, reason=reason, text=last, usage=whole, by_model=by_model)  # type: ignore[arg-type]

    def _judged(self, said: Mapping[str, Any]) -> tuple[str, str]:
        """Subtype, is_error, stop reason and exit status do not agree: what speaks against success counts."""
        subtype, stop, words = (
            text(said.get("subtype")),
            text(said.get("stop_reason")),
            text(said.get("result")),
        )
        errors = "; ".join(each for each in said.get("errors") or () if isinstance(each, str))
        if subtype == "error_max_turns":
            return "failed", f"max_turns: {errors or 'the limit was reached'}"
        if subtype == "error_max_budget_usd":
            return "failed", f"max_usd: {errors or 'the limit was reached'}"
        if stop == "refusal" or self._error == "refusal":
            return "failed", "refusal"
        if self._error == "max_output_tokens":
            return "failed", f"{CUT}: {words}"
        if said.get("is_error") is not False or subtype != "success":
            return self._trouble(said.get("api_error_status"), words or errors or subtype)
        if stop in NOT_WHOLE:
            return "failed", NOT_WHOLE[stop]
        if not self._reached:
            return "failed", f"{NO_ACTS}: the client has not told of them"
        return "success", ""

    def _trouble(self, status: Any, words: str) -> tuple[str, str]:
        code = status if isinstance(status, int) else 0
        passing = code in (408, 409, 429) or code >= 500
        if passing or (self._error in PASSING and code not in (401, 403)):
            return "unavailable", words
        return "failed", words


def _part(part: Mapping[str, Any]) -> str:
    return text(part.get("text")) if part.get("type") == "text" else f"[{part.get('type')}]"


def _usage(found: Mapping[str, Any], usd: float | None = None) -> Usage:
    return Usage(
        tokens_in=number(found.get("input_tokens")), tokens_out=number(found.get("output_tokens")),
        cache_read=number(found.get("cache_read_input_tokens")),
        cache_write=number(found.get("cache_creation_input_tokens")), usd=usd,
        priced_by=None if usd is None else "client",
    )  # fmt: skip


def _model_usage(found: Mapping[str, Any]) -> Usage:
    usd = money(found.get("costUSD"))
    return Usage(
        tokens_in=number(found.get("inputTokens")), tokens_out=number(found.get("outputTokens")),
        cache_read=number(found.get("cacheReadInputTokens")),
        cache_write=number(found.get("cacheCreationInputTokens")),
        usd=usd, priced_by=None if usd is None else "client",
    )  # fmt: skip
