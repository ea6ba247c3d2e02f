"""After another boot the files may be older than the rows, torn or empty: they are judged before anything is adopted.

In the same boot nothing is needed but the steps that are always taken: what the disk shows is what was done. After a
power cut a file that was being published may hold its old text, a part of one, zeros, or nothing. So a text is a
person's only if it is none of these; all else is written again, and what is odd is kept aside.
"""

from __future__ import annotations

import sqlite3

from swarmd.store import documents, marks
from swarmd.store.adopt import swap_name, take
from swarmd.store.folder import Folder
from swarmd.store.marks import Mark
from swarmd.store.shelf import Shelf
from swarmd.store.stable import File, Unfit

BOOT = "memory_boot"
"""The key in `meta`: the boot in which the folders were last found whole."""


def revalidate(shelf: Shelf, agent: str) -> set[str]:
    """Judge every file of the agent's. The answer: paths of which it is not known what they last held."""
    with shelf.folder(agent) as folder:
        known = shelf.read(lambda c: marks.marks(c, agent))
        unsure = {path for path, mark in known.items() if mark.phase is not None}
        _leftovers(shelf, agent, folder, known)
        known = shelf.read(lambda c: marks.marks(c, agent))
        for mark in known.values():
            _revalidate_one(shelf, agent, folder, mark, sure=mark.path not in unsure)
    return unsure


def _leftovers(shelf: Shelf, agent: str, folder: Folder, known: dict[str, Mark]) -> None:
    under_way = {swap_name(mark.swap): mark for mark in known.values() if mark.swap and mark.phase == "todo"}
    for name in folder.mend(folder.leftovers()):
        mark = under_way.get(name)
        came = folder.leftover(name, mark.path) if mark is not None else None
        if (
            mark is not None
            and isinstance(came, File)
            and not _is_debris(shelf, agent, mark.path, came, sure=False)
        ):
            take(shelf, agent, mark.path, came, None, None)
            # The file holds something else, which is judged next; what it was meant to hold does not count.
            _mark(shelf, agent, mark.path, 0, None)
        folder.discard(name)


def _revalidate_one(shelf: Shelf, agent: str, folder: Folder, mark: Mark, *, sure: bool) -> None:
    found = folder.read(mark.path)
    seen: tuple[int, str | None] | None = None
    if found is None or isinstance(found, Unfit):
        # A folder may stand there again that the file had replaced.
        if mark.seen_hash is not None:
            seen = 0, None
    elif found.digest == mark.hash:
        seen = mark.rev, mark.hash
    elif sure and found.digest == mark.seen_hash:
        return
    elif _is_debris(shelf, agent, mark.path, found, sure=sure):
        if found.data and not _is_known(shelf, agent, mark.path, found):
            folder.keep_aside(mark.path, found.data)
        seen = 0, found.digest
    if seen is not None and (seen[1] != mark.seen_hash or not sure):
        _mark(shelf, agent, mark.path, *seen)


def _mark(shelf: Shelf, agent: str, path: str, rev: int, hash_: str | None) -> None:
    shelf.writer.do(lambda c: marks.seen(c, agent, path, rev, hash_), durable=False)


def _is_debris(shelf: Shelf, agent: str, path: str, file: File, *, sure: bool) -> bool:
    """Whether a text is what a power cut leaves, and nobody's. `sure`: nothing was pending, so old texts are not."""
    if not file.data or b"\x00" in file.data:
        return True
    return not sure and _is_known(shelf, agent, path, file)


def _is_known(shelf: Shelf, agent: str, path: str, file: File) -> bool:
    def work(connection: sqlite3.Connection) -> bool:
        return documents.is_start_of_a_revision(connection, agent, path, file.data)

    return shelf.writer.do(work, durable=False)
