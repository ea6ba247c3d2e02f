"""A compaction as `swarmd memory compact` makes it without a daemon: all of it or nothing, and no line is lost.

The summary is a person's own, so that no summarizer's calls are among those that are counted.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator, Mapping

from swarmd.daemon.local import run_local
from swarmd.store.connections import open_reading
from tests.crash import checks, part, session_checks
from tests.crash.session_checks import SESSION
from tests.crash.session_story import BOOT, SessionStory, acknowledging, machine
from tests.crash.story import Told
from tests.crash.summarize import LINE, SUMMARY
from tests.store.memory_place import PatientDisk

VARIANTS = ("compact",)


class CompactStory(SessionStory):
    def __init__(self, folder, variant: str) -> None:
        super().__init__(folder, variant)
        self.all_calls_are_ours = True

    def runner(self) -> Mapping[str, object]:
        return {"kind": "script", "part": "history"}

    def play(self, acknowledge: Callable[[], None], disk: PatientDisk) -> None:
        with machine(disk, BOOT), acknowledging(acknowledge):
            asked = {"agent": self.name, "summary": SUMMARY}
            document = run_local(self.places(self.state), asked, name="memory_compact")
        assert document["outcome"] == "committed", document

    def broken(self, told: Told) -> list[str]:
        found: list[str] = []
        places = self.places(self.state)
        with contextlib.closing(open_reading(places.state / "swarmd.db")) as connection:
            row, done = made(connection)
            found += whole(connection, row, done)
            if told.acknowledged and not done:
                found.append("I1: acknowledged and not committed")
            found += checks.memory(self, connection, told, {LINE: done})
            found += self._kept()
            found += session_checks.verified(connection, places)
        found += [f"{path} is left" for path in session_checks.strays(places)]
        found += [f"process {pid} is left" for pid in session_checks.leftovers()]
        return found + checks.others(self)

    def _kept(self) -> Iterator[str]:
        """Every line of the old text stands in some file."""
        texts = "".join(file.read_text() for file in self.notes.rglob("*") if file.is_file())
        for line in part.NOTES.splitlines(keepends=True):
            if line not in texts:
                yield f"I5: {line!r} is gone"


def made(connection: sqlite3.Connection) -> tuple[sqlite3.Row | None, bool]:
    """The session's row, and whether its compaction was committed."""
    row = connection.execute("SELECT * FROM sessions WHERE id = ?", (SESSION,)).fetchone()
    return row, bool(connection.execute("SELECT count(*) FROM audit WHERE act = 'compact'").fetchone()[0])


def whole(
    connection: sqlite3.Connection, row: sqlite3.Row | None, done: bool, also: tuple[str, ...] = ()
) -> Iterator[str]:
    """The session and what it wrote: all or nothing. It may have ended as `also`, where it wrote nothing."""
    written = [
        (r["path"] if r["path"] == "MEMORY.md" else "archive", r["how"])
        for r in connection.execute(
            "SELECT * FROM revisions WHERE by = ? ORDER BY path", (f"studio#{SESSION}",)
        )
    ]
    wanted = [("MEMORY.md", "compact"), ("archive", "compact")] if done else []
    if written != wanted:
        yield f"I2: half written: {written}"
    outcome = None if row is None else row["outcome"]
    if outcome not in (("committed",) if done else (None, "lost", "cancelled", *also)):
        yield f"I2: the session is {outcome}: {row['reason']}"
    if row is not None and (row["state"] != "ended" or row["draft"] != "none"):
        yield f"the session is {row['state']}, its draft {row['draft']}"
    if connection.execute("SELECT count(*) FROM sessions WHERE id > ?", (SESSION,)).fetchone()[0]:
        yield "it is tried again by itself"
