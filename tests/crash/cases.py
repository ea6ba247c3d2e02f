"""The cases of a crash run: which scenarios there are, what is done in each, and what is broken after it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from tests.crash import checks, power
from tests.crash.person import Scenario
from tests.crash.stage import Stage
from tests.crash.story import GoesOn, Told


def case(stage: Stage, scenario: Scenario, n: int, m: int) -> list[str]:
    """Killed at call `n`, and the recovery at call `m`; the promises that broke."""
    try:
        told = _killed(stage, scenario, n)
        if m:
            stage.recover(m)
        return _recovered(stage, told)
    except RuntimeError as error:
        return [str(error)]


def nested(stage: Stage, scenario: Scenario, n: int) -> Iterator[tuple[int, list[str]]]:
    """Killed at call `n`, and the recovery at each of its calls in turn."""
    try:
        told = _killed(stage, scenario, n)
        stage.keep()
        m = 1
        while not stage.recover(m).calls:
            yield m, _recovered(stage, told)
            stage.go_back()
            m += 1
    except RuntimeError as error:
        yield 0, [str(error)]


def cut(stage: Stage, scenario: Scenario, n: int, k: int) -> list[str]:
    """The power fails at call `n`, in the `k`-th of the ways in which it can; then another boot."""
    try:
        told = power.cut(stage, scenario, n, f"{scenario}:{n}:{k}")
        wrong = _recovered(stage, told, boot="boot-2")
    except RuntimeError as error:
        return [str(error)]
    # What is set aside after a power cut is told to a person, which is as it should be.
    return [text for text in wrong if "was left behind" not in text and "attention" not in text]


def _killed(stage: Stage, scenario: Scenario, n: int) -> Told:
    return stage.play(scenario, n, torn=n % 3 == 0)[1]


def _recovered(stage: Stage, told: Told, *, boot: str = "boot-1") -> list[str]:
    """A recovery that nothing disturbs, and what is broken after it."""
    stage.recover(0, boot=boot)
    wrong = stage.story.broken(told)
    before = checks.fingerprint(stage.story.state)
    stage.recover(0, boot=boot)
    if checks.fingerprint(stage.story.state) != before:
        wrong.append("I7: recovery repeated gives something else")
    if isinstance(stage.story, GoesOn):
        stage.go_on(stage.story, boot=boot)
        wrong += stage.story.broken_after()
    return wrong


def scenarios(stage: Stage, variants: Iterable[str], *, few: bool) -> Iterator[tuple[Scenario, int]]:
    """Each scenario with the number of calls it makes."""
    for variant in variants:
        journal = stage.folder / "journal"
        calls = stage.play(Scenario(variant=variant), 0, journal=journal)[0].calls
        # Before the first case, whose power cuts write a journal of their own.
        swaps = power.exchanges_of(journal.read_bytes(), "/MEMORY.md")
        yield Scenario(variant=variant), calls
        for style, moment in stage.story.visits(calls, swaps, few=few):
            for stale in (False, True) if style in ("vim", "atomic", "code") else (False,):
                scenario = Scenario(style=style, moment=moment, variant=variant, stale=stale)
                yield scenario, _calls(stage, scenario)


def _calls(stage: Stage, scenario: Scenario) -> int:
    try:
        return stage.play(scenario, 0)[0].calls
    except RuntimeError:
        return 0  # it breaks where nobody kills it: its first case says so


def one(stage: Stage, text: str) -> list[str]:
    """A case as it was printed."""
    found = re.fullmatch(r"(\w+)@(-?\d+)(-stale)?/(\w+):(\d+):(?:(\d+)|cut(\d+))", text)
    assert found is not None, f"{text} is not STYLE@MOMENT[-stale]/VARIANT:N:M, nor ...:N:cutK"
    scenario = Scenario(style=found[1], moment=int(found[2]), stale=bool(found[3]), variant=found[4])
    n = int(found[5])
    return case(stage, scenario, n, int(found[6])) if found[6] else cut(stage, scenario, n, int(found[7]))
