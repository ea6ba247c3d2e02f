"""Publishing: what was committed goes into the files, each by an exchange of names, so that no save is overwritten."""

from __future__ import annotations

import os

from swarmd.store import marks
from swarmd.store.adopt import finish_swaps, swap_name, use_up
from swarmd.store.adoption import Adopted
from swarmd.store.folder import Folder
from swarmd.store.marks import Mark, Target
from swarmd.store.shelf import Shelf
from swarmd.store.stable import File, Unfit


class _Again(Exception):
    """A person was there in between: adopt first."""


def publish(shelf: Shelf, agent: str) -> tuple[bool, list[Adopted]]:
    """Bring the files to the heads. True: something came in between and wants to be adopted first; and what came out.

    What cannot be published raises attention and stays pending; it is no reason for anyone to wait.
    """
    prefix = f"memory-publish:{agent}:"
    problems: dict[str, str] = {}
    again = False
    adopted: list[Adopted] = []
    try:
        with shelf.folder(agent) as folder:
            adopted += finish_swaps(shelf, agent, folder)
            waits, raised = shelf.read(lambda c: (marks.waits(c, agent), marks.raised(c, prefix)))
            targets = shelf.writer.do(lambda c: marks.targets(c, agent), durable=False) if waits else []
            for target in sorted(targets, key=_order):
                try:
                    item = _publish_one(shelf, agent, folder, target, problems)
                    adopted += [item] if item is not None else []
                except (_Again, FileNotFoundError, FileExistsError):
                    again = True
                except OSError as error:
                    problems[target.path] = f"it cannot be written: {os.strerror(error.errno or 0)}"
    except OSError as error:
        problems[""] = f"its folder cannot be used: {os.strerror(error.errno or 0)}"
        raised = shelf.read(lambda c: marks.raised(c, prefix))
    shelf.raise_problems("memory-publish", agent, problems, raised)
    return again or bool(adopted), adopted


def _order(target: Target) -> tuple[bool, str]:
    """Deletions first, the deepest first of all: a file's place may be a folder's, and the other way round."""
    return target.data is not None, target.path if target.data is not None else _reversed(target.path)


def _reversed(path: str) -> str:
    return f"{9 - path.count('/')}{path}"


def _publish_one(
    shelf: Shelf, agent: str, folder: Folder, target: Target, problems: dict[str, str]
) -> Adopted | None:
    live = folder.read(target.path)
    if isinstance(live, Unfit):
        if not folder.remove_empty_folder(target.path):
            problems[target.path] = live.why
            return None
        live = None
    if (live.digest if live is not None else None) != target.seen_hash:
        raise _Again
    exchanged = _swap(shelf, folder, target, live)
    if exchanged:
        return use_up(shelf, agent, folder, _as_mark(target), exchanged=True)
    shelf.writer.do(lambda c: marks.seen(c, agent, target.path, target.rev, target.hash), durable=False)
    return None


def _swap(shelf: Shelf, folder: Folder, target: Target, live: File | None) -> bool:
    """Put the new text in the file's place; True: what was there is now the leftover."""
    name = swap_name(target.swap)
    if target.data is None:
        if live is not None:
            folder.take(target.path, name)
        return live is not None
    folder.stage(name, target.data, live)
    if live is None:
        folder.place(name, target.path)
    else:
        shelf.note_exchange(folder.exchange(name, target.path))
    return live is not None


def _as_mark(target: Target) -> Mark:
    return Mark(
        path=target.path, rev=target.rev, hash=target.hash, seen_rev=target.seen_rev, seen_hash=target.seen_hash,
        swap=target.swap, swap_rev=target.rev, swap_hash=target.hash, phase="todo",
    )  # fmt: skip
