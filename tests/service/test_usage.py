"""`usage` sums what is known, says of how much it is not, and shows a session no more than itself and below."""

import pytest

from swarmd.core.wire import Usage
from swarmd.errors import BadInput

KNOWN = Usage(tokens_in=100, tokens_out=10, cache_read=0, cache_write=0, usd=0.1, priced_by="list")
DEAR = Usage(tokens_in=10, tokens_out=1, cache_read=5, cache_write=5, usd=0.2, priced_by="client")
UNPRICED = Usage(tokens_in=20, tokens_out=2)


def uses(**by_model):
    async def script(part):
        return part.done(by_model=by_model)

    return script


@pytest.fixture
def swarm(swarm):
    swarm.play("studio", uses(sonnet=KNOWN))
    swarm.play("game", uses(sonnet=KNOWN, opus=DEAR))
    swarm.clock.go(days=1)
    swarm.play("game", uses(new=UNPRICED))
    swarm.play("art")
    swarm.play("garage", uses(opus=DEAR))
    return swarm


def rows(swarm, by, **args):
    document = swarm.call("usage", by=by, **args)
    field = "agent" if by == "subtree" else by
    return [(r[field], r["sessions"], r["tokens_in"], r["usd"], r["usd_unknown"]) for r in document["items"]]


def test_by_agent_the_dearest_first(swarm):
    assert rows(swarm, "agent") == [
        ("game", 2, 130, pytest.approx(0.3), 1), ("garage", 1, 10, 0.2, 0), ("studio", 1, 100, 0.1, 0),
        ("art", 1, None, None, 1),
    ]  # fmt: skip


def test_by_model_and_by_day(swarm):
    assert rows(swarm, "model") == [
        ("opus", 2, 20, pytest.approx(0.4), 0), ("sonnet", 2, 200, 0.2, 0), ("new", 1, 20, None, 1), (None, 1, None, None, 1),
    ]  # fmt: skip
    assert rows(swarm, "day") == [
        ("2026-12-01", 3, 30, 0.2, 2), ("2026-11-30", 2, 210, pytest.approx(0.4), 0),
    ]  # fmt: skip


def test_a_subtree_is_an_agent_with_all_below_it(swarm):
    found = {row[0]: row[1:] for row in rows(swarm, "subtree")}
    assert found["house"] == (5, 240, pytest.approx(0.6), 2)
    assert found["studio"] == (4, 230, pytest.approx(0.4), 2)
    assert found["art"] == (1, None, None, 1)
    assert found["garage"] == (1, 10, 0.2, 0)
    swarm.remove("art")
    assert {row[0]: row[1] for row in rows(swarm, "subtree")}["house"] == 4


def test_the_total_is_of_all_also_of_what_is_left_out(swarm):
    document = swarm.call("usage", by="agent", n=1)
    assert (len(document["items"]), document["left_out"], document["next"]) == (1, 3, None)
    total = document["total"]
    assert (total["sessions"], total["usd"], total["usd_unknown"], total["tokens_unknown"]) == (5, 0.6, 2, 1)


def test_a_window_narrows_it(swarm):
    assert [row[0] for row in rows(swarm, "agent", until="2026-12-01T00:00:00Z")] == ["game", "studio"]
    assert swarm.call("usage", since="2027-01-01T00:00:00Z")["items"] == []
    with pytest.raises(BadInput, match="by"):
        swarm.call("usage", by="moon")


def test_an_agent_sees_itself_and_below(swarm):
    assert {r["agent"] for r in swarm.call("usage", as_="studio")["items"]} == {"studio", "game", "art"}
    assert {row[0] for row in rows(swarm, "subtree", as_="studio")} == {"studio", "game", "art"}
    assert swarm.call("usage", as_="garage")["total"]["sessions"] == 1

    async def asks(part):
        own = await part.act("usage", by="model")
        assert [r["model"] for r in own["items"]] == ["opus", "sonnet", "new"]

    assert swarm.play("game", asks)["outcome"] == "no_change"


def test_nothing_is_nothing_and_not_zero_dollars(swarm):
    total = swarm.call("usage", as_="art")["total"]
    assert (total["usd"], total["tokens_in"], total["usd_unknown"]) == (None, None, 1)


def test_status_and_log_show_what_is_known(swarm):
    today = swarm.call("status")["today"]
    assert (today["since"][:10], today["sessions"], today["usd"], today["usd_unknown"]) == (
        "2026-12-01",
        3,
        0.2,
        2,
    )
    line = next(line for line in swarm.call("log")["items"] if line["agent"] == "garage")
    assert (line["tokens_in"], line["cache_write"], line["usd"]) == (10, 5, 0.2)
