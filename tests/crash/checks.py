"""The promises that every story is checked against: the file is the head, no line is lost, others are untouched."""

from __future__ import annotations

import contextlib
import hashlib
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path

from swarmd.store import kept
from tests.crash.story import Story, Told
from tests.swarm import dump

OF_OTHERS = ("revisions", "heads", "published", "keys", "key_history", "conflicts", "sessions")


@contextlib.contextmanager
def opened(state: Path) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(state / "swarmd.db")
    connection.row_factory = sqlite3.Row
    try:
        yield connection
    finally:
        connection.close()


def memory(story: Story, connection: sqlite3.Connection, told: Told, lines: Mapping[str, bool]) -> list[str]:
    """Files, the person's saves, and each of the agent's `lines`, which stands there exactly if it was saved."""
    found: list[str] = []
    if connection.execute("PRAGMA integrity_check").fetchone()[0] != "ok":
        found.append("I8: integrity_check")
    found += files_are_heads(connection, story.state)
    now, history = _texts(connection, story.notes)
    for line, saved in lines.items():
        if (line in now) != saved:
            found.append(f"I5: {line!r} {'lost' if saved else 'without a commit'}")
    person = told.person
    if person.saved is not None and told.person_durable:
        found += [f"I4: {line!r} is gone" for line in person.lines if line not in now]
        if person.saved and person.saved.decode() not in history:
            found.append("I4: the person's text is not in the history")
    once = [*(f"{line}\n" for line in lines), *person.lines]
    found += [f"I2: {line!r} is there twice" for line in once if now.count(line) > 1]
    return found


def files_are_heads(connection: sqlite3.Connection, state: Path) -> Iterator[str]:
    heads = connection.execute(
        "SELECT h.agent, h.path, b.data FROM heads h LEFT JOIN blobs b USING (hash)"
    ).fetchall()
    for agent, path, data in heads:
        file = state / "memory" / agent / path
        live = file.read_bytes() if file.is_file() else None
        if live != data:
            yield f"I3: {agent}/{path} is not its head"
    if connection.execute("SELECT count(*) FROM pending").fetchone()[0]:
        yield "I3: something is still pending"
    known = {(agent, path) for agent, path, data in heads if data is not None}
    for file in (state / "memory").rglob("*"):
        agent, _, path = str(file.relative_to(state / "memory")).partition("/")
        # An editor's own files are the editor's.
        if file.is_file() and (agent, path) not in known and not path.endswith(("~", ".new")):
            yield f"I3: {agent}/{path} was left behind"
    # What a stale save did not have is kept, which a person is told.
    for (text,) in connection.execute("SELECT text FROM raised WHERE kind != ?", (kept.KIND,)):
        yield f"I3: attention was raised: {text}"


def _texts(connection: sqlite3.Connection, notes: Path) -> tuple[str, str]:
    """What stands in the files and conflicts, and all that ever stood there."""
    live = [file.read_text() for file in notes.rglob("*") if file.is_file()]
    aside = [row[0] for row in connection.execute("SELECT ours FROM conflicts")]
    history = [row[0].decode() for row in connection.execute("SELECT data FROM blobs")]
    return "\n".join(live + aside), "\0".join(history)


def others(story: Story) -> list[str]:
    """Rows and files of the agent that has no part in the story."""
    same = _of(story.other, story.state) == _of(story.other, story.template)
    return [] if same else ["I6: another agent's rows or files have changed"]


def _of(agent: str, state: Path) -> str:
    with opened(state) as connection:
        rows = [
            [
                tuple(row)
                for row in connection.execute(f"SELECT * FROM {table} WHERE agent = '{agent}' ORDER BY 1, 2")
            ]
            for table in OF_OTHERS
        ]
    return repr([rows, _files(state / "memory" / agent)])


def fingerprint(state: Path) -> str:
    """All that must not change when recovery is repeated."""
    with opened(state) as connection:
        rows = dump(connection)
    return hashlib.sha256(repr((rows, _files(state))).encode()).hexdigest()


def _files(folder: Path) -> list[tuple[str, bytes]]:
    return [
        (str(file.relative_to(folder)), file.read_bytes())
        for file in sorted(folder.rglob("*"))
        if file.is_file() and not file.name.startswith("swarmd.db")
    ]
