"""A small swarm in this process: real store, real folders, a clock that stands still, and sessions that play a script.

Used by the tests of store, session and service; the daemon's own tests have a swarm with a daemon in it.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import sqlite3
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from swarmd.core.agent import Agent, When
from swarmd.core.wire import Desk, MemoryTree, Message, Reply, Request, Result
from swarmd.places import PlaceOptions, Places, places
from swarmd.service.acting import Service
from swarmd.service.caller import Operator
from swarmd.service.control import NoDaemon
from swarmd.service.reading import session_read
from swarmd.session import flow
from swarmd.session.ports import Ports
from swarmd.store import session_reads, sessions, slots, trees
from swarmd.store.store import Store, open_store

NOW = datetime(2026, 11, 30, 9, 0, tzinfo=UTC)
ADA = Operator(name="ada")
FAMILY = {"house": None, "studio": "house", "game": "studio", "art": "studio", "garage": "house"}
"""house over studio (over game and art) and garage."""

Script = Callable[["Part"], Awaitable[Result | None]]


class FakeClock:
    """Stands still until it is moved."""

    def __init__(self, now: datetime = NOW) -> None:
        self.wall = now

    def now(self) -> datetime:
        return self.wall

    def monotonic(self) -> float:
        return self.wall.timestamp()

    def go(self, **by: float) -> None:
        self.wall += timedelta(**by)


@dataclass
class Part:
    """What a script is given: its request, its desk, its working copy of the memory as plain text."""

    swarm: Swarm
    request: Request
    desk: Desk
    files: dict[str, bytes] = field(default_factory=dict)
    numbers: Any = field(default_factory=itertools.count)

    async def ask(self, call: str, **args: Any) -> Reply:
        return await self.desk.call(Message(id=f"m{next(self.numbers)}", call=call, args=_named(args)))

    async def act(self, call: str, **args: Any) -> Any:
        """An act that must go well."""
        reply = await self.ask(call, **args)
        assert reply.error is None, reply.error
        return reply.value

    async def refused(self, call: str, **args: Any) -> str:
        """The reason of an act that must not go well."""
        reply = await self.ask(call, **args)
        assert reply.error is not None, reply.value
        return reply.error

    async def checkpoint(self, *, id: str | None = None, problems: tuple[str, ...] = ()) -> Reply:
        message = Message(id=id or f"m{next(self.numbers)}", call="checkpoint", args={})
        return await self.desk.checkpoint(message, MemoryTree.of(self.files), problems)

    def write(self, path: str, text: str | None) -> None:
        if text is None:
            del self.files[path]
        else:
            self.files[path] = text.encode()

    def done(self, outcome: str = "success", **facts: Any) -> Result:
        return Result(outcome=outcome, memory=MemoryTree.of(self.files), **facts)  # type: ignore[arg-type]


def _named(args: dict[str, Any]) -> dict[str, Any]:
    """`from_` for the argument that Python keeps to itself."""
    return {name.rstrip("_"): value for name, value in args.items()}


async def nothing(part: Part) -> None:
    """A session that does nothing."""


class Runner:
    """The outside's stand-in: plays whatever script the test has set."""

    def __init__(self, swarm: Swarm) -> None:
        self.swarm = swarm
        self.requests: list[Request] = []

    async def run(self, request: Request, desk: Desk) -> Result:
        self.requests.append(request)
        part = Part(self.swarm, request, desk, dict(request.memory.as_files()))
        result = await self.swarm.script(part)
        return result if result is not None else part.done()


