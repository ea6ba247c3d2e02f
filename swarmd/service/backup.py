"""Backup and restore: one file that holds everything but transcripts; a restored state starts paused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from swarmd.errors import BadInput, Failed, StoreUnusable
from swarmd.places import Places
from swarmd.service.caller import this_operator
from swarmd.service.operator import utc_now
from swarmd.store import audit, copies, holding, opening, queries
from swarmd.store.connections import Connection
from swarmd.store.left_out import not_in_store
from swarmd.store.store import open_store


def backup(places: Places, file: Path) -> dict[str, Any]:
    """Copy the store into `file`, consistent, also while the daemon writes. Memory is in it: files are its copy. What
    people have put beside them and the store has not taken over is in `left_out`.
    """
    if file.exists():
        raise BadInput(f"{file} exists already; a backup never overwrites: choose another name")
    if not file.parent.is_dir():
        raise BadInput(f"{file}: there is no folder {file.parent}")
    try:
        connection = opening.connect_reading(places.state)
    except PermissionError as error:
        raise StoreUnusable(f"{error}: only the state's owner and root can make a backup") from None
    try:
        copies.keep_copy(connection, file)
        left_out = [
            {"agent": owner, "file": path, "reason": why}
            for owner, path, why in not_in_store(connection, places.state / "memory")
        ]
    except OSError as error:
        raise Failed(f"{file} could not be written: {error.strerror or error}") from error
    finally:
        connection.close()
    return {"file": str(file), "bytes": file.stat().st_size, "left_out": left_out}


def restore(places: Places, file: Path) -> dict[str, object]:
    """Make a new state from a backup. It starts paused, so that a person looks before agents act on old knowledge."""
    if not file.is_file():
        raise BadInput(f"{file}: there is no such backup")
    if opening.check(file, thorough=True) == 0:
        raise BadInput(f"{file} is empty: it is no backup of swarmd")
    if places.state.exists() and any(places.state.iterdir()):
        raise StoreUnusable(
            f"{places.state} is not empty; restore goes into a new state: give an empty one with --state DIR"
        )
    if (problem := opening.owner_problem(places.state)) is not None:
        raise StoreUnusable(problem)
    by = this_operator()

    def prepare(connection: Connection) -> None:
        now = utc_now()
        holding.pause(connection, "all", reason=f"restored from {file.name}", by=by.by, now=now)
        holding.end_live(connection, "restored from a backup", now)
        audit.write(connection, at=now, by=by.by, act="restore", target=file.name)

    try:
        opening.put_restored(file, places.state, prepare)
    except OSError as error:
        raise Failed(f"{places.state} could not be written: {error.strerror or error}") from error
    store = open_store(places.state, utc_now, operator=by.name, thorough=True)
    try:
        for agent in queries.agents_with_memory(store.reader()):
            store.folders.settle(agent)
    finally:
        store.close()
    return {"state": str(places.state), "paused": True, "next_step": "look around, then swarmd resume all"}
