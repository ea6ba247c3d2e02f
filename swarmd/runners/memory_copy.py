"""The working copy of a memory folder: made from a tree, read back as one, and changed by desk calls.

The session that owns the folder is hostile and may be alive: every step down is taken by handle, no link is
followed, and nothing is opened for reading before it is known to be a regular file.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from swarmd.core.memory import (
    FOLDER_BYTES,
    FOLDER_FILES,
    FULL,
    file_limit,
    matches,
    path_problem,
    size_problems,
    too_large,
    tree_problems,
)
from swarmd.core.wire import MemoryTree

ENTRIES = 4 * FOLDER_FILES
"""How many names (folders included) are looked at before a folder counts as too full."""
PROBLEMS = 20
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_HANDLE = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
NO_FILES = (
    (stat.S_ISLNK, "a symbolic link"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISCHR, "a device"),
)
"""What stands in a folder and is no file, by its mode."""


def materialize(folder: str, tree: MemoryTree, read_only: Sequence[str]) -> None:
    """Write the tree into `folder`, which does not exist yet; protected files are not writable."""
    os.mkdir(folder, 0o700)
    for path, data in tree.as_files().items():
        if problem := path_problem(path):
            raise ValueError(problem)
        place = os.path.join(folder, path)
        os.makedirs(os.path.dirname(place), mode=0o700, exist_ok=True)
        mode = 0o444 if matches(path, read_only) else 0o600
        fd = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            os.fchmod(file.fileno(), mode)


def read_memory(
    folder: str, base: MemoryTree, read_only: Sequence[str]
) -> tuple[MemoryTree | None, tuple[str, ...]]:
    """What is in the folder now, and every reason why it may not be taken.

    Files with a problem are left out of the tree; the tree is None where the folder itself cannot be read.
    """
    walk = _Walk()
    try:
        with _opened(folder) as top:
            walk.down(top, "")
    except _TooMuch:
        pass
    except OSError as error:
        return None, (f"the memory folder cannot be read: {error.strerror}",)
    problems = [
        *walk.problems,
        *tree_problems(walk.files),
        *size_problems((path, len(data)) for path, data in walk.files.items()),
        *_read_only_problems(walk.files, base, read_only, walk.unread),
    ]
    return MemoryTree.of(walk.files), _bounded(list(dict.fromkeys(problems)))


def _read_only_problems(
    files: dict[str, bytes], base: MemoryTree, read_only: Sequence[str], unread: set[str]
) -> Iterator[str]:
    for path in sorted({*files, *base.files}):
        if path in unread or not matches(path, read_only):
            continue
        before, after = base.read(path), files.get(path)
        if before != after:
            what = "added" if before is None else "removed" if after is None else "changed"
            yield f"{path} is read-only, and was {what}"


def _bounded(problems: list[str]) -> tuple[str, ...]:
    more = len(problems) - PROBLEMS
    return tuple(problems) if more <= 0 else (*problems[:PROBLEMS], f"and {more} more")


@contextmanager
def _opened(path: str, flags: int = _FOLDER, folder: int | None = None) -> Iterator[int]:
    fd = os.open(path, flags, dir_fd=folder)
    try:
        yield fd
    finally:
        os.close(fd)


class _TooMuch(Exception):
    """The folder is over a limit; there is no use in reading on."""


@dataclass(slots=True)
class _Walk:
    files: dict[str, bytes] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    unread: set[str] = field(default_factory=set)
    entries: int = 0
    size: int = 0

    def down(self, folder: int, prefix: str) -> None:
        with os.scandir(folder) as names:
            for entry in names:
                self.entries += 1
                if self.entries > ENTRIES:
                    self._stop(
                        f"a memory folder may have {FOLDER_FILES} files; this one has {ENTRIES} names and more"
                    )
                path = prefix + entry.name
                if problem := path_problem(path):
                    self.problems.append(problem)
                    continue
                try:
                    problem = self._take(folder, entry.name, path)
                except FileNotFoundError:
                    continue  # removed since the name was read: the session is alive
                except OSError as error:
                    problem = f"{path} cannot be read: {error.strerror}"
                if problem:
                    self.unread.add(path)
                    self.problems.append(problem)

    def _take(self, folder: int, name: str, path: str) -> str | None:
        with _opened(name, _HANDLE, folder) as handle:
            found = os.fstat(handle)
            if stat.S_ISDIR(found.st_mode):
                with _opened(f"/proc/self/fd/{handle}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC) as inner:
                    self.down(inner, path + "/")
                return None
            if not stat.S_ISREG(found.st_mode):
                kind = next((text for test, text in NO_FILES if test(found.st_mode)), "no regular file")
                return f"{path} is {kind}; a memory folder holds regular files only"
            if found.st_nlink > 1:
                return f"{path} has {found.st_nlink} hard links; a memory file may have one"
            if found.st_size > file_limit(path):
                return too_large(path, found.st_size, file_limit(path))
            data = _read(handle, file_limit(path) + 1)
        self.files[path] = data
        self.size += len(data)
        if self.size > FOLDER_BYTES:
            self._stop(f"{FULL}the folder may have {FOLDER_BYTES:,} bytes, and has more")
        return None

    def _stop(self, problem: str) -> None:
        self.problems.append(problem)
        raise _TooMuch


def _read(handle: int, at_most: int) -> bytes:
    # The handle is of the very file that was looked at; its name may mean something else by now.
    with open(f"/proc/self/fd/{handle}", "rb", buffering=0) as file:
        pieces = []
        while at_most > 0 and (piece := file.read(min(at_most, 1 << 20))):
            pieces.append(piece)
            at_most -= len(piece)
    return b"".join(pieces)


def put(folder: str, path: str, data: bytes) -> None:
    """Replace one file of the copy at once; raises OSError where a link or the like stands in the way."""
    *above, name = path.split("/")
    with _opened(folder) as top:
        fd = os.dup(top)
        try:
            for part in above:
                try:
                    os.mkdir(part, 0o700, dir_fd=fd)
                except FileExistsError:
                    pass
                inner = os.open(part, _FOLDER, dir_fd=fd)
                os.close(fd)
                fd = inner
            _replace(fd, name, data)
        finally:
            os.close(fd)


def _replace(folder: int, name: str, data: bytes) -> None:
    new = f".swarmd-{os.urandom(8).hex()}"
    fd = os.open(
        new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder
    )
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
        os.rename(new, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        os.unlink(new, dir_fd=folder)
        raise


def take_away(folder: str, path: str) -> None:
    """Remove one file of the copy, if it is there."""
    *above, name = path.split("/")
    with _opened(folder) as top:
        fd = os.dup(top)
        try:
            for part in above:
                inner = os.open(part, _FOLDER, dir_fd=fd)
                os.close(fd)
                fd = inner
            os.unlink(name, dir_fd=fd)
        finally:
            os.close(fd)
