"""A whole session as `swarmd run` makes it without a daemon: the state opened and mended, a session queued, run, ended.

`script` plays the agent's part in the daemon's process, `command` as a program under its supervisor.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import product
from pathlib import Path
from unittest import mock

from swarmd.core.owners import shared_owner
from swarmd.daemon import logs
from swarmd.daemon.clock import RealClock
from swarmd.daemon.daemon import Daemon
from swarmd.daemon.local import run_local
from swarmd.daemon.notify import Notifier
from swarmd.daemon.process import be_subreaper
from swarmd.places import Places
from swarmd.runners import registry
from swarmd.service.caller import Operator
from swarmd.session import flow, journal
from swarmd.store import store as storing
from swarmd.store.memory import MemoryFolders
from swarmd.store.trees import tree_of
from tests.crash import part, session_checks
from tests.crash.person import STYLES
from tests.crash.story import Story, Told
from tests.store.memory_place import PatientDisk

VARIANTS = ("script", "command")
PARENTS = {"house": None, "studio": "house", "game": "studio", "art": "studio"}
BOOT = "boot-1"
COMMAND = registry.BUILT_IN["command"]


@contextlib.contextmanager
def acknowledging(acknowledge: Callable[[], None]) -> Iterator[None]:
    """In here a session that has run to its end is acknowledged."""
    run = flow.run

    async def acknowledged(*args: object) -> str:
        outcome = await run(*args)
        acknowledge()
        return outcome

    with mock.patch.object(flow, "run", acknowledged):
        yield


class SessionStory(Story):
    agent, other = session_checks.AGENT, "art"
    name = session_checks.AGENT
    """Whose session it is."""
    session = session_checks.SESSION
    """Its number: what came before it made what the story begins with."""
    recovery_calls = 160

    def __init__(self, folder: Path, variant: str) -> None:
        super().__init__(folder, variant)
        self.agents = folder / f"agents-{variant}" / "agents.d"
        self.runtime = folder / "run"
        self.acts = folder / "told" / "acts"
        self.all_calls_are_ours = variant == "script"

    def visits(self, calls: int, swaps: list[int], *, few: bool) -> Iterable[tuple[str, int]]:
        """Before and after it, around the exchanges of the checkpoint and of the end, and between them. With a program
        of its own the session does the same.
        """
        first, last = swaps[0], swaps[-1]
        if self.variant == "command":
            return product(
                ("vim",) if few else ("vim", "atomic", "nano"), (last,) if few else (0, -1, first, last)
            )
        if few:
            return [("vim", 0), ("vim", -1), *product(STYLES[1:], (last,))]
        during = (first - 20, first, first + 1, (first + last) // 2, *range(last - 3, last + 5))
        return product(STYLES[1:], (0, -1, *during))

    def places(self, state: Path) -> Places:
        return Places(agents=self.agents, state=state, runtime=self.runtime, config=self.agents.parent / "swarmd.toml",
                      runtime_is_named=True)  # fmt: skip

    def prepare(self) -> None:
        """An agent with notes, a key and work to do; one beside it that has no part in the story."""
        be_subreaper()  # what outlives a session is then a child of this process, and found
        self.acts.parent.mkdir(exist_ok=True)
        self.agents.mkdir(parents=True)
        for name in PARENTS:
            self._write(name, {"kind": "script", "part": "history"})
        with machine(PatientDisk(), BOOT):
            for name in (self.other, self.name):
                assert run_local(self.places(self.template), {"agent": name})["outcome"] == "committed"
            self._write(self.name, self.runner(), self.tables())
            daemon = self._opened(self.template)
            sent = {"to": self.name, "text": "see to it"}
            document = daemon.service.call(
                Operator(name="ada", as_agent=PARENTS[self.name]), "handoff_send", sent
            )
            assert document["id"] == part.HANDOFF
            self.furnish(daemon)
            daemon.close()

    def furnish(self, daemon: Daemon) -> None:
        """What else the story begins with."""

    def tables(self) -> str:
        """Tables of the agent's file, beside those that each has."""
        return ""

    def _write(self, name: str, runner: Mapping[str, object], tables: str = "") -> None:
        parent = PARENTS[name]
        lines = [
            f'system_prompt = "You are {name}."',
            *([f'parent = "{parent}"'] if parent is not None else []),
            f"runner = {{ {', '.join(f'{key} = {json.dumps(value)}' for key, value in runner.items())} }}",
            "limits = { retries = 1 }",
            f"sandbox = {{ write = [{json.dumps(str(self.acts.parent))}] }}",
        ]
        (self.agents / f"{name}.toml").write_text("\n".join(lines) + f"\n{tables}")

    def runner(self) -> Mapping[str, object]:
        told = str(self.acts)
        if self.variant == "script":
            return {"kind": "script", "told": told}
        return {"kind": "command", "command": [sys.executable, "-I", "-S", part.__file__, told]}

    def _opened(self, state: Path) -> Daemon:
        daemon = Daemon(self.places(state), RealClock(), Notifier({}), scheduling=False)
        daemon.open()
        return daemon

    def reset(self) -> None:
        super().reset()
        shutil.rmtree(self.runtime, ignore_errors=True)
        self.acts.unlink(missing_ok=True)

    def told(self) -> list[str]:
        """Whole lines: one that was cut off told nobody anything."""
        return self.acts.read_text().rpartition("\n")[0].splitlines() if self.acts.exists() else []

    def play(self, acknowledge: Callable[[], None], disk: PatientDisk) -> None:
        with machine(disk, BOOT), acknowledging(acknowledge):
            document = run_local(self.places(self.state), self.asked())
        assert document["outcome"] == "committed", document

    def asked(self) -> dict[str, object]:
        """What `swarmd run` is asked for."""
        return {"agent": self.name}

    def recover(self, boot: str, disk: PatientDisk) -> None:
        with machine(disk, boot):
            daemon = self._opened(self.state)
            for owner in owners(daemon):
                daemon.store.folders.settle(owner)
            daemon.close()

    def broken(self, told: Told) -> list[str]:
        return session_checks.broken(self, told, self.places(self.state), session=self.session)


def owners(daemon: Daemon) -> list[str]:
    """Whose folders a daemon brings up to date."""
    tree = tree_of(daemon.reader)
    shared = map(shared_owner, tree.shared_folders())
    return [*tree, *shared, *daemon.store.folders.about_subjects(tree)]


@contextlib.contextmanager
def machine(disk: PatientDisk, boot: str, *, command: str = COMMAND) -> Iterator[None]:
    """This disk, in this boot; the two runners that the story has, `command` by the module of that name; and nobody
    reads the log.
    """
    runners = {"command": command, "script": "tests.crash.script"}
    folders = partial(MemoryFolders, disk=disk, boot=lambda: boot)
    with (
        mock.patch.object(registry, "BUILT_IN", runners),
        mock.patch.object(registry, "_installed", dict),
        mock.patch.object(storing, "MemoryFolders", folders),
        mock.patch.object(journal, "boot_id", return_value=boot),
        mock.patch.object(logs, "setup"),
        mock.patch.object(logs.log, "disabled", new=True),
    ):
        yield
