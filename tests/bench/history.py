"""e. Snapshot, prompt and the commit of three memory files with publishing, on stores with more and more history."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from datetime import UTC, datetime
from pathlib import Path

from swarmd.core.changes import WriteMemory
from swarmd.core.prompt import assemble
from swarmd.core.snapshot import Trigger
from swarmd.core.world import Actor
from swarmd.daemon.daemon import Daemon
from swarmd.store.commit import commit
from swarmd.store.snapshots import snapshot
from swarmd.store.trees import tree_of
from tests.bench import floors
from tests.bench.scale import Scale
from tests.bench.swarm import daemon_in, write_agents
from tests.bench.table import Series, show

AGENTS = 12
FILES = ("MEMORY.md", "notes/one.md", "notes/two.md")
LINE = "What was seen on day {day}, and what is to be done about it.\n"
# Shares of the rows, and how each is made from its number i; the agents take turns.
_AGENT = "printf('agent-%05d', i % 12)"
_AT = "strftime('%Y-%m-%dT%H:%M:%f000+00:00', 1700000000 + i, 'unixepoch')"
FILLS = (
    (0.25, (f"INSERT INTO sessions (agent, trigger, state, outcome, queued, started, ended, by) SELECT {_AGENT}, 'cron', "
           f"'ended', 'committed', {_AT}, {_AT}, {_AT}, 'schedule' FROM n")),
    (0.25, (f"INSERT INTO slots (agent, slot, last, decision, session, at) SELECT {_AGENT}, {_AT}, {_AT}, 'started', i, "
           f"{_AT} FROM n")),
    (0.15, ("INSERT INTO changes (session, seq, part, act, target, verdict, effect) SELECT i + 1, 1, 1, 'ctx_set', "
           "'last', 'done', '[]' FROM n")),
    (0.10, (f"INSERT INTO audit (at, by, act, target, detail, session, hash) SELECT {_AT}, 'bench', 'commit', {_AGENT}, "
           "'{}', i, hex(randomblob(32)) FROM n")),
    (0.10, (f"INSERT INTO key_history (agent, key, version, value, at, by) SELECT {_AGENT}, 'last', i, i, {_AT}, 'bench' "
           "FROM n")),
    (0.05, (f"INSERT INTO handoffs (id, sender, receiver, text, priority, status, created, depth, by, moved) SELECT "
           f"100 + i, 'agent-00000', {_AGENT}, 'done long ago', 'normal', 'completed', {_AT}, 1, 'bench', {_AT} FROM n")),
    (0.05, (f"INSERT INTO reports (agent, parent, text, at, by) SELECT {_AGENT}, 'agent-00000', 'all is well', {_AT}, "
           "'bench' FROM n")),
    (0.05, (f"INSERT INTO revisions (agent, path, rev, parent, size, at, by) SELECT {_AGENT}, 'old.md', i, i - 1, 0, "
           f"{_AT}, 'bench' FROM n")),
)  # fmt: skip


def run(scale: Scale) -> None:
    commits = floors.Commits(scale.folder / "history-floor")
    ten, three = Series("durable commit of 10 rows"), Series("3 durable replaces of a file")
    rows: list[Series] = []
    for count in scale.history:
        root = scale.folder / f"history-{count}"
        write_agents(root, AGENTS)
        asyncio.run(_opened(root))
        _fill(root / "state" / "swarmd.db", count)
        rows += asyncio.run(_measured(root, count, scale, commits, ten, three))
    commits.close()
    show("e. with history", [ten, three, *rows], [ten.name, three.name])


async def _opened(root: Path) -> None:
    """Open once, so that the store is made and the agents are in force."""
    async with daemon_in(root):
        pass


def _fill(path: Path, count: int) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("BEGIN")
    for share, insert in FILLS:
        numbers = f"WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {max(1, int(share * count))})"
        into, _, select = insert.partition(" SELECT ")
        connection.execute(f"{into} {numbers} SELECT {select}")
    connection.execute("COMMIT")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()


async def _measured(root, count: int, scale: Scale, commits, ten: Series, three: Series) -> list[Series]:
    shot, prompt = Series(f"snapshot, {count} rows"), Series(f"prompt of it, {count} rows")
    save, publish = Series(f"commit of 3 files, {count} rows"), Series(f"publishing them, {count} rows")
    async with daemon_in(root) as daemon:
        agent = tree_of(daemon.reader).agent("agent-00000")
        for n in range(max(2, scale.runs // 3)):
            ten.seconds.append(commits.one())
            three.seconds.append(sum(floors.replace(root / f"files-{k}") for k in range(3)))
            start = time.perf_counter()
            seen = snapshot(daemon.reader, agent, Trigger(kind="manual"), datetime.now(UTC))
            shot.seconds.append(time.perf_counter() - start)
            start = time.perf_counter()
            assemble(seen, daemon.ports.count)
            prompt.seconds.append(time.perf_counter() - start)
            start = time.perf_counter()
            await daemon.store.writer.run(_writing(daemon, agent.name, n))
            save.seconds.append(time.perf_counter() - start)
            start = time.perf_counter()
            await daemon.ports.settle(agent.name)
            publish.seconds.append(time.perf_counter() - start)
            assert (root / "state" / "memory" / agent.name / FILES[0]).read_text().count("\n") == n + 1
    return [shot, prompt, save, publish]


def _writing(daemon: Daemon, agent: str, n: int):
    """The commit of the `n`-th change set: a line more in each file."""
    text = "".join(LINE.format(day=day) for day in range(n + 1)).encode()
    changes = [WriteMemory(agent=agent, path=path, data=text, base=n) for path in FILES]
    actor = Actor(by=f"{agent}#{10**9 + n}", agent=agent, session=10**9 + n)

    def work(connection) -> None:
        done = commit(connection, actor, changes, datetime.now(UTC), target=agent)
        assert done.changed, done.refusals

    return work
