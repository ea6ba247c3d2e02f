"""What recorded events of each client mean: every ending that it was seen to have, and its transcript.

The lines in `recorded` are those of Claude Code 2.1.332 and Codex 0.171.0 against a scripted model, without what is
long and without meaning here.
"""

from pathlib import Path

import pytest

from swarmd.core.transcript import FIELDS
from swarmd.core.wire import Captured, Usage
from swarmd.runners.claude_stream import ClaudeReading
from swarmd.runners.codex_stream import CodexReading
from swarmd.runners.process import Ended, Start
from swarmd.runners.reading import OUTPUT_BYTES, judged
from swarmd.runners.sandbox import Policy

RECORDED = Path(__file__).parent / "recorded"
START = Start(program="client", argv=[], workdir="/", env={}, policy=Policy(level="none"), marker="x")

ENDINGS = {
    "claude-code_success": ("success", ""),
    "claude-code_auth": ("failed", "Invalid API key · Fix external API key"),
    "claude-code_billing": ("unavailable", "Credit balance is too low"),
    "claude-code_denied": ("success", ""),
    "claude-code_max_budget": ("failed", "max_usd: Reached maximum budget ($0.002)"),
    "claude-code_max_tokens": (
        "failed",
        "the model's answer was cut off: API Error: Claude's response exceeded the 64000",
    ),
    "claude-code_max_turns": ("failed", "max_turns: Reached maximum number of turns (2)"),
    "claude-code_mcp_failed": (
        "failed",
        "the session's acts were not reachable: its MCP server is failed",
    ),
    "claude-code_network": ("unavailable", "API Error: Connection refused"),
    "claude-code_no_model": ("failed", "There's an issue with the selected model"),
    "claude-code_overloaded": ("unavailable", "API Error: 529 Overloaded."),
    "claude-code_paused": ("failed", "the model paused in the middle of its answer"),
    "claude-code_rate_limit": ("unavailable", "API Error: Request rejected (429) · slow down"),
    "claude-code_refusal": ("failed", "refusal"),
    "codex_success": ("success", ""),
    "codex_auth": ("failed", "unexpected status 401 Unauthorized: Incorrect API key provided"),
    "codex_content_filter": ("failed", "refusal"),
    "codex_max_tokens": ("failed", "the model's answer was cut off: Incomplete response returned"),
    "codex_overloaded": ("unavailable", "unexpected status 503 Service Unavailable"),
    "codex_quota": ("unavailable", '{"error": {"message": "You exceeded your current quota"'),
    "codex_rate_limit": ("unavailable", "exceeded retry limit, last status: 429 Too Many Requests"),
}


def read(name, chunk=1000, token_limit=None):
    """The reading of a recorded session, its events, and what went into the log."""
    events = []

    def say(kind, detail):
        events.append((kind, detail))

    if name.startswith("claude"):
        reading = ClaudeReading(say, token_limit, facts={"credential": "api-key"})
    else:
        reading = CodexReading(say, model="gpt-5.5", facts={"credential": "api-key"})
    data = (RECORDED / f"{name}.jsonl").read_bytes()
    log = b"".join(reading.feed(data[at : at + chunk]) for at in range(0, len(data), chunk)) + reading.close()
    return reading, events, log


def end(reading, **how):
    return judged(reading, Ended(**{"exit": 0, **how}), START, 60.0)


def test_every_recorded_session_has_its_ending():
    assert {path.stem for path in RECORDED.iterdir()} == set(ENDINGS)


@pytest.mark.parametrize("name", ENDINGS)
def test_a_recorded_session_ends_as_it_did(name):
    outcome, reason = ENDINGS[name]
    for status in (0, 1):
        final, exit = end(read(name)[0], exit=status)
        assert (final.outcome, exit) == (outcome, status)
        assert final.reason.startswith(reason)
        assert bool(final.reason) == bool(reason)


@pytest.mark.parametrize("name", ENDINGS)
def test_events_have_the_fields_that_they_promise_however_the_stream_is_cut(name):
    events = read(name)[1]
    assert events[0][0] == "started"
    for kind, detail in events:
        assert set(FIELDS[kind]) <= set(detail), kind
    assert read(name, chunk=7)[1] == events
    assert read(name, chunk=10**6)[1] == events


