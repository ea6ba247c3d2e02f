"""What sessions have used is kept by model with their end, and what is not known is never a zero."""

import pytest

from swarmd.core.wire import Usage
from swarmd.store import usage as using
from swarmd.store.windows import Window

SONNET = Usage(tokens_in=100, tokens_out=10, cache_read=1000, cache_write=50, usd=0.5, priced_by="list")
HAIKU = Usage(tokens_in=7, tokens_out=3, cache_read=0, cache_write=0, usd=0.25, priced_by="client")
UNPRICED = Usage(tokens_in=20, tokens_out=2)


def ends(**facts):
    async def script(part):
        return part.done(**facts)

    return script


def sums(swarm, by=None, agents=None, **window):
    found = using.sums(swarm.reader, Window(**window), by, agents)
    return [{name: value for name, value in row.items() if name != "cache_write"} for row in found]


def test_totals_stand_in_the_session_and_models_beside_it(swarm):
    session = swarm.play("studio", ends(usage=SONNET + HAIKU, by_model={"sonnet": SONNET, "haiku": HAIKU}))
    assert [session[n] for n in ("tokens_in", "tokens_out", "cache_read", "cache_write", "usd")] == [
        107, 13, 1000, 50, 0.75,
    ]  # fmt: skip
    rows = using.of_session(swarm.reader, session["id"])
    assert [(r["model"], r["tokens_in"], r["usd"], r["priced_by"]) for r in rows] == [
        ("haiku", 7, 0.25, "client"), ("sonnet", 100, 0.5, "list"),
    ]  # fmt: skip
    assert session["usage"] == [{k: v for k, v in row.items() if k != "session"} for row in rows]


def test_the_parts_alone_make_the_whole(swarm):
    session = swarm.play("studio", ends(by_model={"sonnet": SONNET, "x": UNPRICED}))
    assert (session["tokens_in"], session["usd"]) == (120, None)


def test_the_whole_alone_stands_under_no_model(swarm):
    session = swarm.play("studio", ends(usage=UNPRICED))
    assert [(r["model"], r["tokens_in"], r["usd"]) for r in session["usage"]] == [(None, 20, None)]


def test_a_program_that_tells_nothing_leaves_no_row(swarm):
    session = swarm.play("studio")
    assert (session["tokens_in"], session["usd"], session["usage"]) == (None, None, [])
    assert swarm.rows("SELECT * FROM usage") == []


@pytest.mark.parametrize("outcome", ["failed", "unavailable", "timed_out"])
def test_what_a_session_used_is_kept_however_it_ended(swarm, outcome):
    assert swarm.play("studio", ends(outcome=outcome, usage=SONNET))["usd"] == 0.5


@pytest.fixture
def used(swarm):
    swarm.play("studio", ends(by_model={"sonnet": SONNET, "haiku": HAIKU}))
    swarm.clock.go(days=1)
    swarm.play("game", ends(by_model={"sonnet": SONNET, "new": UNPRICED}))
    swarm.play("game")
    swarm.queue("art")
    return swarm


def test_sums_by_agent_day_and_model_say_what_they_lack(used):
    assert sums(used, "agent") == [
        {"agent": "game", "sessions": 2, "tokens_in": 120, "tokens_out": 12, "cache_read": 1000, "usd": None, "untold": 1, "unpriced": 2},
        {"agent": "studio", "sessions": 1, "tokens_in": 107, "tokens_out": 13, "cache_read": 1000, "usd": 0.75, "untold": 0, "unpriced": 0},
    ]  # fmt: skip
    assert [(r["day"], r["sessions"], r["unpriced"]) for r in sums(used, "day")] == [
        ("2026-11-30", 1, 0), ("2026-12-01", 2, 2),
    ]  # fmt: skip
    assert [(r["model"], r["sessions"], r["usd"], r["unpriced"], r["untold"]) for r in sums(used, "model")] == [
        (None, 1, None, 1, 1), ("haiku", 1, 0.25, 0, 0), ("new", 1, None, 1, 0), ("sonnet", 2, 1.0, 0, 0),
    ]  # fmt: skip
    (all_,) = sums(used)
    assert (all_["sessions"], all_["usd"], all_["unpriced"]) == (3, 0.75, 2)


def test_a_window_and_agents_narrow_it(used):
    assert [r["agent"] for r in sums(used, "agent", since="2026-12-01")] == ["game"]
    assert [r["agent"] for r in sums(used, "agent", until="2026-12-01")] == ["studio"]
    assert sums(used, "model", ["art"]) == []
    assert sums(used, None, ["art"])[0]["usd"] is None


@pytest.mark.parametrize("by", ["agent", "model", "day", None])
def test_sums_read_an_index_alone(swarm, by):
    asked = []
    swarm.reader.set_trace_callback(asked.append)
    using.sums(swarm.reader, Window(since="2026-11-30T00:00:00.000000Z"), by)
    swarm.reader.set_trace_callback(None)
    (sql,) = [line for line in asked if line.startswith("SELECT")]
    plan = [row["detail"] for row in swarm.rows(f"EXPLAIN QUERY PLAN {sql}")]
    assert any("USING COVERING INDEX sessions_ended (ended>?)" in step for step in plan), plan


def test_renaming_takes_along_and_forgetting_takes_away_how_prompts_were_counted(swarm):
    from swarmd.store import moving

    async def script(part):
        part.desk.event(
            "usage",
            {
                "turn": 1,
                "model": "m",
                **dict.fromkeys(("tokens_out", "cache_read", "cache_write", "usd")),
                "tokens_in": 9,
            },
        )

    swarm.play("art", script)
    swarm.write(lambda c: moving.rename(c, "art", "arts"))
    assert [r["agent"] for r in swarm.rows("SELECT agent FROM counted")] == ["arts"]
    swarm.write(lambda c: moving.forget(c, "arts"))
    assert swarm.rows("SELECT * FROM counted") == []
