"""Sessions whose agent keeps a log, shares folders, or works about a subject, and one that puts the memory in order."""

from __future__ import annotations

import contextlib
import sqlite3
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import product
from typing import ClassVar

from swarmd.core import interaction_log
from swarmd.core.changes import AppendMemory
from swarmd.core.transcript import call_text
from swarmd.daemon.daemon import Daemon
from swarmd.daemon.local import run_local
from swarmd.service.caller import Operator
from swarmd.store.connections import open_reading
from tests.crash import checks, part, parts, session_checks
from tests.crash.session_checks import drafted_of, ending, marked, stage_of
from tests.crash.session_story import BOOT, SessionStory, acknowledging, machine
from tests.crash.story import Told
from tests.store.memory_place import PatientDisk

STYLES = ("vim", "atomic", "append", "twice")
WORKS = 40
"""So many calls before the last exchange a session is at work."""
SHARED = "# Notes\n" + part.NOTES


class MemoryStory(SessionStory):
    """A session that plays the part named by its variant, in two parts with a checkpoint between."""

    lines: ClassVar[Mapping[str, int]]
    """The lines that it writes, and with which of its parts each is saved."""

    def __init__(self, folder, variant: str) -> None:
        super().__init__(folder, variant)
        self.all_calls_are_ours = True

    def visits(self, calls: int, swaps: list[int], *, few: bool) -> Iterable[tuple[str, int]]:
        """Before and after it, while the session works, and around the exchange at its end."""
        last = swaps[-1] if swaps else calls // 2
        if few:
            return [("vim", last)]
        return product(
            STYLES, (0, -1, swaps[0] if swaps else calls // 3, last - WORKS, last - 2, last, last + 1)
        )

    def runner(self) -> Mapping[str, object]:
        return {"kind": "script", "part": self.variant, "told": str(self.acts)}

    def broken(self, told: Told) -> list[str]:
        found: list[str] = []
        places = self.places(self.state)
        with contextlib.closing(open_reading(places.state / "swarmd.db")) as connection:
            row = connection.execute("SELECT * FROM sessions WHERE id = ?", (self.session,)).fetchone()
            stage = self.stage(connection, row)
            found += self.ended(connection, row, stage, told)
            found += marked(row, drafted_of(connection, row))
            found += self.written(connection, row, stage, told)
            lines = {line: stage >= of for line, of in self.lines.items()}
            found += checks.memory(self, connection, told, lines)
            found += session_checks.verified(connection, places)
        found += [f"{path} was left behind" for path in session_checks.strays(places)]
        found += [f"I9: process {pid} outlived its session" for pid in session_checks.leftovers()]
        return found + checks.others(self)

    def stage(self, connection: sqlite3.Connection, row: sqlite3.Row | None) -> int:
        """How many of its parts are saved."""
        return stage_of(row)

    def ended(
        self, connection: sqlite3.Connection, row: sqlite3.Row | None, stage: int, told: Told
    ) -> Iterable[str]:
        return ending(connection, row, stage, told, self.session)

    @abstractmethod
    def written(
        self, connection: sqlite3.Connection, row: sqlite3.Row | None, stage: int, told: Told
    ) -> Iterator[str]:
        """What is broken of what this story is about, after `stage` parts of the session."""


def keys_of(connection: sqlite3.Connection) -> dict[str, str]:
    """The agent's keys."""
    return dict(connection.execute("SELECT key, value FROM keys WHERE agent = 'studio'").fetchall())


# -- a log --------------------------------------------------------------------------------------------------


class LogStory(MemoryStory):
    """Its blocks stand in MEMORY.md once, or not at all and then in the draft; never a part of one."""

    lines: ClassVar = {"- AGENT half": 1, "- AGENT one": 2, "- AGENT two": 2}

    def tables(self) -> str:
        return "[memory]\nlog = true\n"

    def blocks(self) -> list[list[tuple[str, str]]]:
        """Of each part its blocks: who speaks, and what is said."""
        name, given, result = parts.LOOKED
        call = call_text({"name": name, "input": given})
        return [
            [
                ("user", f"manual\nhandoff {part.HANDOFF} from house (normal): see to it"),
                ("assistant", parts.SAID[0]),
            ],
            [("tool", f"{call}\n\n{result}"), ("assistant", parts.SAID[1])],
        ]

    def written(
        self, connection: sqlite3.Connection, row: sqlite3.Row | None, stage: int, told: Told
    ) -> Iterator[str]:
        text = (self.notes / "MEMORY.md").read_text()
        wanted = [block for blocks in self.blocks()[:stage] for block in blocks]
        if (logged := self._logged(text)) != wanted and not told.person.deleted:
            yield f"I5: after {stage} of 2 parts the log has {logged}"
        if keys_of(connection).get("phase") != ("half" if stage else None):
            yield f"I2: after {stage} of 2 parts the keys are {keys_of(connection)}"
        drafted = drafted_of(connection, row)
        said = [c.text for c in drafted if isinstance(c, AppendMemory) and interaction_log.is_log(c)]
        left = self._logged("".join(said))
        if len(said) > 1 or left not in self._possible(stage):
            yield f"the draft of part {stage + 1} has the blocks {left}"
        if row is not None and row["outcome"] == "lost" and stage < 2 and not told.power_cut:
            least = self._least(told, stage)
            if left[: len(least)] != least:
                yield f"I5: {least} was said, and the draft has {left}"

    def _logged(self, text: str) -> list[tuple[str, str]]:
        """The blocks of the session in a text; one that is none is told of as such."""
        found = [(b.role, b.text) for b in interaction_log.blocks(text) if b.session == self.session]
        heads = text.count(f"(session {self.session}) \N{EM DASH}")
        return found if heads == len(found) else [*found, ("half a block", text)]

    def _possible(self, stage: int) -> list[list[tuple[str, str]]]:
        """What may be left of a part."""
        if stage == 2:
            return [[]]
        all_of_it = self.blocks()[stage]
        called = [(all_of_it[0][0], all_of_it[0][1].split("\n\n")[0])]
        return [[], called, *(all_of_it[:n] for n in range(1, len(all_of_it) + 1))]

    def _least(self, told: Told, stage: int) -> list[tuple[str, str]]:
        """What is known to have been said in the part that was not saved."""
        return self.blocks()[stage] if f"{stage + 1} said" in told.acts else []


# -- several folders ----------------------------------------------------------------------------------------


class TeamStory(MemoryStory):
    """What it writes into three folders is saved with one commit, or not at all. The person edits a shared one."""

    agent = "@team"
    lines: ClassVar = {"- AGENT half": 1, "- AGENT one": 2, "- AGENT two": 2}
    elsewhere: ClassVar = {"@rules/r.md": ("- AGENT rule", 1), "@rules/MEMORY.md": ("- AGENT three", 2),
                 "studio/MEMORY.md": ("- AGENT own", 2)}  # fmt: skip
    """Lines in folders that the person does not edit."""

    def tables(self) -> str:
        return "".join(f'[[memory.shared]]\nname = "{name}"\nwrite = true\n' for name in ("team", "rules"))

    def furnish(self, daemon: Daemon) -> None:
        for owner, file in (("@team", "MEMORY.md"), ("@rules", "MEMORY.md"), ("@rules", "old.md")):
            daemon.service.call(
                Operator(name="ada"), "memory_write", {"agent": owner, "file": file, "text": SHARED}
            )

    def written(
        self, connection: sqlite3.Connection, row: sqlite3.Row | None, stage: int, told: Told
    ) -> Iterator[str]:
        for path, (line, of) in self.elsewhere.items():
            file = self.state / "memory" / path
            count = file.read_text().count(f"{line}\n") if file.is_file() else 0
            if count != (stage >= of):
                yield f"I2: after {stage} of 2 parts {path} has {line!r} {count} times"
        if (self.state / "memory/@rules/old.md").exists() == (stage == 2):
            yield f"I2: after {stage} of 2 parts @rules/old.md is {'there' if stage == 2 else 'gone'}"
        if row is None or row["outcome"] != "lost" or told.power_cut:
            return
        asked = [change.text for change in drafted_of(connection, row) if isinstance(change, AppendMemory)]
        if f"{stage + 1} end" in told.acts and not any("AGENT one" in text for text in asked):
            yield f"the draft of part {stage + 1} adds {asked}"


class SubjectStory(SessionStory):
    """A session about a subject: its memory is that subject's folder, and the agent's own is not touched."""

    agent = "studio@alice"
    session = session_checks.SESSION + 1

    def __init__(self, folder, variant: str) -> None:
        super().__init__(folder, variant)
        self.all_calls_are_ours = True

    visits = MemoryStory.visits

    def runner(self) -> Mapping[str, object]:
        return {"kind": "script", "told": str(self.acts)}

    def asked(self) -> dict[str, object]:
        return {"agent": self.name, "subject": "alice"}

    def prepare(self) -> None:
        super().prepare()
        self._write(self.name, {"kind": "script", "part": "history"})
        with machine(PatientDisk(), BOOT):
            assert run_local(self.places(self.template), self.asked())["outcome"] == "committed"
        self._write(self.name, self.runner())

    def broken(self, told: Told) -> list[str]:
        found = super().broken(told)
        own = [_own_memory(state) for state in (self.template, self.state)]
        return found if own[0] == own[1] else [*found, "I6: the agent's own memory has changed"]


def _own_memory(state) -> list[object]:
    with checks.opened(state) as connection:
        rows = connection.execute(
            "SELECT path, rev, hash FROM revisions WHERE agent = 'studio' ORDER BY path, rev"
        )
        files = sorted((state / "memory/studio").rglob("*"))
        return [[tuple(row) for row in rows], [f.read_bytes() for f in files if f.is_file()]]


# -- putting in order ---------------------------------------------------------------------------------------


class ConsolidateStory(MemoryStory):
    """It is saved whole, and then its sessions are looked through; or not at all. It writes nothing but memory."""

    lines: ClassVar = {"- AGENT ordered": 1, "- AGENT moved": 1}
    wrote = ("MEMORY.md", "b.md", "new/b.md")
    others = ("keys", "key_history", "handoffs", "handoff_entries", "reports")

    def visits(self, calls: int, swaps: list[int], *, few: bool) -> Iterable[tuple[str, int]]:
        """Also in short form somebody comes while it works: then it is overtaken."""
        found = list(super().visits(calls, swaps, few=few))
        return [*found, ("atomic", swaps[-1] - WORKS)] if few else found

    def tables(self) -> str:
        return '[consolidate]\ncommand = ["tidy"]\n[[memory.shared]]\nname = "team"\nwrite = true\n'

    def runner(self) -> Mapping[str, object]:
        return {"kind": "script", "part": "history"}

    def play(self, acknowledge: Callable[[], None], disk: PatientDisk) -> None:
        asked = {"agent": self.name, "trigger": "consolidate"}
        with (
            machine(disk, BOOT, command="tests.crash.played"),
            acknowledging(acknowledge),
        ):
            document = run_local(self.places(self.state), asked)
        # Where a person was faster nothing is saved, and it has gone well all the same.
        assert document["outcome"] in ("committed", "no_change"), document

    def stage(self, connection: sqlite3.Connection, row: sqlite3.Row | None) -> int:
        return int(self._overtaken(row) is False)

    def _overtaken(self, row: sqlite3.Row | None) -> bool | None:
        """Whether others were faster; None: it has not gone well."""
        return (
            None if row is None or row["outcome"] not in ("committed", "no_change") else bool(row["reason"])
        )

    def ended(
        self, connection: sqlite3.Connection, row: sqlite3.Row | None, stage: int, told: Told
    ) -> Iterator[str]:
        if told.acknowledged and self._overtaken(row) is None:
            yield "I1: acknowledged and not ended"
        if row is not None and row["outcome"] not in ("committed", "no_change", "lost", "cancelled"):
            yield f"the session is {row['state']} ({row['outcome']}: {row['reason']})"
        if self._overtaken(row) and told.person.saved is None and not told.person.deleted:
            yield f"it was overtaken by nobody: {row['reason']}"
        if connection.execute("SELECT count(*) FROM sessions WHERE id > ?", (self.session,)).fetchone()[0]:
            yield "it is tried again by itself"
        if drafted_of(connection, row):
            yield "a consolidation has left a draft"

    def written(
        self, connection: sqlite3.Connection, row: sqlite3.Row | None, stage: int, told: Told
    ) -> Iterator[str]:
        by = (f"studio#{self.session}",)
        rows = connection.execute("SELECT path, how FROM revisions WHERE by = ? ORDER BY path", by)
        wrote = [tuple(row) for row in rows]
        if wrote != [(path, "consolidate") for path in self.wrote[: len(self.wrote) * stage]]:
            yield f"I2: half written: {wrote}"
        looked = [
            tuple(r) for r in connection.execute("SELECT agent, until_session, session FROM consolidated")
        ]
        if looked != [("studio", 2, self.session)][:stage]:
            yield f"I2: its sessions are {'not ' if stage else ''}looked through: {looked}"
        with checks.opened(self.template) as template:
            for table in self.others:
                sql = f"SELECT * FROM {table}"
                if list(map(tuple, connection.execute(sql))) != list(map(tuple, template.execute(sql))):
                    yield f"I6: {table} is not as it was"
