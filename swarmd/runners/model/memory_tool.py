"""The model's own memory tool (memory_20250818), on the session's staged memory: /memories is its folder.

Its commands are made of the desk's calls memory_list, memory_show, memory_write and memory_delete, so that sizes,
names, read-only files and authority are judged where everything is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from swarmd.core.counts import counted
from swarmd.core.memory import ARCHIVE, is_archive
from swarmd.core.wire import Reply
from swarmd.runners.model.answers import JSON
from swarmd.runners.model.file_tool import as_it_stands
from swarmd.runners.model.loop import Called
from swarmd.runners.model.toolbox import DeskPort

ROOT = "/memories"
LINES = 999_999
"""More cannot be numbered in a column of six."""


_LINE = re.compile(r"[^\n]*\n|[^\n]+")


class _Wrong(Exception):
    """What is to be said to the model."""


class MemoryKit:
    """The memory tool. What a command needs is read first and written last: it changes all or nothing of a file."""

    def __init__(self, desk: DeskPort) -> None:
        self._desk = desk
        self._held = ""
        """What the desk has said of a change that is to wait, in the command under way."""
        self._commands: dict[str, Callable[[Mapping[str, Any]], Coroutine[Any, Any, str]]] = {
            "view": self._view, "create": self._create, "str_replace": self._replace, "insert": self._insert,
            "delete": self._delete, "rename": self._rename,
        }  # fmt: skip

    @property
    def definitions(self) -> list[JSON]:
        """As the Messages API takes it."""
        return [{"type": "memory_20250818", "name": "memory"}]

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Called:
        """One command."""
        command = self._commands.get(str(arguments.get("command")))
        if command is None:
            return Called(text=f"memory: command is one of {', '.join(self._commands)}", error=True)
        self._held = ""
        try:
            text = await command(arguments)
            return Called(text=f"{text} (staged; {self._held})" if self._held else text)
        except _Wrong as wrong:
            return Called(text=str(wrong), error=True)

    async def _view(self, args: Mapping[str, Any]) -> str:
        path = _path(args, "path", root=True)
        files = await self._files()
        if path in files:
            return _numbered(path, await self._read(path), args.get("view_range"))
        inside = {name: size for name, size in files.items() if not path or name.startswith(f"{path}/")}
        if not inside and path:
            raise _Wrong(f"The path {ROOT}/{path} does not exist. Please provide a valid path.")
        archived = [] if path else [name for name in inside if is_archive(name)]
        total = sum(inside.pop(name) for name in archived)
        lines = [f"{size}B\t{ROOT}/{name}" for name, size in sorted(inside.items())]
        if archived:
            lines.append(f"{total}B\t{ROOT}/{ARCHIVE} ({counted(len(archived), 'older text')})")
        return "\n".join([f"Here are the files in {_full(path)}, with their sizes:", *lines])

    async def _create(self, args: Mapping[str, Any]) -> str:
        path = _path(args, "path")
        if path in await self._files():
            raise _Wrong(f"Error: File {ROOT}/{path} already exists")
        await self._write(path, _text(args, "file_text"))
        return f"File created successfully at: {ROOT}/{path}"

    async def _replace(self, args: Mapping[str, Any]) -> str:
        path, old, new = _path(args, "path"), _text(args, "old_str"), _text(args, "new_str", optional=True)
        text = await self._read(path)
        if not old:
            raise _Wrong("No replacement was performed, old_str is empty.")
        old, new, found = as_it_stands(text, old, new)
        if found == 0:
            raise _Wrong(f"No replacement was performed, old_str did not appear verbatim in {ROOT}/{path}.")
        if found > 1:
            lines = ", ".join(str(n) for n in _lines_of(text, old))
            raise _Wrong(
                f"No replacement was performed. old_str appears {found} times, in lines: {lines}. Please make it unique"
            )
        await self._write(path, text.replace(old, new, 1))
        return "The memory file has been edited."

    async def _insert(self, args: Mapping[str, Any]) -> str:
        path, text, line = _path(args, "path"), _text(args, "insert_text"), args.get("insert_line")
        old = await self._read(path)
        lines = _LINE.findall(old)
        end = "\r\n" if "\r\n" in old else "\n"
        text = text.replace("\r\n", "\n").removesuffix("\n").replace("\n", end) + end
        if isinstance(line, bool) or not isinstance(line, int) or not 0 <= line <= len(lines):
            raise _Wrong(
                f"Error: Invalid `insert_line` parameter: {line!r}. It should be within [0, {len(lines)}]"
            )
        if line and not lines[line - 1].endswith("\n"):
            lines[line - 1] += end
        lines.insert(line, text)
        await self._write(path, "".join(lines))
        return f"The file {ROOT}/{path} has been edited."

    async def _delete(self, args: Mapping[str, Any]) -> str:
        path = _path(args, "path")
        for name in await self._at(path):
            await self._ask("memory_delete", file=name)
        return f"Successfully deleted {ROOT}/{path}"

    async def _rename(self, args: Mapping[str, Any]) -> str:
        old, new = _path(args, "old_path"), _path(args, "new_path")
        files = await self._files()
        if new in files or any(name.startswith(f"{new}/") for name in files):
            raise _Wrong(f"Error: The destination {ROOT}/{new} already exists")
        for name in await self._at(old):
            await self._write(new + name.removeprefix(old), await self._read(name))
            await self._ask("memory_delete", file=name)
        return f"Successfully renamed {ROOT}/{old} to {ROOT}/{new}"

    # -- by the desk ----------------------------------------------------------------------------------------

    async def _at(self, path: str) -> list[str]:
        """The file, or every file of the folder."""
        files = await self._files()
        found = [path] if path in files else [name for name in files if name.startswith(f"{path}/")]
        if not found:
            raise _Wrong(f"Error: The path {ROOT}/{path} does not exist")
        return sorted(found)

    async def _files(self) -> dict[str, int]:
        value = (await self._ask("memory_list")).value
        return {str(item["file"]): int(item["bytes"]) for item in value["items"]}

    async def _read(self, path: str) -> str:
        value = (await self._ask("memory_show", file=path)).value
        if value.get("base64") is not None:
            raise _Wrong(f"{ROOT}/{path} is no text in UTF-8")
        return str(value["text"])

    async def _write(self, path: str, text: str) -> None:
        await self._ask("memory_write", file=path, text=text)

    async def _ask(self, call: str, **args: Any) -> Reply:
        reply = await self._desk.ask(call, args)
        if reply.error is not None:
            raise _Wrong(f"Error: {reply.error}")
        if isinstance(reply.value, dict):
            self._held = str(reply.value.get("held") or self._held)
        return reply


def _path(args: Mapping[str, Any], name: str, *, root: bool = False) -> str:
    """A path below /memories, as the desk names it; what else is wrong with it the desk says."""
    value = args.get(name)
    if not isinstance(value, str) or (value != ROOT and not value.startswith(f"{ROOT}/")):
        raise _Wrong(f"Error: {name} must be a path that starts with {ROOT}")
    path = value.removeprefix(ROOT).strip("/")
    if not path and not root:
        raise _Wrong(f"Error: {name} names the folder {ROOT} itself")
    return path


def _full(path: str) -> str:
    return f"{ROOT}/{path}" if path else ROOT


def _text(args: Mapping[str, Any], name: str, *, optional: bool = False) -> str:
    value = args.get(name, "" if optional else None)
    if not isinstance(value, str):
        raise _Wrong(f"Error: {name} is missing or is no text")
    return value


def _numbered(path: str, text: str, view_range: Any) -> str:
    lines = [line.removesuffix("\n").removesuffix("\r") for line in _LINE.findall(text)]
    if len(lines) > LINES:
        raise _Wrong(f"File {ROOT}/{path} exceeds maximum line limit of {LINES} lines.")
    first, last = 1, len(lines)
    if isinstance(view_range, list) and len(view_range) == 2 and all(isinstance(n, int) for n in view_range):
        first = max(view_range[0], 1)
        last = last if view_range[1] == -1 else view_range[1]
    shown = [f"{number:6}\t{line}" for number, line in enumerate(lines, 1) if first <= number <= last]
    return "\n".join([f"Here's the content of {ROOT}/{path} with line numbers:", *shown])


def _lines_of(text: str, part: str) -> list[int]:
    found: list[int] = []
    at = text.find(part)
    while at >= 0 and len(found) < 20:
        found.append(text.count("\n", 0, at) + 1)
        at = text.find(part, at + 1)
    return found
