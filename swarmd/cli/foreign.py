"""Reads memory from elsewhere with the rights of the person who asks: a folder's files, or an exported conversation.

Whoever made it is a stranger: no link is followed, nothing but regular files is opened, and all of it is bounded.
Of a folder only what could come is opened: whatever else lies there, of whatever make, keeps nothing from coming.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from swarmd.core.conversations import Conversation, NoConversation, conversation
from swarmd.core.memory import FOLDER_BYTES
from swarmd.core.takeover import Found, is_note
from swarmd.errors import BadInput, Failed, NotFound
from swarmd.runners.memory_copy import NO_FILES

ENTRIES = 20_000
"""Names that are looked at in one folder, with all below it."""
DEPTH = 32
LONG_BYTES = 2 * FOLDER_BYTES
"""A file with more is not read: no memory could hold it, and a log of it would not either."""
EVERYTHING_BYTES = 8 * FOLDER_BYTES
LEVELS = 100
"""How deep lists and objects of a conversation may stand within each other."""
CONVERSATIONS = (".json", ".jsonl", ".yaml", ".yml")


# -- folders ----------------------------------------------------------------------------------------------------------


def read_folder(top: Path, *, all_files: bool = False) -> list[Found]:
    """Every file below the folder; of those that are not taken by their name only that. Raises Failed where it cannot
    be read at all or holds too much.
    """
    found: list[Found] = []
    size = 0
    try:
        for file in _Folder(str(top), all_files=all_files).below("", 0):
            found.append(file)
            size += len(file.data)
            if size > EVERYTHING_BYTES:
                raise Failed(
                    f"{top}: it holds more than {EVERYTHING_BYTES} bytes, and a memory {FOLDER_BYTES}"
                )
    except OSError as error:
        raise Failed(f"{top} cannot be read: {error.strerror}") from None
    return found


class _Folder:
    def __init__(self, top: str, *, all_files: bool) -> None:
        self._top, self._all_files = top, all_files
        self._seen = 0

    def below(self, prefix: str, depth: int) -> Iterator[Found]:
        with os.scandir(os.path.join(self._top, prefix)) as names:
            entries = sorted(names, key=lambda entry: entry.name)
        for entry in entries:
            self._seen += 1
            if self._seen > ENTRIES:
                raise Failed(
                    f"{self._top}: it holds more than {ENTRIES} files; name the folder of one agent's memory"
                )
            path = f"{prefix}{entry.name}"
            if entry.name.startswith("."):
                yield Found(path=path)
            elif not entry.is_dir(follow_symlinks=False):
                taken = self._all_files or is_note(entry.name) or _leads_to_folder(entry)
                yield _file(self._top, path) if taken else Found(path=path)
            elif depth >= DEPTH:
                yield Found(path=path, problem=f"it is more than {DEPTH} folders deep")
            else:
                try:
                    yield from self.below(f"{path}/", depth + 1)
                except OSError as error:
                    yield Found(path=path, problem=f"it cannot be read: {error.strerror}")


def _leads_to_folder(entry: os.DirEntry[str]) -> bool:
    """Whether it is a link in the place of a folder: whatever its name, there may be notes in it that would come. Only
    that is asked; nobody goes there. Of a link that leads nowhere the name tells: files of other kinds have an ending.
    """
    if not entry.is_symlink():
        return False
    try:
        return stat.S_ISDIR(entry.stat().st_mode)
    except OSError:
        return "." not in entry.name


def _file(top: str, path: str) -> Found:
    try:
        return Found(path=path, data=read_file(os.path.join(top, path), follow=False))
    except (BadInput, Failed, NotFound) as error:
        return Found(path=path, problem=str(error))


def read_file(path: str, *, follow: bool = True) -> bytes:
    """A regular file's bytes. Raises BadInput, NotFound or Failed with why not; the sentence does not name the file."""
    try:
        status = os.stat(path, follow_symlinks=follow)
        for is_kind, what in NO_FILES:
            if is_kind(status.st_mode):
                raise BadInput(f"it is {what}")
        # It may have become another thing meanwhile: a pipe must not hold us.
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
        fd = os.open(path, flags)
        with os.fdopen(fd, "rb") as file:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise BadInput("it is no regular file")
            data = file.read(LONG_BYTES + 1)
    except FileNotFoundError:
        raise NotFound("there is no such file") from None
    except OSError as error:
        raise Failed(f"it cannot be read: {error.strerror}") from None
    if len(data) > LONG_BYTES:
        raise BadInput(f"it has more than {LONG_BYTES} bytes")
    return data


# -- conversations ----------------------------------------------------------------------------------------------------


def read_conversation(path: Path) -> Conversation:
    """The conversation in a JSON or YAML file. Raises BadInput, NotFound or Failed."""
    try:
        data = read_file(str(path))
        text = data.decode("utf-8-sig")
        ending = path.suffix.lower()
        if ending in (".yaml", ".yml"):
            document = from_yaml(text)
        else:
            document = _from_lines(text) if ending == ".jsonl" else _from_json(text)
        _must_be_shallow(document)
        return conversation(document)
    except UnicodeDecodeError as error:
        why = f"it is not UTF-8: byte {error.start + 1} is {error.object[error.start]:#04x}"
        raise BadInput(f"{path}: {why}") from None
    except NoConversation as error:
        raise BadInput(f"{path}: {error}") from None
    except (BadInput, NotFound, Failed) as error:
        raise type(error)(f"{path}: {error}") from None


def _from_json(text: str) -> Any:
    try:
        return json.loads(text)
    except RecursionError:
        raise BadInput(f"it has more than {LEVELS} levels") from None
    except ValueError as error:
        raise BadInput(f"it is no JSON: {error}") from None


def _from_lines(text: str) -> list[Any]:
    found = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                found.append(_from_json(line))
            except BadInput as error:
                raise BadInput(f"line {number}: {error}") from None
    return found


def from_yaml(text: str) -> Any:
    """The YAML document as text, lists and objects: nothing in it is taken for a date or a number. Raises BadInput."""
    from swarmd.config import yaml_text

    try:
        return yaml_text.read(text, deepest=LEVELS, nulls=True, tags=False)
    except yaml_text.TooMuch as error:
        raise BadInput(f"it has {error}; write it without, or as JSON (line {error.line})") from None
    except yaml_text.NoYaml as error:
        raise BadInput(f"it is no YAML: line {error.line}: {error}") from None


def _must_be_shallow(document: Any) -> None:
    level = [document]
    for _ in range(LEVELS + 1):
        level = [
            inner
            for one in level
            if isinstance(one, dict | list)
            for inner in (one.values() if isinstance(one, dict) else one)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return
    raise BadInput(f"it has more than {LEVELS} levels")
