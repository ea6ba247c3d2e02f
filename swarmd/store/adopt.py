"""Adoption: what people did to the published files becomes revisions, merged with what was committed meanwhile."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from swarmd.core.memory import FIRST_FILE, FOLDER_BYTES, is_archive, tree_problems
from swarmd.core.owners import subject_of
from swarmd.core.world import Document
from swarmd.errors import Busy
from swarmd.store import audit, documents, kept, losses, marks
from swarmd.store.adoption import Adopted, Plan, planned
from swarmd.store.folder import PRIVATE, QUARANTINE, Folder, Listing
from swarmd.store.marks import Mark
from swarmd.store.shelf import Shelf
from swarmd.store.stable import File, Unfit
from swarmd.store.stable import Look as LookOf

GONE_SECONDS = 0.3
"""A name is asked for again before its absence counts: editors rename a file away before they write it anew."""
TRIES = 10
REMOVED_LINES, REMOVED_CHARACTERS = 20, 200
"""How much of what an edit took from an agent the audit quotes; the revisions have all of it."""


class HeadMoved(Busy):
    """Somebody committed while a merge was made: make it again."""


@dataclass(slots=True, kw_only=True)
class Look:
    """What has become of an agent's files since they were last looked at."""

    edited: dict[str, File] = field(default_factory=dict)
    gone: list[str] = field(default_factory=list)
    published: list[tuple[str, int, str]] = field(default_factory=list)
    """Files that hold what they were to hold, and are not yet marked so: path, revision, digest."""
    lost: list[str] = field(default_factory=list)
    """Files that went with their whole folder: to be written again."""
    problems: dict[str, str] = field(default_factory=dict)


def adopt(shelf: Shelf, agent: str, unsure: Collection[str] = ()) -> list[Adopted]:
    """Take in every edit. For paths in `unsure` it is not known what the file last held: the nearest base counts."""
    try:
        with shelf.folder(agent) as folder:
            adopted = finish_swaps(shelf, agent, folder)
            known, raised = _marks_and_raised(shelf, agent)
            look = look_at(folder, known, shelf)
            shelf.raise_problems("memory", agent, look.problems, raised)
    except OSError as error:
        _, raised = _marks_and_raised(shelf, agent)
        shelf.raise_problems("memory", agent, {"": f"its folder cannot be read: {error.strerror}"}, raised)
        return []
    saved = [file.data for file in look.edited.values()]
    adopted += [item for path in look.gone if (item := _adopt_gone(shelf, agent, path, saved)) is not None]
    if look.published or look.lost:
        shelf.writer.do(lambda c: _mark_all(c, agent, look), durable=False)
    for path, file in look.edited.items():
        mark = known.get(path)
        seen = None if mark is None or path in unsure else mark
        beside = [other.data for name, other in look.edited.items() if name != path]
        item = take(shelf, agent, path, file, seen, None, beside)
        adopted += [item] if item is not None else []
    return adopted


def finish_swaps(shelf: Shelf, agent: str, folder: Folder) -> list[Adopted]:
    """Use up every leftover of a swap that did not come to its end; what else is there is rubbish."""
    names = folder.leftovers()
    if not names:
        return []
    names = folder.mend(names)
    known, _ = _marks_and_raised(shelf, agent)
    under_way = {swap_name(mark.swap): mark for mark in known.values() if mark.swap and mark.phase == "todo"}
    adopted = []
    for name in names:
        mark = under_way.get(name)
        if mark is None:
            folder.discard(name)
        else:
            item = use_up(shelf, agent, folder, mark, exchanged=False)
            adopted += [item] if item is not None else []
    return adopted


def use_up(shelf: Shelf, agent: str, folder: Folder, mark: Mark, *, exchanged: bool) -> Adopted | None:
    """Look at what came out of a swap, mark it as done, and delete it.

    Not `exchanged`: a leftover that holds what was to be published shows that the swap was not done. (Or the person
    had saved that very text: then the live file tells, and nothing is lost either.)
    """
    name = swap_name(mark.swap)
    came = folder.leftover(name, mark.path)
    adopted = None
    if not exchanged and isinstance(came, File) and came.digest == mark.swap_hash:
        folder.discard(name)
        return None
    if isinstance(came, Unfit):
        folder.quarantine(name, mark.path)
    elif came is not None and came.digest not in (mark.seen_hash, mark.swap_hash):
        adopted = take(shelf, agent, mark.path, came, mark, mark)
        folder.discard(name)
        return adopted
    rev, hash_ = mark.swap_rev or 0, mark.swap_hash
    shelf.writer.do(lambda c: marks.seen(c, agent, mark.path, rev, hash_), durable=False)
    folder.discard(name)
    return adopted


