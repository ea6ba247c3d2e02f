"""One session's commit beside a person's save, as a story that can be cut off at any call and is then checked."""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from swarmd.store import documents
from tests.store.memory_place import AGENT, PatientDisk, Place, effect_of

OTHER = "voidrunner"
SESSION = 5
STYLES = ("none", "vim", "atomic", "nano", "code", "append", "twice", "delete")
VARIANTS = ("edits", "moves")
NOTES = "".join(f"- note {n}: something worth knowing\n" for n in range(1, 13))


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """`moment` is the call at which the person saves: 0 before the session, -1 after it (or after its death)."""

    style: str = "none"
    moment: int = 0
    variant: str = "edits"
    stale: bool = False

    @property
    def moments(self) -> tuple[int, ...]:
        """The calls before which the person acts."""
        if self.moment <= 0:
            return ()
        return (self.moment, self.moment + 2) if self.style in ("nano", "vim", "twice") else (self.moment,)

    def __str__(self) -> str:
        return f"{self.style}@{self.moment}{'-stale' if self.stale else ''}/{self.variant}"


def make_template(state: Path) -> None:
    """A state folder with some history, everything published and on the disk."""
    place = Place(state)
    place.save({"MEMORY.md": "# Notes\n" + NOTES, "topics/a.md": "# A\n" + NOTES, "b.md": "b\n"}, session=1)
    place.save({"MEMORY.md": "# Notes\n" + NOTES + "- from session 2\n"}, session=2)
    place.save({"MEMORY.md": "other\n"}, agent=OTHER, session=3)
    place.writer.do(_other_rows)
    place.folders.checkpoint()
    place.close()


def _other_rows(connection: sqlite3.Connection) -> None:
    _key(connection, OTHER, "status", "untouched")


def _key(connection: sqlite3.Connection, agent: str, key: str, value: str) -> None:
    connection.execute(
        "INSERT INTO keys (agent, key, value, version, updated, by) VALUES (?, ?, ?, 1, 'now', 'x')",
        (agent, key, value),
    )


# The session


def changes(variant: str) -> dict[str, Callable[[str], str | None]]:
    """What the agent does to each file, given its text."""
    if variant == "edits":
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


def session(place: Place, variant: str, acknowledge: Callable[[], None]) -> None:
    """The part that is killed: settle, work on a copy, settle, commit, acknowledge, publish, flush."""
    place.folders.settle(AGENT)
    copy = {path: data.decode() for path, data in place.folders.working_tree(AGENT).as_files().items()}
    bases = {path: copy.get(path, "") for path in changes(variant)}
    wanted = {path: change(bases[path]) for path, change in changes(variant).items()}
    place.folders.settle(AGENT)

    def commit(connection: sqlite3.Connection) -> None:
        for path, text in wanted.items():
            effect = effect_of(connection, AGENT, path, text, bases[path], f"{AGENT}#{SESSION}")
            documents.write_revision(connection, effect, SESSION)
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

    place.writer.do(commit)
    acknowledge()
    place.folders.settle(AGENT)
    place.folders.checkpoint()


# The person


