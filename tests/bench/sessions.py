"""a. The whole flow of sessions that do nothing, in process: snapshot, prompt, start row, run, commit."""

from __future__ import annotations

import asyncio
import time

from swarmd.daemon.daemon import Daemon
from swarmd.session import flow
from tests.bench import floors
from tests.bench.scale import Scale
from tests.bench.swarm import daemon_in, queued, write_agents
from tests.bench.table import Series, show

AT_ONCE = 8
ROUND = 10
"""Sessions of each sort in a row, before the floors have their turn again: what the machine does meanwhile hits all."""


def run(scale: Scale) -> None:
    asyncio.run(_run(scale))


async def _run(scale: Scale) -> None:
    root = scale.folder / "sessions"
    names = write_agents(root, 2 * AT_ONCE, sessions=AT_ONCE)
    for name in names[AT_ONCE:]:
        path = root / "agents.d" / f"{name}.toml"
        path.write_text(path.read_text().replace('"noop"', '"noop", key = "last"'))
    commit, replace = Series("durable commit of 10 rows"), Series("durable replace of a file")
    single, keyed = Series("no-op session, one at a time"), Series("session that sets a key, one at a time")
    cpu = Series("no-op session, one at a time: CPU")
    each, share = (
        Series("no-op session, 8 at once"),
        Series("no-op session, 8 at once, its share of the time"),
    )
    commits = floors.Commits(root)
    async with daemon_in(root) as daemon:
        await played(daemon, names)
        for _ in range(max(1, scale.runs // ROUND)):
            commit.seconds += [commits.one() for _ in range(ROUND)]
            replace.seconds += [floors.replace(root / "files") for _ in range(ROUND)]
            for n in range(ROUND):
                begun = time.process_time()
                single.seconds += await played(daemon, [names[n % AT_ONCE]])
                cpu.seconds.append(time.process_time() - begun)
                keyed.seconds += await played(daemon, [names[AT_ONCE + n % AT_ONCE]])
            start = time.perf_counter()
            each.seconds += await played(daemon, names[:AT_ONCE])
            share.seconds.append((time.perf_counter() - start) / AT_ONCE)
    commits.close()
    show(
        "a. sessions in process",
        [commit, replace, single, cpu, keyed, each, share],
        [commit.name, replace.name],
    )


async def played(daemon: Daemon, agents: list[str]) -> list[float]:
    """The times of one session of each agent, all at once, from the queue to their end."""
    orders = queued(daemon, agents)

    async def one(order: flow.Order) -> float:
        start = time.perf_counter()
        outcome = await flow.run(daemon.ports, order)
        assert outcome in ("no_change", "committed"), outcome
        return time.perf_counter() - start

    return await asyncio.gather(*(one(order) for order in orders))
