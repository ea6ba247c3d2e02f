"""A machine in a temporary folder, a desk that remembers, and ways to look for processes."""

import asyncio
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from swarmd.core.wire import MemoryTree, Message, Reply, Request, Result
from swarmd.runners import command, landlock
from swarmd.runners.host import Host

TOKEN = "t0ken-of-the-session-0123456789"

needs_landlock = pytest.mark.skipif(landlock.abi() == 0, reason="this kernel has no Landlock")
needs_scopes = pytest.mark.skipif(
    landlock.abi() < landlock.ABI_SCOPES, reason="this kernel's Landlock does not scope signals"
)


class RecordingDesk:
    """A desk that answers everything with what it was asked, and keeps it."""

    def __init__(self) -> None:
        self.calls: list[Message] = []
        self.checkpoints: list[tuple[Message, MemoryTree, tuple[str, ...]]] = []
        self.events: list[tuple[str, Any]] = []

    async def call(self, message: Message) -> Reply:
        self.calls.append(message)
        await asyncio.sleep(0)
        return Reply(value={"called": message.call, "args": dict(message.args)})

    async def checkpoint(self, message: Message, memory: MemoryTree, problems: tuple[str, ...]) -> Reply:
        self.checkpoints.append((message, memory, problems))
        return Reply(value={"checkpoint": len(self.checkpoints)})

    def event(self, kind: str, detail: Any) -> None:
        self.events.append((kind, detail))


@dataclass
class Machine:
    root: Path
    host: Host
    desk: RecordingDesk = field(default_factory=RecordingDesk)

    @property
    def state(self) -> Path:
        return self.root / "state"

    @property
    def agents(self) -> Path:
        return self.root / "agents.d"

    def request(self, *argv: str, agent: str = "polybreak", session: int = 1, **more: Any) -> Request:
        fields = {name: more.pop(name) for name in list(more) if name in Request.__slots__}
        sandbox = {"level": "auto", "write": [], "home": "private", "network": True} | fields.pop(
            "sandbox", {}
        )
        values: dict[str, Any] = {
            "agent": agent,
            "session": session,
            "epoch": 1,
            "attempt": 1,
            "trigger": "manual",
            "system": "You keep Polybreak moving.",
            "user": "Go on.",
            "memory": MemoryTree.of({"MEMORY.md": b"# Notes\n"}),
            "read_only": ("archive/**",),
            "options": {"command": list(argv), **more},
            "folder": str(self.agents),
            "sandbox": sandbox,
            "timezone": "Europe/Berlin",
            "timeout_seconds": 30.0,
            "token": TOKEN,
        }
        return Request(**(values | fields))

    async def run(self, *argv: str, **more: Any) -> Result:
        return await command.make(self.host).run(self.request(*argv, **more), self.desk)

    def script(self, text: str, name: str = "agent.sh", first: str = "#!/bin/sh\n") -> str:
        path = self.agents / name
        path.write_text(first + text)
        path.chmod(0o755)
        return f"./{name}"

    def python(self, text: str, name: str = "agent.py") -> str:
        return self.script(text, name, f"#!{sys.executable}\n")

    def with_host(self, **changes: Any) -> "Machine":
        return Machine(root=self.root, host=replace(self.host, **changes), desk=self.desk)


def text_of(result: Result) -> str:
    return result.stdout.head.decode()


def processes(mark: str) -> list[int]:
    """Living processes with this text on their command line."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                status = (folder / "stat").read_text().rpartition(")")[2].split()[0]
                if mark.encode() in (folder / "cmdline").read_bytes() and status != "Z":
                    found.append(int(folder.name))
            except OSError:
                continue
    return found


async def until(condition, seconds: float = 10.0) -> None:
    for _ in range(int(seconds / 0.02)):
        if condition():
            return
        await asyncio.sleep(0.02)
    raise AssertionError("it did not come about in time")
