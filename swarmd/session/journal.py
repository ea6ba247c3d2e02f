"""A session's staged acts on disk as they come, so that a killed daemon still leaves them as a draft."""

from __future__ import annotations

import json
import os
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from swarmd.core.changes import Change, WriteMemory, change_from_json, change_to_json
from swarmd.core.deltas import told, told_by
from swarmd.core.digests import digest
from swarmd.core.staging import MemoryWritten, Verdict
from swarmd.core.wire import MemoryTree
from swarmd.core.world import World
from swarmd.errors import Failed
from swarmd.store.disk import boot_id

NAME = "acts.jsonl"
Base = tuple[int, str | None]
"""What a memory file of the working copy was made from: revision, and digest where it is none."""
Bases = Mapping[str, Base]


BaseText = Callable[[WriteMemory], bytes | None]
"""The text that a file was made from; None where it is not known."""
PACKED_FROM = 4096
"""Shorter texts are kept whole."""


class Journal:
    """Appends without a flush: it must survive kill -9, not a power cut. So it says in which boot it was written."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._fd = os.open(folder / NAME, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        with suppress(Failed, OSError):  # without it the memory copy of a lost session does not count
            self._line({"boot": boot_id()})

    def staged(self, change: Change) -> None:
        """Keep a staged change."""
        self._line({"change": change_to_json(change)})

    def checkpoint(self, number: int, bases: Bases) -> None:
        """Say, before its commit, that checkpoint `number` takes all changes so far."""
        self._line({"checkpoint": number, "bases": {path: list(base) for path, base in bases.items()}})

    def logged(self, number: int, text: str) -> None:
        """Keep a block of the interaction log; the same number again takes the place of the earlier text."""
        self._line({"log": number, "text": text})

    def left(self, changes: Sequence[Change], base_text: BaseText) -> None:
        """Keep the difference that the memory copy makes at the end, before the copy is removed."""
        self._line({"left": [_packed(change, base_text) for change in changes]})

    def close(self) -> None:
        """No more comes."""
        os.close(self._fd)

    def _line(self, value: Mapping[str, Any]) -> None:
        _write(self._fd, value)


def _write(fd: int, value: Mapping[str, Any]) -> None:
    # A line end before it too: after a write that a full disk cut off the next one is whole again.
    data = b"\n" + json.dumps(value).encode() + b"\n"
    if os.write(fd, data) != len(data):
        raise Failed(
            "the disk that holds the state is full; nothing was staged: free some space and try again"
        )


def read(folder: Path, checkpoints: int) -> tuple[list[Change], Bases | None]:
    """The changes that were staged after the last checkpoint that the store knows of, and the memory bases it left
    (None: those of the session's start). A torn last line is left out.
    """
    changes: list[Change] = []
    bases: Bases | None = None
    for value in _lines(folder):
        if "change" in value:
            changes.append(change_from_json(value["change"]))
        elif value.get("checkpoint", checkpoints + 1) <= checkpoints:
            changes.clear()
            bases = {path: (base[0], base[1]) for path, base in value["bases"].items()}
    return changes, bases


def log_blocks(folder: Path, checkpoints: int) -> list[str]:
    """The blocks of the interaction log that came after the last checkpoint that the store knows of."""
    found: dict[int, str] = {}
    for value in _lines(folder):
        if "log" in value:
            found[value["log"]] = value["text"]
        elif value.get("checkpoint", checkpoints + 1) <= checkpoints:
            found.clear()
    return [text for _, text in sorted(found.items())]


def keep_left(folder: Path, changes: Sequence[Change], base_text: BaseText) -> bool:
    """`Journal.left` in the place of a daemon that died; False where that cannot be written."""
    try:
        fd = os.open(folder / NAME, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        _write(fd, {"left": [_packed(change, base_text) for change in changes]})
    except (Failed, OSError):
        return False
    finally:
        os.close(fd)
    return True


def left(folder: Path, base_text: BaseText) -> list[Change] | None:
    """The difference that the memory copy made when the session's program had ended; None: it had not, or the text that
    a file was made from is gone.
    """
    found = [value["left"] for value in _lines(folder) if "left" in value]
    if not found:
        return None
    changes = [_unpacked(raw, base_text) for raw in found[-1]]
    whole = [change for change in changes if change is not None]
    return whole if len(whole) == len(changes) else None


def text_in(world: World) -> BaseText:
    """The texts that files were made from, out of the store."""
    return lambda change: (
        world.revision(change.agent, change.path, change.base)
        if change.base_hash is None
        else world.blob(change.base_hash)
    )


def _packed(change: Change, base_text: BaseText) -> dict[str, Any]:
    """The change as JSON; of a large file only what is another than in the text that it was made from: a session that
    adds a line to a mebibyte does not keep a mebibyte.
    """
    raw = change_to_json(change)
    if not isinstance(change, WriteMemory) or change.data is None or len(change.data) < PACKED_FROM:
        return raw
    base = base_text(change)
    difference = None if base is None else told_by(change.data, base)
    if base is None or difference is None or told(difference, base) != change.data:
        return raw
    return {**raw, "data": None, "difference": b64encode(difference).decode(), "digest": digest(change.data)}


def _unpacked(raw: Mapping[str, Any], base_text: BaseText) -> Change | None:
    if "difference" not in raw:
        return change_from_json(raw)
    change = change_from_json({name: raw[name] for name in raw if name not in ("difference", "digest")})
    assert isinstance(change, WriteMemory)
    base = base_text(change)
    text = None if base is None else told(b64decode(raw["difference"]), base)
    return None if text is None or digest(text) != raw["digest"] else replace(change, data=text)


def is_of_this_boot(folder: Path) -> bool:
    """Whether what lies in the session's folder has been through no power cut, so that all of it is as it was left."""
    return [value["boot"] for value in _lines(folder) if "boot" in value][-1:] == [boot_id()]


def _lines(folder: Path) -> Iterator[dict[str, Any]]:
    try:
        data = (folder / NAME).read_bytes()
    except FileNotFoundError:
        return
    for line in data.split(b"\n"):
        try:
            value = json.loads(line)
        except ValueError:
            continue
        if isinstance(value, dict):
            yield value


def differences(agent: str, base: MemoryTree, memory: MemoryTree, bases: Bases) -> list[Change]:
    """What a session has made of its memory copy, as changes."""
    found: list[Change] = []
    for path in sorted({*base.files, *memory.files}):
        if base.files.get(path) != memory.files.get(path):
            rev, hash = bases.get(path, (0, None))
            found.append(
                WriteMemory(agent=agent, path=path, data=memory.read(path), base=rev, base_hash=hash)
            )
    return found


def base_after(change: WriteMemory, verdict: Verdict) -> tuple[int, str | None]:
    """What the working copy goes on from after a checkpoint: the new revision, or its own text where the commit has
    merged it, or holds it.
    """
    text = None if change.data is None else digest(change.data)
    for effect in verdict.effects:
        if isinstance(effect, MemoryWritten) and not effect.merged:
            return effect.document.rev, None
    return -1, text