def swap_name(swap: int | None) -> str:
    """The leftover's name."""
    return f"{swap or 0:016x}"


def look_at(folder: Folder, known: Mapping[str, Mark], shelf: Shelf) -> Look:
    """Compare the folder with what it last held."""
    look = Look()
    look.problems |= {
        f"{PRIVATE}/{QUARANTINE}/{name}": "what was saved there could not be taken: see what is in it, then delete it"
        for name in folder.quarantined()
    }
    if not folder.exists:
        look.lost = [path for path, mark in known.items() if mark.seen_hash is not None]
        return look
    listing = folder.listing(known)
    look.problems |= listing.unfit
    here = _look_at_files(folder, listing, known, look, shelf)
    missing = [path for path, mark in known.items() if mark.seen_hash is not None and path not in here]
    if listing.whole:
        # What lies behind a link or in a folder that cannot be read is not gone.
        missing = [path for path in missing if not _within(path, look.problems)]
        _look_at_missing(folder, listing, missing, look, shelf)
    _refuse_edits(look, known)
    return look


def _look_at_files(
    folder: Folder, listing: Listing, known: Mapping[str, Mark], look: Look, shelf: Shelf
) -> set[str]:
    here: set[str] = set()
    total = 0
    before, after = shelf.looks.get(folder.agent, {}), dict[str, tuple[LookOf, str]]()
    for path, seen in sorted(listing.files.items()):
        mark = known.get(path)
        as_before = before.get(path)
        if mark is not None and seen is not None and as_before == (seen, mark.seen_hash):
            after[path] = as_before
            total += 0 if is_archive(path) else seen[2]
            here.add(path)
            continue
        found = folder.read(path)
        if found is None:
            continue
        here.add(path)
        if isinstance(found, Unfit):
            look.problems[path] = found.why
            continue
        if found.look is not None:
            after[path] = found.look, found.digest
        total += 0 if is_archive(path) else len(found.data)
        if mark is not None and found.digest == mark.seen_hash:
            continue
        if mark is not None and found.digest == mark.hash:
            look.published.append((path, mark.rev, found.digest))
        elif mark is not None and mark.phase == "todo" and found.digest == mark.swap_hash:
            look.published.append((path, mark.swap_rev or 0, found.digest))
        elif total > FOLDER_BYTES and not is_archive(path):
            look.problems[path] = f"with it the folder has more than {FOLDER_BYTES} bytes: it is not taken"
        else:
            look.edited[path] = found
    shelf.looks[folder.agent] = after
    return here


def _look_at_missing(folder: Folder, listing: Listing, missing: list[str], look: Look, shelf: Shelf) -> None:
    if not missing:
        return
    shelf.disk.sleep(GONE_SECONDS)
    for path in missing:
        if path in listing.folders and not folder.remove_empty_folder(path):
            if path == FIRST_FILE:
                look.problems[path] = "it is a folder: move that away"
            else:
                look.gone.append(path)
        elif folder.is_gone(path):
            look.gone.append(path)


def _refuse_edits(look: Look, known: Mapping[str, Mark]) -> None:
    """Leave out new files whose names cannot stand beside the others."""
    names = {path for path, mark in known.items() if mark.hash is not None} - set(look.gone)
    new = sorted(set(look.edited) - names)
    if not new or not tree_problems([*names, *new]):
        return
    for path in new:
        if problems := tree_problems([*names, path]):
            look.problems[path] = problems[0]
            del look.edited[path]
        else:
            names.add(path)


def _within(path: str, folders: Collection[str]) -> bool:
    parts = path.split("/")
    return any("/".join(parts[:count]) in folders for count in range(1, len(parts) + 1))


def _marks_and_raised(shelf: Shelf, agent: str) -> tuple[dict[str, Mark], dict[str, str]]:
    return shelf.read(lambda c: (marks.marks(c, agent), marks.raised(c, f"memory:{agent}:")))


def _mark_all(connection: sqlite3.Connection, agent: str, look: Look) -> None:
    for path, rev, hash_ in look.published:
        marks.seen(connection, agent, path, rev, hash_)
    for path in look.lost:
        marks.seen(connection, agent, path, 0, None)


