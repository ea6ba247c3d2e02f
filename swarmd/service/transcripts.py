"""What a session printed and the events of its transcript, from a place on: a follower asks again and again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from swarmd.core.transcript import FILE, OUTPUT
from swarmd.errors import BadInput
from swarmd.service.view import JSON, Args

EVENTS_BYTES = 2 * 1024 * 1024
"""So much of a transcript comes at a time: whoever answers has others to answer as well."""


def read_log(folder: Path, args: Args, *, done: bool) -> dict[str, JSON]:
    """`output` from the byte `output_from` on, `events` from the byte `events_from` on (left out: from the start), and
    where each goes on. Without them, and of a session that is `done`, a last line counts also without its end.
    """
    start = _place(args, "output_from")
    output, size = _output(folder, start or 0, to_the_end=done or start is None)
    events, events_next, more = _events(folder, _place(args, "events_from") or 0)
    return {
        "output": output.decode("utf-8", "replace"), "bytes": size,
        "output_next": (start or 0) + len(output), "events": events, "events_next": events_next, "events_more": more,
    }  # fmt: skip


def _place(args: Args, name: str) -> int | None:
    value = args.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**62:
        raise BadInput(f"{name}: a whole number from 0 on is expected, not {value!r:.40}")
    return value


def _output(folder: Path, start: int, *, to_the_end: bool) -> tuple[bytes, int]:
    data, size = _bytes(folder / OUTPUT, start, None)
    return (data if to_the_end else data[: data.rfind(b"\n") + 1]), size


def _events(folder: Path, start: int) -> tuple[list[dict[str, Any]], int, bool]:
    """Whole lines only: the last may still be on its way. A line that a full disk cut off is passed over."""
    data, size = _bytes(folder / FILE, start, EVENTS_BYTES)
    end = data.rfind(b"\n") + 1
    found = list(_parsed(data[:end]))
    # A line has its bounds; one longer than all that is read here would be no line of ours.
    return found, start + end, bool(end) and start + end < size


def _parsed(data: bytes) -> Iterator[dict[str, Any]]:
    for line in data.split(b"\n"):
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict) and "kind" in event:
            yield event


def _bytes(path: Path, start: int, most: int | None) -> tuple[bytes, int]:
    """The file's bytes from `start` on, and its size; nothing where there is none."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(min(start, size))
            return file.read(-1 if most is None else most), size
    except OSError:
        return b"", 0
