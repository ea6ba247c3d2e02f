"""Token estimates come to within a tenth of what a provider counts, whatever the text and whatever else is sent."""

import random

import pytest

from swarmd.core.agent import Agent
from swarmd.core.calibration import Correction, Pair, correction, measured_as


def estimate(found, ours):
    return ours * found.ratio + found.overhead


def test_nothing_seen_corrects_nothing():
    assert correction([]) == Correction(ratio=1.0, overhead=0)
    assert correction([Pair(ours=0, theirs=10), Pair(ours=10, theirs=0)]) == Correction()


@pytest.mark.parametrize("true", [0.62, 0.8, 1.0, 1.17, 1.31, 1.8])
@pytest.mark.parametrize("overhead", [0, 900, 3000, 18_000])
@pytest.mark.parametrize("spread", [0.0, 0.02, 0.3])
def test_after_ten_sessions_it_is_within_a_tenth(true, overhead, spread):
    chance = random.Random(f"{true} {overhead} {spread}")
    sizes = [round(4000 * (1 + spread * chance.uniform(-1, 1))) for _ in range(11)]
    theirs = [round(size * true * chance.uniform(0.98, 1.02)) + overhead for size in sizes]
    found = correction([Pair(ours=o, theirs=t) for o, t in zip(sizes[:10], theirs[:10], strict=True)])
    assert estimate(found, sizes[10]) == pytest.approx(theirs[10], rel=0.1)


@pytest.mark.parametrize("true", [0.62, 1.0, 1.31])
def test_where_the_tools_are_told_a_prompt_of_another_size_is_right_too(true):
    pairs = [Pair(ours=2000 + n, tools=3000, theirs=round((5000 + n) * true)) for n in range(10)]
    found = correction(pairs)
    for ours in (500, 2000, 50_000):
        assert estimate(found, ours) == pytest.approx((ours + 3000) * true, rel=0.04)


def test_where_sizes_differ_the_rest_is_told_from_the_ratio():
    pairs = [Pair(ours=ours, theirs=round(ours * 1.3) + 15_000) for ours in (2000, 4000, 8000, 3000, 9000)]
    found = correction(pairs)
    assert found.ratio == 1.3
    assert found.overhead == pytest.approx(15_000, abs=300)
    assert estimate(found, 60_000) == pytest.approx(60_000 * 1.3 + 15_000, rel=0.05)


def test_ratios_come_in_steps_so_that_prompts_stay_as_they_are():
    for theirs in range(1000, 1024):
        assert correction([Pair(ours=1000, tools=0, theirs=theirs)]).ratio == 1.0
    assert correction([Pair(ours=1000, tools=0, theirs=1030)]).ratio == 1.05


def test_one_odd_session_matters_little():
    pairs = [Pair(ours=4000, theirs=9000)] * 9
    assert estimate(correction([*pairs, Pair(ours=4000, theirs=90_000)]), 4000) == pytest.approx(
        9000, rel=0.05
    )


def test_only_the_newest_count():
    old = [Pair(ours=1000, tools=0, theirs=2000)] * 100
    assert correction([*[Pair(ours=1000, tools=0, theirs=1000)] * 20, *old]).ratio == 1.0


def test_it_hangs_on_runner_and_model():
    names = [
        measured_as(Agent(name="a", runner_kind=kind, runner_options=options))
        for kind, options in (("command", {}), ("anthropic", {"model": "m"}), ("anthropic", {"model": "n"}))
    ]
    assert names == ["command:", "anthropic:m", "anthropic:n"]
