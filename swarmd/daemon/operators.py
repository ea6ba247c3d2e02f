"""The operator's socket: who may speak there, and one JSON line for a question, one for the answer.

An operator is root, the state's owner or a member of the group `swarmd`, has the secret of operator.key, and does not
belong to a session: no process that descends from the daemon is one.
"""

from __future__ import annotations

import asyncio
import grp
import hmac
import json
import os
import pwd
import socket
import struct
from collections.abc import Callable
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

from swarmd.errors import BadInput, Refused, SwarmdError
from swarmd.service.caller import Operator, name_of
from swarmd.service.operator import KEY, RUNTIME, SOCKET

LINE_BYTES = 4 * 2**20
GROUP = "swarmd"
_CREDENTIALS = struct.Struct("3i")


class OperatorSocket:
    """Listens while the daemon runs. `call` is the service's, run in `executor`. `shared`: the runtime folder is the
    system's or one that was named, and may be opened to the group; a private one in the temp folder stays private."""

    def __init__(
        self,
        runtime: Path,
        state: Path,
        call: Callable[[Operator, str, dict[str, Any]], Any],
        executor: Executor,
        *,
        shared: bool,
    ) -> None:
        self._path = runtime / SOCKET
        self._copy = runtime / KEY
        self._state = state
        self._said = state / RUNTIME
        self._secret = (state / KEY).read_text().strip()
        self._call = call
        self._executor = executor
        self._shared = shared
        self._server: asyncio.Server | None = None
        self._peers: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Begin to listen. A socket that a dead daemon left is removed: the lock is ours."""
        self._path.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        old_mask = os.umask(0o117)
        try:
            listener.bind(str(self._path))
        finally:
            os.umask(old_mask)
        self._server = await asyncio.start_unix_server(self._met, sock=listener, limit=LINE_BYTES)
        self._said.write_text(f"{self._path.parent}\n")
        if self._shared:
            self._share()

    def _share(self) -> None:
        """Let the group `swarmd` in, where there is one: the state folder, with the key, is closed to it."""
        group = _group()
        if group is None or os.geteuid() != 0 and group not in os.getgroups():
            return
        self._copy.unlink(missing_ok=True)
        fd = os.open(self._copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o640)
        with os.fdopen(fd, "w") as file:
            file.write(self._secret + "\n")
            os.fchown(file.fileno(), -1, group)
        os.chown(self._path, -1, group)
        os.chown(self._path.parent, -1, group)
        os.chmod(self._path.parent, 0o750)

    async def close(self) -> None:
        """Stop listening; questions under way are given up."""
        if self._server is not None:
            self._server.close()
        for task in list(self._peers):
            task.cancel()
        if self._peers:
            await asyncio.wait(list(self._peers))
        self._path.unlink(missing_ok=True)
        self._copy.unlink(missing_ok=True)
        self._said.unlink(missing_ok=True)

    def _met(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._peers.add(task)
        task.add_done_callback(self._peers.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            answer = await self._answered(reader, writer)
            writer.write(json.dumps(answer, ensure_ascii=True).encode() + b"\n")
            await writer.drain()
        except (ConnectionError, asyncio.CancelledError):
            return
        finally:
            writer.close()

    async def _answered(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> dict[str, Any]:
        try:
            line = await reader.readline()
            message = _message(line)
            name = self._admitted(writer.get_extra_info("socket"), str(message.get("secret", "")))
            caller = Operator(name=name, as_agent=message.get("as"))
            call, args = message["call"], message["args"]
            loop = asyncio.get_running_loop()
            value = await loop.run_in_executor(self._executor, lambda: self._call(caller, call, args))
        except SwarmdError as error:
            return {"error": str(error), "kind": error.kind}
        except ValueError:
            return {"error": f"a line may have {LINE_BYTES} bytes", "kind": BadInput.kind}
        return {"value": value}

    def _admitted(self, peer: Any, secret: str) -> str:
        """The operator's name. Raises Refused."""
        pid, uid, _ = _CREDENTIALS.unpack(
            peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        )
        if not hmac.compare_digest(secret.encode(), self._secret.encode()):
            raise Refused("the operator's key is wrong: operator.key in the state folder has the right one")
        if uid not in (0, self._state.stat().st_uid) and not _in_group(uid):
            raise Refused(
                f"uid {uid} is no operator: root, the state's owner and members of the group {GROUP} are"
            )
        if descends(pid, os.getpid()):
            raise Refused("this process belongs to a session, and a session acts as its own agent only")
        return name_of(uid)


def descends(pid: int, ancestor: int) -> bool:
    """Whether `pid` descends from `ancestor`; a process that cannot be looked at any more counts as one that does."""
    seen = 0
    while pid > 0 and seen < 10_000:
        if pid == ancestor:
            return True
        try:
            status = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            return True
        pid = int(status.rpartition(")")[2].split()[1])
        seen += 1
    return False


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


def _message(line: bytes) -> dict[str, Any]:
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        raise BadInput("the question is no line of JSON") from None
    if (
        not isinstance(message, dict)
        or not isinstance(message.get("call"), str)
        or not isinstance(message.get("args"), dict)
    ):
        raise BadInput("the question needs call and args")
    if message.get("as") is not None and not isinstance(message["as"], str):
        raise BadInput("as: an agent's name is expected")
    return message
