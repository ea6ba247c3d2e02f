"""After ten sessions the estimate that `prompt` shows is what the provider counts, for whatever the agent's texts are."""

import math

import pytest

from swarmd.core.transcript import FIELDS
from swarmd.session.estimate import estimate

PROSE = "The garden was quiet, and nobody had watered the roses since the first week of June. " * 60
CODE = (
    "def fire(self, *, at: datetime) -> list[Slot]:\n    return [s for s in self._slots if s.at <= at]\n" * 50
)
DATA = '{"id": 4711, "tags": ["a", "b"], "price": 12.50, "seen": null, "hash": "9f86d081884c7d65"}\n' * 50
CJK = "花园里很安静,自六月的第一周以来没有人给玫瑰浇水。気温は二十度でした。" * 60
TEXTS = {"prose": PROSE, "code": CODE, "json": DATA, "cjk": CJK}
TRUE = {"prose": 0.78, "code": 0.71, "json": 0.66, "cjk": 0.59}
"""How a provider's tokenizer may stand to the cautious estimate, kind by kind."""


class Provider:
    """Counts each character class in its own way, and more than the prompt: tools, and instructions of its own."""

    def __init__(self, hidden=0):
        self.hidden = hidden

    def count(self, *texts):
        total = 0.0
        for text in texts:
            rest = text
            for kind, sample in TEXTS.items():
                unit = sample[: len(sample) // (60 if kind in ("prose", "cjk") else 50)]
                total += rest.count(unit) * estimate(unit) * TRUE[kind]
                rest = rest.replace(unit, "")
            total += estimate(rest) * 0.75
        return math.ceil(total) + self.hidden


def plays(provider, *, tools=None):
    async def script(part):
        started = {"runner": "anthropic", "model": "m", **({"tools": tools} if tools else {})}
        part.desk.event("started", started)
        sent = provider.count(part.request.system, part.request.user, *([tools] if tools else []))
        usage = dict.fromkeys(FIELDS["usage"], 0)
        # Most of it comes from the cache, as it does in life.
        part.desk.event(
            "usage",
            {**usage, "model": "m", "turn": 1, "tokens_in": sent // 3, "cache_read": sent - sent // 3},
        )
        part.desk.event("usage", {**usage, "model": "m", "turn": 2, "tokens_in": 99, "cache_read": sent * 2})

    return script


@pytest.fixture
def swarm(swarm, monkeypatch):
    from swarmd.service import prompting

    class Counter:
        def __init__(self, *_):
            self.count = estimate

    monkeypatch.setattr(prompting, "TokenCounter", Counter)
    ports = swarm.ports
    monkeypatch.setattr(swarm, "ports", lambda **other: ports(count=estimate, **other))
    return swarm


@pytest.mark.parametrize(
    "tools", [None, '{"name": "ctx_set", "description": "Set a key."}' * 100], ids=["hidden", "told"]
)
@pytest.mark.parametrize("kind", [*TEXTS, "mix"])
def test_within_a_tenth_after_ten_sessions(swarm, kind, tools):
    text = "\n".join(TEXTS.values()) if kind == "mix" else TEXTS[kind]
    swarm.call("memory_write", agent="studio", file="MEMORY.md", text=text)
    swarm.change("studio", system_prompt=text)
    provider = Provider(hidden=0 if tools else 6000)
    for number in range(10):
        swarm.call("ctx_set", agent="studio", key="n", value=TEXTS["prose"][: number * 300])
        swarm.play("studio", plays(provider, tools=tools))
        swarm.clock.go(hours=1)
    document = swarm.call("prompt", agent="studio")
    sent = provider.count(document["system"], document["user"], *([tools] if tools else []))
    assert document["tokens"] == pytest.approx(sent, rel=0.1)
    assert document["tokens"] == sum(s["tokens"] for s in document["sections"]) + document["overhead"]


def test_it_is_learnt_from_what_is_committed_and_kept_with_it(swarm):
    provider = Provider()
    swarm.play("studio", plays(provider), mode="no_commit")
    assert swarm.call("prompt", agent="studio")["ratio"] == 1.0
    swarm.play("studio", plays(provider))
    first = swarm.call("prompt", agent="studio")
    assert first["ratio"] < 1.0
    swarm.close()
    swarm.open()
    assert swarm.call("prompt", agent="studio") == first
    assert swarm.call("prompt", agent="game")["ratio"] == 1.0
    swarm.change("studio", runner_options={"model": "another"})
    assert swarm.call("prompt", agent="studio")["ratio"] == 1.0


def test_only_the_last_sessions_are_kept(swarm):
    for _ in range(25):
        swarm.play("studio", plays(Provider()))
    assert [r["n"] for r in swarm.rows("SELECT count(*) AS n FROM counted")] == [20]


@pytest.mark.parametrize(
    "odd", [{}, {"tokens_in": None}, {"tokens_in": "9"}, {"tokens_in": True}, {"tokens_in": -1}]
)
def test_a_usage_that_says_nothing_teaches_nothing(swarm, odd):
    async def script(part):
        part.desk.event("usage", {**dict.fromkeys(FIELDS["usage"]), **odd})

    swarm.play("studio", script)
    assert swarm.rows("SELECT * FROM counted") == []


def test_tools_that_are_told_are_counted_and_not_kept(swarm):
    async def script(part):
        part.desk.event("started", {"runner": "r", "model": "m", "tools": [{"name": "ctx_set"}]})
        part.desk.event("usage", {**dict.fromkeys(FIELDS["usage"], 0), "tokens_in": 500})

    session = swarm.play("studio", script)
    assert swarm.rows("SELECT tools FROM counted")[0]["tools"] == estimate('[{"name": "ctx_set"}]')
    (started, _) = swarm.call("session_log", session=session["id"])["events"]
    assert "tools" not in started
