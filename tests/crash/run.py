"""Kills a session at every call that changes something, recovers (and kills that too), and checks the promises.

`python -m tests.crash.run --all` runs everything; `--every N` each Nth point, with fewer scenarios unless `--wide` is
given; `--points N` only N points of each variant; `--only STYLE@MOMENT[-stale]/VARIANT:N:M` repeats one case, as it was printed: n is the call at which the session
was killed, m that of the recovery (0: not killed). Exits with 1 where any broke.

The variants `edits`, `moves` and `shared` are one commit to a memory folder, `script` and `command` a whole session as
`swarmd run` makes it: with the agent's part played in the daemon's process, and by a program of its own. `log`, `team`,
`subject`, `held`, `consolidate` and `approval` are sessions and acts of memory, `compact`, `summarized` and
`summarizer` compactions: with a person's summary, and with a summarizer in the daemon's process and as a program.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.crash import cases
from tests.crash.person import Scenario
from tests.crash.shim import build, compiler
from tests.crash.stage import MEMORY_STORIES, SESSION_STORIES, STORIES, Stage

ROOT = Path(__file__).resolve().parents[2]
TELL_SECONDS = 60.0
CLOSER = 4
"""A session that nobody comes to is looked at at that many more points."""
SORTS = {"sessions": SESSION_STORIES, "memory": MEMORY_STORIES}
KINDS = {
    "scenarios": "scenarios", "kills": "kills of the session", "again": "of them with one of the recovery",
    "nested": "kills at each call of the recovery", "cuts": "power cuts",
}  # fmt: skip


@dataclass(slots=True, kw_only=True)
class Worker:
    """Every `parts`-th point, from `part` on."""

    stage: Stage
    part: int
    parts: int
    every: int
    again: int
    cuts: int
    wide: bool
    counts: Counter[str] = field(default_factory=Counter)
    wrong: int = 0
    turn: int = 0

    def sample(self, variants: list[str], points: int) -> None:
        """So many points of each variant: a kill, one with one of the recovery, a power cut, and so on in turn."""
        for number, variant in enumerate(variants):
            if number % self.parts != self.part:
                continue
            scenario = Scenario(variant=variant)
            calls = self.stage.play(scenario, 0)[0].calls
            self.counts[f"{variant} scenarios"] += 1
            chance = random.Random(f"{variant}:{points}")
            for k in range(points):
                n, kind = chance.randrange(k * calls // points, (k + 1) * calls // points) + 1, k % 3
                m = chance.randrange(1, self.stage.story.recovery_calls) if kind == 1 else 0
                if kind == 2:
                    self._count("cuts", scenario, f"{n}:cut{k}", cases.cut(self.stage, scenario, n, k))
                else:
                    self._count(
                        "again" if m else "kills",
                        scenario,
                        f"{n}:{m}",
                        cases.case(self.stage, scenario, n, m),
                    )

    def run(self, variants: list[str]) -> None:
        chance = random.Random(self.part)
        told = time.monotonic()
        found = cases.scenarios(self.stage, variants, few=not self.wide)
        for number, (scenario, calls) in enumerate(found):
            self.counts[f"{scenario.variant} scenarios"] += 1
            for turn, n in enumerate(self._points(scenario, number, calls)):
                self._point(scenario, n, chance)
                if self.wide and scenario.style == "none" and (self.every == 1 or turn % CLOSER == 0):
                    self._nested(scenario, n)
                if time.monotonic() > told + TELL_SECONDS:
                    told = time.monotonic()
                    self._say(f"now {scenario}:{n}")

    def _points(self, scenario: Scenario, number: int, calls: int):
        # A session that dies before the person comes is the story of the moment -1.
        first = max(0, scenario.moment)
        # The others have all the calls of a session that nobody comes to.
        every = self.every if scenario.style != "none" else max(1, self.every // CLOSER)
        for n in [0, *range(first + number % every, calls + 1, every)]:
            self.turn += 1
            if self.turn % self.parts == self.part:
                yield n

    def _point(self, scenario: Scenario, n: int, chance: random.Random) -> None:
        stage = self.stage
        self._count("kills", scenario, f"{n}:0", cases.case(stage, scenario, n, 0))
        calls = stage.story.recovery_calls
        for m in (chance.randrange(1, calls) for _ in range(self.again)):
            self._count("again", scenario, f"{n}:{m}", cases.case(stage, scenario, n, m))
        # No person acts during a run whose power is cut, so that other moments would only repeat it.
        for k in range(self.cuts if scenario.moment <= 0 and stage.story.all_calls_are_ours else 0):
            self._count("cuts", scenario, f"{n}:cut{k}", cases.cut(stage, scenario, n, k))

    def _nested(self, scenario: Scenario, n: int) -> None:
        for m, found in cases.nested(self.stage, scenario, n):
            self._count("nested", scenario, f"{n}:{m}", found)

    def _count(self, kind: str, scenario: Scenario, point: str, found: list[str]) -> None:
        self.counts[f"{scenario.variant} {kind}"] += 1
        if found:
            self.wrong += 1
            print(f"BROKEN (--only {scenario}:{point}): {'; '.join(found)}", flush=True)

    def _say(self, text: str) -> None:
        ran = sum(count for name, count in self.counts.items() if not name.endswith("scenarios"))
        print(
            f"worker {self.part}: {ran} points so far, {self.wrong} broke; {text}",
            file=sys.stderr,
            flush=True,
        )


def start(arguments: argparse.Namespace) -> int:
    """Compile the shim, start workers under it, and add up."""
    if compiler() is None:
        print("skipped: there is no C compiler")
        return 0
    began = time.monotonic()
    fast = Path("/dev/shm")
    with tempfile.TemporaryDirectory(
        dir=fast if os.access(fast, os.W_OK) else None, prefix="swarmd-crash-"
    ) as name:
        folder = Path(name)
        env = {**os.environ, "LD_PRELOAD": str(build(folder)), "PYTHONPATH": str(ROOT)}
        base = [sys.executable, "-m", "tests.crash.run", *sys.argv[1:]]
        children = []
        for part in range(arguments.jobs):
            (folder / str(part)).mkdir()
            children.append(subprocess.Popen(
                [*base, "--jobs", str(arguments.jobs), "--folder", folder / str(part), "--part", str(part)], env=env,
                cwd=ROOT, text=True, stdout=subprocess.PIPE,
            ))  # fmt: skip
        outputs = [child.communicate()[0] for child in children]
        for child in children:
            if child.returncode not in (0, 1):
                print(f"a worker ended with status {child.returncode}", file=sys.stderr)
    if arguments.only:
        print(outputs[0], end="")
        return int("it holds" not in outputs[0])
    return report(outputs, time.monotonic() - began, arguments)


def report(outputs: list[str], seconds: float, arguments: argparse.Namespace) -> int:
    """Print what broke, what was covered and the sum; the exit status."""
    counts: Counter[str] = Counter()
    wrong = done = 0
    for output in outputs:
        for line in output.splitlines():
            if found := re.fullmatch(r"done (\d+) (.*)", line):
                done += 1
                wrong += int(found[1])
                counts.update(json.loads(found[2]))
            else:
                print(line)
    which = "" if arguments.all else f", each {arguments.every}th of them"
    print(f"at each call that changes something{which}:" if not arguments.points else "at some calls:")
    for variant in arguments.variant:
        # Every worker goes through all scenarios.
        counts[f"{variant} scenarios"] //= 1 if arguments.points else max(done, 1)
        facts = [f"{counts[f'{variant} {kind}']} {text}" for kind, text in KINDS.items()]
        print(f"  {variant}: {', '.join(facts)}")
    ran = sum(count for name, count in counts.items() if not name.endswith("scenarios"))
    print(f"{ran} points ran, {wrong} broke, in {seconds:.0f} s")
    failed = len(outputs) - done
    if failed:
        print(f"{failed} of {len(outputs)} workers failed: see the errors above")
    return int(bool(wrong or failed or not ran))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--all", action="store_true", help="every point of every scenario")
    parser.add_argument("--every", type=int, default=7, help="only each Nth point")
    parser.add_argument(
        "--wide", action="store_true", help="with --every: every scenario, and all kills of recoveries"
    )
    parser.add_argument("--only", metavar="CASE", help="one case, as it was printed")
    parser.add_argument(
        "--variant", action="append", choices=list(STORIES), help="only this one (may be repeated)"
    )
    parser.add_argument("--stories", choices=list(SORTS), help="only those of this sort")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--again", type=int, default=1, help="kills of the recovery, for each point")
    parser.add_argument("--cuts", type=int, default=2, help="power cuts, for each point")
    parser.add_argument("--points", type=int, help="of each variant only so many points, and nobody comes")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--part", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.only:
        arguments.jobs = 1
    arguments.variant = arguments.variant or list(SORTS.get(arguments.stories, STORIES))
    if arguments.all:
        arguments.every, arguments.wide = 1, True
    if arguments.folder is None:
        return start(arguments)
    stage = Stage(arguments.folder)
    if arguments.only:
        found = cases.one(stage, arguments.only)
        print("; ".join(found) or "it holds")
        return int(bool(found))
    worker = Worker(stage=stage, part=arguments.part, parts=arguments.jobs, every=arguments.every,
                    again=arguments.again, cuts=arguments.cuts, wide=arguments.wide)  # fmt: skip
    if arguments.points:
        worker.sample(arguments.variant, arguments.points)
    else:
        worker.run(arguments.variant)
    print(f"done {worker.wrong} {json.dumps(worker.counts)}")
    return int(bool(worker.wrong))


if __name__ == "__main__":
    sys.exit(main())
