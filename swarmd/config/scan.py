"""Looks at the folder of agent files: what stands in it, what may not be trusted; what it means is not judged here.

A rescan reads again only what stat says has changed, so it may be done every few seconds; it sees every way of
saving, with or without events. A folder that cannot be read is a value, never an exception.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from swarmd.config.document import Document, read_document
from swarmd.config.files import FileRead, Guard, read_file
from swarmd.config.problems import Problem, printable
from swarmd.core.names import agent_name_problem

SUFFIX = ".toml"
_NAME_SHOWN = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderState:
    """Whether the folder could be looked at; `reason` is a sentence for a person where it could not."""

    kind: Literal["present", "missing", "unreadable", "unsafe"]
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScannedFile:
    """One `NAME.toml`: its document and the text of the prompt file that it names."""

    name: str
    file: str
    """The name under which problems speak of it, as `agents.d/bob.toml`."""
    read: FileRead
    document: Document
    prompt: FileRead | None = None

    def says_same_as(self, other: ScannedFile) -> bool:
        """Whether both hold the same text, also where the file was saved anew in between."""
        if self.document is not other.document or (self.prompt is None) != (other.prompt is None):
            return False
        return self.prompt is None or other.prompt is None or self.prompt.says_same_as(other.prompt)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """The folder at one moment. `files` by agent name; names that name no agent are in `strays`."""

    folder: Path
    state: FolderState
    files: Mapping[str, ScannedFile] = field(default_factory=dict)
    strays: tuple[Problem, ...] = ()

    @property
    def settled(self) -> bool:
        """False while a file was saved within the last seconds: a writer may not have finished yet."""
        reads = [
            read for file in self.files.values() for read in (file.read, file.prompt) if read is not None
        ]
        return all(read.settled or read.data is None for read in reads)

    def says_same_as(self, other: Scan) -> bool:
        """Whether nothing that matters differs, so that there is nothing to load anew."""
        if self.folder != other.folder or self.state != other.state or self.strays != other.strays:
            return False
        if self.files.keys() != other.files.keys():
            return False
        return all(file.says_same_as(other.files[name]) for name, file in self.files.items())


def scan_folder(folder: Path, *, guard: Guard, now_ns: int, previous: Scan | None = None) -> Scan:
    """The folder now; what `previous` has read is not read again where stat says that it is unchanged."""
    if previous is not None and previous.folder != folder:
        previous = None
    listed = _listed(folder, guard)
    if isinstance(listed, FolderState):
        return Scan(folder=folder, state=listed)
    files: dict[str, ScannedFile] = {}
    strays: list[Problem] = []
    for file_name in listed:
        shown = f"{printable(folder.name)}/{printable(file_name[:_NAME_SHOWN])}"
        name = file_name.removesuffix(SUFFIX)
        problem = _name_problem(file_name, name)
        if problem is not None:
            strays.append(Problem(file=shown, text=problem))
            continue
        before = previous.files.get(name) if previous is not None else None
        found = _scan_file(folder / file_name, shown, guard, now_ns, before)
        if found is not None:
            files[name] = found
    return Scan(folder=folder, state=FolderState(kind="present"), files=files, strays=tuple(strays))


def scan_files(paths: list[Path], *, guard: Guard, now_ns: int) -> Scan:
    """The given files as if a folder held just them: for checks of files before they are installed."""
    files: dict[str, ScannedFile] = {}
    strays: list[Problem] = []
    for path in paths:
        shown = printable(str(path))
        name = path.name.removesuffix(SUFFIX)
        problem = _name_problem(path.name, name)
        if problem is None and name in files:
            problem = f"another of the given files is named {path.name} too"
        found = None if problem else _scan_file(path, shown, guard, now_ns, None)
        if found is None:
            strays.append(Problem(file=shown, text=problem or "does not exist"))
        else:
            files[name] = found
    folder = paths[0].parent if paths else Path()
    return Scan(folder=folder, state=FolderState(kind="present"), files=files, strays=tuple(strays))


def _listed(folder: Path, guard: Guard) -> list[str] | FolderState:
    """The names that end in `.toml`, sorted, or why there are none to be had."""
    try:
        problem = _folder_problem(folder, guard)
        if problem is not None:
            return FolderState(kind="unsafe", reason=f"{folder} is {problem}")
        names = [name for name in os.listdir(folder) if _is_meant(name)]
    except FileNotFoundError:
        return FolderState(kind="missing", reason=f"{folder} does not exist")
    except OSError as error:
        return FolderState(kind="unreadable", reason=f"{folder} cannot be read: {error.strerror or error}")
    return sorted(names)


def _folder_problem(folder: Path, guard: Guard) -> str | None:
    """Why this folder is refused: who may write it may put any file in place of another.

    A sticky one only takes new files, which are refused for their owner.
    """
    status = os.stat(folder)
    if status.st_mode & stat.S_ISVTX:
        return guard.owner_problem(status)
    return guard.problem(status)


def _is_meant(file_name: str) -> bool:
    """Editors leave `.a.toml.swp`, `a.toml~` and `4913`; `a.TOML` is a person's."""
    return file_name.lower().endswith(SUFFIX) and not file_name.startswith(".")


def _name_problem(file_name: str, name: str) -> str | None:
    if not file_name.endswith(SUFFIX):
        return f"only files that end in {SUFFIX}, in small letters, are read"
    return agent_name_problem(name)


def _scan_file(
    path: Path, shown: str, guard: Guard, now_ns: int, before: ScannedFile | None
) -> ScannedFile | None:
    """The file, or None where it has gone since the folder was listed."""
    read = read_file(path, guard, now_ns, before.read if before is not None else None)
    if read.missing:
        return None
    document = (
        before.document if before is not None and before.read.says_same_as(read) else _document(shown, read)
    )
    prompt = None
    named = document.data.get("system_prompt_file")
    if isinstance(named, str) and named and "\x00" not in named:
        known = before.prompt if before is not None else None
        prompt_path = path.parent / named
        prompt = read_file(
            prompt_path, guard, now_ns, known if known is not None and known.path == prompt_path else None
        )
    if before is not None and read is before.read and document is before.document and prompt is before.prompt:
        return before
    return ScannedFile(
        name=path.name.removesuffix(SUFFIX), file=shown, read=read, document=document, prompt=prompt
    )


def _document(shown: str, read: FileRead) -> Document:
    if read.data is None:
        return Document(file=shown, problem=Problem(file=shown, text=read.problem or "cannot be read"))
    return read_document(shown, read.data)
