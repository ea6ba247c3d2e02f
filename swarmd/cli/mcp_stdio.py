"""MCP over standard input and output, as far as tools go: one JSON message a line. It imports next to nothing, since
each session of a client that needs it has a process of this.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

from swarmd import __version__
from swarmd.core.mcp_values import (
    BATCH_VERSION,
    HANDSHAKE_VERSIONS,
    SERVER_NAME,
    answered,
    listed,
    no_such_tool,
    refused,
)
from swarmd.core.tools import Tool
from swarmd.errors import SwarmdError

LINE_BYTES = 16 * 1024 * 1024
"""More than any call may have: what is too large for it is refused with its own words."""
CALLS = 1000
"""How many calls may wait; more than that is no client that waits for its answers."""
SLOW_CALLS = 16
ENDING_SECONDS = 60.0
"""How long the calls that were made before the input ended may take."""
PARSE_ERROR, INVALID_REQUEST, NO_METHOD, BAD_PARAMS = -32700, -32600, -32601, -32602

Send = Callable[[dict[str, Any] | None], None]
Ask = Callable[[str, Mapping[str, Any]], Any]


@dataclass(slots=True, eq=False)
class _Call:
    """A call that waits or is under way."""

    id: str | int
    name: str
    args: dict[str, Any]
    send: Send
    cancelled: bool = False


class Bridge:
    """Serves `tools` until the input ends; `ask` gives a call's document or raises SwarmdError. Calls are carried out
    one after another, as a model has made them; those in `slow`, which wait for something else, beside the others.
    """

    def __init__(
        self, tools: Mapping[str, Tool], ask: Ask, out: BinaryIO, *, instructions: str,
        slow: frozenset[str] = frozenset(),
    ) -> None:  # fmt: skip
        self._tools = tools
        self._ask = ask
        self._out = out
        self._instructions = instructions
        self._slow = slow
        self._version = HANDSHAKE_VERSIONS[-1]
        self._writing = threading.Lock()
        self._calls: dict[str | int, _Call] = {}
        self._queue: deque[_Call] = deque()
        self._changed = threading.Condition()
        self._slow_ones = 0
        self._over = False
        self._worker: threading.Thread | None = None

    def serve(self, lines: BinaryIO) -> None:
        """Until the input ends; calls that were made by then are answered."""
        while line := lines.readline(LINE_BYTES + 1):
            if len(line) > LINE_BYTES:
                while line and not line.endswith(b"\n"):
                    line = lines.readline(LINE_BYTES)
                self._write(_error(None, INVALID_REQUEST, f"a message may have {LINE_BYTES} bytes"))
            elif line.strip():
                self._take(line)
        with self._changed:
            self._over = True
            self._changed.notify_all()
        if self._worker is not None:
            self._worker.join(ENDING_SECONDS)

    # -- messages -------------------------------------------------------------------------------------------

    def _take(self, line: bytes) -> None:
        try:
            message = json.loads(line.decode("utf-8"), parse_constant=_no_constant)
        except (ValueError, RecursionError):
            self._write(_error(None, PARSE_ERROR, "a message is one line of JSON; this one is not"))
            return
        if isinstance(message, list) and message and self._version == BATCH_VERSION:
            batch = _Batch(len(message), self._write)
            for each in message:
                self._one(each, batch.add)
        else:
            self._one(message, self._write)

    def _one(self, message: Any, send: Send) -> None:
        """Exactly one `send`, now or when the call is done; of None where nothing is to be answered."""
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
            send(_error(None, INVALID_REQUEST, "a message is a JSON-RPC 2.0 request or notification"))
            return
        id, method, params = message.get("id"), message.get("method"), message.get("params", {})
        if method is None and ("result" in message or "error" in message):
            send(None)  # an answer, and nothing was asked
        elif "id" in message and (isinstance(id, bool) or not isinstance(id, str | int)):
            send(_error(None, INVALID_REQUEST, "id: a text or a whole number is expected"))
        elif not isinstance(method, str) or not isinstance(params, dict):
            send(_error(id, INVALID_REQUEST, "method must be a text, and params an object"))
        elif id is None:
            self._notified(method, params)
            send(None)
        elif method == "tools/call":
            self._called(id, params, send)
        else:
            send(self._answer(id, method, params))

    def _answer(self, id: str | int, method: str, params: dict[str, Any]) -> dict[str, Any]:
        match method:
            case "initialize":
                return _result(id, self._initialized(params))
            case "ping":
                return _result(id, {})
            case "tools/list":
                return _result(id, {"tools": listed(self._tools.values())})
        return _error(id, NO_METHOD, f"there is no method {method[:60]!r} here")

    def _initialized(self, params: dict[str, Any]) -> dict[str, Any]:
        """The client's revision of the protocol, where it is known; else the newest, which the client may decline."""
        asked = params.get("protocolVersion")
        self._version = asked if asked in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1]
        return {
            "protocolVersion": self._version,
            "capabilities": {"tools": {}},
            "serverInfo": {"name": SERVER_NAME, "version": __version__},
            "instructions": self._instructions,
        }

    def _notified(self, method: str, params: dict[str, Any]) -> None:
        id = params.get("requestId")
        if method != "notifications/cancelled" or not isinstance(id, str | int):
            return
        with self._changed:
            call = self._calls.get(id)
            if call is not None:
                # What is under way is carried out; only nobody waits for its answer any more.
                call.cancelled = True

    # -- calls ----------------------------------------------------------------------------------------------

    def _called(self, id: str | int, params: dict[str, Any], send: Send) -> None:
        name, args = params.get("name"), params.get("arguments")
        args = {} if args is None else args
        if not isinstance(name, str) or not isinstance(args, dict):
            send(_error(id, BAD_PARAMS, "name must be a text, and arguments an object"))
        elif name not in self._tools:
            send(_result(id, refused(no_such_tool(name))))
        elif (waiting := self._enqueue(_Call(id, name, args, send))) is not None:
            send(_result(id, refused(waiting)))

    def _enqueue(self, call: _Call) -> str | None:
        """Have it carried out; or why not."""
        with self._changed:
            if call.name in self._slow:
                if self._slow_ones >= SLOW_CALLS:
                    return f"{SLOW_CALLS} calls that take long are under way; wait for one of them"
                self._slow_ones += 1
            elif len(self._queue) >= CALLS:
                return f"{CALLS} calls wait already; wait for their answers"
            self._calls[call.id] = call
            if call.name in self._slow:
                threading.Thread(target=self._do_slowly, args=(call,), daemon=True).start()
                return None
            self._queue.append(call)
            self._changed.notify_all()
            if self._worker is None:
                self._worker = threading.Thread(target=self._work, daemon=True)
                self._worker.start()
        return None

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._queue or self._over)
                if not self._queue:
                    return
                call = self._queue.popleft()
            self._do(call)

    def _do_slowly(self, call: _Call) -> None:
        try:
            self._do(call)
        finally:
            with self._changed:
                self._slow_ones -= 1

    def _do(self, call: _Call) -> None:
        answer = None if call.cancelled else _result(call.id, self._outcome(call))
        with self._changed:
            if self._calls.get(call.id) is call:
                del self._calls[call.id]
        call.send(None if call.cancelled else answer)

    def _outcome(self, call: _Call) -> dict[str, Any]:
        try:
            return answered(self._ask(call.name, call.args))
        except SwarmdError as error:
            return refused(str(error))
        except Exception as error:  # noqa: BLE001 - the boundary: a fault of one call is that call's end
            return refused(f"internal error: {type(error).__name__}: {error}")

    def _write(self, message: Any) -> None:
        if message is None:
            return
        # ASCII, so that no text that a client sends can keep its answer from being written.
        line = json.dumps(message, ensure_ascii=True, separators=(",", ":")).encode() + b"\n"
        with self._writing:
            self._out.write(line)
            self._out.flush()


class _Batch:
    """The answers to the messages of one batch, sent together when the last is there."""

    def __init__(self, count: int, write: Callable[[Any], None]) -> None:
        self._left = count
        self._write = write
        self._answers: list[dict[str, Any]] = []
        self._lock = threading.Lock()

    def add(self, answer: dict[str, Any] | None) -> None:
        """One message is dealt with."""
        with self._lock:
            self._left -= 1
            if answer is not None:
                self._answers.append(answer)
            if self._left == 0 and self._answers:
                self._write(self._answers)


def _result(id: str | int, result: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "result": result}


def _error(id: Any, code: int, sentence: str) -> dict[str, Any]:
    known = id if isinstance(id, str | int) and not isinstance(id, bool) else None
    return {"jsonrpc": "2.0", "id": known, "error": {"code": code, "message": sentence}}


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
