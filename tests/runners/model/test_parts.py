"""The pure parts of the loop: an answer put together from its events, limits on a clock of the test, summaries."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swarmd.core.wire import Usage
from swarmd.runners.model import compaction
from swarmd.runners.model.answers import Answer, Assembly, Incomplete
from swarmd.runners.model.conversation import Conversation, result
from swarmd.runners.model.limits import SOFT_SECONDS, Limits

START = {"type": "message_start", "message": {"model": "m", "usage": {"input_tokens": 3, "output_tokens": 1}}}
END = [
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 9}},
    {"type": "message_stop"},
]


def put_together(*events) -> Answer:
    assembly = Assembly()
    for event in events:
        assembly.feed(event)
    return assembly.finish()


def block(index: int, content, *deltas, closed: bool = True):
    yield {"type": "content_block_start", "index": index, "content_block": content}
    for delta in deltas:
        yield {"type": "content_block_delta", "index": index, "delta": delta}
    if closed:
        yield {"type": "content_block_stop", "index": index}


def call(*pieces: str, closed: bool = True, index: int = 0):
    deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    return block(
        index, {"type": "tool_use", "id": f"t{index}", "name": "n", "input": {}}, *deltas, closed=closed
    )


def test_later_figures_of_usage_are_totals_and_what_is_not_said_stays():
    answer = put_together(
        START, *block(0, {"type": "text", "text": ""}, {"type": "text_delta", "text": "hi"}), *END
    )
    assert answer.usage == Usage(tokens_in=3, tokens_out=9)
    assert (answer.text, answer.stop, answer.context) == ("hi", "end_turn", 12)


def test_figures_that_are_none_are_unknown():
    odd = {
        "type": "message_start",
        "message": {"usage": {"input_tokens": "many", "cache_read_input_tokens": True}},
    }
    assert put_together(odd, *END[:1], END[1]).usage == Usage(tokens_out=9)
    assert (
        put_together({"type": "message_start", "message": {}}, {**END[0], "usage": None}, END[1]).usage
        == Usage()
    )


@pytest.mark.parametrize(
    ("pieces", "input", "cut"),
    [
        (['{"a": ', "1}"], {"a": 1}, False),
        ([], {}, False),
        ([""], {}, False),
        (['{"a": '], {}, True),
        (["[1, 2]"], {}, True),
        (["7"], {}, True),
        (["[" * 100_000], {}, True),
    ],
)
def test_arguments_are_an_object_or_they_are_cut(pieces, input, cut):
    answer = put_together(START, *call(*pieces), *END)
    assert answer.calls[0]["input"] == input
    assert answer.cut == ({"t0"} if cut else set())


def test_a_call_that_was_not_closed_is_cut_however_good_its_arguments_look():
    assert put_together(START, *call('{"a": 1}', closed=False), *END).cut == {"t0"}


@pytest.mark.parametrize(
    "events",
    [
        [],
        [END[0], END[1]],
        [START],
        [START, END[0]],
        [START, END[1]],
        [START, {"type": "message_delta", "delta": {"stop_reason": None}}, END[1]],
        [
            START,
            {"type": "content_block_delta", "index": 4, "delta": {"type": "text_delta", "text": "x"}},
            *END,
        ],
        [START, {"type": "content_block_start", "content_block": {"type": "text"}}, *END],
    ],
)
def test_what_is_no_whole_answer_is_none(events):
    with pytest.raises(Incomplete):
        put_together(*events)


TYPES = ["message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta", "text",
         "tool_use", "text_delta", "input_json_delta", "citations_delta", "thinking_delta", "odd"]  # fmt: skip
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.text(max_size=3) | st.sampled_from(TYPES),
    lambda inner: st.lists(inner, max_size=2) | st.fixed_dictionaries({}, optional={
        name: st.sampled_from(TYPES) if name == "type" else inner
        for name in ("type", "text", "partial_json", "citations", "citation", "id", "input", "usage", "stop_reason",
                     "stop_details", "model", "input_tokens")
    }),
    max_leaves=6,
)  # fmt: skip
EVENT = st.fixed_dictionaries(
    {"type": st.sampled_from(TYPES)},
    optional={
        "index": st.integers(0, 2) | JSON,
        "delta": JSON,
        "content_block": JSON,
        "message": JSON,
        "usage": JSON,
    },
)


@settings(max_examples=600)
@given(st.lists(EVENT, max_size=8))
def test_no_stream_whatever_it_holds_breaks_the_reader(events):
    try:
        answer = put_together(START, *events, *END)
    except Incomplete:
        return
    assert isinstance(answer.text, str)
    assert answer.context >= 0
    assert all(isinstance(call["input"], dict) for call in answer.calls)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_before_the_time_is_over_it_is_told_once():
    clock = Clock()
    limits = Limits(begun=1000.0, deadline=1000.0 + 1000, tokens=None, now=clock)
    clock.now += 849
    assert limits.notice(Usage()) is None
    clock.now += 2
    assert "about 149 seconds are left" in str(limits.notice(Usage()))
    assert limits.notice(Usage()) is None


def test_in_a_long_session_that_is_five_minutes_before():
    clock = Clock()
    limits = Limits(begun=1000.0, deadline=1000.0 + 86_400, tokens=None, now=clock)
    clock.now += 86_400 - SOFT_SECONDS - 1
    assert limits.notice(Usage()) is None
    clock.now += 2
    assert "seconds are left" in str(limits.notice(Usage()))


def test_limits_of_turns_and_tokens_are_told_with_both_numbers():
    limits = Limits(begun=0, deadline=10, tokens=100, now=lambda: 0.0)
    assert limits.over(4, 5, Usage(tokens_in=90, cache_read=99)) is None
    assert limits.over(5, 5, Usage()) == "max_turns: the model answered 5 times and had not finished"
    told = limits.over(1, 5, Usage(tokens_in=50, tokens_out=30, cache_write=15, cache_read=50))
    assert told == "tokens_per_session: 100 tokens were used, and 100 are allowed"


def test_a_message_never_is_empty_and_results_stand_first():
    talk = Conversation(system="s", user="")
    talk.heard(Answer(content=({"type": "text", "text": " "},), stop="max_tokens"))
    talk.say_text("go on")
    talk.say([result("t1", "")])
    (message,) = talk.request([])["messages"]
    assert [b.get("text") or b["content"] for b in message["content"]] == [
        "(no message)",
        "go on",
        "(nothing)",
    ]
    assert "tools" not in talk.request([])


def test_the_log_that_is_summarized_is_bounded():
    turns = [{"role": "user", "content": [result("t", "x" * 1_000_000)]}]
    text = compaction.request(turns, dated="now", tokens=10)["messages"][0]["content"]
    assert len(text) < 5_000
    assert "[... 996000 characters ...]" in text
