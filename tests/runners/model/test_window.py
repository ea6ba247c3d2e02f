"""Limits and the model's window: what is cached, what is counted, when history is summarized and when it is not."""

from __future__ import annotations

import asyncio

import pytest

from swarmd.runners.model.shared import SharedModels
from swarmd.runners.model.trouble import Trouble
from tests.model_server import answers as say
from tests.model_server.checks import Model
from tests.model_server.server import ModelServer
from tests.runners.model.talking import USER, converse

LOOK = say.tools(say.call("ctx_list"))


def marks(request) -> list[str]:
    """The texts of the blocks that end a cached part, in order."""
    body = request.body
    blocks = [*body["tools"], *body["system"], *(b for m in body["messages"] for b in m["content"])]
    return [str(b.get("text") or b.get("content")) for b in blocks if "cache_control" in b]


async def test_breakpoints_fall_behind_the_system_the_memory_and_the_newest_message(desk):
    with ModelServer([LOOK, "ok"]) as server:
        await converse(server, desk)
    first, second = server.messages
    assert [len(marks(request)) for request in (first, second)] == [3, 3]
    assert marks(first)[1] == USER[:13]
    assert marks(second)[:2] == marks(first)[:2]


async def test_the_second_turn_reads_from_the_cache_what_the_first_has_written(desk):
    with ModelServer([LOOK, LOOK, "ok"]) as server:
        done = await converse(server, desk)
    usage = desk.of("usage")
    assert usage[0]["cache_read"] == 0
    assert usage[1]["cache_read"] >= usage[0]["cache_write"] > 0
    assert usage[2]["cache_read"] >= usage[1]["cache_read"]
    total = done.by_model["claude-sonnet-5-5"]
    assert total.cache_read == sum(event["cache_read"] for event in usage)
    assert total.usd == pytest.approx(sum(event["usd"] for event in usage))


async def test_what_changes_between_sessions_comes_behind_the_breakpoints(desk):
    with ModelServer() as server:
        await converse(server, desk)
        later = USER.replace("the rest", "the time, later")
        await converse(server, desk, user=later, ends=(7, 13, len(later)))
    first, second = (request.body for request in server.messages)
    assert first["system"] == second["system"]
    assert first["tools"] == second["tools"]
    assert first["messages"][0]["content"][0] == second["messages"][0]["content"][0]
    assert desk.of("usage")[1]["cache_read"] > 0


async def test_a_limit_of_tokens_is_announced_once_and_then_ends_the_session(desk):
    dear = LOOK.costs(input=10, output=100, cache_read=5000, cache_creation=290)
    with ModelServer(dear) as server:
        done = await converse(server, desk, tokens=3000)
    assert done.outcome == "failed"
    assert done.reason == "tokens_per_session: 3600 tokens were used, and 3000 are allowed"
    assert len(server.messages) == 4
    told = [
        block["text"]
        for request in server.messages[-1:]
        for message in request.body["messages"]
        for block in message["content"]
        if block["type"] == "text" and block["text"].startswith("swarmd: this session ends soon")
    ]
    assert len(told) == 1
    assert "about 300 tokens are left" in told[0]


