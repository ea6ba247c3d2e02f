"""g. Programs that write at once, through a daemon whose agents commit all the while, and without a daemon."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.bench import floors
from tests.bench.scale import Scale
from tests.bench.swarm import environment, serving, write_agents
from tests.bench.table import Series, facts, show

AGENTS = 20
BUSY = '{ kind = "noop", key = "last" }'


def run(scale: Scale) -> None:
    root = scale.folder / "crowd"
    names = write_agents(root, AGENTS, runner=BUSY, schedule='schedule = { every = "1s" }\n')
    env = environment(root)
    hello, swarmd = floors.script(root, "hello", floors.HELLO), floors.script(root, "swarmd", floors.SWARMD)
    failures: list[str] = []

    def send(writer: int, number: int) -> Sequence[str | Path]:
        to = names[(writer * scale.writes + number) % len(names)]
        return [swarmd, "handoff", "send", "--to", to, "--text", f"{number} of writer {writer}"]

    def greet(writer: int, number: int) -> Sequence[str | Path]:
        return [hello, "--name", f"{writer}.{number}"]

    with serving(root):
        floor = Series(f"hello, {scale.writers} at once", _crowd(scale, env, greet, failures))
        through = Series("handoff send, daemon committing", _crowd(scale, env, send, failures))
        committed = _count(swarmd, env, ("session", "list", "--outcome", "committed", "-n", "100000"))
    alone = Series("handoff send, under the lock", _crowd(scale, env, send, failures))
    show(f"g. {scale.writers} programs, {scale.writes} calls each", [floor, through, alone], [floor.name])
    sent = _count(swarmd, env, ("handoff", "list", "-n", "100000"))
    wanted = 2 * scale.writers * scale.writes
    facts("   what became of it", [
        ("   calls that failed", f"{len(failures)} {failures[:3] or ''}"),
        ("   handoffs in the store", f"{sent} of {wanted}"),
        ("   sessions that committed meanwhile", str(committed)),
    ])  # fmt: skip


def _crowd(scale: Scale, env: Mapping[str, str], command, failures: list[str]) -> list[float]:
    """Each writer makes its calls one after the other, all writers at the same time."""

    def calls(writer: int) -> list[float]:
        found = []
        for number in range(scale.writes):
            start = time.perf_counter()
            ran = subprocess.run(
                list(command(writer, number)), env=dict(env), capture_output=True, text=True, check=False
            )
            found.append(time.perf_counter() - start)
            if ran.returncode:
                failures.append(ran.stderr.strip())
        return found

    with ThreadPoolExecutor(scale.writers) as pool:
        return [seconds for times in pool.map(calls, range(scale.writers)) for seconds in times]


def _count(swarmd: Path, env: Mapping[str, str], args: Sequence[str]) -> int:
    ran = subprocess.run([swarmd, "--json", *args], env=dict(env), capture_output=True, text=True, check=True)
    return len(json.loads(ran.stdout)["items"])
