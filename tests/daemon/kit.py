"""A daemon in this process, on a clock that stands still until a test moves it, with a runner that plays parts."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from swarmd.daemon.daemon import Daemon
from swarmd.daemon.notify import Notifier
from swarmd.places import PlaceOptions, Places, places
from swarmd.service.caller import Operator
from tests.daemon import play

# A Monday. Far in the future: what goes by the machine's own clock is never due.
MONDAY = datetime(2091, 1, 1, 10, 30, tzinfo=UTC)
PATIENCE = 30.0
OPERATOR = Operator(name="tester")


class FakeClock:
    """Both clocks of a machine. `pass_` time as it does; `set` the wall clock as people and NTP do."""

    def __init__(self, now: datetime = MONDAY) -> None:
        self.wall = now
        self.steady = 1000.0

    def now(self) -> datetime:
        return self.wall

    def monotonic(self) -> float:
        return self.steady

    def pass_(self, seconds: float) -> None:
        self.wall += timedelta(seconds=seconds)
        self.steady += seconds

    def go_to(self, moment: datetime) -> None:
        self.pass_((moment - self.wall).total_seconds())

    def set(self, moment: datetime) -> None:
        self.wall = moment


class Swarm:
    """Agent files, a state that outlives its daemons, and the daemon that has it now."""

    def __init__(self, root: Path, runtime: Path) -> None:
        self.root = root
        self.clock = FakeClock()
        named = PlaceOptions(agents=str(root / "agents.d"), state=str(root / "state"), runtime=str(runtime))
        self.places: Places = places(named, {}, root, os.getuid())
        self.places.agents.mkdir(exist_ok=True)
        self.stage = play.stage = play.Stage()
        self.daemon: Daemon
        self.settings()

    def settings(self, **daemon: object) -> None:
        table = {"max_sessions": 8, "max_processes": 1000, **daemon}
        lines = [f"{name} = {_toml(value)}\n" for name, value in table.items()]
        (self.root / "swarmd.toml").write_text("[daemon]\n" + "".join(lines))

    def agent(
        self, name: str, schedule: str = "", *, parent: str | None = None, part: str = "succeed", more: str = ""
    ) -> None:  # fmt: skip
        """An agent whose cron text or whole `[schedule]` body is given."""
        body = f'cron = "{schedule}"\n' if schedule and "=" not in schedule else schedule
        table = f'[schedule]\ntimezone = "UTC"\n{body}' if body else ""
        above = f'parent = "{parent}"\n' if parent else ""
        text = f'system_prompt = "You are {name}."\n{above}runner = {{ kind = "play", part = "{part}" }}\n'
        (self.places.agents / f"{name}.toml").write_text(text + _tops(more) + table + _tables(more))

    @asynccontextmanager
    async def up(
        self, *, scheduling: bool = True, drain: float = 0.0, killed: bool = False
    ) -> AsyncIterator[Daemon]:
        """A daemon from its start to its stop; `killed`: to the moment at which it is simply gone."""
        self.daemon = daemon = Daemon(self.places, self.clock, Notifier({}), scheduling=scheduling)
        daemon.open()
        await daemon.start()
        try:
            yield daemon
        finally:
            if killed:
                await self._kill()
            else:
                await daemon.stop(drain)

    async def _kill(self) -> None:
        """What is left when a process is killed: what the store has. Nothing more is written."""
        daemon = self.daemon
        daemon.scheduler.stop()
        daemon.stopping = True
        daemon.starter.close("killed")
        daemon.store.writer.broken = RuntimeError("killed")
        for task in [*daemon._tasks, *(running.task for running in daemon.starter.running.values())]:
            task.cancel()
        await asyncio.sleep(0.05)
        await daemon.operators.close(0.0)
        daemon.executor.shutdown(wait=False, cancel_futures=True)
        daemon.store.close()

    # -- time -----------------------------------------------------------------------------------------------

    async def at(self, text: str) -> None:
        """Time goes on to HH:MM[:SS] of the day that it is, the daemon ticks, and what starts comes to rest."""
        hour, minute, *second = (int(part) for part in text.split(":"))
        await self.at_moment(
            self.clock.wall.replace(hour=hour, minute=minute, second=sum(second), microsecond=1000)
        )

    async def at_moment(self, moment: datetime) -> None:
        self.clock.go_to(moment)
        await self.tick()

    async def tick(self) -> None:
        await self.daemon.tick()
        await self.rest()

    async def rest(self) -> None:
        """Until nothing moves: what still runs is held by the test."""
        await until(
            lambda: all(self._is_held(id) for id in self.daemon.starter.running) and not self._moves()
        )

    def _is_held(self, id: int) -> bool:
        return not self.stage._open.is_set() and any(request.session == id for request in self.stage.played)

    def _moves(self) -> bool:
        starter = self.daemon.starter
        may = len(starter.running) < starter.cap and starter.holding is None and starter.stuck() is None
        free = any(order.agent not in starter._by_agent for order in starter._ready.values())
        return bool(starter._drops or self.daemon._tasks) or (may and free)

    # -- looking --------------------------------------------------------------------------------------------

    def call(self, name: str, /, **args: Any) -> Any:
        return self.daemon.service.call(OPERATOR, name, args)

    async def ask(self, name: str, /, **args: Any) -> Any:
        """A call from a thread, as the operator's socket makes it."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self.daemon.executor, lambda: self.call(name, **args))

    def slots(self, agent: str | None = None) -> list[tuple[str, str, int]]:
        """Slots' rows, oldest first: when, decision, count."""
        rows = self._rows("SELECT * FROM slots WHERE ?1 IS NULL OR agent = ?1 ORDER BY slot, agent", agent)
        return [(row["slot"][11:16], row["decision"], row["count"]) for row in rows]

    def reasons(self, agent: str) -> list[str]:
        return [
            row["reason"] for row in self._rows("SELECT * FROM slots WHERE agent = ? ORDER BY slot", agent)
        ]

    def sessions(self, agent: str | None = None) -> list[dict[str, Any]]:
        return self._rows("SELECT * FROM sessions WHERE ?1 IS NULL OR agent = ?1 ORDER BY id", agent)

    def outcomes(self, agent: str | None = None) -> list[str]:
        return [row["outcome"] or row["state"] for row in self.sessions(agent)]

    def attention(self) -> list[str]:
        return [item["id"] for item in self.call("attention")["items"]]

    def _rows(self, sql: str, *values: object) -> list[dict[str, Any]]:
        return [dict(row) for row in self.daemon.reader.execute(sql, values)]


async def until(holds, what: str = "it did not come to rest", *, pause: float = 0.002) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, what
        await asyncio.sleep(pause)


def _toml(value: object) -> str:
    return (
        str(value).lower()
        if isinstance(value, bool)
        else f'"{value}"'
        if isinstance(value, str)
        else str(value)
    )


def _tops(more: str) -> str:
    return more.partition("[")[0]


def _tables(more: str) -> str:
    return "".join(more.partition("[")[1:])
