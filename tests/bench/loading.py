"""f. Agent files: a full load, a rescan, one changed; the daemon's start with them, and what it costs when idle."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import tomllib
from datetime import UTC, datetime
from pathlib import Path

from swarmd.service.loading import Loader
from swarmd.store.store import open_store
from tests.bench import noop
from tests.bench.scale import Scale
from tests.bench.swarm import environment, places_in, served, serving, write_agents
from tests.bench.table import Series, duration, facts, show

SCHEDULES = 60
"""Distinct schedules: one for each minute of the hour, as a person would spread them."""
ROUNDS = 5
STARTS = 3
TICKS = os.sysconf("SC_CLK_TCK")
STOCK = """
import asyncio, sys
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.cron import CronTrigger

async def called():
    pass

async def main():
    scheduler = AsyncIOScheduler(timezone="UTC")
    for number in range(int(sys.argv[1])):
        scheduler.add_job(called, CronTrigger(hour=3, minute=number % 60, timezone="UTC"), misfire_grace_time=None)
    scheduler.start()
    print("ready:", file=sys.stderr, flush=True)
    await asyncio.sleep(3600)

asyncio.run(main())
"""


def run(scale: Scale) -> None:
    _loads(scale)
    root = scale.folder / "starting"
    _make(root, scale.agents)
    _starts(scale, root)
    _idle(scale, root)


def _make(root: Path, count: int) -> list[str]:
    """Nothing of it is due while it is measured: each runs once a day, in the hour that has just gone by."""
    names = write_agents(root, count)
    hour = (datetime.now(UTC).hour - 1) % 24
    for number, name in enumerate(names):
        with (root / "agents.d" / f"{name}.toml").open("a") as file:
            file.write(f'schedule = {{ cron = "{number % SCHEDULES} {hour} * * *", timezone = "UTC" }}\n')
    return names


def _loads(scale: Scale) -> None:
    noop.register()
    parsed, stated = Series("reading and parsing the files"), Series("a stat of each file")
    full, same, one = Series("full load"), Series("rescan, nothing changed"), Series("one file changed")
    for number in range(ROUNDS if scale.runs >= ROUNDS else 1):
        root = scale.folder / f"loading-{number}"
        names = _make(root, scale.agents)
        files = [root / "agents.d" / f"{name}.toml" for name in names]
        store = open_store(root / "state", lambda: datetime.now(UTC), operator="bench")
        loader = Loader(places_in(root), store)
        parsed.seconds.append(_timed(lambda files=files: [tomllib.loads(path.read_text()) for path in files]))
        stated.seconds.append(_timed(lambda files=files: [path.stat() for path in files]))
        full.seconds.append(_timed(loader.look))
        same.seconds += [_timed(loader.look) for _ in range(ROUNDS)]
        for turn in range(ROUNDS):
            with files[-1].open("a") as file:
                file.write(f"# turn {turn}\nlimits.retries = {turn}\n" if turn == 0 else f"# turn {turn}\n")
            one.seconds.append(_timed(loader.look))
        assert tomllib.loads(files[-1].read_text())["limits"]["retries"] == 0
        store.close()
    show(f"f. {scale.agents} agent files", [parsed, stated, full, same, one], [parsed.name, stated.name])


def _timed(work) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _starts(scale: Scale, root: Path) -> None:
    env = environment(root)
    imports = Series("Python that imports the daemon, and ends")
    first, again = Series("start to READY, new store"), Series("start to READY, same files")
    for number in range(min(STARTS, scale.processes)):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", "import swarmd.daemon.main"], env=env, check=True)
        imports.seconds.append(time.perf_counter() - start)
        fresh = root.with_name(f"starting-{number}")
        _make(fresh, scale.agents)
        for series in (first, again):
            start = time.perf_counter()
            with serving(fresh):
                series.seconds.append(time.perf_counter() - start)
    show(f"f. daemon with {scale.agents} agents", [imports, first, again], [imports.name])


def _idle(scale: Scale, root: Path) -> None:
    stock = [sys.executable, "-c", STOCK, str(scale.agents)]
    rows = []
    with serving(root) as swarmd, served(stock, "ready:", environment(root)) as peer:
        time.sleep(min(3.0, scale.idle_seconds))
        before = [_cpu_seconds(process.pid) for process in (swarmd, peer)]
        time.sleep(scale.idle_seconds)
        for name, process, spent in zip(
            ("swarmd", "APScheduler, a job each"), (swarmd, peer), before, strict=True
        ):
            used = _cpu_seconds(process.pid) - spent
            share = 100 * used / scale.idle_seconds
            rows.append(
                (
                    name,
                    f"{duration(used)} of CPU ({share:.2f} %), {_resident_mib(process.pid):.0f} MiB resident",
                )
            )
    facts(f"f. idle with {scale.agents} agents, over {scale.idle_seconds:g} s", rows)


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def _resident_mib(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS:"))
