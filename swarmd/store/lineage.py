"""The lines that a session has written into memory folders, out of the revisions that it made, and whose lines are."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Collection, Iterator, Sequence

from swarmd.core.blame import Revision, all_origins, changed, origins
from swarmd.core.lineage import keys_of, said
from swarmd.core.owners import agent_of_owner, subject_owner
from swarmd.store import queries, texts, windows
from swarmd.store.documents import session_of


def owner_of(agent: str, subject: str | None) -> str:
    """Whose folder a session of this agent has."""
    return agent if subject is None else subject_owner(agent, subject)


def revisions_by(connection: sqlite3.Connection, session: int) -> Iterator[tuple[str, str, int]]:
    """The memory revisions that the session has made: owner, path, number."""
    rows = connection.execute(
        "SELECT effect FROM changes WHERE session = ? AND verdict = 'done' AND effect IS NOT NULL ORDER BY seq",
        (session,),
    ).fetchall()
    for row in rows:
        for trace in json.loads(row["effect"]):
            if "memory" in trace:
                owner, path, rev = trace["memory"]
                yield owner, path, rev


def own_revisions(connection: sqlite3.Connection, session: int) -> dict[tuple[str, str], frozenset[int]]:
    """The memory revisions that the session has made, by owner and path."""
    found: dict[tuple[str, str], frozenset[int]] = {}
    for owner, path, rev in revisions_by(connection, session):
        found[owner, path] = found.get((owner, path), frozenset()) | {rev}
    return found


def brought_by(
    connection: sqlite3.Connection, owner: str, path: str, upto: int | None = None
) -> list[int | None]:
    """Of each line of a file (as it is, or as it was at revision `upto`) the revision that brought it. None: not known,
    since the text that it was made from is not kept.
    """
    rows = queries.all_revisions(connection, owner, path)
    rows = [row for row in rows if upto is None or row["rev"] <= upto]
    missing: set[int] = set()
    found = origins(_known(rows), _reader(connection, rows, missing))
    return [None if rev - 1 in missing else rev for rev in found]


def brought_in_all(connection: sqlite3.Connection, owner: str, path: str) -> dict[int, list[int]]:
    """Of each revision of a file, and each of its lines, the revision that brought the line."""
    rows = queries.all_revisions(connection, owner, path)
    return all_origins(_known(rows), _reader(connection, rows, set()))


def _known(rows: Sequence[windows.Row]) -> list[Revision]:
    return [Revision(**{name: row[name] for name in ("rev", "parent", "hash", "by", "how")}) for row in rows]


def _reader(
    connection: sqlite3.Connection, rows: Sequence[windows.Row], missing: set[int]
) -> Callable[[int], bytes]:
    """Reads the texts of these revisions, and notes those that are gone."""
    hashes, kept = {row["rev"]: row["hash"] for row in rows}, texts.Texts(connection)

    def read(rev: int) -> bytes:
        data = kept.of_digest(hashes[rev]) if hashes[rev] is not None else b""
        if data is None:
            missing.add(rev)
        return data or b""

    return read


def authors(
    connection: sqlite3.Connection, owner: str, path: str, session: int, brought: Sequence[int | None]
) -> list[int | None]:
    """Of each line the session that brought it, by the revisions that did; None: a person, or not known. What was saved
    for `session` by an operator is the session's.
    """
    rows = queries.all_revisions(connection, owner, path)
    by: dict[int | None, int | None] = {row["rev"]: session_of(row["by"]) for row in rows}
    own = own_revisions(connection, session).get((owner, path), frozenset())
    return [session if rev in own else by.get(rev) for rev in brought]


def archived_from(
    connection: sqlite3.Connection, owner: str, path: str, rev: int | None = None
) -> tuple[str, int] | None:
    """The file and revision whose whole text this file has; None: it is a copy of none, so nobody's lines are known."""
    row = connection.execute(
        "SELECT o.path, o.rev FROM revisions a JOIN revisions o ON o.agent = a.agent AND o.hash = a.hash "
        "AND o.path <> a.path AND o.path NOT LIKE 'archive/%' WHERE a.agent = ?1 AND a.path = ?2 AND a.rev = "
        "coalesce(?3, (SELECT max(rev) FROM revisions WHERE agent = ?1 AND path = ?2)) ORDER BY o.rev DESC LIMIT 1",
        (owner, path, rev),
    ).fetchone()
    return None if row is None else (row["path"], row["rev"])


