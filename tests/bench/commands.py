"""d. Reading commands as processes, on a store with some history, beside a click program that says hello."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.bench import floors
from tests.bench.scale import Scale
from tests.bench.sessions import _played
from tests.bench.swarm import daemon_in, environment, write_agents
from tests.bench.table import Series, duration, facts, show

AGENTS = 20
SESSIONS = 10
BAR = 2.0
"""A reading command is to take at most so many times the hello."""
COSTLIEST = 12
COMMANDS: Mapping[str, tuple[str, ...]] = {
    "status": ("status",),
    "agent list": ("agent", "list"),
    "ctx get": ("ctx", "get", "agent-00000", "last"),
    "handoff list": ("handoff", "list"),
    "session list": ("session", "list"),
    "why": ("why", "agent-00000"),
    "log": ("log",),
}
SPENT = re.compile(r"import time:\s+(\d+) \|\s+(\d+) \|(\s+)(\S+)")


def run(scale: Scale) -> None:
    root = scale.folder / "commands"
    asyncio.run(_make_history(root))
    env = environment(root)
    hello, swarmd = floors.script(root, "hello", floors.HELLO), floors.script(root, "swarmd", floors.SWARMD)
    floor = Series("hello, by click")
    rows = {name: Series(f"swarmd {name}") for name in COMMANDS}
    for _ in range(scale.processes + 1):
        floor.seconds.append(floors.program([hello], env))
        for name, args in COMMANDS.items():
            rows[name].seconds.append(floors.program([swarmd, *args], env))
    for row in (floor, *rows.values()):
        del row.seconds[0]
    show("d. reading commands", [floor, *rows.values()], [floor.name])
    slow = [name for name, row in rows.items() if row.at(0.5) > BAR * floor.at(0.5)]
    for name in slow:
        _show_imports(name, env)
    print(f"\nabove {BAR:g} times the hello: {', '.join(slow) or 'none'}")


async def _make_history(root: Path) -> None:
    names = write_agents(root, AGENTS, schedule='schedule = "0 * * * *"\n')
    for name, below in zip(names, names[1:2] * AGENTS, strict=False):
        path = root / "agents.d" / f"{name}.toml"
        sends = f', handoff_to = "{below}"' if name == names[0] else ""
        path.write_text(path.read_text().replace('"noop"', f'"noop", key = "last"{sends}'))
    async with daemon_in(root) as daemon:
        for _ in range(SESSIONS):
            await _played(daemon, names)


def _show_imports(name: str, env: Mapping[str, str]) -> None:
    """Which modules cost most of all, by what -X importtime says of one run."""
    code = f"from swarmd.cli import main; main({list(COMMANDS[name])!r})"
    ran = subprocess.run([sys.executable, "-X", "importtime", "-c", code], env=dict(env), capture_output=True, text=True,
                         check=False)  # fmt: skip
    spent = [(int(own), int(whole), module) for own, whole, _, module in SPENT.findall(ran.stderr)]
    costliest = sorted(spent, reverse=True)[:COSTLIEST]
    facts(
        f"   swarmd {name}: {len(spent)} modules; the costliest, by themselves and with what they import",
        [(f"   {module}", f"{duration(own / 1e6)}  {duration(whole / 1e6)}") for own, whole, module in costliest],
    )
