"""Finding and ending processes of sessions whose daemon and supervisor are gone; a second net, not the first."""

from __future__ import annotations

import os
import signal
import time

MARKED_VARIABLES = (b"SWARMD_SOCKET=", b"TMPDIR=")
ROUNDS_QUIET = 2


def kill_leftovers(*markers: str, patience_seconds: float = 5.0) -> list[int]:
    """End every process whose session's socket or temp folder begins with one of `markers`; name those it met.

    It waits for supervisors at work there (they have a marker as an argument), and blocks. A process that has
    cleared its environment is not found: control groups are for that.
    """
    wanted = tuple(os.fsencode(marker) for marker in markers if marker)
    met: set[int] = set()
    deadline = time.monotonic() + patience_seconds
    quiet = 0
    while wanted and quiet < ROUNDS_QUIET and time.monotonic() < deadline:
        found, busy = _look(wanted)
        for pid in found:
            _kill(pid, wanted)
        met |= found
        quiet = 0 if found or busy else quiet + 1
        time.sleep(0.02 if found or busy else 0)
    return sorted(met)


def _look(wanted: tuple[bytes, ...]) -> tuple[set[int], bool]:
    """The marked processes, and whether a supervisor is still at work."""
    found: set[int] = set()
    busy = False
    own = {os.getpid(), os.getppid()}
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) in own:
            continue
        if _is_marked(int(name), wanted):
            found.add(int(name))
        elif any(argument.startswith(wanted) for argument in _strings(int(name), "cmdline")[-1:]):
            busy = True
    return found, busy


def _is_marked(pid: int, wanted: tuple[bytes, ...]) -> bool:
    prefixes = tuple(variable + marker for variable in MARKED_VARIABLES for marker in wanted)
    return any(entry.startswith(prefixes) for entry in _strings(pid, "environ"))


def _strings(pid: int, what: str) -> list[bytes]:
    try:
        with open(f"/proc/{pid}/{what}", "rb") as file:
            return [entry for entry in file.read().split(b"\0") if entry]
    except OSError:
        return []  # gone, or another user's


def _kill(pid: int, wanted: tuple[bytes, ...]) -> None:
    """By handle, and looked at once more: the number may be another process's by now."""
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return
    try:
        if _is_marked(pid, wanted):
            signal.pidfd_send_signal(handle, signal.SIGKILL)
    except OSError:
        pass
    finally:
        os.close(handle)
