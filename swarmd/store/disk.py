"""The calls of the operating system that Python does not wrap, and the ones that tests replace."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import pwd
import signal
import time
from pathlib import Path

_NOREPLACE, _EXCHANGE = 1, 2
_UNSUPPORTED = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)


class Disk:
    """Names exchanged, files placed, leases taken. Tests put a weaker disk in its place."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)

    def exchange(self, from_fd: int, from_name: str, to_fd: int, to_name: str) -> bool:
        """Swap two names at one instant; False where this file system cannot."""
        return self._rename(from_fd, from_name, to_fd, to_name, _EXCHANGE)

    def place(self, from_fd: int, from_name: str, to_fd: int, to_name: str) -> bool:
        """Rename unless the new name exists (FileExistsError); False where this file system cannot."""
        return self._rename(from_fd, from_name, to_fd, to_name, _NOREPLACE)

    def sync(self, fd: int) -> None:
        """Everything on that file system is on the disk when this returns."""
        if self._libc.syncfs(fd) != 0:
            _raise_errno()

    def lease(self, fd: int) -> bool | None:
        """Take a read lease: True as long as nobody can write; False: somebody has it open; None: not to be had."""
        # A broken lease is told by a signal that by default is ignored, in place of one that ends the process.
        fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)
        try:
            fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        except OSError as error:
            return False if error.errno == errno.EAGAIN else None
        return True

    def end_lease(self, fd: int) -> None:
        """Let writers in again."""
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)

    def sleep(self, seconds: float) -> None:
        """Wait: for a writer to come to its end."""
        time.sleep(seconds)

    def _rename(self, from_fd: int, from_name: str, to_fd: int, to_name: str, how: int) -> bool:
        names = os.fsencode(from_name), os.fsencode(to_name)
        if self._libc.renameat2(from_fd, names[0], to_fd, names[1], how) == 0:
            return True
        if ctypes.get_errno() in _UNSUPPORTED:
            return False
        _raise_errno()
        return False


def _raise_errno() -> None:
    number = ctypes.get_errno()
    raise OSError(number, os.strerror(number))


def boot_id() -> str:
    """What the kernel calls this boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def user_name(uid: int) -> str:
    """The name of a user, or `uid-N` where it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid-{uid}"