class Person:
    """Saves MEMORY.md once, in one or two steps, as an editor does."""

    def __init__(self, scenario: Scenario, memory: Path) -> None:
        self._scenario = scenario
        self._file = memory / AGENT / "MEMORY.md"
        self._loaded = self._file.read_bytes() if scenario.stale else None
        self._steps: Iterator[None] | None = None
        self.saved: bytes | None = None
        self.lines: list[str] = []
        self.deleted = False

    def act(self) -> None:
        """Begin, or go on where the last step ended."""
        if self._steps is None:
            self._steps = getattr(self, f"_{self._scenario.style}")()
        next(self._steps, None)

    def go_on(self) -> None:
        """The session waits: do the next step, if one has begun."""
        if self._steps is not None:
            next(self._steps, None)

    def finish(self, *, also_begin: bool) -> None:
        if self._steps is None and also_begin:
            self.act()
        for _ in self._steps or ():
            pass

    def _text(self) -> bytes:
        data = self._current() if self._loaded is None else self._loaded
        self.lines.append("- PERSON was here\n")
        return data.replace(b"# Notes\n", b"# Notes\n- PERSON was here\n")

    def _current(self) -> bytes:
        try:
            return self._file.read_bytes()
        except FileNotFoundError:
            return b"# Notes\n"

    def _none(self) -> Iterator[None]:
        yield from ()

    def _vim(self) -> Iterator[None]:
        text = self._text()
        backup = self._file.with_name("MEMORY.md~")
        if self._file.exists():
            self._file.rename(backup)
        yield
        self._write(text, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        self.saved = text
        backup.unlink(missing_ok=True)
        yield

    def _atomic(self) -> Iterator[None]:
        text = self._text()
        part = self._file.with_name(".MEMORY.md.new")
        part.write_bytes(text)
        part.rename(self._file)
        self.saved = text
        yield

    def _nano(self) -> Iterator[None]:
        text = self._text()
        fd = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.write(fd, text[: len(text) // 2])
        yield
        os.write(fd, text[len(text) // 2 :])
        os.close(fd)
        self.saved = text
        yield

    def _code(self) -> Iterator[None]:
        text = self._text()
        self._write(text, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        self.saved = text
        yield

    def _twice(self) -> Iterator[None]:
        """Two saves, of which the first may be seen or not."""
        for line in (b"- PERSON was here\n", b"- PERSON came again\n"):
            part = self._file.with_name(".MEMORY.md.new")
            part.write_bytes(self._current().replace(b"# Notes\n", b"# Notes\n" + line))
            part.rename(self._file)
            self.lines.append(line.decode())
            self.saved = b""
            yield

    def _append(self) -> Iterator[None]:
        """`echo ... >> MEMORY.md`: what it lands in is known only afterwards, so that the line alone is looked for."""
        self.lines.append("- PERSON was here\n")
        fd = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        yield
        os.write(fd, b"- PERSON was here\n")
        os.close(fd)
        self.saved = b""
        yield

    def _delete(self) -> Iterator[None]:
        self._file.unlink(missing_ok=True)
        self.deleted = True
        yield

    def _write(self, text: bytes, flags: int) -> None:
        fd = os.open(self._file, flags, 0o644)
        os.write(fd, text)
        os.fsync(fd)
        os.close(fd)


# The checks


def recovery(state: Path, boot: str, disk: PatientDisk | None = None) -> None:
    """What a restarted daemon does."""
    place = Place(state, boot=boot, disk=disk)
    place.folders.recover()
    for agent in (AGENT, OTHER):
        place.folders.settle(agent)
    place.folders.checkpoint()
    place.close()


def broken(
    state: Path, before: Path, *, acknowledged: bool, person: Person, person_durable: bool = True
) -> list[str]:
    """Every promise that does not hold after recovery. `person_durable` False: a power cut may have taken the save."""
    found: list[str] = []
    connection = sqlite3.connect(state / "swarmd.db")
    try:
        if connection.execute("PRAGMA integrity_check").fetchone()[0] != "ok":
            found.append("I8: integrity_check")
        committed = _all_or_nothing(connection, found)
        if acknowledged and not committed:
            found.append("I1: acknowledged and not committed")
        _files_are_heads(connection, state, found)
        texts = _texts(connection, state)
        for line in ("- AGENT one", "- AGENT two", "- AGENT three"):
            if (line in texts["now"]) != committed:
                found.append(f"I5: {line!r} {'lost' if committed else 'without a commit'}")
        if person.saved is not None and person_durable:
            found += [f"I4: {line!r} is gone" for line in person.lines if line not in texts["now"]]
            if person.saved and person.saved.decode() not in texts["history"]:
                found.append("I4: the person's text is not in the history")
        lines = ["- AGENT one\n", *person.lines]
        found += [f"I2: {line!r} is there twice" for line in lines if texts["now"].count(line) > 1]
    finally:
        connection.close()
    if _of_others(state) != _of_others(before):
        found.append("I6: another agent's rows or files have changed")
    return found


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


def _files_are_heads(connection: sqlite3.Connection, state: Path, found: list[str]) -> None:
    heads = connection.execute(
        "SELECT h.agent, h.path, b.data FROM heads h LEFT JOIN blobs b USING (hash)"
    ).fetchall()
    for agent, path, data in heads:
        file = state / "memory" / agent / path
        live = file.read_bytes() if file.is_file() else None
        if live != data:
            found.append(f"I3: {agent}/{path} is not its head")
    if connection.execute("SELECT count(*) FROM pending").fetchone()[0]:
        found.append("I3: something is still pending")
    known = {(agent, path) for agent, path, data in heads if data is not None}
    for file in (state / "memory").rglob("*"):
        agent, _, path = str(file.relative_to(state / "memory")).partition("/")
        if file.is_file() and (agent, path) not in known and not path.endswith(("~", ".new")):
            found.append(f"I3: {agent}/{path} was left behind")
    for (text,) in connection.execute("SELECT text FROM raised"):
        found.append(f"I3: attention was raised: {text}")


def _texts(connection: sqlite3.Connection, state: Path) -> dict[str, str]:
    live = [file.read_text() for file in (state / "memory" / AGENT).rglob("*") if file.is_file()]
    aside = [row[0] for row in connection.execute("SELECT ours FROM conflicts")]
    history = [row[0].decode() for row in connection.execute("SELECT data FROM blobs")]
    return {"now": "\n".join(live + aside), "history": "\0".join(history)}


def _of_others(state: Path) -> str:
    connection = sqlite3.connect(state / "swarmd.db")
    rows = [
        connection.execute(f"SELECT * FROM {table} WHERE agent = '{OTHER}' ORDER BY 1, 2").fetchall()
        for table in ("revisions", "heads", "published", "keys", "conflicts")
    ]
    connection.close()
    files = [(str(f), f.read_bytes()) for f in sorted((state / "memory" / OTHER).rglob("*")) if f.is_file()]
    return repr([rows, [(name.rpartition("/memory/")[2], data) for name, data in files]])


def fingerprint(state: Path) -> str:
    """All that must not change when recovery is repeated."""
    connection = sqlite3.connect(state / "swarmd.db")
    rows = [
        connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2, 3").fetchall()
        for table in (
            "revisions",
            "heads",
            "published",
            "keys",
            "handoffs",
            "sessions",
            "conflicts",
            "raised",
        )
    ]
    connection.close()
    files = [(str(f), f.read_bytes()) for f in sorted((state / "memory").rglob("*")) if f.is_file()]
    return hashlib.sha256(repr((rows, files)).encode()).hexdigest()


def copy(template: Path, to: Path) -> None:
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(template, to, symlinks=True)
