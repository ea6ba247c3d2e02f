"""Backup and restore: one file that holds everything but transcripts; a restored state starts paused."""

from __future__ import annotations

import os
from pathlib import Path

from swarmd.errors import BadInput, Failed, StoreUnusable
from swarmd.places import Places
from swarmd.service.caller import this_operator
from swarmd.service.operator import utc_now
from swarmd.store import holding, opening, queries
from swarmd.store.audit import write
from swarmd.store.connections import Connection
from swarmd.store.store import open_store


def backup(places: Places, file: Path) -> dict[str, object]:
    """Copy the store into `file`, consistent, also while the daemon writes. Memory is in it: files are its copy."""
    if file.exists():
        raise BadInput(f"{file} exists already; a backup never overwrites: choose another name")
    if not file.parent.is_dir():
        raise BadInput(f"{file}: there is no folder {file.parent}")
    connection = opening.connect_reading(places.state)
    try:
        opening.keep_copy(connection, file)
    except OSError as error:
        raise Failed(f"{file} could not be written: {error.strerror or error}") from error
    finally:
        connection.close()
    return {"file": str(file), "bytes": file.stat().st_size}


def restore(places: Places, file: Path) -> dict[str, object]:
    """Make a new state from a backup. It starts paused, so that a person looks before agents act on old knowledge."""
    if not file.is_file():
        raise BadInput(f"{file}: there is no such backup")
    opening.check(file, thorough=True)
    if places.state.exists() and any(places.state.iterdir()):
        raise StoreUnusable(f"{places.state} is not empty; restore goes into a new state: give an empty one with --state DIR")
    places.state.mkdir(mode=0o700, parents=True, exist_ok=True)
    _copy(file, places.state / opening.DATABASE)
    operator = this_operator()
    store = open_store(places.state, utc_now, operator=operator.name, thorough=True)
    try:
        def pause(connection: Connection) -> None:
            now = utc_now()
            holding.pause(connection, "all", reason=f"restored from {file.name}", by=operator.by, now=now)
            holding.end_live(connection, "restored from a backup", now)
            write(connection, at=now, by=operator.by, act="restore", target=file.name)

        store.writer.do(pause)
        for agent in queries.agents_with_memory(store.reader()):
            store.folders.settle(agent)
    finally:
        store.close()
    return {"state": str(places.state), "paused": True, "next_step": "look around, then swarmd resume all"}


def _copy(source: Path, target: Path) -> None:
    part = target.with_name(f".{target.name}.part")
    fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with source.open("rb") as reading, os.fdopen(fd, "wb") as writing:
        while block := reading.read(2**20):
            writing.write(block)
        writing.flush()
        os.fsync(writing.fileno())
    part.rename(target)
