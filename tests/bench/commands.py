"""d. Reading commands as processes, on a store with some history, beside a click program that says hello."""

from __future__ import annotations

import asyncio
import math
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.bench import floors
from tests.bench.scale import Scale
from tests.bench.sessions import played
from tests.bench.swarm import daemon_in, environment, write_agents
from tests.bench.table import Series, duration, facts, show

AGENTS = 20
SESSIONS = 10
BAR = 2.0
"""A reading command is to take at most so many times the hello."""
COSTLIEST = 20
COMMANDS: Mapping[str, tuple[str, ...]] = {
    "status": ("status",),
    "agent list": ("agent", "list"),
    "ctx get": ("ctx", "get", "agent-00000", "last"),
    "handoff list": ("handoff", "list"),
    "session list": ("session", "list"),
    "why": ("why", "agent-00000"),
    "log": ("log",),
}
IMPORT_RUNS = 5
SPENT = re.compile(r"import time:\s+(\d+) \|\s+\d+ \|\s+(\S+)")


def run(scale: Scale) -> None:
    root = scale.folder / "commands"
    asyncio.run(_make_history(root))
    env = environment(root)
    hello, swarmd = floors.script(root, "hello", floors.HELLO), floors.script(root, "swarmd", floors.SWARMD)
    programs = {
        "hello, by click": [hello],
        **{f"swarmd {name}": [swarmd, *args] for name, args in COMMANDS.items()},
    }
    elapsed, cpu = [{name: Series(name) for name in programs} for _ in range(2)]
    for number in range(scale.processes + 1):
        for name, command in programs.items():
            ran = floors.program(command, env)
            # The first run writes what Python keeps of the modules' compiled form.
            if number:
                elapsed[name].seconds.append(ran.elapsed)
                cpu[name].seconds.append(ran.cpu)
    floor = next(iter(programs))
    show("d. reading commands", list(elapsed.values()), [floor])
    show("d. the same, CPU", list(cpu.values()), [floor])
    slow = [name for name, row in elapsed.items() if row.at(0.5) > BAR * elapsed[floor].at(0.5)]
    if slow:
        _show_imports(slow, env, hello, min(IMPORT_RUNS, scale.processes))
    print(f"\nabove {BAR:g} times the hello: {', '.join(slow) or 'none'}")


async def _make_history(root: Path) -> None:
    names = write_agents(root, AGENTS, schedule='schedule = "0 * * * *"\n')
    for name, below in zip(names, names[1:2] * AGENTS, strict=False):
        path = root / "agents.d" / f"{name}.toml"
        sends = f', handoff_to = "{below}"' if name == names[0] else ""
        path.write_text(path.read_text().replace('"noop"', f'"noop", key = "last"{sends}'))
    async with daemon_in(root) as daemon:
        for _ in range(SESSIONS):
            await played(daemon, names)


def _show_imports(slow: Sequence[str], env: Mapping[str, str], hello: Path, runs: int) -> None:
    """What the slow commands import that the hello does not, by what -X importtime says of them."""
    known = _imports([str(hello)], env, runs)
    found: dict[str, float] = {}
    for name in slow:
        args = ["-m", "swarmd", *COMMANDS[name.removeprefix("swarmd ")]]
        for module, own in _imports(args, env, runs).items():
            if module not in known:
                found[module] = max(found.get(module, 0.0), own)
    costliest = sorted(found.items(), key=lambda item: -item[1])
    title = f"   {len(found)} modules that the hello has not, {duration(sum(found.values()))} of imports; the costliest"
    facts(title, [(f"   {module}", duration(own)) for module, own in costliest[:COSTLIEST]])


def _imports(args: Sequence[str], env: Mapping[str, str], runs: int) -> dict[str, float]:
    """The seconds that each module's own import takes: the least of a few runs."""
    least: dict[str, float] = {}
    for _ in range(runs):
        command = [sys.executable, "-X", "importtime", *args]
        ran = subprocess.run(command, env=dict(env), capture_output=True, text=True, check=False)
        for own, module in SPENT.findall(ran.stderr):
            least[module] = min(least.get(module, math.inf), int(own) / 1e6)
    return least
