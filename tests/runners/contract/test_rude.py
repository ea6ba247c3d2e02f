"""Whatever a client prints, and however it ends: nothing is taken for a success that is none, and nothing grows."""

import base64

import pytest

from swarmd.runners.lines import LINE_BYTES
from tests.runners.contract.kinds import CLIENTS, STAND_INS, every
from tests.runners.machines import processes

ACT = {"act": "ctx_set", "key": "a", "value": "1"}


def raw(data, times=1):
    return {"raw": base64.b64encode(data).decode(), "times": times}


@every(CLIENTS)
async def test_exit_status_0_without_a_final_event_is_no_success(session, kind):
    result = await kind.play(session, [ACT, {"say": "All done."}])
    assert result.outcome == "failed"
    assert result.reason == "the client ended with exit status 0 and without its final event"
    assert (result.exit, result.memory is not None) == (0, True)


@every(CLIENTS)
async def test_without_a_final_event_the_exit_status_is_told(session, kind):
    result = await kind.play(session, [ACT, {"exit": 75}])
    assert (result.outcome, result.exit) == ("failed", 75)


@every(CLIENTS)
async def test_the_final_event_counts_and_not_the_exit_status(session, kind):
    assert (await kind.play(session, [ACT, {"end": "ok"}, {"exit": 1}])).outcome == "success"
    assert (await kind.play(session, [ACT, {"end": "truncated"}, {"exit": 0}], session=2)).outcome == "failed"


@every(CLIENTS)
async def test_the_network_is_nobodys_fault(session, kind):
    assert (await kind.play(session, [{"end": "network"}])).outcome == "unavailable"


@every(CLIENTS)
async def test_after_its_final_event_a_client_has_three_seconds_then_it_is_ended(session, kind):
    steps = [{"end": "ok"}, {"ignore_term": True}, {"shell": "sleep 9173"}, {"sleep": 60}]
    result = await kind.play(session, steps, timeout_seconds=50)
    assert (result.outcome, result.reason) == ("success", "")
    assert processes("9173") == []
    (ended,) = session.desk.of("ended")
    assert ended["signal"] == 9


@every(CLIENTS)
async def test_output_after_the_result_changes_nothing(session, kind):
    steps = [{"end": "ok"}, raw(b"\x1b[31mrubbish\n7\n"), {"end": "auth"}, {"say": "more"}]
    result = await kind.play(session, steps)
    assert (result.outcome, result.reason) == ("success", "")
    assert "more" not in [detail["text"] for detail in session.desk.of("text")]


@every(CLIENTS)
async def test_rubbish_between_events_is_passed_over(session, kind):
    rubbish = [b"7\n", b"null\n", b'"text"\n', b"[1, 2]\n", b'{"type": 7}\n', b"{}\n", b"\xff\xfe\x00\n", b"NaN\n",
               b'{"type": "assistant"}\n', b'{"type": "item.completed", "item": []}\n', b"\n\n", b"warning: hm\n",
               b'{"type": "result", "resu\n', b'{"type": "assistant", "message": {"content": [7, {"type": "text"}]}}\n',
               b'{"type": "system", "subtype": "init", "mcp_servers": 7}\n' * 2]  # fmt: skip
    result = await kind.play(
        session, [ACT, *(raw(line) for line in rubbish), {"say": "a\udcffb"}, {"end": "ok"}]
    )
    assert (result.outcome, result.reason) == ("success", "")


@every(CLIENTS)
async def test_half_a_last_line_is_no_event_and_a_whole_one_is(session, kind):
    final = {"claude-code": b'{"type":"result","subtype":"success","is_error":false,"stop_reason":"end_turn"}',
             "codex": b'{"type":"turn.completed","usage":{"input_tokens":1,"output_tokens":1}}'}[kind.kind]  # fmt: skip
    assert (await kind.play(session, [ACT, raw(final[:-5])])).outcome == "failed"
    assert (await kind.play(session, [ACT, raw(final)], session=2)).outcome == "success"


@every(CLIENTS)
async def test_a_giant_line_is_left_out_and_told(session, kind):
    giant = b'{"type":"user","x":"' + b"y" * 65536
    steps = [ACT, raw(giant), raw(b"y" * 65536, LINE_BYTES // 65536), raw(b'"}\n'), {"end": "ok"}]
    result = await kind.play(session, steps)
    assert result.outcome == "success"
    assert "1 line was too long to be read" in [detail["text"] for detail in session.desk.of("warning")]
    assert len(result.stdout.head + result.stdout.tail) < 1_000_000


@every(STAND_INS)
async def test_endless_output_is_bounded(session, kind):
    steps = [raw(b"rubbish " * 8191 + b"\n", 1_000_000_000)]
    result = await kind.play(session, steps, timeout_seconds=2.0)
    assert result.outcome == "timed_out"
    assert len(result.stdout.head + result.stdout.tail) < 1_000_000
    assert (session.state / "sessions/1/output.log").stat().st_size < 12 * 2**20


@every([kind for kind in CLIENTS if kind.kind == "claude-code"])
@pytest.mark.parametrize(
    ("servers", "state"),
    [([], "missing"), ([{"name": "swarmd", "status": "failed"}], "failed"),
     ([{"name": "swarmd", "status": "pending"}], "pending")],
)  # fmt: skip
async def test_a_session_whose_acts_cannot_be_reached_is_ended_at_once(session, kind, servers, state):
    result = await kind.play(session, [{"sleep": 30}, {"end": "ok"}], script={"servers": servers})
    assert result.outcome == "failed"
    assert result.reason == f"the session's acts were not reachable: its MCP server is {state}"


@every([kind for kind in CLIENTS if kind.kind == "claude-code"])
async def test_a_limit_of_tokens_ends_the_session_while_it_runs(session, kind):
    steps = [{"say": "one"}, {"say": "two"}, {"sleep": 30}, {"end": "ok"}]
    result = await kind.play(session, steps, token_limit=300)
    assert result.outcome == "failed"
    assert result.reason == "limits.tokens_per_session: 324 tokens were used, 300 are allowed"
    assert result.usage.counted == 324
    assert (
        await kind.play(session, [*steps[:2], {"end": "ok"}], token_limit=324, session=2)
    ).outcome == "success"


@every([kind for kind in CLIENTS if kind.kind == "claude-code"])
@pytest.mark.parametrize(
    ("how", "reason"), [("max_turns", "max_turns: Reached"), ("paused", "the model paused")]
)
async def test_what_is_not_whole_is_no_success_though_the_client_says_so(session, kind, how, reason):
    result = await kind.play(session, [ACT, {"end": how}])
    assert result.outcome == "failed"
    assert result.reason.startswith(reason)
