"""Keeping the search index: rounds that put in what is new and take out what is gone, as long as there is time.

What a round has done it does not do again: killed at any point, the next goes on. An index that is damaged, of another
version or of another store is made anew. One process at a time does this, the one that holds the state's lock.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from swarmd.core.instants import from_text, to_text
from swarmd.store import search_due as due
from swarmd.store import search_file, texts
from swarmd.store.connections import open_reading
from swarmd.store.opening import DATABASE
from swarmd.store.search_sources import handoff_units, has_files, key_units, memory_units, session_units
from swarmd.store.search_units import Unit, Units

COMMIT_SECONDS = 0.5
"""No transaction of the index is open for much longer."""
SEARCH_SECONDS = 3.0
"""As long a search may take to bring the index up to date before it begins."""
HURRY_SECONDS = 10.0
"""So long rounds do not rest after a search that has found no whole index: a small one is made by then."""
ANEW_SECONDS = 3600.0
"""An index that is damaged again so soon is not made anew another time."""
SWEEP = timedelta(days=1)
"""So often everything is compared, also what is not known to have changed."""

Pause = Callable[[], None]


class NoMoreTime(Exception):
    """The round ends here, and what it has done stays; raised by who waits for it."""


class SearchIndex:
    """The index of one state, for the process that holds its lock. Rounds may be asked for from any thread."""

    def __init__(self, state: Path, now: Callable[[], datetime]) -> None:
        self._state = state
        self._now = now
        self._one = threading.Lock()
        self._not_anew_before = 0.0
        self._hurried_until = 0.0

    @property
    def is_made(self) -> bool:
        """Whether it was ever complete since it was begun."""
        return state_of(self._state).complete is not None

    @property
    def is_hurried(self) -> bool:
        """Whether somebody waits for it to be made: a round rests later then."""
        return time.monotonic() < self._hurried_until

    def make(self, seconds: float) -> None:
        """Make an index that was never complete, for about so many seconds at most: by the round that is under way,
        which does not rest now, or by one of its own. Raises as `bring_up_to_date`.
        """
        deadline = time.monotonic() + seconds
        self._hurried_until = time.monotonic() + HURRY_SECONDS
        if self._one.acquire(timeout=seconds):
            try:
                self._round(max(deadline - time.monotonic(), 0.0), lambda: None)
            finally:
                self._one.release()

    def bring_up_to_date(self, seconds: float | None = None, pause: Pause = lambda: None) -> bool:
        """Do a round, of at most about so many seconds; whether nothing is left to be done. `pause` is called between
        steps, and may raise NoMoreTime. Where another round is under way it is left to that: False.

        Raises sqlite3.Error and OSError where the index cannot be written at present.
        """
        if not self._one.acquire(blocking=False):
            return False
        try:
            return self._round(seconds, pause)
        finally:
            self._one.release()

    def look_again_at(self, sessions: Iterable[int]) -> None:
        """Have the next round read these sessions' files anew, whatever it knows of them. Raises as above."""
        if not search_file.path_of(self._state).exists():
            return
        with self._one, closing(search_file.open_to_write(self._state, self._state / DATABASE)) as index:
            index.executemany(
                "UPDATE sources SET version = '' WHERE kind = 'session' AND name = ?",
                [(str(id),) for id in sessions],
            )

    def _round(self, seconds: float | None, pause: Pause) -> bool:
        deadline = None if seconds is None else time.monotonic() + seconds

        def rest() -> None:
            if deadline is not None and time.monotonic() >= deadline:
                raise NoMoreTime
            pause()

        try:
            return self._try(rest)
        except sqlite3.Error as error:
            if not search_file.is_damage(error) or time.monotonic() < self._not_anew_before:
                raise
        # Where it is the store that is damaged, an index made anew is no cure.
        self._not_anew_before = time.monotonic() + ANEW_SECONDS
        search_file.remove(self._state)
        return self._try(rest)

    def _try(self, rest: Pause) -> bool:
        store = self._state / DATABASE
        with closing(open_reading(store)) as reader:
            index = search_file.open_to_write(self._state, store)
            if due.is_of_another_store(index):
                index.close()
                search_file.remove(self._state)
                index = search_file.open_to_write(self._state, store)
            with closing(index):
                return _Round(index, reader, self._state / "sessions", self._now(), rest).run()


