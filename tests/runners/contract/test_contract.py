"""What holds for every runner, whatever it starts: the same suite over all of them."""

import asyncio
import base64
import json

import pytest

from swarmd.runners.outcomes import RunCancelled
from tests.runners.contract.kinds import COMMAND, KEY, MODEL, REAL, STAND_INS, every
from tests.runners.machines import TOKEN, processes, until

ALL = [*STAND_INS, MODEL, *REAL]
WITH_TOOLS = [kind for kind in ALL if kind is not COMMAND]
OUTCOMES = {"refusal": "failed", "truncated": "failed", "overloaded": "unavailable", "auth": "failed"}


def calls(session):
    return [(message.call, dict(message.args)) for message in session.desk.calls]


@every(ALL)
async def test_acts_are_asked_for_at_the_desk_and_the_end_is_a_success(session, kind):
    steps = [
        {"act": "ctx_set", "key": "status", "value": "green"},
        {"act": "memory_append", "file": "MEMORY.md", "text": "seen"},
        {"end": "ok"},
    ]
    result = await kind.play(session, steps)
    assert (result.outcome, result.reason) == ("success", "")
    assert calls(session) == [("ctx_set", {"key": "status", "value": "green"})]
    assert result.memory.read("MEMORY.md") == b"# Notes\nseen\n"
    assert result.memory_problems == ()


@every(ALL)
async def test_a_refused_act_is_told_and_the_session_goes_on(session, kind):
    steps = [
        {"act": "handoff_send", "to": "stranger", "text": "hi"},
        {"act": "ctx_set", "key": "a", "value": "1"},
        {"end": "ok"},
    ]
    result = await kind.play(session, steps)
    assert result.outcome == "success"
    assert [name for name, _ in calls(session)] == ["handoff_send", "ctx_set"]
    if kind.kind == "command":
        assert b"handoff_send: stranger is not below polybreak" in result.stdout.head
    else:
        refused, done = session.desk.of("tool_result")
        assert (refused["error"], done["error"]) == (True, False)
        assert "stranger is not below polybreak" in refused["text"]


@every(ALL)
@pytest.mark.parametrize("how", OUTCOMES)
async def test_an_ending_that_can_be_told_is_told(session, kind, how):
    if how not in kind.endings:
        pytest.skip(f"{kind.kind} does not tell: {how}")
    result = await kind.play(session, [{"act": "ctx_set", "key": "a", "value": "1"}, {"end": how}])
    assert (result.outcome, bool(result.reason)) == (OUTCOMES[how], True)
    assert [name for name, _ in calls(session)] == ["ctx_set"]
    assert result.memory is not None


@every(ALL)
async def test_the_deadline_ends_every_process(session, kind):
    mark = f"6173{len(kind.name)}"
    steps = [{"act": "ctx_set", "key": "a", "value": "1"}, {"shell": f"setsid sleep {mark}0 & sleep {mark}1"}]
    result = await kind.play(session, steps, timeout_seconds=kind.start_seconds + 2)
    assert result.outcome == "timed_out"
    assert processes(mark) == []
    assert [name for name, _ in calls(session)] == ["ctx_set"]


@every(ALL)
async def test_cancelling_ends_every_process_and_hands_over_the_memory(session, kind):
    mark = f"7173{len(kind.name)}"
    # In quotes, so that the sleeping program alone has the mark, and not the shell that is told of it.
    steps = [{"shell": f"echo kept >>$SWARMD_MEMORY/MEMORY.md; sleep {mark[:2]}''{mark[2:]}1"}, {"end": "ok"}]
    running = asyncio.ensure_future(kind.play(session, steps))
    await until(lambda: processes(mark), 20.0)
    running.cancel()
    with pytest.raises(RunCancelled) as caught:
        await running
    assert caught.value.result.outcome == "cancelled"
    assert caught.value.result.memory.read("MEMORY.md") == b"# Notes\nkept\n"
    assert processes(mark) == []


@every(ALL)
async def test_the_token_is_dead_with_the_session(session, kind):
    assert (await kind.play(session, [{"end": "ok"}])).outcome == "success"
    assert session.host.mcp.visitor(TOKEN.encode()) is None
    assert not (session.root / "run/s/1").exists()


@every(ALL)
async def test_secrets_are_masked_in_all_that_is_kept(session, kind):
    steps = [{"shell": f"echo {KEY}; echo {TOKEN}"}, {"say": f"I know {KEY} and {TOKEN}"}, {"end": "ok"}]
    result = await kind.play(session, steps)
    kept = b"".join(file.read_bytes() for file in (session.state / "sessions/1").rglob("*") if file.is_file())
    kept += result.stdout.head + result.stdout.tail + result.stderr.head
    kept += repr(session.desk.events).encode()
    assert KEY.encode() not in kept
    assert TOKEN.encode() not in kept
    assert b"[secret]" in kept


@every(WITH_TOOLS)
async def test_neither_key_nor_token_is_in_the_environment_of_what_the_model_starts(session, kind):
    look = "(env; tr '\\0' '\\n' </proc/$PPID/environ; tr '\\0' '\\n' </proc/$PPID/cmdline; echo seen) | base64 -w0"
    await kind.play(session, [{"shell": look}, {"end": "ok"}])
    (result,) = session.desk.of("tool_result")
    text = next(line for line in result["text"].splitlines() if len(line) > 100)
    seen = base64.b64decode(text).decode()
    assert "seen" in seen
    assert KEY not in seen
    assert TOKEN not in seen
    assert "SWARMD_SESSION=1" in seen  # without a token `swarmd` refuses whoever is in a session


@every(WITH_TOOLS)
async def test_the_transcript_tells_what_happened_and_what_it_cost(session, kind):
    steps = [{"act": "ctx_set", "key": "a", "value": "1"}, {"say": "All is well."}, {"end": "ok"}]
    result = await kind.play(session, steps)
    kinds = [name for name, _ in session.desk.events]
    assert kinds[0] == "started"
    assert kinds[-1] == "result"
    call, answer = session.desk.of("tool_call")[0], session.desk.of("tool_result")[0]
    assert call["name"] == kind.tool.format("ctx_set")
    assert call["input"] == {"key": "a", "value": "1"}
    assert answer["id"] == call["id"]
    assert "All is well." in [detail["text"] for detail in session.desk.of("text")]
    assert session.desk.of("usage")
    assert result.usage.counted > 0
    assert result.usage.usd is not None
    json.dumps(session.desk.events)


@every(WITH_TOOLS)
async def test_what_a_client_was_given_is_gone_after_it(session, kind):
    await kind.play(session, [{"end": "ok"}])
    left = sorted(path.name for path in (session.state / "sessions/1").iterdir())
    assert left == list(kind.keeps)
