"""A control group for each session, where the service has a delegated one (cgroup v2); elsewhere silently none.

The supervisor ends a session's processes without it too; this covers the case that the supervisor is killed.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

PREFIX = "session-"


def delegated() -> str | None:
    """The folder of this process's own group, where whoever started the service has handed it over (Delegate=yes)."""
    try:
        own = _own_group(Path("/proc/self/cgroup").read_text())
        mount = _mount(Path("/proc/self/mountinfo").read_text())
    except OSError:
        return None
    if own is None or mount is None:
        return None
    folder = mount + own.rstrip("/")
    return folder if _is_delegated(folder) and os.access(folder, os.W_OK) else None


def _own_group(text: str) -> str | None:
    return next((line[3:] for line in text.splitlines() if line.startswith("0::")), None)


def _mount(text: str) -> str | None:
    for line in text.splitlines():
        left, _, right = line.partition(" - ")
        if right.startswith("cgroup2 "):
            return left.split()[4]
    return None


def _is_delegated(folder: str) -> bool:
    for name in ("user.delegate", "trusted.delegate"):
        try:
            if os.getxattr(folder, name) == b"1":
                return True
        except OSError:
            continue
    return False


def create(base: str, session: str) -> str | None:
    """A new group for this session, or None where it cannot be made or lacks the kill switch (before Linux 5.14)."""
    folder = os.path.join(base, PREFIX + session)
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError:
        return None
    if os.access(os.path.join(folder, "cgroup.kill"), os.W_OK):
        return folder
    remove(folder)
    return None


def end(folder: str, patience_seconds: float = 5.0) -> bool:
    """Kill whatever is in the group and remove it; False where something would not die in time. It blocks."""
    deadline = time.monotonic() + patience_seconds
    while True:
        try:
            with open(os.path.join(folder, "cgroup.kill"), "w") as file:
                file.write("1")
        except FileNotFoundError:
            return True
        except OSError:
            return False
        if remove(folder):
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)


def remove(folder: str) -> bool:
    """Remove the group if nobody is in it."""
    try:
        os.rmdir(folder)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def end_leftovers(base: str) -> None:
    """End the groups that a daemon, killed in the middle, has left behind."""
    try:
        names = os.listdir(base)
    except OSError:
        return
    for name in names:
        if name.startswith(PREFIX):
            end(os.path.join(base, name))