class _Round:
    """One round over one pair of connections: `index`, with the store attached for comparing, and `reader`."""

    def __init__(
        self,
        index: sqlite3.Connection,
        reader: sqlite3.Connection,
        sessions_dir: Path,
        now: datetime,
        rest: Pause,
    ) -> None:
        self._index = index
        self._reader = reader
        self._sessions_dir = sessions_dir
        self._now = now
        self._rest = rest
        self._units = Units(index)
        self._facts: dict[str, str] = {}
        self._since = 0.0
        self._acts = ""

    def run(self) -> bool:
        """Whether it came to its end."""
        try:
            self._begin()
            self._first_look()
            self._all()
            self._facts |= {"complete": to_text(self._now), "acts": self._acts}
            self._commit()
        except NoMoreTime:
            self._commit()
            return False
        return True

    def _all(self) -> None:
        sweep = self._must_sweep()
        self._each(lambda: due.gone(self._index), self._remove)
        if sweep:
            self._each(lambda: due.gone_handoffs(self._index), self._remove)
            self._drop_sessions_without_files()
        self._each(lambda: due.to_hide(self._index), self._session)
        self._each(lambda: due.to_show(self._index), self._session)
        self._each(lambda: due.memory(self._index), self._memory)
        self._each(lambda: due.keys(self._index), self._key)
        since = None if sweep else due.get(self._index, "handoffs")
        self._each(lambda: due.handoffs(self._index, since), self._handoff)
        self._each(lambda: due.ended_sessions(self._index), self._session)
        self._each(lambda: due.new_sessions(self._index, self._last_session()), self._new_session)
        if sweep:
            self._facts["swept"] = to_text(self._now)

    def _first_look(self) -> None:
        """Take over new names of agents, so that what was indexed under the old ones need not be indexed again."""
        known = due.get(self._index, "audit")
        newest = due.last_audit(self._index)
        if known is None:
            row = self._reader.execute("SELECT value FROM meta WHERE key = 'store_id'").fetchone()
            self._facts["store"] = "" if row is None else row[0]
            self._facts["swept"] = to_text(self._now)  # there is nothing in it that could be too much
        else:
            for old, new in due.renamed(self._index, int(known)):
                due.take_over_names(self._units, old, new)
        self._facts["audit"] = self._acts = str(newest)

    def _must_sweep(self) -> bool:
        swept = self._facts.get("swept") or due.get(self._index, "swept")
        return swept is None or not timedelta() <= self._now - from_text(swept) < SWEEP

    def _last_session(self) -> int:
        return int(self._facts.get("sessions") or due.get(self._index, "sessions") or 0)

    # -- transactions ---------------------------------------------------------------------------------------

    def _each(self, look: Callable[[], list[sqlite3.Row]], work: Callable[[sqlite3.Row], None]) -> None:
        """Do the work for each row of each look, until there are none."""
        before: list[tuple[object, ...]] = []
        while True:
            self._commit()
            rows = look()
            found = [tuple(row) for row in rows]
            if not rows or found == before:  # what cannot be settled is not tried for ever
                return
            for row in rows:
                self._begin()
                work(row)
                if self._units.is_full or time.monotonic() - self._since > COMMIT_SECONDS:
                    self._commit()
                self._rest()
            before = found

    def _begin(self) -> None:
        if not self._index.in_transaction:
            self._index.execute("BEGIN IMMEDIATE")
            self._since = time.monotonic()

    def _commit(self) -> None:
        if self._facts or self._index.in_transaction:
            self._begin()
            self._units.flush()
            for name, value in self._facts.items():
                due.put(self._index, name, value)
            self._index.execute("COMMIT")
            self._facts.clear()

    # -- what is indexed ------------------------------------------------------------------------------------

    def _remove(self, row: sqlite3.Row) -> None:
        self._units.remove(row["id"])

    def _replace(self, kind: str, owner: str, name: str, version: str, units: Iterable[Unit]) -> None:
        source = self._units.source(kind, owner, name)
        self._units.replace(source, units)
        self._units.settle(source, version)

    def _memory(self, due_row: sqlite3.Row) -> None:
        row = self._reader.execute(
            "SELECT h.agent, h.path, h.rev, h.hash, r.at, r.by FROM heads h JOIN revisions r ON r.agent = h.agent "
            "AND r.path = h.path AND r.rev = h.rev WHERE h.agent = ? AND h.path = ? AND h.hash IS NOT NULL",
            (due_row["owner"], due_row["name"]),
        ).fetchone()
        if row is not None:
            data = texts.of_digest(self._reader, row["hash"])
            self._replace("memory", row["agent"], row["path"], str(row["rev"]), memory_units(row, data))

    def _key(self, due_row: sqlite3.Row) -> None:
        row = self._reader.execute(
            "SELECT agent, key, value, version, updated, by FROM keys "
            "WHERE agent = ? AND key = ? AND value IS NOT NULL",
            (due_row["owner"], due_row["name"]),
        ).fetchone()
        if row is not None:
            self._replace("key", row["agent"], row["key"], str(row["version"]), key_units(row))

    def _handoff(self, due_row: sqlite3.Row) -> None:
        id = due_row["id"]
        row = self._reader.execute(
            "SELECT sender, receiver, text, created, by, moved FROM handoffs WHERE id = ?", (id,)
        ).fetchone()
        if row is None:
            return
        entries = self._reader.execute(
            "SELECT seq, at, by, text FROM handoff_entries WHERE handoff = ? ORDER BY seq", (id,)
        ).fetchall()
        self._replace("handoff", "", str(id), row["moved"], handoff_units(row, entries))
        self._facts["handoffs"] = max(
            row["moved"], self._facts.get("handoffs") or due.get(self._index, "handoffs") or ""
        )

    def _new_session(self, due_row: sqlite3.Row) -> None:
        if due_row["state"] == "ended":
            self._session(due_row)
        else:
            self._units.source("session", "", str(due_row["id"]))
        self._facts["sessions"] = str(due_row["id"])

    def _session(self, due_row: sqlite3.Row) -> None:
        """An ended session. One that has said nothing leaves nothing here."""
        id = due_row["id"]
        row = self._reader.execute(
            "SELECT id, agent, subject, quarantined, ended FROM sessions WHERE id = ?", (id,)
        ).fetchone()
        units = [] if row is None else list(session_units(row, self._sessions_dir))
        if not units:
            self._units.forget("session", "", str(id))
            return
        source = self._units.source("session", "", str(id))
        self._units.replace(source, units)
        self._units.settle(source, "done" if row["quarantined"] is None else "hidden")

    def _drop_sessions_without_files(self) -> None:
        last = 0

        def look() -> list[sqlite3.Row]:
            return due.indexed_sessions(self._index, last)

        def work(row: sqlite3.Row) -> None:
            nonlocal last
            last = row["id"]
            if not row["known"] or not has_files(row["name"], self._sessions_dir):
                self._units.remove(row["id"])

        self._each(look, work)


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexState:
    """How the index fares; `complete` is the moment up to which it has everything, None: never yet."""

    complete: str | None
    acts: str | None
    """Up to which row of the audit what was moved is where it is now (search_due.moved_since)."""
    rows: int
    bytes: int


def state_of(state: Path) -> IndexState:
    """How the index of this state fares; one that cannot be read counts as none."""
    rows, size = 0, 0
    complete: str | None = None
    acts: str | None = None
    with suppress(sqlite3.Error, OSError):
        size = search_file.path_of(state).stat().st_size
        connection = search_file.open_to_read(state)
        if connection is not None:
            with closing(connection):
                complete, acts = due.get(connection, "complete"), due.get(connection, "acts")
                rows = connection.execute("SELECT coalesce(sum(rows), 0) FROM parts").fetchone()[0]
    return IndexState(complete=complete, acts=acts, rows=rows, bytes=size)
