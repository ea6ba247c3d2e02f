"""One agent's memory folder on the disk: stable reads, and moves of names. It decides nothing and knows no rows.

Every step goes by open folders and follows no link. What is under way lies in `.swarmd` beside the files, on the same
file system: `N.part` is being written, `N` is complete (before the exchange what is to be published, after it what came
out), `quarantine` holds what came out and could not be taken.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from swarmd.core.digests import digest
from swarmd.core.memory import file_limit, path_problem
from swarmd.store.disk import Disk
from swarmd.store.stable import READ, File, Found, Look, Unfit, look_of, read_stable

PRIVATE = ".swarmd"
QUARANTINE = "quarantine"
ENTRIES = 10_000

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
_EDITORS = re.compile(r"\..*|.*~|.*\.sw[a-z]|4913|#.*#", re.DOTALL)
"""Names that editors use beside a file: not a person's notes, never touched."""


@dataclass(slots=True, kw_only=True)
class Listing:
    """The names in a folder: files that may be memory, folders, and what a person should see to."""

    files: dict[str, Look | None] = field(default_factory=dict)
    """Path to look (None: it is gone again)."""
    folders: set[str] = field(default_factory=set)
    unfit: dict[str, str] = field(default_factory=dict)
    whole: bool = True
    """Whether all was seen; else what is missing is not gone."""
    strange: int = 0
    """How many names are none that the store knows."""


