"""What the daemon's own process needs before it starts others: descriptors that are there, and all orphans."""

from __future__ import annotations

import ctypes
import gc
import os
import resource
import sys

OPEN_FILES = 65_536
_PR_SET_CHILD_SUBREAPER = 36


def be_subreaper() -> None:
    """Whatever outlives a session's supervisor becomes the daemon's child, and is found."""
    gc.enable()  # the entry point turns it off, for commands that end at once
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def allow_open_files() -> None:
    """Each session takes some; the usual soft limit is for programs that use select. Sessions get the usual one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def open_standard_files() -> None:
    """Let nothing be opened as standard input, output or error by chance: whoever writes there would write into it."""
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115 - for good
