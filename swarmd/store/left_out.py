"""Files in memory folders that the store does not have, and so no backup: bad names, links, edits not yet taken."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from swarmd.core.memory import tree_problems
from swarmd.core.owners import owner_problem
from swarmd.store import marks
from swarmd.store.connections import Connection
from swarmd.store.disk import Disk
from swarmd.store.folder import Folder
from swarmd.store.marks import Mark
from swarmd.store.shelf import shown
from swarmd.store.stable import Unfit

_NOT_YET = "it was edited, and is not taken over yet"


def not_in_store(connection: Connection, root: Path) -> Iterator[tuple[str, str, str]]:
    """Owner, path and reason of each, for all folders below `root`. Names are as they can be printed; an empty path is
    the folder itself. Nothing is written.
    """
    try:
        owners = sorted(os.listdir(root))
    except FileNotFoundError:
        return
    for owner in owners:
        if owner_problem(owner) is not None:
            continue  # no folder of ours
        try:
            with Folder(root, owner, Disk()) as folder:
                found = _of(folder, marks.marks(connection, owner))
        except OSError as error:
            found = {"": f"its folder cannot be read: {error.strerror}"}
        for path, why in sorted(found.items()):
            yield owner, shown(path), why


def _of(folder: Folder, known: Mapping[str, Mark]) -> dict[str, str]:
    listing = folder.listing(known)
    problems = dict(listing.unfit)
    names = {path for path, mark in known.items() if mark.hash is not None}
    for path in sorted(listing.files):
        found, mark = folder.read(path), known.get(path)
        if found is None:
            continue
        if isinstance(found, Unfit):
            problems[path] = found.why
        elif mark is None or found.digest not in (mark.hash, mark.seen_hash, mark.swap_hash):
            beside = tree_problems([*names, path]) if path not in names else []
            problems[path] = beside[0] if beside else _NOT_YET
    return problems