class Swarm:
    """`family`: parents by name; agents are put in force without files."""

    def __init__(self, root: Path, family: Mapping[str, str | None] = FAMILY, **fields: Any) -> None:
        self.root = root
        self.clock = FakeClock()
        # No socket is ever made there; but a path that has no room for one is refused.
        named = PlaceOptions(
            agents=str(root / "agents.d"), state=str(root / "state"), runtime="/tmp/sw-nowhere"
        )
        self.places: Places = places(named, {}, root, os.getuid())
        self.places.agents.mkdir(exist_ok=True)
        self.store: Store
        self.script: Script = nothing
        self.checks: list[str | None] = []
        self.secrets: tuple[str, ...] = ()
        self.open()
        for name, parent in family.items():
            self.agent(name, parent, **fields)

    def open(self) -> None:
        self.store = open_store(self.places.state, self.clock.now, operator="ada")
        self.control = NoDaemon(self.store, self.places, self.clock.now)
        self.service = Service(self.store, self.places, self.control, self.clock.now)
        self.runner = Runner(self)

    def close(self) -> None:
        self.store.close()

    # -- the tree -------------------------------------------------------------------------------------------

    def agent(self, name: str, parent: str | None = None, **fields: Any) -> Agent:
        fields.setdefault("system_prompt", f"You are {name}.")
        fields.setdefault("runner_options", {"command": ["true"]})
        fields.setdefault("when", When(cron="0 * * * *", timezone="UTC"))
        agent = Agent(name=name, parent=parent, **fields)
        text = f'parent = "{parent}"\n'
        self.write(lambda c: trees.put_in_force(c, agent, text, f"{name}.toml", self.clock.now(), "system"))
        return agent

    def change(self, name: str, **fields: Any) -> None:
        agent = trees.tree_of(self.reader).agent(name)
        assert agent is not None
        new = replace(agent, **fields)
        self.write(lambda c: trees.put_in_force(c, new, "", f"{name}.toml", self.clock.now(), "system"))

    def remove(self, name: str) -> None:
        self.write(lambda c: trees.remove(c, name, self.clock.now(), "system"))

    # -- sessions -------------------------------------------------------------------------------------------

    def ports(self, **other: Any) -> Ports:
        async def check(request: Request, command: tuple[str, ...], memory: MemoryTree | None) -> str | None:
            return self.checks.pop(0)

        facts: dict[str, Any] = {
            "reader": self.reader, "writer": self.store.writer, "folders": self.store.folders, "clock": self.clock,
            "count": lambda text: -(-len(text) // 4), "runner": lambda kind: self.runner, "check": check,
            "read": session_read(self.places, self.reader), "reserve": self.store.reserve,
            "sessions_dir": self.places.state / "sessions", "own_reader": self.store.reader,
            "secrets": lambda options, folder: self.secrets,
        }  # fmt: skip
        return Ports(**{**facts, **other})

    def queue(self, agent: str, trigger: str = "cron", **facts: Any) -> int:
        facts.setdefault("by", "schedule")
        return self.write(
            lambda c: slots.queue(c, agent=agent, trigger=trigger, now=self.clock.now(), **facts)
        )

    async def run(self, agent: str, script: Script = nothing, **facts: Any) -> dict[str, Any]:
        """A session from its queueing to its end, as `session show` has it."""
        return await self.start(self.queue(agent, **facts), script)

    async def start(self, id: int, script: Script = nothing, **ports: Any) -> dict[str, Any]:
        self.script = script
        await flow.run(self.ports(**ports), flow.order_of(sessions.row(self.reader, id)))
        return self.session(id)

    def play(self, agent: str, script: Script = nothing, **facts: Any) -> dict[str, Any]:
        """`run` for tests that are not asynchronous themselves."""
        return asyncio.run(self.run(agent, script, **facts))

    def session(self, id: int) -> dict[str, Any]:
        return self.call("session_show", session=id)

    # -- the service ----------------------------------------------------------------------------------------

    def call(self, name: str, /, *, as_: str | None = None, **args: Any) -> Any:
        caller = ADA if as_ is None else Operator(name="ada", as_agent=as_)
        return self.service.call(caller, name, _named(args))

    def attention(self) -> list[str]:
        return [item["id"] for item in self.call("attention")["items"]]

    # -- looking --------------------------------------------------------------------------------------------

    @property
    def reader(self) -> sqlite3.Connection:
        return self.store.reader()

    def write(self, work: Callable[[sqlite3.Connection], Any]) -> Any:
        return self.store.writer.do(work)

    def rows(self, sql: str, *values: object) -> list[dict[str, Any]]:
        return [dict(row) for row in self.reader.execute(sql, values)]

    def value(self, agent: str, key: str) -> str | None:
        row = self.reader.execute(
            "SELECT value FROM keys WHERE agent = ? AND key = ?", (agent, key)
        ).fetchone()
        return None if row is None else row[0]

    def handoff(self, id: int) -> dict[str, Any]:
        return self.call("handoff_show", id=id)

    def file(self, agent: str, path: str = "MEMORY.md") -> Path:
        return self.places.state / "memory" / agent / path

    def text(self, agent: str, path: str = "MEMORY.md") -> str:
        return self.file(agent, path).read_text()

    def dump(self) -> dict[str, list[tuple[Any, ...]]]:
        """Every row of every table."""
        return dump(self.reader)

    def live(self) -> list[dict[str, Any]]:
        return session_reads.live(self.reader)


def dump(connection: sqlite3.Connection) -> dict[str, list[tuple[Any, ...]]]:
    """But for `sums`, which follow from the rest."""
    tables = [
        row[0]
        for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")
        if row[0] != "sums"
    ]
    return {
        name: [tuple(row) for row in connection.execute(f"SELECT * FROM {name} ORDER BY 1, 2")]
        for name in tables
    }
