"""The operator's ways to the service: reading the store directly, the operator socket, or acting under the lock."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from swarmd.core.acts import SEARCHES
from swarmd.core.world import Actor
from swarmd.errors import KINDS, NO_UTF8, BadInput, Failed, NotFound, StoreUnusable, SwarmdError
from swarmd.places import Places
from swarmd.service import freshness
from swarmd.service.caller import this_operator
from swarmd.service.reading import read
from swarmd.service.view import JSON, View
from swarmd.store import opening
from swarmd.store.connections import Connection, StoreError, reading
from swarmd.store.world import SqlWorld

SOCKET = "operator.sock"
KEY = "operator.key"
RUNTIME = "runtime"
"""The file of the state folder in which a daemon says where its sockets are."""
LOCK_SECONDS = 30.0
READERS_WAIT_SECONDS = 2.0
DAEMON_SECONDS = 10.0
"""So long the daemon may take for a search; then what there is is searched here."""
ANSWER_BYTES = 256 * 2**20


def utc_now() -> datetime:
    """The wall clock."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """Reads the store by itself."""

    connection: Connection
    places: Places

    def call(self, name: str, args: Mapping[str, Any], as_agent: str | None = None) -> JSON:
        """A read's document."""
        if name in SEARCHES:
            if (answer := _asked_for(self.places, name, args, as_agent)) is not None:
                return answer
            _index(self.places)
        world = SqlWorld(self.connection, utc_now())
        operator = this_operator(as_agent)
        # Without --as the tree is not asked for: it is the dearest thing to read.
        try:
            with opening.telling_damage(self.places.state), reading(self.connection):
                actor = operator.actor(world.tree) if as_agent else Actor(by=operator.by)
                view = View(connection=self.connection, world=world, actor=actor, places=self.places)
                return read(view, name, args)
        except UnicodeEncodeError:
            raise BadInput(NO_UTF8) from None


def open_reader(places: Places) -> Reader:
    """A reader. Where no daemon runs, agent files that have changed are loaded first, so that what is shown is what
    the next daemon will do. Raises PermissionError where the store may not be read.
    """
    connection: Connection | None = None
    try:
        connection = opening.connect_reading(places.state)
        with opening.telling_damage(places.state):
            stale = freshness.is_stale(connection, places)
    except (NotFound, StoreUnusable):
        if not _may_make(places):
            raise
        stale = True
    if stale and _may_make(places):
        try:
            _load(places)
        except StoreUnusable:
            # Somebody was quicker, and loads them: what there is now is shown.
            if connection is None:
                raise
    if connection is None:
        connection = opening.connect_reading(places.state)
    return Reader(connection=connection, places=places)


def _may_make(places: Places) -> bool:
    """Whether a store may be made or migrated for a reader: its folder is there and ours, and nobody else
    is at it.
    """
    state = places.state
    if not state.is_dir() or not os.access(state, os.W_OK) or opening.owner_problem(state) is not None:
        return False
    return not opening.is_locked(state)


def _asked_for(places: Places, name: str, args: Mapping[str, Any], as_agent: str | None) -> JSON:
    """The answer of the daemon to a search, where the index is not made yet: only it may make it. None where there is
    no daemon that can be asked.
    """
    from swarmd.store.indexing import state_of

    if state_of(places.state).complete is not None:
        return None
    try:
        return replace(socket_client(places), patience_seconds=DAEMON_SECONDS).call(name, args, as_agent)
    except (OSError, SwarmdError):  # what it refuses is refused here too
        return None


def _index(places: Places) -> None:
    """Bring the search index up to date where no daemon does. What cannot be done is told by the answer's age."""
    if not _may_make(places):
        return
    from swarmd.store.indexing import SEARCH_SECONDS, SearchIndex

    lock = opening.Lock(places.state)
    with suppress(StoreError, OSError):
        if lock.acquire():
            try:
                SearchIndex(places.state, utc_now).bring_up_to_date(SEARCH_SECONDS)
            finally:
                lock.release()


def _load(places: Places) -> None:
    with open_local(places, None, wait_seconds=READERS_WAIT_SECONDS) as local:
        local.reload_if_stale()


