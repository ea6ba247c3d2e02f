"""The operator's socket: who may speak there, and one JSON line for a question, one for the answer.

An operator is root, the state's owner or a member of the group `swarmd`, has the secret of operator.key, and does not
belong to a session: no process that descends from the daemon is one.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import os
import socket
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import suppress
from pathlib import Path
from typing import Any

from swarmd.daemon.logs import log
from swarmd.daemon.peers import GROUP, Peer, is_operator, operators_group
from swarmd.errors import BadInput, Failed, Refused, StoreUnusable, SwarmdError
from swarmd.service.caller import Operator, name_of
from swarmd.service.operator import KEY, SOCKET

LINE_BYTES = 64 * 2**20
"""What an operator may ask in one line: a whole memory folder with its archives, as base64."""
STRANGERS_BYTES = 64 * 2**10
BACKLOG = 1024
PEERS = 1000
ASK_SECONDS = 30.0
"""How long a question may take to come, and an answer to be read."""
STRANGER_SECONDS = 1.0
"""The same for a session's process, which is refused anyway."""

Call = Callable[[Operator, str, dict[str, Any]], Any]


class OperatorSocket:
    """Listens while the daemon runs. `call` is the service's, run in `executor`. `shared`: the runtime folder is the
    system's or one that was named, and may be opened to the group; a private one in the temp folder stays private.
    `group`: the control group below which sessions have theirs.
    """

    def __init__(
        self, runtime: Path, state: Path, call: Call, executor: Executor, *, shared: bool, group: str | None = None
    ) -> None:  # fmt: skip
        self._path = runtime / SOCKET
        self._copy = runtime / KEY
        self._state = state
        self._secret = (state / KEY).read_text().strip()
        self._call = call
        self._executor = executor
        self._shared = shared
        self._group = group
        self._server: asyncio.Server | None = None
        self._peers: set[asyncio.Task[None]] = set()
        self._asked: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Begin to listen. A socket that a dead daemon left is removed; raises StoreUnusable where a living one has it,
        for another state.
        """
        if await asyncio.to_thread(_is_answered, self._path):
            raise StoreUnusable(
                f"another swarmd listens at {self._path}; stop it, or give this one another folder with --runtime"
            )
        self._path.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        old_mask = os.umask(0o117)
        try:
            listener.bind(str(self._path))
        finally:
            os.umask(old_mask)
        self._server = await asyncio.start_unix_server(
            self._met, sock=listener, limit=STRANGERS_BYTES, backlog=BACKLOG
        )
        if self._shared:
            self._share()

    def _share(self) -> None:
        """Let the group `swarmd` in, where there is one: the state folder, with the key, is closed to it."""
        group = operators_group()
        if group is None:
            return
        try:
            self._copy.unlink(missing_ok=True)
            fd = os.open(self._copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(fd, "w") as file:
                file.write(self._secret + "\n")
                os.fchown(file.fileno(), -1, group)
                os.fchmod(file.fileno(), 0o640)
            os.chown(self._path, -1, group)
            os.chown(self._path.parent, -1, group)
            os.chmod(self._path.parent, 0o750)  # noqa: S103 - what the group needs
        except OSError as error:
            log.warning("the group %s cannot be let in to %s: %s", GROUP, self._path.parent, error)

    async def close(self, patience_seconds: float = 2.0) -> None:
        """Stop listening. Whoever waits for an answer gets it, if it comes soon; the rest is given up."""
        if self._server is not None:
            self._server.close()
        if self._asked:
            await asyncio.wait(list(self._asked), timeout=patience_seconds)
        for task in list(self._peers):
            task.cancel()
        if self._peers:
            await asyncio.wait(list(self._peers))
        self._path.unlink(missing_ok=True)
        self._copy.unlink(missing_ok=True)

    def _met(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._peers) >= PEERS:
            writer.transport.abort()
            return
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._peers.add(task)
        task.add_done_callback(self._peers.discard)
        task.add_done_callback(self._asked.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            peer = Peer.of(writer.get_extra_info("socket"))
            try:
                writer.write(await self._answer(reader, peer))
            finally:
                peer.close()
            await asyncio.wait_for(writer.drain(), ASK_SECONDS)
        except (OSError, TimeoutError, asyncio.CancelledError):
            # It went away, or reads nothing: what it does not take is not kept.
            writer.transport.abort()
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, peer: Peer) -> bytes:
        """The answer to whatever comes, as a line."""
        try:
            refusal = await asyncio.to_thread(self._refusal, peer)
            if refusal is not None:
                with suppress(ValueError):  # it is too long, and refused all the same
                    await asyncio.wait_for(reader.readline(), STRANGER_SECONDS)
                return _line(_error(Refused(refusal)))
            line = await asyncio.wait_for(_question(reader), ASK_SECONDS)
        except ValueError:
            return _line(_error(BadInput(f"a question may have {LINE_BYTES} bytes")))
        task = asyncio.current_task()
        assert task is not None
        self._asked.add(task)
        # Parsing, judging and writing the answer take as long as they take: not on the loop.
        return await asyncio.get_running_loop().run_in_executor(self._executor, self._answered, line, peer)

    def _answered(self, line: bytes, peer: Peer) -> bytes:
        try:
            message = _message(line)
            self._must_know_the_secret(message)
            caller = Operator(name=name_of(peer.uid), as_agent=message.get("as"))
            return _line({"value": self._call(caller, message["call"], message["args"])})
        except SwarmdError as error:
            return _line(_error(error))
        except Exception as error:  # noqa: BLE001 - the boundary: a fault of one question is that question's end
            log.error("a question of %s could not be answered", name_of(peer.uid), exc_info=error)
            return _line(
                _error(Failed(f"the daemon met a fault of its own ({error!r:.200}); its log has more"))
            )

    def _must_know_the_secret(self, message: dict[str, Any]) -> None:
        given = str(message.get("secret", "")).encode("utf-8", "replace")
        if not hmac.compare_digest(given, self._secret.encode()):
            raise Refused("the operator's key is wrong: operator.key in the state folder has the right one")

    def _refusal(self, peer: Peer) -> str | None:
        """Why this process is no operator's."""
        if not is_operator(peer.uid, self._state.stat().st_uid):
            return (
                f"uid {peer.uid} is no operator: root, the state's owner and members of the group {GROUP} are"
            )
        if peer.is_of_a_session(os.getpid(), self._group):
            return "this process belongs to a session, and a session acts as its own agent only"
        return None


async def _question(reader: asyncio.StreamReader) -> bytes:
    """An operator's line. Raises ValueError where it is too long."""
    parts: list[bytes] = []
    size = 0
    while chunk := await reader.read(2**20):
        line, end, _ = chunk.partition(b"\n")
        parts += [line, end]
        if end:
            break
        size += len(chunk)
        if size > LINE_BYTES:
            raise ValueError("the question is too long")
    return b"".join(parts)


def _is_answered(path: Path) -> bool:
    """Whether a living process listens there."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except TimeoutError:
            return True
        except OSError:
            return False
        return True


def _line(answer: dict[str, Any]) -> bytes:
    return json.dumps(answer, ensure_ascii=True).encode() + b"\n"


def _error(error: SwarmdError) -> dict[str, Any]:
    return {"error": str(error), "kind": error.kind}


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
