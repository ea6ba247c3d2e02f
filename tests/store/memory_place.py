"""A store with memory folders, small enough for a test: commits as sessions make them, and a person's hands."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from swarmd.core.merge import merge
from swarmd.core.staging import Conflict, MemoryWritten
from swarmd.core.world import Document
from swarmd.store import documents, marks, schema
from swarmd.store.connections import Readers, open_writing
from swarmd.store.database import Writer
from swarmd.store.disk import Disk
from swarmd.store.memory import MemoryFolders

NOW = datetime(2026, 4, 20, 14, 30, 45, tzinfo=UTC)
AGENT = "polybreak"


class PatientDisk(Disk):
    """A disk on which waiting takes no time; `waits` is called instead, so that a test can act meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.waits = lambda: None

    def sleep(self, seconds: float) -> None:
        self.waits()


class OldDisk(PatientDisk):
    """A file system that can neither exchange names nor place without replacing."""

    def exchange(self, from_fd: int, from_name: str, to_fd: int, to_name: str) -> bool:
        return False

    def place(self, from_fd: int, from_name: str, to_fd: int, to_name: str) -> bool:
        return False


def make_database(path: Path) -> None:
    connection = open_writing(path)
    for _, sql in schema.MIGRATIONS:
        connection.executescript(sql)
    connection.close()


class Place:
    """One process's view of a state folder; `again` is what a restart sees."""

    def __init__(self, state: Path, *, boot: str = "boot-1", disk: Disk | None = None) -> None:
        self.state, self.boot = state, boot
        if not (state / "swarmd.db").exists():
            make_database(state / "swarmd.db")
        self.disk = disk or PatientDisk()
        self.writer = Writer(open_writing(state / "swarmd.db"))
        self.reader = Readers(state / "swarmd.db")
        self.folders = MemoryFolders(
            state / "memory", self.writer, self.reader, lambda: NOW, "ada", disk=self.disk, boot=lambda: boot
        )

    def again(self, *, boot: str | None = None, disk: Disk | None = None) -> Place:
        self.close()
        return Place(self.state, boot=boot or self.boot, disk=disk)

    def close(self) -> None:
        self.reader.close()
        self.writer.close()

    def file(self, path: str = "MEMORY.md", agent: str = AGENT) -> Path:
        return self.state / "memory" / agent / path

    def text(self, path: str = "MEMORY.md") -> str:
        return self.file(path).read_text()

    def commit(self, files: Mapping[str, str | None], *, base: Mapping[str, str] | None = None, session: int = 1,
               agent: str = AGENT) -> None:  # fmt: skip
        """What a session's commit does: merge each file with its head, in one transaction."""

        def work(connection):
            for path, text in files.items():
                effect = effect_of(
                    connection, agent, path, text, (base or {}).get(path), f"{agent}#{session}"
                )
                documents.write_revision(connection, effect, session)

        self.writer.do(work)

    def save(self, files: Mapping[str, str | None], **how) -> None:
        """Commit and publish."""
        self.commit(files, **how)
        self.folders.settle(how.get("agent", AGENT))

    def rows(self, sql: str, *values):
        return self.writer.do(lambda c: [tuple(row) for row in c.execute(sql, values)])

    def head(self, path: str = "MEMORY.md", agent: str = AGENT) -> Document | None:
        return self.writer.do(lambda c: documents.head(c, agent, path))

    def history(self, path: str = "MEMORY.md") -> list[str | None]:
        rows = self.rows(
            "SELECT b.data FROM revisions r LEFT JOIN blobs b USING (hash) WHERE path = ? ORDER BY rev", path
        )
        return [None if data is None else data.decode() for (data,) in rows]

    def conflicts(self) -> list[tuple[str, str]]:
        return self.rows("SELECT path, ours FROM conflicts ORDER BY id")

    def attention(self) -> dict[str, str]:
        return dict(self.rows("SELECT id, text FROM raised ORDER BY id"))

    def pending(self) -> list[tuple[str, str]]:
        return self.rows("SELECT path, phase FROM pending ORDER BY path")

    def private(self) -> list[str]:
        folder = self.file(".swarmd")
        return sorted(os.listdir(folder)) if folder.exists() else []


def effect_of(connection, agent, path, text, base, by) -> MemoryWritten:
    head = documents.head(connection, agent, path)
    theirs = head.data if head is not None and head.data is not None else b""
    rev = head.rev if head is not None else 0
    data = None if text is None else text.encode()
    conflicts = ()
    if data is not None and base is not None:
        merged = merge(base.encode(), data, theirs)
        data = merged.data
        conflicts = tuple(
            Conflict(path=path, line=p.line, ours=p.ours, theirs=p.theirs) for p in merged.conflicts
        )
    document = Document(agent=agent, path=path, rev=rev + 1, data=data, at=NOW, by=by)
    return MemoryWritten(document=document, parent=rev, conflicts=conflicts)


__all__ = ["AGENT", "NOW", "OldDisk", "PatientDisk", "Place", "effect_of", "make_database", "marks"]
