"""Plays one answer on one connection, with all that is to go wrong with it; knows no model's wire."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from tests.model_server.answers import Answer, Fault
from tests.model_server.http_wire import Reply, json_bytes


@dataclass(frozen=True, slots=True)
class Frame:
    """One event of a stream. A ping that belongs to it is part of its data."""

    type: str
    data: bytes
    is_delta: bool = False


class Wire(Protocol):
    """How a kind of API puts things."""

    ping: bytes

    def whole(self, answer: Answer) -> dict[str, Any]:
        """The answer as one JSON document."""

    def frames(self, answer: Answer) -> list[Frame]:
        """The answer as a stream's events."""

    def error_body(self, error: Mapping[str, Any], request_id: str) -> dict[str, Any]:
        """The document of an HTTP error."""

    def error_frame(self, type: str, message: str) -> bytes:
        """An error inside a stream."""


async def play(answer: Answer, wire: Wire, reply: Reply, headers: Mapping[str, str]) -> None:
    """The answer from its first delay to its end, good or bad."""
    if answer.gate is not None:
        await reply.until(answer.gate.wait())
    if answer.before:
        await reply.wait(answer.before)
    fault = answer.fault
    if fault is not None and fault.at.count is None:
        await _break(fault, wire, reply)
        return
    headers = {**headers, **answer.headers}
    if answer.body is not None:
        await reply.whole(answer.status, answer.body, headers)
    elif answer.error is not None:
        document = wire.error_body(answer.error, headers["request-id"])
        await reply.whole(answer.status, json_bytes(document), headers)
    elif not reply.request.body.get("stream"):
        await _play_whole(answer, wire, reply, headers)
    else:
        await _play_stream(answer, wire, reply, headers)


async def _play_whole(answer: Answer, wire: Wire, reply: Reply, headers: Mapping[str, str]) -> None:
    """Faults that lie within a stream break the document in its middle; an error is an HTTP error."""
    body, fault = json_bytes(wire.whole(answer)), answer.fault
    if fault is None:
        await reply.whole(200, body, headers)
    elif fault.kind == "error":
        kind, message = fault.error
        document = wire.error_body({"type": kind, "message": message}, headers["request-id"])
        await reply.whole(500, json_bytes(document), headers)
    else:
        await reply.start({**headers, "content-type": "application/json"})
        await reply.part(body[: len(body) // 2])
        await _break(fault, wire, reply)
        if not reply.ended:
            await reply.end()


async def _play_stream(answer: Answer, wire: Wire, reply: Reply, headers: Mapping[str, str]) -> None:
    """Events go out one by one only if time is to pass between them."""
    frames = [frame for frame in wire.frames(answer) if frame.type not in answer.left_out]
    place = _place(answer.fault, frames)
    await reply.start(headers)
    waiting = b""
    for number, frame in enumerate((*frames, None)):
        if number == place and answer.fault is not None:
            await reply.part(waiting)
            waiting = b""
            await _break(answer.fault, wire, reply)
            if reply.ended:
                return
            if answer.fault.kind == "error":
                break
        waiting += frame.data if frame is not None else b""
        if answer.between:
            await reply.part(waiting)
            waiting = b""
            await reply.wait(answer.between)
    await reply.part(waiting)
    await reply.end()


def _place(fault: Fault | None, frames: list[Frame]) -> int | None:
    """Before which frame the fault comes."""
    if fault is None or fault.at.count is None:
        return None
    if not fault.at.deltas:
        return min(fault.at.count, len(frames))
    deltas = [number for number, frame in enumerate(frames) if frame.is_delta]
    if fault.at.count >= len(deltas):
        return deltas[-1] + 1 if deltas else len(frames)
    return deltas[fault.at.count]


async def _break(fault: Fault, wire: Wire, reply: Reply) -> None:
    match fault.kind:
        case "close":
            reply.close()
        case "reset":
            reply.reset()
        case "hang":
            await reply.wait(None)
        case "ping":
            while True:
                await reply.part(wire.ping)
                await reply.wait(fault.every)
        case "error":
            await reply.part(wire.error_frame(*fault.error))
        case "say":
            await reply.part(fault.data)