async def test_near_the_window_the_history_is_summarized_and_the_prompt_stays(desk):
    long = say.tools(say.call("ctx_set", key="a", value="v" * 4000), text="thinking about it " * 200)
    with ModelServer(
        [
            long.costs(input=18_500, output=60, cache_read=0, cache_creation=0),
            "Short summary: a is set.",
            "done",
        ],
        models={"claude-sonnet-5-5": Model(window=20_000, output=4000)},
    ) as server:
        done = await converse(server, desk)
        assert server.complaints == []
    assert (done.outcome, done.text) == ("success", "done")
    first, summary, after = (request.body for request in server.messages)
    assert "tools" not in summary
    assert "AGENT CALLS ctx_set" in summary["messages"][0]["content"]
    assert "2026-11-30" in summary["messages"][0]["content"]
    assert after["system"] == first["system"]
    (message,) = after["messages"]
    assert [block["text"] for block in message["content"][:2]] == [USER[:13], USER[13:]]
    assert message["content"][2]["text"].endswith("Short summary: a is set.")
    assert len(str(after["messages"])) < len(str(summary["messages"])) / 5
    assert desk.of("compaction")[0]["before"] == 18_560
    assert first["max_tokens"] == 4000, "never more than the model gives"


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (say.blocks(), "the summary is empty"),
        (say.text("half a summ", stop="max_tokens"), "the summary was not finished: max_tokens"),
        (say.text("word " * 1000), "hardly shorter"),
        (say.refusal("no"), "the summary was not finished: refusal"),
        (say.error(400, "no"), "the API did not take the request"),
    ],
)
async def test_a_summary_that_is_none_is_refused_and_the_history_stays(bad, why, desk):
    long = say.tools(say.call("ctx_set", key="a", value="v" * 4000))
    with ModelServer(
        [long.costs(input=19_500, output=10), bad, LOOK.costs(input=19_600, output=10), "done"],
        models={"claude-sonnet-5-5": Model(window=20_000, output=4000)},
    ) as server:
        done = await converse(server, desk)
        assert server.complaints == []
    assert done.outcome == "success"
    assert len(server.messages) == 4, "and it is not tried again in a row"
    assert len(server.messages[3].body["messages"]) == 5
    assert why in desk.of("warning")[0]["text"]
    assert desk.of("compaction") == []


async def test_the_summarizer_may_be_another_model(desk):
    with ModelServer(
        scripts={"big": [say.tools(say.call("ctx_set", key="a", value="v" * 4000)).costs(input=19_500), "done"],
                 "small": "in short"},
        models={"big": Model(window=20_000, output=4000), "small": Model(output=300)},
    ) as server:  # fmt: skip
        done = await converse(server, desk, model="big", summarizer_model="small")
    assert [request.body["model"] for request in server.messages] == ["big", "small", "big"]
    assert server.messages[1].body["max_tokens"] == 300
    assert set(done.by_model) == {"big", "small"}


@pytest.mark.parametrize("overflow", [say.too_long(), say.text("so f", stop="model_context_window_exceeded")])
async def test_a_conversation_that_does_not_fit_is_made_shorter_once(overflow, desk):
    long = say.tools(say.call("ctx_set", key="a", value="v" * 4000))
    with ModelServer([long, overflow, "in short", "done"]) as server:
        done = await converse(server, desk)
        assert server.complaints == []
    assert (done.outcome, done.text) == ("success", "done")
    with ModelServer([long, overflow, "in short", overflow]) as server:
        done = await converse(server, desk)
    assert done.outcome == "failed"
    assert len(server.messages) == 4


async def test_a_window_that_the_api_does_not_tell_is_a_warning_and_no_more(desk):
    with ModelServer(paths={"/v1/models/claude-sonnet-5-5": say.error(404)}) as server:
        assert (await converse(server, desk)).outcome == "success"
    assert "the window of claude-sonnet-5-5 is not known" in desk.of("warning")[0]["text"]


async def test_all_sessions_of_a_worker_ask_for_the_window_once_also_where_it_is_not_told():
    models = SharedModels()
    with ModelServer(paths={"/v1/models/gone": say.error(500)}) as server:
        asked = [
            models.window("sk", server.url, name) for name in ("claude-sonnet-5-5", "gone") for _ in range(20)
        ]
        found = await asyncio.gather(*asked, return_exceptions=True)
        with pytest.raises(Trouble):
            await models.window("sk", server.url, "gone")
        paths = [request.path for request in server.requests]
        await models.close()
    assert found[:20] == [(200_000, 64_000)] * 20
    assert all(isinstance(one, Trouble) for one in found[20:])
    assert sorted(paths) == ["/v1/models/claude-sonnet-5-5", "/v1/models/gone"]
