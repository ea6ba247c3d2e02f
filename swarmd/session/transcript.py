"""A session's transcript on disk: its events as they come, masked, bounded, numbered; no fault of it ends the session.

Appended without a flush, as the journal beside it is: it must survive kill -9, not a power cut. The file is made at the
first event, so that a session without events has none.
"""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from swarmd.core.counts import counted
from swarmd.core.instants import to_text
from swarmd.core.transcript import FIELDS, FILE
from swarmd.session.known_secrets import Masking

FIELD_CHARACTERS = 64 * 1024
FILE_BYTES = 16 * 1024 * 1024
SMALL = frozenset({"started", "usage", "retry", "warning", "refused", "ended", "result"})
"""Kinds that are still kept when the file is full, each field cut to SMALL_CHARACTERS."""
SMALL_CHARACTERS = 2000
SMALL_BYTES = 1024 * 1024
"""Room for them beyond FILE_BYTES."""
DEPTH = 32
"""More levels of lists and objects within each other are nothing that a reader could use."""
_ELEMENT, _TEXT = 8, 32
"""Characters that an element of a list or an object, and each text, counts for beside its own: what is many is bounded
too, and to look for secrets in a text costs some microseconds however short it is."""
_WHOLE_NUMBERS = 2**63
_FIELDS: Mapping[str, tuple[str, ...]] = {str(kind): fields for kind, fields in FIELDS.items()}


class _Malformed(Exception):
    """An event that cannot be kept as it came; the text says why."""


class Transcript:
    """Of one session. It lives on the daemon's loop, as the desk that writes it does; no call of it raises."""

    def __init__(self, folder: Path, now: Callable[[], datetime], masking: Masking) -> None:
        self._path = folder / FILE
        self._now = now
        self._masking = masking
        self._fd: int | None = None
        self._seq = 0
        self._size = 0
        self._unsettled = False
        """Whether the last line may have been cut off by a full disk."""
        self._left_out: Counter[str] = Counter()
        self._lost = 0
        self._fault = ""
        self._finished = False

    def add(self, kind: str, detail: Any) -> None:
        """Keep an event. One that is malformed is kept as a warning."""
        if self._finished or (self._fd is None and _says_nothing(kind, detail)):
            return
        if self._size >= FILE_BYTES and (kind not in SMALL or self._size >= FILE_BYTES + SMALL_BYTES):
            self._left_out[kind if kind in _FIELDS else "warning"] += 1
            return
        room = FIELD_CHARACTERS if self._size < FILE_BYTES else SMALL_CHARACTERS
        try:
            event = self._event(kind, detail, room)
        except Exception as error:  # noqa: BLE001 - events come from plug-ins: whatever they are, the session goes on
            why = str(error) if isinstance(error, _Malformed) else repr(error)
            event = self._warning(f"an event of the runner could not be kept as it came: {why}", room)
        self._write(event)

    def finish(self) -> str:
        """No more comes. Says in the file what was left out; what found no room even there, as a sentence."""
        if self._finished:
            return ""
        if self._left_out:
            kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(self._left_out.items()))
            self._write(
                self._warning(
                    f"the transcript is full: these events were left out: {kinds}", FIELD_CHARACTERS
                )
            )
        said = ""
        if self._lost:
            said = f"{counted(self._lost, 'event')} of the transcript could not be kept: {self._fault}"
            lost = self._lost
            self._write(self._warning(said, FIELD_CHARACTERS))
            said = said if self._lost > lost else ""
        self._finished = True
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
        return said

    # -- the events -----------------------------------------------------------------------------------------

    def _event(self, kind: str, detail: Any, room: int) -> dict[str, Any]:
        if kind not in _FIELDS:
            raise _Malformed(f"its kind {self._cut(str(kind), 100)!r} is not known")
        if not isinstance(detail, Mapping):
            raise _Malformed(f"the {kind} is no object")
        missing = [name for name in _FIELDS[kind] if name not in detail]
        if missing:
            raise _Malformed(f"the {kind} lacks {', '.join(missing)}")
        rest = {
            self._cut(str(name), 100): _Field(self._masking, room).kept(value)
            for name, value in detail.items()
            if name not in ("seq", "at", "kind")
        }
        return {"kind": kind, **rest}

    def _warning(self, text: str, room: int) -> dict[str, Any]:
        return {"kind": "warning", "text": self._cut(text, room)}

    def _cut(self, text: str, room: int) -> str:
        return _marked(*self._masking.head(text, room))

    # -- the file -------------------------------------------------------------------------------------------

    def _write(self, event: Mapping[str, Any]) -> None:
        line = {"seq": self._seq + 1, "at": to_text(self._now()), **event}
        data = (
            json.dumps(line, ensure_ascii=False, allow_nan=False).encode("utf-8", "backslashreplace") + b"\n"
        )
        if self._unsettled:
            data = b"\n" + data
        try:
            if self._fd is None:
                self._fd = _opened(self._path)
            written = os.write(self._fd, data)
        except OSError as error:
            self._lost += 1
            self._fault = error.strerror or str(error)
            return
        self._size += written
        self._unsettled = written != len(data)
        if self._unsettled:
            self._lost += 1
            self._fault = "the disk is full"
        else:
            self._seq += 1


def _says_nothing(kind: str, detail: Any) -> bool:
    """Whether it is the plain end of a program, whose exit status the session's row has: no file is made for that."""
    return (
        kind == "ended"
        and isinstance(detail, Mapping)
        and not (detail.get("signal") or detail.get("leftovers"))
    )


def _opened(path: Path) -> int:
    # Not the folders around it: a state that was taken away while the session ran is not made again.
    path.parent.mkdir(mode=0o700, exist_ok=True)
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)


def _marked(text: str, left: int) -> str:
    return f"{text}[{left} more characters]" if left else text


class _Field:
    """One field of an event: a JSON value whose texts share a room, and have no secrets in them."""

    def __init__(self, masking: Masking, room: int) -> None:
        self._masking = masking
        self._room = room

    def kept(self, value: Any, depth: int = 0) -> Any:
        """The value as it may be stored. Raises _Malformed for what is no JSON."""
        if depth > DEPTH:
            raise _Malformed(f"it has more than {DEPTH} levels")
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, int):
            if abs(value) >= _WHOLE_NUMBERS:
                raise _Malformed("it holds a whole number of more than 63 bits")
            return int(value)
        if isinstance(value, float):
            if not math.isfinite(value):
                raise _Malformed("it holds a number that is none")
            return float(value)
        if isinstance(value, Mapping):
            return self._object(value, depth)
        if isinstance(value, list | tuple):
            return self._list(value, depth)
        raise _Malformed(f"it holds a {type(value).__name__}, which JSON has not")

    def _text(self, text: str) -> str:
        shown, left = self._masking.head(text, max(self._room, 0))
        self._room -= len(shown) + _TEXT
        return _marked(shown, left)

    def _object(self, value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for number, (name, inner) in enumerate(value.items()):
            if self._room <= 0:
                found["..."] = f"[{counted(len(value) - number, 'more field')}]"
                break
            self._room -= _ELEMENT
            shown = self._text(str(name))
            found[shown] = self.kept(inner, depth + 1)
        return found

    def _list(self, value: list[Any] | tuple[Any, ...], depth: int) -> list[Any]:
        found: list[Any] = []
        for number, inner in enumerate(value):
            if self._room <= 0:
                found.append(f"[{counted(len(value) - number, 'more element')}]")
                break
            self._room -= _ELEMENT
            found.append(self.kept(inner, depth + 1))
        return found
