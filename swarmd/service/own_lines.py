"""The lines of memory that are a session's by history, and those that only say what it wrote."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from swarmd.core.lineage import is_distinctive, key_of, keys_of, of_session, telling, without
from swarmd.core.memory import FIRST_FILE, is_archive
from swarmd.core.merge import lines_of
from swarmd.service.view import View
from swarmd.store import lineage

PutBack = Mapping[tuple[str, str], tuple[int, bytes | None]]
"""By owner and path the revision that a file is to be put back to, and its text."""


@dataclass(slots=True, kw_only=True)
class OwnLines:
    """A file in which lines of a session's stand, or such that say the same or may be its own."""

    owner: str
    path: str
    rev: int
    data: bytes
    marks: list[bool]
    """Of each line whether it goes with the session."""
    alike: list[int] = field(default_factory=list)
    """Lines, from 0, that say what it wrote, and that others have brought there."""
    carried: list[int] = field(default_factory=list)
    """Lines, from 0, that it brought there, and that stood in the folder before: they would be lost with it."""

    unknown: list[int] = field(default_factory=list)
    """Lines, from 0, of which nobody knows who brought them: an older text of the file is not kept."""

    @property
    def target(self) -> str:
        """The file as lists name it."""
        return f"{self.owner}:{self.path}"

    def lines(self) -> list[str]:
        """Its lines that say anything."""
        return self.texts(n for n, is_own in enumerate(self.marks) if is_own)

    def texts(self, places: Iterable[int]) -> list[str]:
        """What stands at these lines, empty ones left out."""
        texts = self.data.decode("utf-8", "replace").split("\n")
        return [texts[n].rstrip("\r") for n in places if texts[n].strip()]

    def cut(self) -> bytes | None:
        """The file without its lines; None: nothing is left of it."""
        left = without(self.data, self.marks, None)
        return left if self.path == FIRST_FILE or left.strip() else None


def own_lines(view: View, session: int, put_back: PutBack | None = None) -> list[OwnLines]:
    """What stands of the session's in files that are no archives, as it would be with some of them put back."""
    own = lineage.own_revisions(view.connection, session)
    found: list[OwnLines] = []
    for owner, keys in sorted(lineage.written(view.connection, session).items()):
        files = []
        for document in view.world.documents(owner):
            rev, data = (put_back or {}).get((owner, document.path), (document.rev, document.data))
            if data is None or is_archive(document.path):
                continue
            file = OwnLines(owner=owner, path=document.path, rev=document.rev, data=data,
                            marks=[False] * len(lines_of(data)))  # fmt: skip
            files.append(file)
            if (owner, document.path) in own:
                brought = lineage.brought_by(view.connection, owner, file.path, rev)
                authors = lineage.authors(view.connection, owner, file.path, session, brought)
                file.marks = of_session(data, authors, session)
                file.unknown = [n for n, one in enumerate(brought) if one is None and not file.marks[n]]
        _spare_carried(files, keys)
        _find_alike(view, files, keys, session)
        found += [file for file in files if any(file.marks) or file.alike or file.carried or file.unknown]
    return found


def _spare_carried(files: list[OwnLines], keys: Collection[str]) -> None:
    """Leave those lines that it only moved from one file of the folder to another, and that stand nowhere else."""
    others: set[str] = set()
    for file in files:
        others |= keys_of(without(file.data, file.marks, None))
    for file in files:
        for n, line in enumerate(lines_of(file.data)):
            text = line.decode("utf-8", "replace")
            if file.marks[n] and is_distinctive(text) and key_of(text) not in {*keys, *others}:
                file.marks[n] = False
                file.carried.append(n)


def _find_alike(view: View, files: list[OwnLines], keys: Collection[str], session: int) -> None:
    """Note the distinctive lines that say what the session alone has written, where history has others bring them."""
    for file in files:
        places = telling(file.data, keys, session)
        file.alike = sorted(n for lines in places.values() for n in lines if not file.marks[n])
    said = {key_of(text) or "" for file in files for text in file.texts(file.alike)}
    common = lineage.Writers(view.connection, files[0].owner).others(said, [session]) if said else ()
    for file in files:
        file.alike = [n for n in file.alike if key_of(file.texts([n])[0]) not in common]
