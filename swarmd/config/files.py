"""Reads one file that configures agents, and says why it may not be trusted; what it holds is not judged here."""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass
from pathlib import Path

MAX_BYTES = 1024 * 1024

Fingerprint = tuple[int, ...]
"""Everything of a stat result that a save of any kind changes. ctime tells edits that put size and mtime back."""

# A file changed this shortly before it was read can change again within the clock's grain (two seconds on some
# file systems) and look the same: it is read again until it has rested.
_REST_NANOSECONDS = 2_000_000_000

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionUser:
    """A user, other than the daemon's own, that sessions run as; what it may write must not configure anything."""

    uid: int
    gids: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """Who may own the files that configure agents, and who may not be able to write them."""

    uid: int
    session_users: tuple[SessionUser, ...] = ()

    def problem(self, status: os.stat_result) -> str | None:
        """Why a file or folder with this owner and mode is refused, or None."""
        mode = stat.S_IMODE(status.st_mode)
        if mode & stat.S_IWOTH:
            return f"refused: everyone may write it (mode {mode:04o}; chmod o-w)"
        for user in self.session_users:
            owns = status.st_uid == user.uid != self.uid
            if owns or (mode & stat.S_IWGRP and status.st_gid in user.gids):
                return f"refused: uid {user.uid}, which sessions run as, may write it (mode {mode:04o})"
        return self.owner_problem(status)

    def owner_problem(self, status: os.stat_result) -> str | None:
        """Why this owner is refused, or None."""
        if status.st_uid in (0, self.uid):
            return None
        return (
            f"refused: uid {status.st_uid} owns it, which is neither root nor the daemon's user ({self.uid})"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRead:
    """One file as it was read: its bytes, or the reason why there are none."""

    path: Path
    fingerprint: Fingerprint = ()
    data: bytes | None = None
    problem: str | None = None
    missing: bool = False
    settled: bool = False
    """Whether the same fingerprint next time proves the same bytes."""

    def says_same_as(self, other: FileRead) -> bool:
        """Whether both gave the same bytes or the same reason, whatever was saved in between."""
        return (self.path, self.data, self.problem) == (other.path, other.data, other.problem)


def read_file(path: Path, guard: Guard, now_ns: int, previous: FileRead | None = None) -> FileRead:
    """The file now; `previous` itself where stat proves it. Never waits for a pipe, never raises."""
    try:
        status = os.lstat(path)
        owner_problem = None
        if stat.S_ISLNK(status.st_mode):
            owner_problem = guard.owner_problem(status)
            status = os.stat(path)
    except OSError as error:
        return _unread(path, error)
    if owner_problem is not None:
        return FileRead(path=path, problem=f"{owner_problem} (the symbolic link)")
    fingerprint = fingerprint_of(status)
    if previous is not None and previous.settled and previous.fingerprint == fingerprint:
        return previous
    problem = _kind_problem(status) or guard.problem(status)
    if problem is not None:
        return FileRead(path=path, fingerprint=fingerprint, problem=problem)
    return _read(path, guard, now_ns)


def fingerprint_of(status: os.stat_result) -> Fingerprint:
    """What tells one state of a file from another."""
    return (
        status.st_dev,
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
        status.st_mode,
        status.st_uid,
        status.st_gid,
    )


def _read(path: Path, guard: Guard, now_ns: int) -> FileRead:
    try:
        # Not to wait should it have become a pipe since it was looked at.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError as error:
        return _unread(path, error)
    with os.fdopen(descriptor, "rb", closefd=True) as file:
        try:
            status = os.fstat(descriptor)
            fingerprint = fingerprint_of(status)
            problem = _kind_problem(status) or guard.problem(status)
            data = b"" if problem else file.read(MAX_BYTES + 1)
        except OSError as error:
            return _unread(path, error)
    if problem is None and len(data) > MAX_BYTES:
        problem = f"is larger than {MAX_BYTES} bytes, the most that is read"
    if problem is not None:
        return FileRead(path=path, fingerprint=fingerprint, problem=problem)
    settled = status.st_ctime_ns + _REST_NANOSECONDS < now_ns
    return FileRead(path=path, fingerprint=fingerprint, data=data, settled=settled)


def _kind_problem(status: os.stat_result) -> str | None:
    if stat.S_ISREG(status.st_mode):
        return None
    return f"is {_KINDS.get(stat.S_IFMT(status.st_mode), 'something else')}, not a file"


def _unread(path: Path, error: OSError) -> FileRead:
    if error.errno == errno.ENOENT and os.path.islink(path):
        return FileRead(path=path, problem="is a symbolic link to nothing")
    if error.errno == errno.ELOOP:
        return FileRead(path=path, problem="is a symbolic link that leads back to itself")
    missing = error.errno in (errno.ENOENT, errno.ENOTDIR)
    reason = "does not exist" if missing else f"cannot be read: {error.strerror or error}"
    return FileRead(path=path, problem=reason, missing=missing)
