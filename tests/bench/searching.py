"""j. Searches of a history of so many texts, for sessions and for operators, beside grep; and making that index.

CPU time: what else the machine does changes it less than the time that passes.
"""

from __future__ import annotations

import itertools
import json
import random
import resource
import subprocess
import time
from datetime import timedelta
from pathlib import Path

from swarmd.core.instants import to_text
from swarmd.core.world import Actor
from swarmd.service.reading import session_read
from swarmd.store.indexing import SearchIndex, state_of
from swarmd.store.world import SqlWorld
from tests.bench.scale import Scale
from tests.bench.table import Series, duration, facts, show
from tests.swarm import NOW, Swarm

EVENTS = 20
"""Texts of one session."""
TEAM = 30
"""Agents below the head of a team; all teams stand below one root."""
COMMON = [
    "the",
    "to",
    "of",
    "and",
    "a",
    "in",
    "is",
    "it",
    "file",
    "test",
    "run",
    "error",
    "session",
    "memory",
    "with",
    "for",
    "on",
    "that",
    "build",
    "deploy",
]
SYLLABLES = [
    "ba",
    "de",
    "lo",
    "ki",
    "ru",
    "ne",
    "so",
    "ta",
    "vi",
    "mo",
    "pe",
    "sha",
    "tri",
    "con",
    "ver",
    "log",
    "err",
    "dep",
    "loy",
    "fix",
]


def run(scale: Scale) -> None:
    count = scale.history[-1]
    root = scale.folder / "searching"
    root.mkdir()
    teams = max(1, min(33, count // 2000))
    family: dict[str, str | None] = {"root": None}
    for team in range(teams):
        family[f"head-{team:03}"] = "root"
        family |= {f"agent-{team:03}-{n:02}": f"head-{team:03}" for n in range(TEAM)}
    swarm = Swarm(root, family)
    try:
        words = Words()
        _fill(swarm, words, count)
        index = SearchIndex(swarm.places.state, swarm.clock.now)
        start = time.thread_time()
        assert index.bring_up_to_date()
        made = time.thread_time() - start
        again = Series("a round with nothing new")
        for _ in range(max(2, scale.runs // 30)):
            start = time.thread_time()
            assert index.bring_up_to_date()
            again.seconds.append(time.thread_time() - start)
        state = state_of(swarm.places.state)
        rows = _searches(swarm, words, max(2, scale.runs // 10))
        grep = Series(f"grep for {words.middle!r}", [_grep(swarm.places.state / "sessions", words.middle)])
        show(f"j. searches of {state.rows} texts: CPU", [grep, *rows, again], [grep.name])
        facts("j. the index", [("texts", f"{state.rows}"), ("made in", duration(made)),
                               ("a text", duration(made / max(1, state.rows))), ("MiB", f"{state.bytes / 2**20:.0f}")])  # fmt: skip
    finally:
        swarm.close()


class Words:
    """Text that has some words everywhere and most of them seldom, as real text does; always the same."""

    def __init__(self) -> None:
        self._random = random.Random(1)
        known = dict.fromkeys(COMMON)
        while len(known) < 60_000:
            known["".join(self._random.choices(SYLLABLES, k=self._random.randint(1, 5)))] = None
        self.all = list(known)
        self._weights = list(itertools.accumulate(1 / (place + 2.7) for place in range(len(self.all))))
        self.middle, self.rare = self.all[2_000], self.all[50_000]

    def text(self) -> str:
        return " ".join(
            self._random.choices(self.all, cum_weights=self._weights, k=self._random.randint(10, 100))
        )


def _fill(swarm: Swarm, words: Words, count: int) -> None:
    """Sessions that have ended, with a transcript each; the last agent has one of a thousand."""
    agents = [name for name in SqlWorld(swarm.reader, NOW).tree if name.startswith("agent")]
    rare = agents.pop()
    sessions = []
    for number in range(1, max(2, count // EVENTS) + 1):
        agent = rare if number % 1000 == 1 else agents[number * 7 % len(agents)]
        ended = NOW + timedelta(minutes=number)
        folder = swarm.places.state / "sessions" / str(number)
        folder.mkdir(parents=True)
        events = [
            {
                "seq": seq + 1,
                "at": to_text(ended + timedelta(seconds=seq)),
                "kind": "text",
                "turn": 1,
                "text": words.text(),
            }
            for seq in range(EVENTS)
        ]
        (folder / "transcript.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
        at = to_text(ended)
        sessions.append((number, agent, "cron", "ended", "committed", at, at, at, "schedule"))
    swarm.write(lambda c: c.executemany(
        "INSERT INTO sessions (id, agent, trigger, state, outcome, queued, started, ended, by) "
        "VALUES (?,?,?,?,?,?,?,?,?)", sessions))  # fmt: skip


def _searches(swarm: Swarm, words: Words, times: int) -> list[Series]:
    """Each as a session asks for it, and as an operator does."""
    tree = SqlWorld(swarm.reader, NOW).tree
    rare = [name for name in tree if name.startswith("agent")][-1]
    whole = {
        "a very common word": "the", "two common words": "the session", "a rare word": words.rare,
        "a common and a rare word": f"the {words.rare}", "a word that is nowhere": "nowheretobefound",
        "a phrase of two common words": '"the session"', "a phrase of four common words": '"the to of and"',
        "a phrase that is nowhere": '"the session of the memory is it"', "a beginning": "dep*",
        "a longer beginning": "deploy*", "a beginning of many words": "con* err*",
    }  # fmt: skip
    found = [_timed(swarm, f"operator: {name}", None, text, times) for name, text in whole.items()]
    old = {"text": "the session", "until": to_text(NOW + timedelta(hours=1))}
    found.append(_timed(swarm, "operator: two common words, of the first hour", None, old, times))
    found.append(
        _timed(swarm, "operator: a common word, of one agent", None, {"text": "the", "agent": rare}, times)
    )
    for agent, who in (
        (rare, "one agent that ran seldom"),
        ("head-000", f"{TEAM + 1} agents"),
        ("root", f"all {len(tree)} agents"),
    ):
        for name in (
            "a very common word",
            "two common words",
            "a rare word",
            "a phrase of two common words",
            "a beginning",
        ):
            found.append(_timed(swarm, f"{who}: {name}", agent, whole[name], times))
    return found


def _timed(swarm: Swarm, name: str, agent: str | None, args: str | dict, times: int) -> Series:
    """Over a new connection each time, the rules and the check of each hit with it."""
    ask = session_read(swarm.places, swarm.reader)
    series = Series(name)
    for _ in range(times):
        world, actor = SqlWorld(swarm.reader, NOW), Actor(by="bench", agent=agent)
        start = time.thread_time()
        ask(actor, world, "memory_search", {"text": args} if isinstance(args, str) else args)
        series.seconds.append(time.thread_time() - start)
    return series


def _grep(folder: Path, word: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(["grep", "-rlw", word, str(folder)], stdout=subprocess.DEVNULL, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
