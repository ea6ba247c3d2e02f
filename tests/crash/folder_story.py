"""One commit to a memory folder by the real protocol and Writer, with rows of the story's own beside it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from itertools import product
from pathlib import Path

from swarmd.store import documents
from tests.crash import checks
from tests.crash.person import STYLES
from tests.crash.story import Story, Told
from tests.store.memory_place import AGENT, PatientDisk, Place, effect_of

OTHER = "voidrunner"
SESSION = 5
VARIANTS = ("edits", "moves", "shared")
SHARED = "@team"
"""Whose folder it is in the story `shared`: one that several agents write."""
NOTES = "".join(f"- note {n}: something worth knowing\n" for n in range(1, 13))
LINES = ("- AGENT one", "- AGENT two", "- AGENT three")


class FolderStory(Story):
    agent, other = AGENT, OTHER
    recovery_calls = 90

    def __init__(self, folder: Path, variant: str) -> None:
        super().__init__(folder, variant)
        self.agent = SHARED if variant == "shared" else AGENT

    def visits(self, calls: int, swaps: list[int], *, few: bool) -> Iterable[tuple[str, int]]:
        swap, steps = swaps[0], 1 if few else 4
        during = {1 + calls * k // steps for k in range(steps)}
        # The dangerous moments: just before the names are exchanged, and from there to the end of the swap.
        during |= {swap, swap + 1} if few else set(range(swap - 3, swap + 10))
        return product(STYLES[1:], (0, -1, *sorted(during)))

    def prepare(self) -> None:
        """A state folder with some history, everything published and on the disk."""
        self.template.mkdir()
        place = Place(self.template)
        place.save(
            {"MEMORY.md": "# Notes\n" + NOTES, "topics/a.md": "# A\n" + NOTES, "b.md": "b\n"},
            agent=self.agent, session=1,
        )  # fmt: skip
        place.save({"MEMORY.md": "# Notes\n" + NOTES + "- from session 2\n"}, agent=self.agent, session=2)
        place.save({"MEMORY.md": "other\n"}, agent=OTHER, session=3)
        place.writer.do(lambda connection: _key(connection, OTHER, "status", "untouched"))
        place.folders.checkpoint()
        place.close()

    def play(self, acknowledge: Callable[[], None], disk: PatientDisk) -> None:
        """Settle, work on a copy, settle, commit, acknowledge, publish, flush."""
        place = Place(self.state, disk=disk)
        place.folders.settle(self.agent)
        copy = {
            path: data.decode() for path, data in place.folders.working_tree(self.agent).as_files().items()
        }
        bases = {path: copy.get(path, "") for path in changes(self.variant)}
        wanted = {path: change(bases[path]) for path, change in changes(self.variant).items()}
        place.folders.settle(self.agent)

        def commit(connection: sqlite3.Connection) -> None:
            for path, text in wanted.items():
                effect = effect_of(connection, self.agent, path, text, bases[path], f"{AGENT}#{SESSION}")
                documents.write_revision(connection, effect, SESSION)
            _write_rows(connection)

        place.writer.do(commit)
        acknowledge()
        place.folders.settle(self.agent)
        place.folders.checkpoint()
        place.close()

    def recover(self, boot: str, disk: PatientDisk) -> None:
        place = Place(self.state, boot=boot, disk=disk)
        place.folders.recover()
        for agent in (self.agent, OTHER):
            place.folders.settle(agent)
        place.folders.checkpoint()
        place.close()

    def broken(self, told: Told) -> list[str]:
        found: list[str] = []
        with checks.opened(self.state) as connection:
            committed = _all_or_nothing(connection, found)
            if told.acknowledged and not committed:
                found.append("I1: acknowledged and not committed")
            found += checks.memory(self, connection, told, dict.fromkeys(LINES, committed))
        return found + checks.others(self)


def _key(connection: sqlite3.Connection, agent: str, key: str, value: str) -> None:
    connection.execute(
        "INSERT INTO keys (agent, key, value, version, updated, by) VALUES (?, ?, ?, 1, 'now', 'x')",
        (agent, key, value),
    )


def changes(variant: str) -> dict[str, Callable[[str], str | None]]:
    """What the agent does to each file, given its text."""
    if variant != "moves":
        return {
            "MEMORY.md": lambda text: text + "- AGENT one\n",
            "topics/a.md": lambda text: text.replace("# A\n", "# A\n- AGENT two\n"),
            "new/n.md": lambda text: "- AGENT three\n",
        }
    return {
        "MEMORY.md": lambda text: text.replace("- note 3", "- AGENT one\n- note 3"),
        "topics/a.md": lambda text: None,
        "topics": lambda text: "- AGENT two\n",
        "b.md": lambda text: None,
        "b.md/c.md": lambda text: "- AGENT three\n",
    }


def _write_rows(connection: sqlite3.Connection) -> None:
    for n in range(3):
        _key(connection, AGENT, f"key{n}", "v")
    connection.execute(
        "INSERT INTO handoffs (id, sender, receiver, text, priority, status, created, depth, by, moved, cause_session)"
        " VALUES (1, ?, ?, 'do it', 'normal', 'open', 'now', 1, 'x', 'now', ?)",
        (AGENT, OTHER, SESSION),
    )
    connection.execute(
        "INSERT INTO sessions (id, agent, trigger, state, outcome, queued, by)"
        " VALUES (?, ?, 'manual', 'ended', 'committed', 'now', 'x')",
        (SESSION, AGENT),
    )


def _all_or_nothing(connection: sqlite3.Connection, found: list[str]) -> bool:
    counts = [
        connection.execute(sql).fetchone()[0]
        for sql in (
            f"SELECT count(*) FROM sessions WHERE id = {SESSION}",
            f"SELECT count(*) / 3.0 FROM keys WHERE agent = '{AGENT}'",
            f"SELECT count(*) FROM handoffs WHERE cause_session = {SESSION}",
            f"SELECT count(*) >= 3 FROM revisions WHERE by = '{AGENT}#{SESSION}'",
        )
    ]
    if len(set(counts)) != 1:
        found.append(f"I2: half written: {counts}")
    return bool(counts[0])
