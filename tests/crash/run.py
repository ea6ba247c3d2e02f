"""Kills a commit at every call that changes something, recovers (and kills that too), and checks the promises.

`python -m tests.crash.run --all` runs everything; `--every N` each Nth point; `--only STYLE@MOMENT[-stale]/VARIANT:N:M`
repeats one case. A case that breaks prints scenario, n (the call at which the session was killed) and m (that of the
recovery, 0: not killed). Exits with 1 where any broke.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.crash import power, story
from tests.crash.shim import Shim, build, compiler
from tests.crash.story import Person, Scenario
from tests.store.memory_place import PatientDisk, Place

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 60.0
TELL_SECONDS = 60.0


class AskingDisk(PatientDisk):
    """Whenever the session waits for a writer, the person goes on."""

    def __init__(self, shim: Shim) -> None:
        super().__init__()
        self.waits = lambda: shim.ask(ord("s"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    acknowledged: bool
    calls: int
    """How many calls it made; 0: it was killed."""


class Stage:
    """Runs stories in forked children; this process never opens the store while a child lives."""

    def __init__(self, folder: Path) -> None:
        self.shim = Shim()
        self.template = folder / "template"
        self.state = folder / "state"
        self.folder = folder
        if not self.template.exists():
            self.template.mkdir()
            story.make_template(self.template)

    def play(self, scenario: Scenario, n: int, *, torn: bool = False, journal: Path | None = None
             ) -> tuple[Ended, Person]:  # fmt: skip
        """The session, killed at call `n` (0: not)."""
        story.copy(self.template, self.state)
        person = Person(scenario, self.state / "memory")
        if scenario.moment == 0:
            person.finish(also_begin=True)
        power.remember(self.state)

        def work(acknowledge) -> None:
            place = Place(self.state, disk=AskingDisk(self.shim))
            story.session(place, scenario.variant, acknowledge)
            place.close()

        ended = self._fork(work, n, torn=torn, moments=scenario.moments, person=person, journal=journal)
        person.finish(also_begin=scenario.moment != 0)
        return ended, person

    def recover(self, m: int, *, boot: str = "boot-1") -> Ended:
        return self._fork(lambda _: story.recovery(self.state, boot, AskingDisk(self.shim)), m)

    def _fork(self, work, n: int, *, torn: bool = False, moments: tuple[int, ...] = (), person: Person | None = None,
              journal: Path | None = None) -> Ended:  # fmt: skip
        ask_read, ask = os.pipe()
        answer, answer_write = os.pipe()
        log = os.open(journal, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600) if journal else -1
        pid = os.fork()
        if pid == 0:
            self._child(work, n, torn, moments, (ask, answer), log)
        for fd in (ask, answer, log):
            if fd >= 0:
                os.close(fd)
        try:
            return self._attend(pid, ask_read, answer_write, person)
        finally:
            os.close(ask_read)
            os.close(answer_write)

    def _child(self, work, n, torn, moments, pipes, log) -> None:
        status = 3
        try:
            self.shim.arm(n, torn=torn, pipes=pipes, moments=moments, journal=log)
            work(lambda: os.write(pipes[0], b"a"))
            calls = self.shim.disarm()
            os.write(pipes[0], b"=" + calls.to_bytes(4, "big"))
            status = 0
        except BaseException:  # noqa: BLE001 - whatever it is, the parent must learn of it
            traceback.print_exc()
        finally:
            os._exit(status)

    def _attend(self, pid: int, asked: int, answer: int, person: Person | None) -> Ended:
        acknowledged, calls = False, 0
        while True:
            if not select.select([asked], [], [], PATIENCE)[0]:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                raise RuntimeError("it hangs")
            what = os.read(asked, 1)
            if what == b"a":
                acknowledged = True
            elif what == b"=":
                calls = int.from_bytes(os.read(asked, 4), "big")
            elif what in (b"m", b"s"):
                if person is not None:
                    (person.act if what == b"m" else person.go_on)()
                with contextlib.suppress(BrokenPipeError):
                    os.write(answer, b".")
            else:
                break
        _, status = os.waitpid(pid, 0)
        if os.WIFEXITED(status) and os.WEXITSTATUS(status) != 0:
            raise RuntimeError("it failed with an exception, which is printed above")
        return Ended(acknowledged=acknowledged, calls=calls)


def case(stage: Stage, scenario: Scenario, n: int, m: int) -> list[str]:
    """One case; the promises that broke."""
    try:
        ended, person = stage.play(scenario, n, torn=n % 3 == 0)
        if m:
            stage.recover(m)
        stage.recover(0)
        wrong = story.broken(stage.state, stage.template, acknowledged=ended.acknowledged, person=person)
        before = story.fingerprint(stage.state)
        stage.recover(0)
        if story.fingerprint(stage.state) != before:
            wrong.append("I7: recovery repeated gives something else")
    except RuntimeError as error:
        return [str(error)]
    return wrong


def scenarios(stage: Stage, *, few: bool) -> Iterator[tuple[Scenario, int]]:
    """Each scenario with the number of calls it makes."""
    for variant in story.VARIANTS:
        journal = stage.folder / "journal"
        calls = stage.play(Scenario(variant=variant), 0, journal=journal)[0].calls
        # Before the first case, whose power cuts write a journal of their own.
        swap = power.exchange_of(journal.read_bytes(), "/MEMORY.md")
        yield Scenario(variant=variant), calls
        steps = 1 if few else 4
        during = {1 + calls * k // steps for k in range(steps)}
        # The dangerous moments: just before the names are exchanged, and from there to the end of the swap.
        during |= {swap, swap + 1} if few else set(range(swap - 3, swap + 10))
        for style in story.STYLES[1:]:
            for moment in (0, -1, *sorted(during)):
                for stale in (False, True) if style in ("vim", "atomic", "code") else (False,):
                    scenario = Scenario(style=style, moment=moment, variant=variant, stale=stale)
                    yield scenario, stage.play(scenario, 0)[0].calls


def worker(
    folder: Path, part: int, parts: int, *, every: int, nested: int, cuts: int, few: bool
) -> tuple[int, int]:
    """Every `parts`-th case, from `part` on; (cases, broken)."""
    stage = Stage(folder)
    chance = random.Random(part)
    ran = wrong = turn = 0
    told = time.monotonic()
    for number, (scenario, calls) in enumerate(scenarios(stage, few=few)):
        # A session that dies before the person comes is the story of the moment -1.
        first = max(0, scenario.moment)
        if time.monotonic() > told + TELL_SECONDS:
            told = time.monotonic()
            print(
                f"worker {part}: {ran} points so far, {wrong} broke; now {scenario}",
                file=sys.stderr,
                flush=True,
            )
        for n in [0, *range(first + number % every, calls + 1, every)]:
            turn += 1
            if turn % parts != part:
                continue
            for m in [0, *(chance.randrange(1, 90) for _ in range(nested))]:
                ran += 1
                if found := case(stage, scenario, n, m):
                    wrong += 1
                    print(f"BROKEN ({scenario}, {n}, {m}): {'; '.join(found)}", flush=True)
            # No person acts during a run whose power is cut, so that other moments would only repeat it.
            for cut in range(cuts if scenario.moment <= 0 else 0):
                ran += 1
                seed = f"{scenario}:{n}:{cut}"
                if found := power.case(stage, scenario, n, seed):
                    wrong += 1
                    print(f"BROKEN ({scenario}, {n}, cut {cut}): {'; '.join(found)}", flush=True)
    return ran, wrong


def only(folder: Path, text: str) -> int:
    found = re.fullmatch(r"(\w+)@(-?\d+)(-stale)?/(\w+):(\d+):(?:(\d+)|cut(\d+))", text)
    assert found is not None, f"{text} is not STYLE@MOMENT[-stale]/VARIANT:N:M, nor ...:N:cutK"
    scenario = Scenario(style=found[1], moment=int(found[2]), stale=bool(found[3]), variant=found[4])
    stage, n = Stage(folder), int(found[5])
    wrong = (
        case(stage, scenario, n, int(found[6]))
        if found[6]
        else power.case(stage, scenario, n, f"{scenario}:{n}:{found[7]}")
    )
    print("; ".join(wrong) or "it holds")
    return int(bool(wrong))


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
                [*base, "--folder", folder / str(part), "--part", str(part)], env=env, cwd=ROOT, text=True,
                stdout=subprocess.PIPE,
            ))  # fmt: skip
        outputs = [child.communicate()[0] for child in children]
        for child in children:
            if child.returncode not in (0, 1):
                print(f"a worker ended with status {child.returncode}", file=sys.stderr)
    return report(outputs, time.monotonic() - began, one=bool(arguments.only))


def report(outputs: list[str], seconds: float, *, one: bool) -> int:
    """Print what broke and the sum; the exit status."""
    if one:
        print(outputs[0], end="")
        return int("it holds" not in outputs[0])
    sums = []
    for output in outputs:
        for line in output.splitlines():
            if done := re.fullmatch(r"done (\d+) (\d+)", line):
                sums.append((int(done[1]), int(done[2])))
            else:
                print(line)
    ran, wrong = sum(s[0] for s in sums), sum(s[1] for s in sums)
    failed = len(outputs) - len(sums)
    print(f"{ran} points ran, {wrong} broke, in {seconds:.0f} s")
    if failed:
        print(f"{failed} of {len(outputs)} workers failed: see the errors above")
    return int(bool(wrong or failed or not ran))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", action="store_true", help="every point, with nested kills and power cuts")
    parser.add_argument("--every", type=int, default=7, help="only each Nth point")
    parser.add_argument("--only", metavar="CASE", help="one case, as it was printed")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--nested", type=int, default=1, help="kills of the recovery, for each point")
    parser.add_argument("--cuts", type=int, default=4, help="power cuts, for each point")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--part", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.only:
        arguments.jobs = 1
    if arguments.folder is None:
        return start(arguments)
    if arguments.only:
        return only(arguments.folder, arguments.only)
    ran, wrong = worker(
        arguments.folder, arguments.part, arguments.jobs, every=1 if arguments.all else arguments.every,
        nested=arguments.nested, cuts=arguments.cuts, few=not arguments.all,
    )  # fmt: skip
    print(f"done {ran} {wrong}")
    shutil.rmtree(arguments.folder, ignore_errors=True)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
