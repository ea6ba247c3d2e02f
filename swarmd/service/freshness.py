"""Whether agent files are as they were at the last load: by names, times and sizes alone, for commands in a hurry."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from swarmd.places import Places
from swarmd.store import meta
from swarmd.store.connections import Connection

KEY = "files_fingerprint"


def fingerprint(places: Places) -> str:
    """A digest of what `stat` says of the agent files, what stands beside them, and the settings."""
    found = [(str(places.agents), *_stat(places.agents)), (str(places.config), *_stat(places.config))]
    try:
        with os.scandir(places.agents) as entries:
            found += sorted(
                (entry.name, *_stat(Path(entry.path))) for entry in entries if not entry.name.startswith(".")
            )
    except OSError as error:
        found.append((str(error.errno),))
    return hashlib.sha256(repr(found).encode()).hexdigest()


def _stat(path: Path) -> tuple[int, ...]:
    try:
        status = path.stat()
    except OSError as error:
        return (error.errno or -1,)
    return (status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_mode)


def is_stale(connection: Connection, places: Places) -> bool:
    """Whether a load would look at something new."""
    return meta.get(connection, KEY) != fingerprint(places)


def keep(connection: Connection, found: str) -> None:
    """Remember what was loaded; empty: look again next time."""
    if meta.get(connection, KEY) != found:
        meta.put(connection, KEY, found)
