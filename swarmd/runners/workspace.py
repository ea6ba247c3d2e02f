"""A session's private folder: prompt, memory copy, temp folder, socket's place; made before it, cleared after it."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass

from swarmd.core.transcript import OUTPUT
from swarmd.core.wire import MemoryTree
from swarmd.errors import Failed
from swarmd.runners.host import Host
from swarmd.runners.memory_copy import materialize

SOCKET_PATH_BYTES = 107
PART = ".part"
"""A memory copy of this ending is not whole: it is being made or removed. A daemon that dies meanwhile would else take
what is missing for what the session has deleted.
"""
CHECK, HOOK = "check", "hook"
"""Where in a session's folder its `[success] command` and its hooks have their own."""
LOG_BYTES = 10 * 1024 * 1024
LOG_TAIL_BYTES = 1024 * 1024
"""How much of it is kept for the end of what a session prints."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """Where a session's own things are. `folder` stays after it (with the log); the rest goes."""

    folder: str
    prompt: str
    memory: str
    temp: str
    bin: str
    log: str
    socket: str

    @property
    def client(self) -> str:
        """What a client is given beside the prompt: its settings, and how it reaches the desk."""
        return os.path.join(self.folder, "client")

    @property
    def socket_folder(self) -> str:
        """The private runtime folder of the session."""
        return os.path.dirname(self.socket)


def places(host: Host, session: str) -> Workspace:
    """The places of the session of this id; nothing is made."""
    folder = os.path.join(host.sessions_dir, session)
    return Workspace(
        folder=folder,
        prompt=os.path.join(folder, "prompt"),
        memory=os.path.join(folder, "memory"),
        temp=os.path.join(folder, "tmp"),
        bin=os.path.join(folder, "bin"),
        log=os.path.join(folder, OUTPUT),
        socket=os.path.join(host.runtime_dir, "s", session, "desk.sock"),
    )


def prepare(
    host: Host, session: str, *, prompt: bytes, memory: MemoryTree, read_only: Sequence[str]
) -> Workspace:
    """Make the session's folder anew; what an earlier attempt of the same session left is cleared first."""
    where = places(host, session)
    if len(os.fsencode(where.socket)) > SOCKET_PATH_BYTES:
        raise Failed(
            f"the runtime folder's path is too long for a socket ({where.socket}: more than {SOCKET_PATH_BYTES} "
            f"bytes); choose a shorter one with --runtime"
        )
    state = os.path.dirname(host.sessions_dir)
    if not os.path.isdir(state):
        raise Failed(f"the state folder {state} is gone; put it back, and start the daemon again")
    clear(where)
    for folder in (where.folder, where.socket_folder):
        os.makedirs(folder, mode=0o700, exist_ok=True)
    os.mkdir(where.temp, 0o700)
    os.mkdir(where.bin, 0o700)
    if host.swarmd is not None:
        # A folder with nothing else in it: the folder of `swarmd` itself may hold a python3, which would
        # stand before the user's own.
        os.symlink(host.swarmd, os.path.join(where.bin, "swarmd"))
    fd = os.open(where.prompt, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o400)
    with os.fdopen(fd, "wb") as file:
        file.write(prompt)
    materialize(where.memory + PART, memory, read_only)
    os.rename(where.memory + PART, where.memory)
    return where


def clear(where: Workspace) -> None:
    """Remove all but the log, whatever the session has made of it; its processes are dead."""
    clear_but_memory(where)
    drop_memory(where.folder)


def clear_but_memory(where: Workspace) -> None:
    """The same at a run's end: the memory copy stays until what the session has made of it is kept elsewhere."""
    for folder in (where.temp, where.bin, where.client, where.socket_folder):
        remove_tree(folder)
    try:
        os.unlink(where.prompt)
    except FileNotFoundError:
        pass


def drop_memory(folder: str) -> None:
    """Remove the memory copy in a session's folder, at one instant for whoever looks for it."""
    copy = os.path.join(folder, "memory")
    remove_tree(copy + PART)
    try:
        os.rename(copy, copy + PART)
    except OSError:
        pass  # it is not there; or its session has put something in the way, and has only itself to blame
    remove_tree(copy + PART)
    remove_tree(copy)


def remove_tree(path: str) -> None:
    """Remove a folder that a stranger has filled, as far as that is possible: any depth, any mode, no link followed.

    Folders inside are first moved up to the top, so that neither the stack nor the open files grow with the depth.
    """
    try:
        top = _enter(path, None)
    except OSError:
        return
    try:
        names = _names(top)
        moved = 0
        while names:
            name = names.pop()
            try:
                inner = _enter(name, top)
            except OSError:
                continue
            try:
                for below in _names(inner):
                    moved += 1
                    new = f"{moved}.{os.urandom(8).hex()}"
                    os.rename(below, new, src_dir_fd=inner, dst_dir_fd=top)
                    names.append(new)
            except OSError:
                continue
            finally:
                os.close(inner)
            _quietly_rmdir(name, top)
    finally:
        os.close(top)
    _quietly_rmdir(path, None)


def _enter(path: str, folder: int | None) -> int:
    if stat.S_ISDIR(os.stat(path, dir_fd=folder, follow_symlinks=False).st_mode):
        os.chmod(path, 0o700, dir_fd=folder)
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)


def _names(folder: int) -> list[str]:
    """Remove the files of a folder, and name the folders in it, made fit to be moved."""
    folders = []
    with os.scandir(folder) as entries:
        found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_folder in found:
        try:
            if is_folder:
                os.chmod(name, 0o700, dir_fd=folder)
                folders.append(name)
            else:
                os.unlink(name, dir_fd=folder)
        except OSError:
            continue
    return folders


def _quietly_rmdir(path: str, folder: int | None) -> None:
    try:
        os.rmdir(path, dir_fd=folder)
    except OSError:
        pass


class OutputLog:
    """The live copy of what a session prints, for people who watch. Of more than it may have the beginning is written
    as it comes, and the end when the session has ended; between them stands how much was left out.
    """

    def __init__(self, path: str, limit: int = LOG_BYTES, tail: int = LOG_TAIL_BYTES) -> None:
        self._fd: int | None = os.open(
            path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
        )
        self._left = limit - tail - os.fstat(self._fd).st_size
        self._tail_bytes = tail
        self._tail = bytearray()
        self._dropped = 0

    def write(self, stream: str, chunk: bytes) -> None:
        """Append a masked chunk of standard output or error, in the order in which they came."""
        if self._fd is None:
            return
        written = 0
        if self._left > 0:
            written = self._append(chunk[: self._left])
            # What a full disk does not take is the beginning's end: it must not end the session.
            self._left = self._left - written if written == min(len(chunk), self._left) else 0
        self._tail += chunk[written:]
        if len(self._tail) > 2 * self._tail_bytes:  # cut seldom: each cut moves the whole tail
            self._trim()

    def close(self) -> None:
        """No more comes: what was kept back follows."""
        if self._fd is None:
            return
        self._trim()
        if self._dropped:
            self._append(f"\n[... {self._dropped} bytes left out ...]\n".encode())
        self._append(bytes(self._tail))
        os.close(self._fd)
        self._fd = None

    def _append(self, data: bytes) -> int:
        """How much of it the disk took."""
        assert self._fd is not None
        try:
            return os.write(self._fd, data)
        except OSError:
            return 0

    def _trim(self) -> None:
        over = len(self._tail) - self._tail_bytes
        if over > 0:
            del self._tail[:over]
            self._dropped += over
