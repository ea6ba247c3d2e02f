"""The kernel's Landlock by ctypes: what it offers, and how a process confines itself; no policy is decided here.

Imported by the supervisor at every start, hence nothing but the cheapest modules.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat

TYPE_CHECKING = False  # the supervisor cannot afford to import `typing`
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 24, 38, 47, 4
SYS_CREATE_RULESET, SYS_ADD_RULE, SYS_RESTRICT_SELF, SYS_OPENAT2 = 444, 445, 446, 437
AT_FDCWD = -100
RESOLVE_NO_SYMLINKS = 0x04

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
MAKE_CHAR, MAKE_BLOCK = 1 << 6, 1 << 11
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
READ = EXECUTE | READ_FILE | READ_DIR
# Never device nodes: a session of root could make one for the disk and read around every other rule.
WRITE = ((1 << 16) - 1) & ~(MAKE_CHAR | MAKE_BLOCK)
OF_A_FILE = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
TCP = 0b11
SCOPES = 0b11  # abstract Unix sockets, signals

ABI_TCP, ABI_SCOPES = 4, 6

# With these, root reads around Landlock: perfmon and sys_admin open any process's memory and environment (since
# Linux 6.16 without asking ptrace's rules), dac_read_search opens files by handle, the rest reach the hardware.
CAPABILITIES = {
    "dac_read_search": 2,
    "sys_module": 16,
    "sys_rawio": 17,
    "sys_ptrace": 19,
    "sys_admin": 21,
    "sys_boot": 22,
    "mknod": 27,
    "mac_override": 32,
    "mac_admin": 33,
    "perfmon": 38,
    "bpf": 39,
    "checkpoint_restore": 40,
}

_libc = ctypes.CDLL(None, use_errno=True)


def abi() -> int:
    """The version of Landlock that the kernel has; 0 where it has none, or has it switched off."""
    version = int(_libc.syscall(SYS_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(1)))
    return max(version, 0)


def prctl(option: int, value: int) -> None:
    """Set one of this process's attributes (man 2 prctl)."""
    zero = ctypes.c_ulong(0)
    if _libc.prctl(ctypes.c_int(option), ctypes.c_ulong(value), zero, zero, zero) != 0:
        _fail("prctl")


def restrict(spec: Mapping[str, Any]) -> None:
    """Confine this process and all it will start, for good, to what `spec` (Policy.as_spec) allows.

    The capabilities are gone with the next exec.
    """
    _drop_capabilities()
    version = abi()
    handled = _handled(version)
    ruleset = _ruleset(version, handled, network=spec["network"])
    try:
        for path in _outside(spec["hidden"]):
            _allow(ruleset, path, READ & handled, must=False)
        for path in spec["listed"]:
            _allow(ruleset, path, READ_DIR & handled, must=False)
        for path in spec["read"]:
            _allow(ruleset, path, READ & handled, must=True)
        for path in spec["devices"]:
            _allow(ruleset, path, (READ | WRITE_FILE | TRUNCATE | IOCTL_DEV) & handled, must=False)
        for path in spec["write"]:
            _allow(ruleset, path, WRITE & handled, must=True)
        prctl(PR_SET_NO_NEW_PRIVS, 1)
        if _libc.syscall(SYS_RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0)) != 0:
            _fail("landlock_restrict_self")
    finally:
        os.close(ruleset)


def _drop_capabilities() -> None:
    for number in CAPABILITIES.values():
        # Refused to whoever has none to drop, and unknown on older kernels: fine, both.
        _libc.prctl(ctypes.c_int(PR_CAPBSET_DROP), ctypes.c_ulong(number), *[ctypes.c_ulong(0)] * 3)
    _libc.prctl(
        ctypes.c_int(PR_CAP_AMBIENT), ctypes.c_ulong(PR_CAP_AMBIENT_CLEAR_ALL), *[ctypes.c_ulong(0)] * 3
    )


def _handled(version: int) -> int:
    rights = (1 << 16) - 1
    for right, since in ((REFER, 2), (TRUNCATE, 3), (IOCTL_DEV, 5)):
        if version < since:
            rights &= ~right
    return rights


class _RulesetAttr(ctypes.Structure):
    _fields_ = (("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("fd", ctypes.c_int32))


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def _ruleset(version: int, handled: int, *, network: bool) -> int:
    attr = _RulesetAttr(fs=handled, net=0 if network else TCP, scoped=SCOPES)
    # An older kernel refuses fields that it does not know, even where they are zero.
    size = 24 if version >= ABI_SCOPES else 16 if version >= ABI_TCP else 8
    fd = _libc.syscall(SYS_CREATE_RULESET, ctypes.byref(attr), ctypes.c_size_t(size), ctypes.c_uint32(0))
    if fd < 0:
        _fail("landlock_create_ruleset")
    return int(fd)


def _outside(hidden: Iterable[str]) -> Iterator[str]:
    """What stands beside the hidden places: Landlock can only allow, so the way to each is left out."""
    closed = {place.rstrip("/") for place in hidden}
    ways = {place[:end] for place in closed for end, char in enumerate(place) if char == "/"}
    if not closed:
        yield "/"
        return
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        try:
            with os.scandir(folder or "/") as entries:
                # A symbolic link is left out: its target is allowed (or not) where it really stands.
                paths = [f"{folder}/{entry.name}" for entry in entries if not entry.is_symlink()]
        except OSError:
            continue
        for path in paths:
            if path in closed:
                continue
            if path in ways:
                waiting.append(path)
            else:
                yield path


def _allow(ruleset: int, path: str, rights: int, *, must: bool) -> None:
    try:
        fd = _open(path)
    except OSError:
        if must:
            raise
        return
    try:
        if not stat.S_ISDIR(os.fstat(fd).st_mode):
            rights &= OF_A_FILE
        rule = _PathBeneath(allowed=rights, fd=fd)
        done = _libc.syscall(
            SYS_ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(1), ctypes.byref(rule), ctypes.c_uint32(0)
        )
        if done != 0 and must:
            _fail(path)
    finally:
        os.close(fd)


def _open(path: str) -> int:
    """A handle on exactly this place: the policy has resolved its links, and a new one may be a trick."""
    how = _OpenHow(flags=os.O_PATH | os.O_CLOEXEC, mode=0, resolve=RESOLVE_NO_SYMLINKS)
    fd = _libc.syscall(
        SYS_OPENAT2,
        ctypes.c_int(AT_FDCWD),
        os.fsencode(path),
        ctypes.byref(how),
        ctypes.c_size_t(ctypes.sizeof(how)),
    )
    if fd < 0:
        _fail(path)
    return int(fd)


def _fail(what: str) -> None:
    number = ctypes.get_errno() or errno.EIO
    raise OSError(number, os.strerror(number), what)
