"""A compaction with a summarizer, between whose reading and writing an operator writes twice: in the middle of the notes,
so that the summary is made again, and behind them. An archive of the same second is there already.

`summarized` plays the summarizer in the daemon's process, `summarizer` starts it as a program.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sqlite3
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import product
from typing import Any
from unittest import mock

from swarmd.core.compaction import archive_name
from swarmd.daemon import local
from swarmd.daemon.clock import RealClock
from swarmd.daemon.daemon import Daemon
from swarmd.service.caller import Operator
from swarmd.session.summarizing import Summarizing
from swarmd.store.connections import open_reading
from tests.crash import checks, part, session_checks, summarize
from tests.crash.compact_story import made, whole
from tests.crash.session_story import BOOT, COMMAND, SessionStory, machine
from tests.crash.story import Told
from tests.store.memory_place import PatientDisk

VARIANTS = ("summarized", "summarizer")
BETWEEN, AFTER = "- OPERATOR in between\n", "- OPERATOR afterwards\n"
OLDER = "an archive that was there\n"
MOVED = ("was changed while it was summarized", "was deleted while it was summarized")


class StoppedClock(RealClock):
    """Its wall clock stands still, so that two archives have the same second."""

    at = datetime.now(UTC).replace(microsecond=0)

    def now(self) -> datetime:
        return self.at


class SummaryStory(SessionStory):
    def __init__(self, folder, variant: str) -> None:
        super().__init__(folder, variant)
        # The program writes no file of the state.
        self.all_calls_are_ours = True
        self.older = archive_name(StoppedClock.at, ())

    def visits(self, calls: int, swaps: list[int], *, few: bool) -> Iterable[tuple[str, int]]:
        last = swaps[-1]
        if few:
            return [("atomic", last)]
        during = (calls // 2, last - 2, last, last + 1)
        styles = ("vim", "append", "delete") if self.variant == "summarized" else ("atomic",)
        return product(styles, (0, -1, *during))

    def runner(self) -> Mapping[str, object]:
        return {"kind": "script", "part": "history"}

    def tables(self) -> str:
        program = [sys.executable, "-I", "-S", summarize.__file__]
        command = ["sum"] if self.variant == "summarized" else program
        return f"[memory]\nsummarizer_command = {json.dumps(command)}\n"

    @property
    def command(self) -> str:
        return "tests.crash.played" if self.variant == "summarized" else COMMAND

    def furnish(self, daemon: Daemon) -> None:
        file = self.template / "memory" / self.agent / self.older
        file.parent.mkdir()
        file.write_text(OLDER)
        daemon.store.folders.settle(self.agent)

    def play(self, acknowledge: Callable[[], None], disk: PatientDisk) -> None:
        operator, tell, ask = Operator(name="ada"), part.teller(str(self.acts)), Summarizing.ask
        daemons: list[Daemon] = []
        writes = iter((self._between, self._after))

        class Known(Daemon):
            def open(self) -> None:
                daemons.append(self)
                super().open()

        async def asked(*args: Any) -> Any:
            for write in [next(writes, None)]:
                if write is not None:
                    await asyncio.to_thread(write, daemons[0], operator, tell)
            return await ask(*args)

        with (
            machine(disk, BOOT, command=self.command),
            mock.patch.object(local, "RealClock", StoppedClock),
            mock.patch.object(local, "Daemon", Known),
            mock.patch.object(Summarizing, "ask", asked),
        ):
            document = local.run_local(self.places(self.state), {"agent": self.name}, name="memory_compact")
        if document["outcome"] == "committed":
            acknowledge()
        else:
            assert any(reason in document["reason"] for reason in MOVED), document

    def _between(self, daemon: Daemon, operator: Operator, tell: part.Told) -> None:
        """Over what stands in the store, as `swarmd memory edit` writes what came of it."""
        shown = daemon.service.call(operator, "memory_show", {"agent": self.agent})
        text = shown["text"].replace("- note 6", f"{BETWEEN}- note 6")
        wish = {"agent": self.agent, "file": "MEMORY.md", "text": text, "base": shown["rev"]}
        daemon.service.call(operator, "memory_write", wish)
        tell(BETWEEN.strip())

    def _after(self, daemon: Daemon, operator: Operator, tell: part.Told) -> None:
        wish = {"agent": self.agent, "file": "MEMORY.md", "text": AFTER.strip()}
        daemon.service.call(operator, "memory_append", wish)
        tell(AFTER.strip())

    def broken(self, told: Told) -> list[str]:
        found: list[str] = []
        places = self.places(self.state)
        with contextlib.closing(open_reading(places.state / "swarmd.db")) as connection:
            row, done = made(connection)
            moved = row is not None and any(reason in row["reason"] for reason in MOVED)
            found += whole(connection, row, done, () if not moved else ("failed",))
            if told.acknowledged and not done:
                found.append("I1: acknowledged and not committed")
            found += checks.memory(self, connection, told, {summarize.LINE: done})
            found += self._kept(connection, told, done)
            found += session_checks.verified(connection, places)
        found += [f"{path} was left behind" for path in session_checks.strays(places)]
        found += [f"process {pid} outlived its session" for pid in session_checks.leftovers()]
        return found + checks.others(self)

    def _kept(self, connection: sqlite3.Connection, told: Told, done: bool) -> Iterator[str]:
        """Every line of the old text and of who wrote meanwhile stands in some file; no archive is another's."""
        files = {str(f.relative_to(self.notes)): f.read_text() for f in self.notes.rglob("*") if f.is_file()}
        archives = {name for name in files if name.startswith("archive/")}
        if len(archives) != 1 + done or files.get(self.older) != OLDER:
            yield f"I5: of the archive there is {sorted(archives)}, the older one with {files.get(self.older)!r}"
        if done:
            new = (archives - {self.older}).pop()
            if f"in {new}" not in files["MEMORY.md"] and not told.person.deleted:
                yield f"the summary does not name {new}"
            seen = [r[0].decode() for r in connection.execute(
                "SELECT b.data FROM revisions r JOIN blobs b USING (hash) WHERE r.agent = ? AND r.path = 'MEMORY.md'",
                (self.agent,),
            ) if r[0] is not None]  # fmt: skip
            if files[new] not in seen:
                yield f"I5: {new} is no revision of MEMORY.md"
        text = "".join(files.values())
        lines = part.NOTES.splitlines(keepends=True)
        if not told.person.deleted:
            lines += [f"{act}\n" for act in told.acts]
        for line in lines:
            if line not in text and not (told.person.deleted and not done):
                yield f"I5: {line!r} is gone"
