"""Places, agent files and daemons to be measured: everything lies in one scratch folder."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from swarmd.daemon.clock import RealClock
from swarmd.daemon.daemon import Daemon
from swarmd.daemon.notify import Notifier
from swarmd.places import PlaceOptions, Places, places
from swarmd.session.flow import Order, order_of
from swarmd.store import session_reads, slots
from tests.bench import noop

ROOT = Path(__file__).resolve().parents[2]
READY_SECONDS = 120.0
NOOP = '{ kind = "noop" }'


def places_in(root: Path) -> Places:
    """The places of one swarm."""
    named = PlaceOptions(agents=str(root / "agents.d"), state=str(root / "state"), runtime=str(root / "run"))
    return places(named, {}, root, os.getuid())


def write_agents(
    root: Path, count: int, *, runner: str = NOOP, schedule: str = "", extra: str = "", sessions: int = 8
) -> list[str]:
    """`count` agents, ten below each; their names, the root of all first."""
    folder = root / "agents.d"
    folder.mkdir(parents=True, exist_ok=True)
    names = [f"agent-{number:05}" for number in range(count)]
    for number, name in enumerate(names):
        parent = f'parent = "{names[(number - 1) // 10]}"\n' if number else ""
        text = f'system_prompt = "You are number {number}."\ndescription = "The {number}th"\n{parent}runner = {runner}\n'
        (folder / f"{name}.toml").write_text(text + schedule + extra)
    (root / "swarmd.toml").write_text(
        f"[daemon]\nmax_sessions = {sessions}\nmax_processes = {max(sessions, 4)}\n"
    )
    return names


@contextlib.asynccontextmanager
async def daemon_in(
    root: Path, runner: noop.Noop | None = None, *, scheduling: bool = False
) -> AsyncIterator[Daemon]:
    """A daemon in this process."""
    noop.register()
    daemon = Daemon(places_in(root), RealClock(), Notifier({}), scheduling=scheduling)
    daemon.open()
    daemon.runner(noop.kind)
    if runner is not None:
        daemon._runners[noop.kind] = runner
    await daemon.start()
    try:
        yield daemon
    finally:
        await daemon.stop(READY_SECONDS)


def queued(daemon: Daemon, agents: Iterable[str]) -> list[Order]:
    """One session of each agent that waits for its start."""
    now = datetime.now(UTC)

    def work(connection) -> list[int]:
        return [
            slots.queue(connection, agent=a, trigger="manual", now=now, by="operator:bench") for a in agents
        ]

    ids = daemon.store.writer.do(work)
    return [order_of(row) for row in session_reads.by_ids(daemon.reader, ids)]


def environment(root: Path) -> dict[str, str]:
    """What programs are started with: the swarmd of this checkout, on the places of `root`."""
    found = places_in(root)
    return {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(root), "LANG": "C.UTF-8", "PYTHONPATH": str(ROOT),
            "SWARMD_AGENTS": str(found.agents), "SWARMD_STATE": str(found.state),
            "SWARMD_RUNTIME": str(found.runtime)}  # fmt: skip


@contextlib.contextmanager
def serving(root: Path) -> Iterator[subprocess.Popen[str]]:
    """A daemon in a process of its own, from its READY to its end."""
    command = [sys.executable, "-m", "tests.bench.noop", str(root)]
    with served(command, "ready:", environment(root)) as process:
        yield process


@contextlib.contextmanager
def served(command: Sequence[str], ready: str, env: Mapping[str, str]) -> Iterator[subprocess.Popen[str]]:
    """A process from the line in which it says that it is ready to its end. Its lines go on into a file."""
    process = subprocess.Popen(command, env=dict(env), cwd=ROOT, stderr=subprocess.PIPE, text=True)
    try:
        _await_line(process, ready)
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.communicate(timeout=READY_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


def _await_line(process: subprocess.Popen[str], ready: str) -> None:
    assert process.stderr is not None
    os.set_blocking(process.stderr.fileno(), True)
    deadline = time.monotonic() + READY_SECONDS
    while select.select([process.stderr], [], [], max(0.0, deadline - time.monotonic()))[0]:
        line = process.stderr.readline()
        if ready in line:
            return
        if not line:
            break
    raise AssertionError(f"the daemon did not become ready (exit {process.poll()})")
