"""Who is at the other end of a Unix socket: its uid, its group, and whether it belongs to a session."""

from __future__ import annotations

import grp
import os
import pwd
import select
import socket
import struct
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

GROUP = "swarmd"
_CREDENTIALS = struct.Struct("3i")
_SO_PEERPIDFD = 77  # Linux 6.5; socket has no name for it yet


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """The process that connected. `handle` stays its own, whatever becomes of its number; None: it is gone."""

    pid: int
    uid: int
    handle: int | None

    @classmethod
    def of(cls, connection: Any) -> Peer:
        """The peer of a connection that has just been accepted."""
        pid, uid, _ = _CREDENTIALS.unpack(
            connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        )
        try:
            handle = connection.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD)
        except OSError:
            handle = _opened(pid, time.clock_gettime(time.CLOCK_BOOTTIME))
        return cls(pid=pid, uid=uid, handle=handle)

    def close(self) -> None:
        """Give the handle back."""
        if self.handle is not None:
            os.close(self.handle)

    def is_of_a_session(self, daemon: int, group: str | None = None) -> bool:
        """Whether the process descends from the daemon or lives in the control group of a session (below `group`);
        one that is gone, and could have been anybody's, counts as one that does.
        """
        if self.pid == 0:
            return False  # it lives outside of the daemon's container: none of ours does
        found = descends(self.pid, daemon) or (group is not None and _in_session_group(self.pid, group))
        # Looked at last: as long as the process lives, what was read was of that process.
        return found or self._is_gone()

    def _is_gone(self) -> bool:
        if self.handle is None:
            return True
        poll = select.poll()
        poll.register(self.handle, select.POLLIN)
        return bool(poll.poll(0))


def _opened(pid: int, accepted: float) -> int | None:
    """A handle where the kernel gives none with the connection: of the number's process, unless it began later."""
    try:
        handle = os.pidfd_open(pid)
    except (OSError, ValueError):
        return None
    try:
        began = int(_stat(pid)[19]) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError):
        began = accepted + 1
    if began > accepted:
        os.close(handle)
        return None
    return handle


def descends(pid: int, ancestor: int) -> bool:
    """Whether `pid` descends from `ancestor`; a process that cannot be looked at any more counts as one that does.

    Orphans of a session become children of its supervisor or of the daemon, so they do not get away by forking.
    """
    seen = 0
    while pid > 0 and seen < 10_000:
        if pid == ancestor:
            return True
        try:
            pid = int(_stat(pid)[1])
        except (OSError, IndexError):
            return True
        seen += 1
    return False


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the program's name, which may hold anything."""
    return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()


def _in_session_group(pid: int, group: str) -> bool:
    try:
        lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    except OSError:
        return True
    own = next((line[3:] for line in lines if line.startswith("0::")), "")
    base, session, _ = own.partition("/session-")
    return bool(session) and group.endswith(base)


def is_operator(uid: int, owner: int) -> bool:
    """Whether this user is root, the state's owner or a member of the group `swarmd`."""
    return uid in (0, owner) or _in_group(uid)


def operators_group() -> int | None:
    """The group `swarmd`, where there is one and this process may give files to it."""
    group = _group()
    mine = os.geteuid() == 0 or group in (os.getegid(), *os.getgroups())
    return group if mine else None


def _group() -> int | None:
    try:
        return grp.getgrnam(GROUP).gr_gid
    except KeyError:
        return None


def _in_group(uid: int) -> bool:
    group = _group()
    if group is None:
        return False
    try:
        user = pwd.getpwuid(uid)
    except KeyError:
        return False
    return group in os.getgrouplist(user.pw_name, user.pw_gid)