def test_the_transcript_of_claude_code():
    reading, events, log = read("claude-code_success")
    assert [kind for kind, _ in events] == [
        "started", "text", "tool_call", "tool_call", "usage", "tool_result", "tool_result",
        "tool_call", "usage", "tool_result", "text", "usage",
    ]  # fmt: skip
    assert events[0][1] == {"runner": "claude-code", "model": "claude-opus-4-8", "version": "2.1.332",
                            "credential": "api-key"}  # fmt: skip
    assert events[2][1] == {"turn": 1, "id": "toolu_1", "name": "mcp__swarmd__ctx_set",
                            "input": {"key": "a", "value": "1"}}  # fmt: skip
    assert [detail["error"] for kind, detail in events if kind == "tool_result"] == [False, False, True]
    assert events[4][1] == {"turn": 1, "model": "claude-opus-4-8", "tokens_in": 100, "tokens_out": 50,
                            "cache_read": 20, "cache_write": 10, "usd": None}  # fmt: skip
    whole = Usage(
        tokens_in=300, tokens_out=150, cache_read=60, cache_write=30, usd=0.0054675, priced_by="client"
    )
    assert reading.final.usage == whole
    assert reading.final.by_model == {"claude-opus-4-8": whole}
    assert reading.final.text == "All done."
    assert b"stream_event" not in log
    assert log.count(b"\n") == len(log.splitlines())


def test_the_transcript_of_codex():
    reading, events, _ = read("codex_success")
    assert [kind for kind, _ in events] == [
        "started", "text", "tool_call", "tool_result", "tool_call", "tool_result", "text", "usage",
    ]  # fmt: skip
    assert events[2][1]["name"] == "mcp__swarmd__ctx_set"
    assert reading.final.usage == Usage(tokens_in=240, tokens_out=150, cache_read=60, cache_write=0)
    priced = end(reading)[0].usage
    assert (priced.priced_by, priced.usd > 0) == ("list", True)


def test_retries_and_denials_are_told():
    assert [d for kind, d in read("claude-code_rate_limit")[1] if kind == "retry"] == [
        {"reason": "rate_limit (429)", "attempt": 1, "wait_seconds": 0.58}
    ]
    retry = next(detail for kind, detail in read("codex_overloaded")[1] if kind == "retry")
    assert retry["attempt"] == 1
    assert any(
        kind == "warning" and "Read was denied" in d["text"] for kind, d in read("claude-code_denied")[1]
    )


def test_usage_that_was_told_before_a_sudden_end_is_kept():
    reading, _, _ = read("claude-code_max_turns")
    reading.final = None
    final, exit = end(reading, exit=None, signal=9)
    assert (final.outcome, exit) == ("failed", 137)
    assert final.usage.counted > 0
    assert final.usage.usd is None


def test_what_ended_a_session_from_outside_is_told_where_no_final_event_came():
    reading, _, _ = read("claude-code_success")
    assert end(reading, timed_out=True)[0].outcome == "success"  # it had done its work
    reading.final = None
    assert end(reading, timed_out=True)[0].outcome == "timed_out"
    final = end(reading, exit=1, stderr=Captured(head=b"Error: no such option\n"))[0]
    assert final.reason == "exit status 1: Error: no such option"
    codex, _, _ = read("codex_success")
    codex.final = None
    last = Captured(head=b"Error: required MCP servers failed to initialize: swarmd: handshaking ...\n")
    final = end(codex, exit=1, stderr=last)[0]
    assert final.reason == "the session's acts were not reachable: its MCP server could not be reached"


def test_a_limit_is_reached_by_the_last_answer_too():
    assert end(read("claude-code_success", token_limit=486)[0])[0].outcome == "success"
    final = end(read("claude-code_success", token_limit=485)[0])[0]
    assert final.reason == "limits.tokens_per_session: 486 tokens were used, 485 are allowed"
    assert final.usage.usd == 0.0054675


def test_output_without_end_stops_the_session(monkeypatch):
    reading, _, _ = read("codex_success")
    reading.final, reading._bytes = None, OUTPUT_BYTES
    assert reading.feed(b"x\n") == b""
    assert end(reading)[0].reason == f"it printed more than {OUTPUT_BYTES} bytes"
