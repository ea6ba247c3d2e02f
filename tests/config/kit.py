"""A folder of agent files for tests, and the one-line way from it to what is in force; the clock is the test's."""

from __future__ import annotations

import os
import time
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from swarmd.config.check import Cache, Checked, Rules, check
from swarmd.config.files import Guard, SessionUser
from swarmd.config.kinds import RunnerKind
from swarmd.config.load import InForce, Reload, reconcile
from swarmd.config.scan import Scan, scan_folder
from swarmd.config.settings import Settings, read_settings

DATA = Path(__file__).parents[1] / "data"
GOOD = 'system_prompt = "You watch."\nrunner = { kind = "command", command = ["./a.py"] }\n'
LATER_NS = 3600 * 10**9


class CommandOptions(BaseModel):
    """Like those of the command runner."""

    model_config = ConfigDict(extra="forbid", strict=True)

    command: list[str] = Field(min_length=1)
    workdir: str | None = None
    env: dict[str, str] = {}
    pass_env: list[str] = []


class ModelOptions(BaseModel):
    """Like those of a runner that speaks to a model, and so can count tokens."""

    model_config = ConfigDict(extra="forbid", strict=True)

    model: str
    effort: str = "low"


KINDS = {
    "command": RunnerKind(options=CommandOptions),
    "model": RunnerKind(options=ModelOptions, measures=frozenset({"tokens_per_session"})),
}
RULES = Rules(kinds=KINDS, host_zone="Pacific/Auckland")


def good(parent: str | None = None, more: str = "") -> str:
    """A small file without a fault."""
    return (f'parent = "{parent}"\n' if parent is not None else "") + GOOD + more


class Folder:
    """agents.d and swarmd.toml in a test's own folder; `load` goes from files to what is in force, as the daemon does."""

    def __init__(self, base: Path, session_users: tuple[SessionUser, ...] = ()) -> None:
        self.path = base / "agents.d"
        self.path.mkdir(mode=0o755)
        self.settings_path = base / "swarmd.toml"
        self.guard = Guard(uid=os.getuid(), session_users=session_users)
        self.in_force: dict[str, InForce] = {}
        self.cache = Cache()
        self.scanned: Scan | None = None
        self.settings: Settings | None = None

    def write(self, name: str, text: str | bytes) -> Path:
        path = self.path / (name if "." in name else f"{name}.toml")
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def remove(self, name: str) -> None:
        (self.path / f"{name}.toml").unlink()

    def scan(self) -> Scan:
        self.scanned = scan_folder(
            self.path, guard=self.guard, now_ns=time.time_ns() + LATER_NS, previous=self.scanned
        )
        return self.scanned

    def check(self) -> Checked:
        self.settings = read_settings(
            self.settings_path,
            kinds=KINDS,
            guard=self.guard,
            now_ns=time.time_ns() + LATER_NS,
            previous=self.settings,
        )
        return check(self.scan(), self.settings, RULES, self.cache)

    def load(self, now: float = 0.0, *, allow_empty: bool = False) -> Reload:
        """Scan, check, reconcile, and take the outcome into force, as the store would."""
        reload = reconcile(self.in_force, self.check(), now=now, allow_empty=allow_empty)
        self.in_force = {
            name: InForce(agent=agent, absent_since=reload.absent.get(name))
            for name, agent in reload.agents.items()
        }
        return reload

    def problems(self, text: str | bytes, name: str = "bob") -> list[str]:
        """What is said of a folder that holds just this file."""
        self.write(name, text)
        return [str(problem) for problem in self.load().problems]


def parents(reload: Reload) -> dict[str, str | None]:
    return {name: agent.parent for name, agent in reload.agents.items()}


def sentences(reload: Reload) -> list[str]:
    return [str(problem) for problem in reload.problems]


def family(folder: Folder) -> Reload:
    """root > mid > leaf, all in force."""
    folder.write("root", good())
    folder.write("mid", good("root"))
    folder.write("leaf", good("mid"))
    return folder.load()
