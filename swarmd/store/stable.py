"""A file's bytes as they stood at one instant, however it is being saved just now; and why it may not be read at all.

A read lease is granted only while nobody has the file open for writing, and holds writers off for as long as the read
takes. Where none is to be had (a stranger's file, a network's file system), a file counts once it was quiet.
"""

from __future__ import annotations

import os
import stat
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime

from swarmd.core.digests import digest
from swarmd.store.disk import Disk

QUIET_SECONDS = 1.0
SETTLED_SECONDS = 2.0
"""The kernel's clock ticks in steps: a change right after another may leave the same time on a file. Of one that was
changed so long ago that cannot be."""
PATIENCE_SECONDS = 10.0
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


Look = tuple[int, int, int, int, int]
"""What `stat` says of a file, as far as it changes with the bytes; a file's own times cannot be set back together."""


def look_of(at: os.stat_result) -> Look:
    """The look of a file."""
    return (at.st_dev, at.st_ino, at.st_size, at.st_mtime_ns, at.st_ctime_ns)


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A file's bytes at one instant, and whose it is."""

    data: bytes
    digest: str
    mode: int = 0o600
    uid: int = field(default_factory=os.geteuid)
    gid: int = field(default_factory=os.getegid)
    saved: datetime | None = None
    """When its bytes were written, as the file system says."""
    look: Look | None = None
    """How it looked, where as long as it looks so it holds these very bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfit:
    """Something that may not or cannot be read as a memory file, and why, in words."""

    why: str


Found = File | Unfit | None


def read_stable(folder: int, name: str, limit: int, disk: Disk) -> Found:
    """The bytes of a regular file as they stood at one instant, between two writers."""
    try:
        at = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if (why := _unfit(at, limit)) is not None:
            return Unfit(why=why)
        fd = _open_own(folder, name)
    except FileNotFoundError:
        return None
    except OSError as error:
        return Unfit(why=f"it cannot be read: {os.strerror(error.errno or 0)}")
    try:
        return _read_open(fd, limit, disk)
    finally:
        os.close(fd)


def _open_own(folder: int, name: str) -> int:
    """Open it; a file of one's own that lacks the permission is given it."""
    try:
        return os.open(name, READ, dir_fd=folder)
    except PermissionError:
        handle = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        try:
            at = os.fstat(handle)
            if not stat.S_ISREG(at.st_mode) or at.st_uid != os.geteuid():
                raise
            os.chmod(f"/proc/self/fd/{handle}", stat.S_IMODE(at.st_mode) | 0o600)
        finally:
            os.close(handle)
        return os.open(name, READ, dir_fd=folder)


def _read_open(fd: int, limit: int, disk: Disk) -> Found:
    waited = 0.0
    while True:
        lease = disk.lease(fd)
        try:
            before = os.fstat(fd)
            if lease or _age(before) >= QUIET_SECONDS:
                if (why := _unfit(before, limit)) is not None:
                    return Unfit(why=why)
                data = _read_all(fd)
                # Without a lease a writer may have come in between; with one it waits until the read is over.
                if lease or _same(before, os.fstat(fd)):
                    # Under a lease nobody has it open for writing, nor mapped: a later change shows.
                    look = look_of(before) if lease and _age(before) >= SETTLED_SECONDS else None
                    saved = _instant(before.st_mtime)
                    return File(data=data, digest=digest(data), mode=stat.S_IMODE(before.st_mode) & 0o777,
                                uid=before.st_uid, gid=before.st_gid, saved=saved, look=look)  # fmt: skip
        finally:
            if lease:
                disk.end_lease(fd)
        if waited >= PATIENCE_SECONDS:
            return Unfit(why="somebody has been writing it all the time; it is looked at again later")
        pause = 0.02 if lease is False and waited < QUIET_SECONDS else 0.25
        disk.sleep(pause)
        waited += pause


def _instant(seconds: float) -> datetime | None:
    """None: no clock has such a time; whoever sets a file's times may set any."""
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):
        return None


def _unfit(at: os.stat_result, limit: int) -> str | None:
    if stat.S_ISLNK(at.st_mode):
        return "it is a link, and links are not followed: put the file itself there"
    if stat.S_ISDIR(at.st_mode):
        return "it is a folder: move that away"
    if not stat.S_ISREG(at.st_mode):
        return "it is not a regular file: move it away"
    if at.st_size > limit:
        return (
            f"it has {at.st_size} bytes and may have {limit}: cut it; what was saved last goes on being used"
        )
    return None


def _age(at: os.stat_result) -> float:
    """Seconds since the last change, as far as the clock can be trusted: a file of the future is just changed."""
    return time.time() - max(at.st_mtime, at.st_ctime)


def _same(a: os.stat_result, b: os.stat_result) -> bool:
    return (a.st_size, a.st_mtime_ns, a.st_ctime_ns) == (b.st_size, b.st_mtime_ns, b.st_ctime_ns)


def _read_all(fd: int) -> bytes:
    os.lseek(fd, 0, os.SEEK_SET)
    chunks = []
    while chunk := os.read(fd, 1 << 20):
        chunks.append(chunk)
    return b"".join(chunks)