@dataclass(frozen=True, slots=True, kw_only=True)
class SocketClient:
    """Speaks to the daemon at its operator socket."""

    path: Path
    secret: str
    patience_seconds: float | None = None
    """How long an answer may take; None: acts take as long as they take."""

    def call(self, name: str, args: Mapping[str, Any], as_agent: str | None = None) -> JSON:
        """The call's document. Raises ConnectionError when no daemon answers, else as the service does."""
        import json
        import socket

        message = {"secret": self.secret, "call": name, "args": dict(args), "as": as_agent}
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer:
            peer.settimeout(self.patience_seconds)
            peer.connect(str(self.path))
            peer.sendall(json.dumps(message, ensure_ascii=True).encode() + b"\n")
            with peer.makefile("rb") as answers:
                line = answers.readline(ANSWER_BYTES)
        if not line.endswith(b"\n"):
            raise Failed("the daemon ended before it answered; swarmd log shows what it had done")
        reply = json.loads(line)
        if reply.get("error") is not None:
            raise KINDS.get(reply.get("kind", ""), Failed)(reply["error"])
        return reply.get("value")


def socket_client(places: Places) -> SocketClient:
    """The way to the daemon. Raises ConnectionError when there is none, PermissionError when it may not be used."""
    runtime = runtime_of(places)
    if runtime is None:
        raise ConnectionError(f"no daemon answers at {places.runtime / SOCKET}")
    for folder in (runtime, places.state):
        try:
            return SocketClient(path=runtime / SOCKET, secret=(folder / KEY).read_text().strip())
        except FileNotFoundError:
            continue
        except PermissionError:
            if folder == places.state:
                raise
    raise ConnectionError(f"there is no operator.key in {runtime}")


def runtime_of(places: Places) -> Path | None:
    """The folder in which a daemon's operator socket is, or None."""
    return next((folder for folder in _runtimes(places) if (folder / SOCKET).exists()), None)


def _runtimes(places: Places) -> Iterator[Path]:
    """Where the daemon's sockets may be: where we would put them, and where the daemon said that it has (systemd
    gives it a folder of its own, which a shell does not know of).
    """
    yield places.runtime
    with suppress(OSError):
        yield Path((places.state / RUNTIME).read_text().strip())


@dataclass(frozen=True, slots=True, kw_only=True)
class Local:
    """Acts in this process, which holds the lock."""

    service: Any
    loader_look: Any
    as_agent: str | None

    def call(self, name: str, args: Mapping[str, Any]) -> JSON:
        """The call's document. Agent files that have changed are loaded first: authority is that of the tree now."""
        if name != "reload":
            with opening.telling_damage(self.service.places.state):
                self.reload_if_stale()
        return self.service.call(this_operator(self.as_agent), name, args)

    def reload_if_stale(self) -> None:
        """Load agent files where they are not as they were at the last load."""
        if freshness.is_stale(self.service.store.reader(), self.service.places):
            self.loader_look()


@contextmanager
def open_local(
    places: Places, as_agent: str | None, *, wait_seconds: float = LOCK_SECONDS
) -> Iterator[Local]:
    """Act under the lock, when no daemon has it. Waits for other commands; raises StoreUnusable when a daemon came
    meanwhile, NotFound where there is neither state nor agent files.
    """
    from swarmd.service.acting import Service
    from swarmd.service.control import NoDaemon
    from swarmd.session.machine import host_of
    from swarmd.session.recovery import recover
    from swarmd.store.store import open_store

    if not places.state.exists() and not places.agents.is_dir():
        raise NotFound(
            f"there is neither state in {places.state} nor agent files in {places.agents}; start with swarmd init"
        )
    store = open_store(places.state, utc_now, operator=this_operator().name, wait_seconds=wait_seconds)
    try:
        with opening.telling_damage(places.state):
            recover(store, host_of(places), utc_now())
        control = NoDaemon(store, places, utc_now)

        def look() -> None:
            control.reload(allow_empty=False, by="system")

        yield Local(service=Service(store, places, control, utc_now), loader_look=look, as_agent=as_agent)
    finally:
        store.close()
