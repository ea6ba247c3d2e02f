"""What the events of `codex exec --json` mean, as version 0.171 prints them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from swarmd.core.wire import Outcome, Usage
from swarmd.runners.reading import NO_ACTS, Final, Reading, Say, number, rows, table, text

CUT = re.compile(r"max_output_tokens|context window|context_length", re.IGNORECASE)
REFUSED = re.compile(r"content_filter|content policy|usage policy|cyber_policy", re.IGNORECASE)
STATUS = re.compile(r"\bstatus:? (\d{3})\b")
PASSING = re.compile(
    r"stream disconnected|error sending request|exceeded retry limit|quota|usage limit|rate limit|overloaded|"
    r"high demand|at capacity|timed? ?out|connection|try again",
    re.IGNORECASE,
)
"""It is told in words only; these say that later it may go."""
RETRY = re.compile(r"Reconnecting\D*(\d+)/\d+ *(?:\((.*)\))?", re.DOTALL)


class CodexReading(Reading):
    """One session of Codex. It tells its usage at the end only, and a refusal not at all."""

    def __init__(self, say: Say, *, model: str, facts: Mapping[str, Any]) -> None:
        super().__init__(say, None)
        self._model = model
        self._facts = facts
        self._turn = 1
        self._calls: set[str] = set()

    def take(self, said: Mapping[str, Any]) -> bool:
        """The next event."""
        match said["type"]:
            case "thread.started":
                self.started = True
                self.say("started", runner="codex", model=self._model, **self._facts)
            case "item.started":
                self._call(table(said.get("item")))
            case "item.completed":
                self._item(table(said.get("item")))
            case "error":
                self._error(text(said.get("message")))
            case "turn.completed":
                self._completed(table(said.get("usage")))
            case "turn.failed":
                outcome, reason = _trouble(text(table(said.get("error")).get("message")))
                self.final = Final(outcome=outcome, reason=reason, text=self.text, usage=self.usage)
        return True

    def untold(self, errors: bytes) -> str:
        """It does not start without the servers that it requires, and says so in words only."""
        missing = b"required MCP servers failed to initialize" in errors
        return f"{NO_ACTS}: its MCP server could not be reached" if missing else ""

    def _call(self, item: Mapping[str, Any]) -> None:
        given: dict[str, Any]
        match item.get("type"):
            case "command_execution":
                name, given = "command", {"command": text(item.get("command"))}
            case "mcp_tool_call":
                name = f"mcp__{text(item.get('server'))}__{text(item.get('tool'))}"
                given = dict(table(item.get("arguments")))
            case "file_change":
                name, given = "file_change", {"changes": rows(item.get("changes"))}
            case "web_search":
                name, given = "web_search", {"query": text(item.get("query"))}
            case _:
                return
        id = text(item.get("id"))
        if id not in self._calls and len(self._calls) < 100_000:
            self._calls.add(id)
            self.say("tool_call", turn=self._turn, id=id, name=name, input=given)

    def _item(self, item: Mapping[str, Any]) -> None:
        self._call(item)  # some items are told of only when they are done
        match item.get("type"):
            case "agent_message":
                self.text = text(item.get("text"))
                self.say("text", turn=self._turn, text=self.text)
                self._turn += 1
            case "reasoning":
                self.say("thinking", turn=self._turn, text=text(item.get("text")))
            case "error":
                self.say("warning", text=text(item.get("message")))
            case "command_execution":
                self._result(item, text(item.get("aggregated_output")), failed=item.get("exit_code") != 0)
            case "mcp_tool_call":
                error = text(table(item.get("error")).get("message"))
                parts = rows(table(item.get("result")).get("content"))
                shown = "\n".join(text(part.get("text")) or f"[{part.get('type')}]" for part in parts)
                self._result(item, error or shown, failed=bool(error) or item.get("status") != "completed")
            case "file_change" | "web_search":
                self._result(item, text(item.get("status")), failed=item.get("status") == "failed")

    def _result(self, item: Mapping[str, Any], shown: str, *, failed: bool) -> None:
        self.say("tool_result", id=text(item.get("id")), text=shown, error=failed)

    def _error(self, message: str) -> None:
        retry = RETRY.match(message)
        if retry is None:
            self.say("warning", text=message)
        else:
            self.say("retry", reason=retry[2] or message, attempt=int(retry[1]), wait_seconds=None)

    def _completed(self, found: Mapping[str, Any]) -> None:
        whole, read = number(found.get("input_tokens")), number(found.get("cached_input_tokens"))
        written = number(found.get("cache_write_input_tokens"))
        # The API counts what came from the cache as input, too.
        fresh = None if whole is None else max(whole - (read or 0) - (written or 0), 0)
        usage = Usage(tokens_in=fresh, tokens_out=number(found.get("output_tokens")), cache_read=read,
                      cache_write=written)  # fmt: skip
        self.say("usage", turn=self._turn, model=self._model, tokens_in=usage.tokens_in, tokens_out=usage.tokens_out,
                 cache_read=usage.cache_read, cache_write=usage.cache_write, usd=None)  # fmt: skip
        self.usage = usage
        by_model = {self._model: usage} if self._model else {}
        self.final = Final(outcome="success", text=self.text, usage=usage, by_model=by_model)


def _trouble(message: str) -> tuple[Outcome, str]:
    status = STATUS.search(message)
    code = int(status[1]) if status else 0
    if REFUSED.search(message):
        return "failed", "refusal"
    if CUT.search(message):
        return "failed", f"the model's answer was cut off: {message}"
    if code in (408, 409, 429) or code >= 500:
        return "unavailable", message
    if code == 0 and PASSING.search(message):
        return "unavailable", message
    return "failed", message or "the turn failed, and Codex does not say why"
