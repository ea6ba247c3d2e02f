"""The client's side of a session's desk socket; it imports next to nothing, since every `swarmd` in a session pays."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping
from typing import Any

from swarmd.errors import KINDS, BadInput, Failed, Refused

REPLY_BYTES = 64 * 1024 * 1024


def call(
    socket_path: str,
    token: str,
    name: str,
    args: Mapping[str, Any],
    *,
    message_id: str | None = None,
    timeout_seconds: float = 60.0,
) -> Any:
    """The value of the desk's answer, or the error that it answered with (as errors.KINDS)."""
    request = {"id": message_id or os.urandom(16).hex(), "token": token, "call": name, "args": dict(args)}
    line = json.dumps(request, separators=(",", ":")).encode() + b"\n"
    try:
        answer = _exchange(socket_path, line, timeout_seconds)
    except (ConnectionError, EOFError):
        # The id makes the second try safe: what was done is not done again, the first answer comes back.
        answer = _second_try(socket_path, line, timeout_seconds)
    return _value(answer)


def _second_try(socket_path: str, line: bytes, timeout_seconds: float) -> bytes:
    try:
        return _exchange(socket_path, line, timeout_seconds)
    except (ConnectionError, EOFError):
        raise Refused("the session has ended: swarmd no longer listens for it") from None


def _exchange(socket_path: str, line: bytes, timeout_seconds: float) -> bytes:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(timeout_seconds)
        try:
            connection.connect(socket_path)
        except FileNotFoundError:
            raise Refused(f"the session has ended: there is no socket {socket_path}") from None
        except ConnectionError:
            raise
        except (OSError, ValueError) as error:
            raise BadInput(f"SWARMD_SOCKET ({socket_path}) cannot be used: {error}") from None
        try:
            _send(connection, line)
            return _receive(connection)
        except TimeoutError:
            raise Failed(
                f"swarmd has not answered for {timeout_seconds:g} seconds; it may be busy or stopped"
            ) from None


def _send(connection: socket.socket, line: bytes) -> None:
    try:
        connection.sendall(line)
    except BrokenPipeError:
        pass  # it did not want all of it: the answer says why


def _receive(connection: socket.socket) -> bytes:
    pieces: list[bytes] = []
    size = 0
    while size <= REPLY_BYTES:
        piece = connection.recv(1 << 16)
        if not piece:
            raise EOFError
        pieces.append(piece)
        size += len(piece)
        if piece.endswith(b"\n"):
            return b"".join(pieces)
    raise Failed(f"swarmd's answer has more than {REPLY_BYTES} bytes")


def _value(answer: bytes) -> Any:
    try:
        reply = json.loads(answer)
    except ValueError:
        raise Failed("swarmd's answer is not JSON: is SWARMD_SOCKET another program's socket?") from None
    if not isinstance(reply, dict):
        raise Failed("swarmd's answer is not a reply: is SWARMD_SOCKET another program's socket?")
    if "error" in reply:
        raise KINDS.get(str(reply.get("kind")), Failed)(str(reply["error"]))
    return reply.get("value")
