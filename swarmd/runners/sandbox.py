"""What a session's processes may read, write and reach, as plain data; the kernel is told by the supervisor.

Reading is open but for the hidden places (state, runtime, credentials, and with them every other session's and
agent's folder); writing is closed but for the session's own places and `write`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from swarmd.errors import Failed
from swarmd.runners import landlock

DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty")


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What is in force for a session; all paths are real paths (absolute, without links)."""

    level: Literal["landlock", "none"]
    hidden: tuple[str, ...] = ()
    """Neither read nor written, however the user's own rights are."""
    read: tuple[str, ...] = ()
    """Read all the same, although inside a hidden place."""
    listed: tuple[str, ...] = ()
    """Folders around a hidden place whose names may be listed: the session works there."""
    write: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    network: bool = True
    notes: tuple[str, ...] = ()

    def as_spec(self) -> dict[str, Any] | None:
        """For landlock.restrict; None where nothing is to be confined."""
        if self.level == "none":
            return None
        return {
            "hidden": list(self.hidden),
            "read": list(self.read),
            "listed": list(self.listed),
            "write": list(self.write),
            "devices": list(self.devices),
            "network": self.network,
        }


def policy(
    *,
    level: str,
    network: bool,
    hidden: Iterable[str],
    read: Iterable[str],
    write: Iterable[str],
    workdir: str,
    abi: int | None = None,
) -> Policy:
    """The policy of a session; Failed where what the agent's file asks for cannot be kept on this kernel.

    `abi` is the kernel's version of Landlock (0: none), asked for where it is not given.
    """
    version = landlock.abi() if abi is None else abi
    level_in_force = _level(level, version)
    _network_can_be_kept(level_in_force, network, version)
    if level_in_force == "none":
        return Policy(level="none", notes=_notes_without(level))
    closed = (*_real(hidden), "/dev")
    folder = os.path.realpath(workdir)
    return Policy(
        level="landlock",
        hidden=closed,
        read=_real(read),
        listed=(folder,) if any(_inside(place, folder) for place in closed) and folder != "/" else (),
        write=_real(write),
        devices=DEVICES,
        network=network,
        notes=_notes(version),
    )


def _level(level: str, version: int) -> Literal["landlock", "none"]:
    if level == "none" or (level == "auto" and version == 0):
        return "none"
    if version == 0:
        raise Failed(
            "sandbox.level is 'landlock', and this kernel has no Landlock: start a kernel with it "
            "(5.13 or later, 'landlock' in the lsm= list), or set the level to 'auto' or 'none'"
        )
    return "landlock"


def _network_can_be_kept(level: str, network: bool, version: int) -> None:
    if network or (level == "landlock" and version >= landlock.ABI_TCP):
        return
    why = (
        "sandbox.level is 'none' here"
        if level == "none"
        else f"this kernel's Landlock (version {version}) cannot"
    )
    raise Failed(f"sandbox.network is false, and nothing here keeps a session off the network: {why}")


def _notes_without(level: str) -> tuple[str, ...]:
    fence = "a session can read and write whatever this user can, other sessions' folders included"
    if level == "none":
        return (f"sandbox.level is 'none': {fence}",)
    return (f"this kernel has no Landlock: {fence}",)


def _notes(version: int) -> tuple[str, ...]:
    notes = []
    if version < 3:
        notes.append(
            f"this kernel's Landlock (version {version}) does not keep a session from truncating files"
        )
    if version < landlock.ABI_SCOPES:
        notes.append(
            f"this kernel's Landlock (version {version}) does not keep a session from signalling others"
        )
    return tuple(notes)


def _real(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(os.path.realpath(path) for path in paths))


def _inside(path: str, folder: str) -> bool:
    """Whether `path` is `folder` or stands somewhere in it; both are real paths."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def write_problems(paths: Iterable[str], forbidden: Iterable[str]) -> list[str]:
    """Why these places may not be given to a session to write: not absolute, or they reach a forbidden place.

    A link is followed first, so that a path reaches what it really reaches.
    """
    places = [(place, os.path.realpath(place)) for place in forbidden]
    problems = []
    for path in paths:
        if not os.path.isabs(path):
            problems.append(f"{path!r} is not an absolute path")
            continue
        real = os.path.realpath(path)
        for place, real_place in places:
            if _inside(real, real_place) or _inside(real_place, real):
                by = "" if real == os.path.normpath(path) else f" (it leads to {real})"
                problems.append(f"{path!r} reaches {place}{by}, which no session may write")
                break
    return problems


def missing_problems(paths: Sequence[str]) -> list[str]:
    """A sentence for each place to write that does not exist now."""
    return [
        f"sandbox.write: {path} does not exist; make it, or take it out of the agent's file"
        for path in paths
        if not os.path.exists(path)
    ]


def describe(what: Policy) -> list[str]:
    """The policy in words, a line a point, for `swarmd doctor` and the like."""
    lines = [f"sandbox: {what.level}"]
    if what.level == "landlock":
        lines += ["reads: everything that this user may read, except " + ", ".join(what.hidden)]
        lines += [f"reads all the same: {path}" for path in what.read]
        lines += [
            f"lists names in: {path} (file contents in hidden places stay hidden)" for path in what.listed
        ]
        lines += [f"writes: {path}" for path in what.write]
        lines += ["devices: " + ", ".join(what.devices) + " (any other only when sandbox.write names it)"]
        lines += ["network: " + ("all" if what.network else "no TCP; UDP and Unix sockets are not covered")]
        lines += [
            "folders on the way to a hidden place cannot be listed, and what is made in them meanwhile cannot be read"
        ]
    return lines + [f"note: {note}" for note in what.notes]
