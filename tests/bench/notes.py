"""i. A thousand sessions of one agent that each note 3 KB: prompt, commit and disk beside the bytes that were noted.

What the agent is stands in AGENTS alone: its `[memory]` table, and what a session does with 3 KB more.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import sqlite3
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from swarmd.core import compaction
from swarmd.core.memory import FIRST_FILE, appended
from swarmd.core.sessions import COMPACT
from swarmd.core.wire import Desk, MemoryTree, Request, Result
from swarmd.daemon.daemon import Daemon
from swarmd.session import flow
from swarmd.store import documents, sessions, slots
from swarmd.store.trees import tree_of
from tests.bench.scale import Scale
from tests.bench.swarm import daemon_in, queued, write_agents
from tests.bench.table import Series, duration

NOTE_BYTES = 3000
WORDS = (Path(__file__).resolve().parents[2] / "docs" / "design.md").read_text().split()
LAST = 50
"""A time at a session is the middle one of so many before it."""


@dataclass(frozen=True, slots=True)
class Noting:
    """An agent that is measured: the text of its `[memory]` table, and what a session of it leaves of its memory."""

    name: str
    table: str
    session: Callable[[Request, Desk, bytes], MemoryTree]


def moves_topics(request: Request, desk: Desk, note: bytes) -> MemoryTree:
    """Add the note to MEMORY.md; where the prompt says that this is to be cut, move all but its end to a file."""
    files = request.memory.as_files()
    text = appended(files.get(FIRST_FILE, b""), note)
    if "or move topics to files of their own" in request.user or "or move as much to files" in request.user:
        end = text.rfind(b"\n## ", 0, len(text) - 1) + 1
        files[f"notes/{request.session // 500:03}/{request.session:06}.md"] = text[:end]
        text = text[end:]
    return MemoryTree.of({**files, FIRST_FILE: text})


def says_it(request: Request, desk: Desk, note: bytes) -> MemoryTree:
    """Say the note, and leave the memory alone: the log has what was said."""
    desk.event("text", {"turn": 1, "text": note.decode()})
    return request.memory


AGENTS = (
    Noting("a room of 4,000 tokens", "", moves_topics),
    Noting("a room of 50,000 tokens", "[memory]\nprompt_tokens = 50000\n", moves_topics),
    Noting("an interaction log, a room of 4,000 tokens", "[memory]\nlog = true\n", says_it),
)


@dataclass(slots=True)
class Runner:
    """Plays the agent's part; `done` is when it was last at its end."""

    agent: Noting
    chance: random.Random = field(default_factory=lambda: random.Random(3))
    done: float = 0.0

    async def run(self, request: Request, desk: Desk) -> Result:
        memory = self.agent.session(request, desk, self._note(request.session))
        self.done = time.perf_counter()
        return Result(outcome="success", exit=0, memory=memory)

    def _note(self, session: int) -> bytes:
        """3 KB of prose, under a heading of its own."""
        lines = [f"## Session {session}"]
        while sum(map(len, lines)) + len(lines) < NOTE_BYTES:
            lines.append(" ".join(self.chance.choices(WORDS, k=12)))
        return ("\n".join(lines)[: NOTE_BYTES - 1] + "\n").encode()


def run(scale: Scale) -> None:
    print(f"\ni. {scale.notes[-1]:,} sessions that each note {NOTE_BYTES:,} bytes")
    columns = (
        "at session",
        "prompt",
        "commit p50",
        "session p50",
        "append p50",
        "noted",
        "store",
        "sessions",
        "folder",
        "files",
    )
    for agent in AGENTS:
        rows = asyncio.run(_measured(scale, agent))
        print(f"\n{agent.name}")
        for row in (columns, *rows):
            print("  ".join(f"{cell:>11}" for cell in row))
    print(
        "  prompt: tokens; append: a plain append of as much to one file, with fsync; store, the sessions' own folders "
        "and the memory folder: on disk"
    )


async def _measured(scale: Scale, agent: Noting) -> list[tuple[str, ...]]:
    root = scale.folder / f"notes-{AGENTS.index(agent)}"
    (name,) = write_agents(root, 1, extra=agent.table)
    runner = Runner(agent)
    commit, whole, floor = Series("commit"), Series("session"), Series("append")
    rows = []
    async with daemon_in(root, runner) as daemon:  # type: ignore[arg-type]
        for number in range(1, scale.notes[-1] + 1):
            (order,) = queued(daemon, [name])
            start = time.perf_counter()
            outcome = await flow.run(daemon.ports, order)
            ended = time.perf_counter()
            assert outcome in ("committed", "no_change"), outcome
            whole.seconds.append(ended - start)
            commit.seconds.append(ended - runner.done)
            floor.seconds.append(_append(root / "floor", b"x" * NOTE_BYTES))
            await _compacted(daemon, name)
            if number in scale.notes:
                rows.append(_row(daemon, root, name, order.id, number, (commit, whole, floor)))
    return rows


async def _compacted(daemon: Daemon, name: str) -> None:
    """What a daemon with a schedule does by itself: make the memory small where that is due."""
    agent, head = tree_of(daemon.reader).agent(name), documents.head(daemon.reader, name, FIRST_FILE)
    if agent is None or head is None or head.data is None or not compaction.is_automatic(agent):
        return
    if daemon.ports.count(head.data.decode()) >= compaction.due_at(agent.memory):
        now = datetime.now(UTC)
        id = daemon.store.writer.do(
            lambda c: slots.queue(c, agent=name, trigger=COMPACT, now=now, by="system")
        )
        outcome = await flow.run(daemon.ports, flow.order_of(sessions.row(daemon.reader, id)))
        assert outcome == "committed", outcome


def _row(
    daemon: Daemon, root: Path, name: str, session: int, number: int, series: tuple[Series, ...]
) -> tuple[str, ...]:
    with contextlib.closing(sqlite3.connect(root / "state" / "swarmd.db")) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    tokens = json.loads(sessions.row(daemon.reader, session)["prompt"])["tokens"]
    folder = root / "state" / "memory" / name
    store = sum(_on_disk(root / "state" / f"swarmd.db{end}") for end in ("", "-wal"))
    files = [path for path in folder.rglob("*") if path.is_file()]
    kept = [path for path in (root / "state" / "sessions").rglob("*") if path.is_file()]
    times = [duration(Series("", each.seconds[-LAST:]).at(0.5)) for each in series]
    return (f"{number:,}", f"{tokens:,}", *times, _size(number * NOTE_BYTES), _size(store),
            _size(sum(map(_on_disk, kept))), _size(sum(map(_on_disk, files))), f"{len(files):,}")  # fmt: skip


def _append(path: Path, data: bytes) -> float:
    start = time.perf_counter()
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(fd, data)
    os.fsync(fd)
    os.close(fd)
    return time.perf_counter() - start


def _on_disk(path: Path) -> int:
    return path.stat().st_blocks * 512 if path.exists() else 0


def _size(count: int) -> str:
    return f"{count / 1024:,.0f} KiB" if count < 1 << 20 else f"{count / (1 << 20):,.1f} MiB"