class Writers:
    """Which sessions have written what in a folder, without having been given it. Its history is read once."""

    def __init__(self, connection: sqlite3.Connection, owner: str) -> None:
        self._connection = connection
        self._owner = owner
        self._new: dict[str, list[tuple[int, str, int]]] | None = None
        """By what a line says where it came up: session, path, revision."""
        self._added: dict[tuple[int, str, int], frozenset[str]] = {}

    def others(self, keys: Collection[str], sessions: Collection[int]) -> frozenset[str]:
        """Those of these keys that other sessions than these have written."""
        return frozenset(key for key in keys if self._is_anothers(key, sessions))

    def _is_anothers(self, key: str, sessions: Collection[int]) -> bool:
        if self._new is None:
            self._new = self._read()
        for at in self._new.get(key, ()):
            if at[0] in sessions:
                continue
            if at not in self._added:
                self._added[at] = added(self._connection, at[0], self._owner, at[1], at[2])
            if key in self._added[at]:
                return True
        return False

    def _read(self) -> dict[str, list[tuple[int, str, int]]]:
        found: dict[str, list[tuple[int, str, int]]] = {}
        rows = self._connection.execute(
            "SELECT path, rev, hash, by FROM revisions WHERE agent = ? ORDER BY path, rev", (self._owner,)
        ).fetchall()
        kept, before, path = texts.Texts(self._connection), b"", None
        for row in rows:
            before, path = (before if path == row["path"] else b""), row["path"]
            data = b"" if row["hash"] is None else kept.of_digest(row["hash"]) or b""
            session = session_of(row["by"])
            for key in keys_of(changed(data, before)) if session is not None else ():
                found.setdefault(key, []).append((session or 0, path, row["rev"]))
            before = data
        return found


def added(connection: sqlite3.Connection, session: int, owner: str, path: str, rev: int) -> frozenset[str]:
    """What the lines say that this revision of the session's brought, and that stood in no file that it was given."""
    found = keys_at(connection, owner, path, rev)
    # A text that was merged has what others wrote meanwhile, which is in the revision before it.
    for before in {parent_of(connection, owner, path, rev), rev - 1}:
        found -= keys_at(connection, owner, path, before)
    for other, revision in shown_files(connection, session, owner).items():
        if not found:
            break
        found -= keys_at(connection, owner, other, revision)
    return found


def written(connection: sqlite3.Connection, session: int) -> dict[str, frozenset[str]]:
    """What the lines say that the session has brought into memory, by owner."""
    found: dict[str, frozenset[str]] = {}
    for owner, path, rev in revisions_by(connection, session):
        found[owner] = found.get(owner, frozenset()) | added(connection, session, owner, path, rev)
    return found


def parent_of(connection: sqlite3.Connection, owner: str, path: str, rev: int) -> int:
    """The revision that this one was written over; 0: none."""
    row = connection.execute(
        "SELECT parent FROM revisions WHERE agent = ? AND path = ? AND rev = ?", (owner, path, rev)
    ).fetchone()
    return 0 if row is None else int(row["parent"])


def keys_at(connection: sqlite3.Connection, owner: str, path: str, rev: int) -> frozenset[str]:
    """What the lines of a revision say."""
    return keys_of(texts.of_revision(connection, owner, path, rev))


def said_at(connection: sqlite3.Connection, owner: str, path: str, rev: int) -> list[tuple[str, bool]]:
    """What each line of a revision says, "" for nothing, and whether that alone tells which line it is."""
    return said(texts.of_revision(connection, owner, path, rev) or b"")


def shown_files(connection: sqlite3.Connection, session: int, owner: str) -> dict[str, int]:
    """The files of this folder that the session was given at its start: path to revision."""
    row = connection.execute("SELECT agent, subject, base FROM sessions WHERE id = ?", (session,)).fetchone()
    if row is None or not row["base"]:
        return {}
    return memory_shown(row["agent"], row["subject"], json.loads(row["base"])).get(owner, {})


def memory_shown(agent: str, subject: str | None, base: dict[str, object]) -> dict[str, dict[str, int]]:
    """What of memory a session's base names: owner to path to revision."""
    own, others = base.get("memory"), base.get("others")
    found = {owner_of(agent, subject): own} if isinstance(own, dict) else {}
    return {**others, **found} if isinstance(others, dict) else found


def quarantined(connection: sqlite3.Connection, owner: str) -> list[int]:
    """The sessions in quarantine that may have written into this folder."""
    agent = agent_of_owner(owner)
    rows = connection.execute(
        "SELECT id FROM sessions INDEXED BY sessions_quarantined WHERE quarantined IS NOT NULL "
        "AND (?1 IS NULL OR agent = ?1) ORDER BY id",
        (agent,),
    )
    return [int(row["id"]) for row in rows]