class Folder:
    """An open memory folder; use it as a context manager. Raises NotADirectoryError where its name is no folder."""

    def __init__(self, root: Path, agent: str, disk: Disk) -> None:
        self._disk = disk
        self._root, self._agent = root, agent
        self._fd = -1

    @property
    def agent(self) -> str:
        """Whose it is."""
        return self._agent

    @property
    def exists(self) -> bool:
        """Whether there is such a folder."""
        return self._fd >= 0

    def __enter__(self) -> Self:
        with contextlib.suppress(FileNotFoundError):
            self._fd = os.open(self._root / self._agent, _FOLDER)
        return self

    def __exit__(self, *_: object) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def make(self) -> None:
        """Make the folder where there is none."""
        if self._fd < 0:
            self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
            with contextlib.suppress(FileExistsError):
                (self._root / self._agent).mkdir(mode=0o700)
            self._fd = os.open(self._root / self._agent, _FOLDER)

    def listing(self, known: Collection[str]) -> Listing:
        """Every name in the folder but those of editors, which are left out unless they are `known`."""
        found = Listing()
        if self._fd >= 0:
            self._list(self._fd, "", found, frozenset(_with_folders(known)))
        return found

    def _list(self, fd: int, prefix: str, found: Listing, known: frozenset[str]) -> None:
        with os.scandir(fd) as entries:
            for entry in entries:
                path = prefix + entry.name
                if _EDITORS.fullmatch(entry.name) and path not in known:
                    continue
                found.strange += path not in known
                if found.strange > ENTRIES:
                    found.whole = False
                    found.unfit[""] = (
                        f"it has more than {ENTRIES} new entries; what is beyond them is not read"
                    )
                    return
                if (problem := path_problem(path)) is not None:
                    found.unfit[path] = problem
                elif entry.is_dir(follow_symlinks=False):
                    self._list_inner(fd, entry.name, path, found, known)
                else:
                    found.files[path] = _look(entry)

    def _list_inner(self, fd: int, name: str, path: str, found: Listing, known: frozenset[str]) -> None:
        found.folders.add(path)
        try:
            inner = os.open(name, _FOLDER, dir_fd=fd)
        except FileNotFoundError:
            found.folders.discard(path)
        except OSError as error:
            found.unfit[path] = f"the folder cannot be read: {os.strerror(error.errno or 0)}"
        else:
            try:
                self._list(inner, path + "/", found, known)
            finally:
                os.close(inner)

    def read(self, path: str) -> Found:
        """The file's bytes at an instant at which nobody was writing them; None: there is no such name."""
        try:
            with self._parent(path) as (fd, name):
                return read_stable(fd, name, file_limit(path), self._disk)
        except FileNotFoundError:
            return None
        except NotADirectoryError:
            return Unfit(why="a file or a link stands where a folder of its path should be: move that away")
        except OSError as error:
            return Unfit(why=f"it cannot be read: {os.strerror(error.errno or 0)}")

    def is_gone(self, path: str) -> bool:
        """Whether no such name can be reached; asked again of a name that a listing lacked."""
        try:
            with self._parent(path) as (fd, name):
                os.stat(name, dir_fd=fd, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return True
        except OSError:
            return False
        return False

    def remove_empty_folder(self, path: str) -> bool:
        """Remove the folder at a file's place if nothing is in it."""
        try:
            with self._parent(path) as (fd, name):
                os.rmdir(name, dir_fd=fd)
        except OSError:
            return False
        return True

    def stage(self, name: str, data: bytes, like: File | None) -> None:
        """Write `data` as the complete leftover `name`, with the mode and owner of `like`."""
        with self._private(make=True) as private:
            fd = os.open(f"{name}.part", _WRITE, 0o600, dir_fd=private)
            try:
                _write_all(fd, data)
                if like is not None:
                    _own_as(fd, like)
            finally:
                os.close(fd)
            os.rename(f"{name}.part", name, src_dir_fd=private, dst_dir_fd=private)

    def exchange(self, name: str, path: str) -> bool:
        """Swap the leftover and the file; what came out is the leftover now. False: done in three steps instead.

        Those are for file systems without exchange: a save that renames a file in just there is displaced for good.
        """
        with self._private() as private, self._parent(path) as (fd, file):
            if self._disk.exchange(private, name, fd, file):
                return True
            old = f"{name}.old"
            os.link(file, old, src_dir_fd=fd, dst_dir_fd=private, follow_symlinks=False)
            os.rename(name, file, src_dir_fd=private, dst_dir_fd=fd)
            os.rename(old, name, src_dir_fd=private, dst_dir_fd=private)
            return False

    def mend(self, names: list[str]) -> list[str]:
        """Finish or undo what an exchange in three steps has left; the names that are left then."""
        for old in [name for name in names if name.endswith(".old")]:
            name = old.removesuffix(".old")
            if name in names:
                self.discard(old)
            else:
                with self._private() as private:
                    os.rename(old, name, src_dir_fd=private, dst_dir_fd=private)
        return self.leftovers()

    def place(self, name: str, path: str) -> None:
        """Put the leftover where no file is; FileExistsError where one came in between."""
        with self._private() as private, self._parent(path, make=True) as (fd, file):
            if not self._disk.place(private, name, fd, file):
                os.link(name, file, src_dir_fd=private, dst_dir_fd=fd, follow_symlinks=False)
                os.unlink(name, dir_fd=private)

    def take(self, path: str, name: str) -> None:
        """Move the file away, so that it is the leftover, and the folders that are empty then."""
        with self._private(make=True) as private, self._parent(path) as (fd, file):
            os.rename(file, name, src_dir_fd=fd, dst_dir_fd=private)
        self._prune(path)

    def remove(self, path: str) -> None:
        """Delete a file, and the folders that are empty then."""
        with self._parent(path) as (fd, file):
            os.unlink(file, dir_fd=fd)
        self._prune(path)

    def remove_if_empty(self) -> None:
        """Remove the memory folder itself where nothing is in it."""
        if self._fd >= 0:
            for name in (f"{PRIVATE}/{QUARANTINE}", PRIVATE, ""):
                with contextlib.suppress(OSError):
                    os.rmdir(self._root / self._agent / name)

    def _prune(self, path: str) -> None:
        for folder in _folders_of(path):
            if not self.remove_empty_folder(folder):
                return

    def leftovers(self) -> list[str]:
        """The names in `.swarmd`, quarantine excepted."""
        return sorted(name for name in self._private_names(PRIVATE) if name != QUARANTINE)

    def leftover(self, name: str, path: str) -> Found:
        """The leftover's bytes, read as `read` does."""
        with self._private() as private:
            return read_stable(private, name, file_limit(path), self._disk)

    def discard(self, name: str) -> None:
        """Delete a leftover that is used up or rubbish."""
        with self._private() as private, contextlib.suppress(FileNotFoundError, IsADirectoryError):
            os.unlink(name, dir_fd=private)

    def quarantine(self, name: str, path: str) -> None:
        """Set a leftover aside for good, where a person finds it."""
        with self._private() as private:
            with contextlib.suppress(FileExistsError):
                os.mkdir(QUARANTINE, 0o700, dir_fd=private)
            with _opened(QUARANTINE, private) as there:
                os.rename(name, _aside(path, name), src_dir_fd=private, dst_dir_fd=there)

    def keep_aside(self, path: str, data: bytes) -> None:
        """Keep a copy of an odd text in quarantine, on the disk when this returns."""
        name = digest(data)[:16]
        self.stage(name, data, None)
        with self._private() as private:
            fd = os.open(name, READ, dir_fd=private)
            os.fsync(fd)
            os.close(fd)
        self.quarantine(name, path)

    def quarantined(self) -> list[str]:
        """What is in quarantine."""
        return sorted(self._private_names(f"{PRIVATE}/{QUARANTINE}"))

    def sync(self) -> None:
        """All of the folder's file system is on the disk when this returns."""
        self._disk.sync(self._fd)

    def _private_names(self, folder: str) -> list[str]:
        if self._fd < 0:
            return []
        fd = self._fd
        try:
            for part in folder.split("/"):
                last, fd = fd, os.open(part, _FOLDER, dir_fd=fd)
                if last != self._fd:
                    os.close(last)
        except OSError:
            if fd != self._fd:
                os.close(fd)
            return []
        try:
            return os.listdir(fd)
        finally:
            os.close(fd)

    @contextlib.contextmanager
    def _private(self, *, make: bool = False) -> Iterator[int]:
        if make:
            self.make()
            with contextlib.suppress(FileExistsError):
                os.mkdir(PRIVATE, 0o700, dir_fd=self._fd)
        with _opened(PRIVATE, self._fd) as fd:
            yield fd

    @contextlib.contextmanager
    def _parent(self, path: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
        """The open folder that holds `path`, and the last part."""
        if self._fd < 0:
            raise FileNotFoundError(errno.ENOENT, "there is no memory folder")
        *parts, name = path.split("/")
        with contextlib.ExitStack() as stack:
            fd = self._fd
            for part in parts:
                if make:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(part, 0o700, dir_fd=fd)
                fd = stack.enter_context(_opened(part, fd))
            yield fd, name


@contextlib.contextmanager
def _opened(name: str, within: int) -> Iterator[int]:
    fd = os.open(name, _FOLDER, dir_fd=within)
    try:
        yield fd
    finally:
        os.close(fd)


def _look(entry: os.DirEntry[str]) -> Look | None:
    try:
        return look_of(entry.stat(follow_symlinks=False))
    except OSError:
        return None


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _own_as(fd: int, like: File) -> None:
    at = os.fstat(fd)
    if (at.st_uid, at.st_gid) != (like.uid, like.gid):
        # Only root may give a file away; the group may be one of our own.
        try:
            os.fchown(fd, like.uid, like.gid)
        except PermissionError:
            with contextlib.suppress(PermissionError):
                os.fchown(fd, -1, like.gid)
    os.fchmod(fd, like.mode)


def _aside(path: str, name: str) -> str:
    return f"{path.replace('/', '_')[:150]}.{name}"


def _with_folders(paths: Iterable[str]) -> Iterator[str]:
    for path in paths:
        yield path
        yield from _folders_of(path)


def _folders_of(path: str) -> Iterator[str]:
    """The folders that a path leads through, the innermost first."""
    parts = path.split("/")
    return ("/".join(parts[:count]) for count in range(len(parts) - 1, 0, -1))
