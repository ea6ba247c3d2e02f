"""Reads swarmd.toml: the daemon's own settings, and the `[defaults]` that every agent file is laid over.

Nothing of a bad file counts: the settings read before stay in force. Where there are none yet (at start), the
daemon's built-in settings apply and the defaults are *unknown*, so that no agent's definition may change.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from swarmd.config.complaints import complaints, with_nul
from swarmd.config.document import Document, Undecodable, read_document, text_of
from swarmd.config.fields import DAY, Seconds
from swarmd.config.files import FileRead, Guard, read_file
from swarmd.config.kinds import Kinds
from swarmd.config.merge import normal, without
from swarmd.config.model import AgentFile, Table
from swarmd.config.problems import Complaint, Problem, printable, shown
from swarmd.config.runner_table import check_runner

Reloading = Literal["auto", "manual"]


class DaemonTable(Table):
    """The `[daemon]` table."""

    max_sessions: int = Field(default=8, ge=1, le=10_000)
    max_processes: int | None = Field(default=None, ge=1, le=100_000)
    drain_timeout: Annotated[float, Seconds(0, DAY)] = 60.0
    reload: Reloading = "auto"


class SettingsFile(Table):
    """swarmd.toml as pydantic reads it; `defaults` are checked as an agent file of their own."""

    daemon: DaemonTable = DaemonTable()
    defaults: dict[str, Any] = Field(default={})


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    """The `[defaults]` in force: checked plain values, the document they stand in, and their prompt file's text."""

    raw: Mapping[str, Any] = field(default_factory=dict)
    document: Document = field(default_factory=lambda: Document(file="swarmd.toml"))
    prompt: str | None = None
    unsound: frozenset[str] = frozenset()
    """Top-level names of which something is left out, because it has problems."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What swarmd.toml says, or said before it became bad; `problems` are those of the file as it stands now."""

    max_sessions: int = 8
    max_processes: int
    drain_timeout_seconds: float = 60.0
    reload: Reloading = "auto"
    defaults: Defaults | None = field(default_factory=Defaults)
    """None: unknown, because the file is bad and nothing good was read before."""
    sound: Defaults = field(default_factory=Defaults)
    """What is right of the `[defaults]` as they stand now: nothing takes force by it, but the other files can be judged
    by it.
    """
    problems: tuple[Problem, ...] = ()
    read: FileRead | None = None
    prompt_read: FileRead | None = None


def built_in_settings() -> Settings:
    """What holds without a file."""
    return Settings(max_processes=2 * len(os.sched_getaffinity(0)))


def read_settings(
    path: Path,
    *,
    kinds: Kinds,
    guard: Guard,
    now_ns: int,
    previous: Settings | None = None,
    required: bool = False,
) -> Settings:
    """The settings now, and `previous` itself where nothing has changed.

    A missing file is a problem only where it is `required` (because someone named it).
    """
    known = previous.read if previous is not None else None
    read = read_file(path, guard, now_ns, known if known is not None and known.path == path else None)
    label = printable(path.name)
    document = _document(label, read, required)
    prompt_read = _prompt_read(document, path.parent, guard, now_ns)
    if previous is not None and _same(previous.read, read) and _same(previous.prompt_read, prompt_read):
        return previous if previous.read == read else dataclasses.replace(previous, read=read)
    found = _settings(document, path.parent, prompt_read, kinds)
    if isinstance(found, Settings):
        return dataclasses.replace(found, read=read, prompt_read=prompt_read)
    problems, sound = found
    good = previous or dataclasses.replace(built_in_settings(), defaults=None)
    return dataclasses.replace(good, problems=problems, sound=sound, read=read, prompt_read=prompt_read)


def _same(before: FileRead | None, now: FileRead | None) -> bool:
    if before is None or now is None:
        return before is now
    return before.says_same_as(now)


def _document(label: str, read: FileRead, required: bool) -> Document:
    if read.missing and not required:
        return Document(file=label)
    if read.data is None:
        return Document(file=label, problem=Problem(file=label, text=read.problem or "cannot be read"))
    return read_document(label, read.data)


def _prompt_read(document: Document, folder: Path, guard: Guard, now_ns: int) -> FileRead | None:
    defaults = document.data.get("defaults")
    named = defaults.get("system_prompt_file") if isinstance(defaults, dict) else None
    if not isinstance(named, str) or not named or "\x00" in named:
        return None
    return read_file(folder / named, guard, now_ns)


def _settings(
    document: Document, folder: Path, prompt_read: FileRead | None, kinds: Kinds
) -> Settings | tuple[tuple[Problem, ...], Defaults]:
    """The settings of a good document; or all its problems, and what is right of its `[defaults]`."""
    if document.problem is not None:
        return (document.problem,), Defaults(document=document, unsound=frozenset(AgentFile.model_fields))
    model, found = complaints(SettingsFile, document.data)
    raw = document.data.get("defaults", {})
    prompt: str | None = None
    if isinstance(raw, dict):
        raw = normal(raw, str(folder))
        found += _defaults_complaints(raw, kinds)
        prompt, complaint = prompt_text(prompt_read, raw.get("system_prompt_file"))
        found += [_under_defaults(complaint)] if complaint is not None else []
    found = with_nul(found, document.data)
    defaults = Defaults(raw=raw if isinstance(raw, dict) else {}, document=document, prompt=prompt)
    if found:
        problems = sorted((document.located(one) for one in found), key=lambda problem: problem.line or 0)
        return tuple(problems), _sound(defaults, found)
    daemon = model.daemon
    built_in = built_in_settings()
    return Settings(
        max_sessions=daemon.max_sessions,
        max_processes=daemon.max_processes or built_in.max_processes,
        drain_timeout_seconds=daemon.drain_timeout,
        reload=daemon.reload,
        defaults=defaults,
    )


def _sound(defaults: Defaults, found: Sequence[Complaint]) -> Defaults:
    paths = [complaint.path[1:] for complaint in found if complaint.path[:1] == ("defaults",)]
    return dataclasses.replace(
        defaults, raw=without(defaults.raw, paths), unsound=frozenset(str(path[0]) for path in paths if path)
    )


def prompt_text(read: FileRead | None, written: object) -> tuple[str | None, Complaint | None]:
    """The text of a prompt file, or the complaint about it (`written` is how it is named); neither where none is."""
    if read is None:
        return None, None
    text = text_of(read)
    path = ("system_prompt_file",)
    shown_path = shown(written)
    if isinstance(text, Undecodable):
        line = f" on line {text.line}" if text.line is not None else ""
        return None, Complaint(path=path, text=f"{shown_path} {text.reason}{line}", found=shown_path)
    if not text.strip():
        return None, Complaint(path=path, text=f"{shown_path} is empty", found=shown_path)
    if "\x00" in text:
        return None, Complaint(path=path, text=f"{shown_path} holds a NUL character", found=shown_path)
    return text, None


def _defaults_complaints(raw: Mapping[str, Any], kinds: Kinds) -> list[Complaint]:
    _, found = complaints(AgentFile, raw)
    if "runner" in raw:
        found += check_runner(raw["runner"], kinds, partial=True)[2]
    if "system_prompt" in raw and "system_prompt_file" in raw:
        found.append(
            Complaint(path=("system_prompt_file",), text="only one of it and `system_prompt` may be there")
        )
    return [_under_defaults(one) for one in found]


def _under_defaults(complaint: Complaint) -> Complaint:
    return dataclasses.replace(complaint, path=("defaults", *complaint.path))
