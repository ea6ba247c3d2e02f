"""b. `true` as a session of the runner `command`, beside the same program started bare and a bare Python."""

from __future__ import annotations

import asyncio
import sys

from tests.bench import floors
from tests.bench.scale import Scale
from tests.bench.sessions import played
from tests.bench.swarm import daemon_in, write_agents
from tests.bench.table import Series, show

ROUND = 5
TRUE = '{ kind = "command", command = ["true"] }'


def run(scale: Scale) -> None:
    asyncio.run(_run(scale))


async def _run(scale: Scale) -> None:
    root = scale.folder / "programs"
    names = write_agents(root, 16, runner=TRUE)
    fenced, bare = names[:8], names[8:]
    for name in bare:
        with (root / "agents.d" / f"{name}.toml").open("a") as file:
            file.write('sandbox = { level = "none" }\n')
    true, python = Series("true, by asyncio"), Series("python -I -S, by asyncio")
    rows = {level: Series(f"true as a session, sandbox {level}") for level in ("auto", "none")}
    at_once = Series("true as a session, sandbox auto, 8 at once")
    async with daemon_in(root) as daemon:
        await played(daemon, names)
        for _ in range(max(1, scale.runs // 2 // ROUND)):
            for n in range(ROUND):
                true.seconds.append(await floors.spawned("true"))
                python.seconds.append(await floors.spawned(sys.executable, "-I", "-S", "-c", "pass"))
                rows["auto"].seconds += await played(daemon, [fenced[n]])
                rows["none"].seconds += await played(daemon, [bare[n]])
            at_once.seconds += await played(daemon, fenced)
    show("b. a program as a session", [true, python, *rows.values(), at_once], [true.name, python.name])
