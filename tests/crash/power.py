"""What a disk holds after a power cut: the journal of a session replayed, with what was not flushed kept or not.

Names last as an ordered prefix of what was done (as a file system's journal has it), at least up to the last flush of
the file system or of a folder. A file's bytes that it did not flush itself are kept, dropped or torn write by write.
"""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tests.crash.person import Person, Scenario
from tests.crash.story import Story, Told, copy

if TYPE_CHECKING:
    from tests.crash.stage import Stage

FLUSHES = ("syncfs", "sync")


@dataclass(frozen=True, slots=True)
class Op:
    kind: str
    inode: int
    at: int
    a: str
    b: str
    data: bytes


@dataclass(slots=True)
class Inode:
    durable: bytearray = field(default_factory=bytearray)
    waiting: list[Op] = field(default_factory=list)

    def flush(self) -> None:
        for op in self.waiting:
            _apply(self.durable, op, len(op.data))
        self.waiting.clear()

    def after_cut(self, chance: random.Random) -> bytes:
        """Every write that waits is kept, torn or dropped; all of them at once now and then."""
        data = bytearray(self.durable)
        mood = chance.choice(("all", "none", "mixed"))
        for op in self.waiting:
            fate = {"all": "keep", "none": "drop"}.get(mood) or chance.choice(("keep", "drop", "tear"))
            if fate != "drop":
                _apply(data, op, len(op.data) if fate == "keep" else chance.randrange(len(op.data) + 1))
            elif op.kind == "write" and chance.random() < 0.3:
                # The length was written, the bytes were not.
                data.extend(bytes(max(0, op.at + len(op.data) - len(data))))
        return bytes(data)


def _apply(data: bytearray, op: Op, length: int) -> None:
    if op.kind == "trunc":
        del data[op.at :]
        data.extend(bytes(op.at - len(data)))
        return
    data.extend(bytes(max(0, op.at - len(data))))
    data[op.at : op.at + length] = op.data[:length]


def cut(stage: Stage, scenario: Scenario, n: int, seed: str) -> Told:
    """The session, cut off at call `n`, and in place of the state what the disk has kept of it. The person saves before
    the session, or after the cut, or not: a save in that instant may be lost with the power, as others may not.
    """
    chance = random.Random(seed)
    quiet = Scenario(style=scenario.style if scenario.moment == 0 else "none", variant=scenario.variant,
                     stale=scenario.stale)  # fmt: skip
    journal = stage.folder / "journal"
    told = stage.play(quiet, n, journal=journal)[1]
    start = stage.folder / "start"
    copy(stage.story.template, start)
    if scenario.moment == 0:
        Person(quiet, start / "memory" / stage.story.agent).finish(also_begin=True)
    replay(start, stage.story.state, journal.read_bytes(), chance)
    if scenario.moment != 0:
        told.person = _after_the_boot(stage.story, scenario)
    told.power_cut, told.person_durable = True, scenario.moment <= 0
    return told


def _after_the_boot(story: Story, scenario: Scenario) -> Person:
    """The person of the moment -1 saves before the daemon starts, if the cut has left them a whole text to edit."""
    person = Person(scenario, story.notes)
    file = story.notes / "MEMORY.md"
    connection = sqlite3.connect(story.state / "swarmd.db")
    texts = [row[0] for row in connection.execute("SELECT data FROM blobs")]
    connection.close()
    if scenario.moment == -1 and scenario.style != "delete" and file.is_file() and file.read_bytes() in texts:
        person.finish(also_begin=True)
    return person


def replay(start: Path, state: Path, journal: bytes, chance: random.Random) -> None:
    """Make `state` what a cut leaves of a run that began with `start` and did what `journal` says."""
    names: dict[str, int] = {}
    inodes: dict[int, Inode] = {}
    for file in sorted(start.rglob("*")):
        if file.is_file():
            path = str(state / file.relative_to(start))
            names[path] = NUMBERS[path]
            inodes[NUMBERS[path]] = Inode(durable=bytearray(file.read_bytes()))
    folders = {str(state / f.relative_to(start)) for f in start.rglob("*") if f.is_dir()} | {str(state)}
    ops = list(_ops(journal))
    durable_names = 0
    for number, op in enumerate(ops, 1):
        if op.kind == "syncfs" or (op.kind == "sync" and op.inode not in inodes):
            durable_names = number
        _write(inodes, op)
    kept = chance.randrange(durable_names, len(ops) + 1)
    for op in ops[:kept]:
        _rename(names, folders, op)
    _write_out(state, names, folders, {inode: data.after_cut(chance) for inode, data in inodes.items()})


def _write(inodes: dict[int, Inode], op: Op) -> None:
    match op.kind:
        case "create":
            inodes[op.inode] = Inode()
        case "syncfs":
            for inode in inodes.values():
                inode.flush()
        case "sync" if op.inode in inodes:
            inodes[op.inode].flush()
        case "write" | "trunc" if op.inode in inodes:
            inodes[op.inode].waiting.append(op)


NUMBERS: dict[str, int] = {}
"""Path to inode of the state as it was before the session began."""


def remember(state: Path) -> None:
    """Note the inode numbers that the journal will speak of."""
    NUMBERS.clear()
    NUMBERS.update({str(file): file.stat().st_ino for file in state.rglob("*") if file.is_file()})


def exchanges_of(journal: bytes, name: str) -> list[int]:
    """Which calls exchanged a file of that name."""
    return [op.at for op in _ops(journal) if op.kind in ("exchange", "rename") and op.b.endswith(name)]


def _ops(journal: bytes):
    at = 0
    while at < len(journal):
        end = journal.find(b"\n", at)
        if end < 0:
            return
        kind, inode, offset, *sizes = journal[at:end].split()
        texts = []
        at = end + 1
        for size in map(int, sizes):
            texts.append(journal[at : at + size])
            at += size
        yield Op(
            kind.decode(), int(inode), int(offset), os.fsdecode(texts[0]), os.fsdecode(texts[1]), texts[2]
        )


def _rename(names: dict[str, int], folders: set[str], op: Op) -> None:
    match op.kind:
        case "create":
            names[op.a] = op.inode
        case "mkdir":
            folders.add(op.a)
        case "rename" if op.a in names:
            names[op.b] = names.pop(op.a)
        case "exchange" if op.a in names and op.b in names:
            names[op.a], names[op.b] = names[op.b], names[op.a]
        case "link" if op.a in names:
            names[op.b] = names[op.a]
        case "unlink":
            names.pop(op.a, None)
            folders.discard(op.a)


def _write_out(state: Path, names: dict[str, int], folders: set[str], texts: dict[int, bytes]) -> None:
    shutil.rmtree(state)
    for folder in sorted(folder for folder in folders if folder.startswith(str(state))):
        Path(folder).mkdir(mode=0o700, exist_ok=True, parents=True)
    for name, inode in names.items():
        # SQLite rebuilds its shared index, which is never flushed.
        if str(state) in name and not name.endswith("-shm") and Path(name).parent.is_dir():
            Path(name).write_bytes(texts.get(inode, b""))