def _adopt_gone(shelf: Shelf, agent: str, path: str, saved: Sequence[bytes]) -> Adopted | None:
    """A file is gone: a person's deletion. The first file, and one that was changed since it was published, is written
    again, and the audit says so. `saved`: the files beside it, one of which may be the same under another name.
    """
    by = shelf.person(None)

    def work(connection: sqlite3.Connection) -> Adopted | None:
        head = documents.head(connection, agent, path)
        mark = marks.mark(connection, agent, path)
        if head is None or mark is None or path == FIRST_FILE or mark.hash != mark.seen_hash:
            marks.seen(connection, agent, path, 0, None)
            if head is not None and head.data is not None and mark is not None and mark.seen_hash is not None:
                audit.write(connection, at=shelf.clock(), by=by, act="memory_put_back", target=f"{agent}:{path}",
                            detail={"rev": head.rev})  # fmt: skip
            return None
        document = Document(agent=agent, path=path, rev=head.rev + 1, data=None, at=shelf.clock(), by=by)
        documents.add_revision(connection, document, head.rev, "adopt")
        losses.note(connection, losses.Rewrite(document=document, before=head.rev, over=head.data), saved)
        kept.look(connection, document)
        marks.seen(connection, agent, path, document.rev, None)
        adopted = Adopted(agent=agent, path=path, rev=document.rev, head=document.rev, by=by, deleted=True)
        _audit(connection, adopted, document.at)
        return adopted

    return shelf.writer.do(work)


def take(
    shelf: Shelf, agent: str, path: str, file: File, seen: Mark | None, swapped: Mark | None,
    beside: Sequence[bytes] = (),
) -> Adopted | None:  # fmt: skip
    """Make a person's text a revision, and merge it with the head. `beside`: other files of the agent's that the person
    has saved, into which lines may have been moved.

    `seen` tells what the file held before; `swapped`: the text came out of this swap, and the file holds what was
    swapped in; else the file holds the text. Durable, since the next swap takes the only other copy away.
    """
    for _ in range(TRIES):
        plan = planned(shelf, agent, path, file, seen)
        try:
            return shelf.writer.do(lambda c, plan=plan: _apply(c, agent, path, file, plan, swapped, beside))  # type: ignore[misc]
        except HeadMoved:
            continue
    raise HeadMoved(f"{path}: the head moves faster than it can be merged")


def _apply(
    connection: sqlite3.Connection,
    agent: str,
    path: str,
    file: File,
    plan: Plan | None,
    swapped: Mark | None,
    beside: Sequence[bytes],
) -> Adopted | None:
    mark = marks.mark(connection, agent, path)
    rev = mark.rev if mark is not None else 0
    if plan is not None:
        if rev != plan.over:
            raise HeadMoved
        for document, parent in plan.documents:
            documents.add_revision(
                connection, document, parent, "adopt" if document.rev == plan.adopted.rev else "merge"
            )
        last = plan.documents[-1][0]
        losses.note(connection, losses.Rewrite(document=last, before=plan.over, over=plan.head), beside)
        at = plan.documents[0][0].at
        for conflict in plan.conflicts:
            documents.add_conflict(connection, plan.documents[0][0], conflict, None)
        kept.look(connection, last)
        kept.note(connection, plan.adopted, at)
        _audit(connection, plan.adopted, at)
        rev = plan.adopted.rev
    elif mark is None or mark.hash != file.digest:
        raise HeadMoved
    if swapped is not None:
        marks.seen(connection, agent, path, swapped.swap_rev or 0, swapped.swap_hash)
    else:
        marks.seen(connection, agent, path, rev, file.digest)
    return plan.adopted if plan is not None else None


def _audit(connection: sqlite3.Connection, adopted: Adopted, at: datetime) -> None:
    detail: dict[str, object] = {"rev": adopted.rev, "head": adopted.head}
    if adopted.deleted:
        detail["deleted"] = True
    if adopted.kept:
        detail["kept"] = adopted.kept
    if adopted.conflicts:
        detail["conflicts"] = adopted.conflicts
    if adopted.removed and subject_of(adopted.agent) is not None:
        detail["removed_lines"] = len(
            adopted.removed
        )  # the audit never forgets, and a subject may have to be forgotten
    elif adopted.removed:
        detail["removed"] = [line[:REMOVED_CHARACTERS] for line in adopted.removed[:REMOVED_LINES]]
    target = f"{adopted.agent}:{adopted.path}"
    audit.write(connection, at=at, by=adopted.by, act="memory_adopt", target=target, detail=detail)
