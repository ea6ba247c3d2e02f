"""A person who saves a memory file while a session runs: in the way of several editors, at a chosen moment."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

STYLES = ("none", "vim", "atomic", "nano", "code", "append", "twice", "delete")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """`moment` is the call at which the person saves: 0 before the session, -1 after it (or after its death)."""

    style: str = "none"
    moment: int = 0
    variant: str = "edits"
    """Of the story that is told: see STORIES."""
    stale: bool = False

    @property
    def moments(self) -> tuple[int, ...]:
        """The calls before which the person acts."""
        if self.moment <= 0:
            return ()
        return (self.moment, self.moment + 2) if self.style in ("nano", "vim", "twice") else (self.moment,)

    def __str__(self) -> str:
        return f"{self.style}@{self.moment}{'-stale' if self.stale else ''}/{self.variant}"


class Person:
    """Saves MEMORY.md once, in one or two steps, as an editor does."""

    def __init__(self, scenario: Scenario, folder: Path) -> None:
        """`folder` holds the file, whose first line is `# Notes`."""
        self._scenario = scenario
        self._file = folder / "MEMORY.md"
        self._loaded = self._file.read_bytes() if scenario.stale else None
        self._steps: Iterator[None] | None = None
        self.saved: bytes | None = None
        self.lines: list[str] = []
        self.deleted = False

    def act(self) -> None:
        """Begin, or go on where the last step ended."""
        if self._steps is None:
            self._steps = getattr(self, f"_{self._scenario.style}")()
        next(self._steps, None)

    def go_on(self) -> None:
        """The session waits: do the next step, if one has begun."""
        if self._steps is not None:
            next(self._steps, None)

    def finish(self, *, also_begin: bool) -> None:
        if self._steps is None and also_begin:
            self.act()
        for _ in self._steps or ():
            pass

    def _text(self) -> bytes:
        data = self._current() if self._loaded is None else self._loaded
        self.lines.append("- PERSON was here\n")
        return data.replace(b"# Notes\n", b"# Notes\n- PERSON was here\n")

    def _current(self) -> bytes:
        try:
            return self._file.read_bytes()
        except FileNotFoundError:
            return b"# Notes\n"

    def _none(self) -> Iterator[None]:
        yield from ()

    def _vim(self) -> Iterator[None]:
        text = self._text()
        backup = self._file.with_name("MEMORY.md~")
        if self._file.exists():
            self._file.rename(backup)
        yield
        self._write(text, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        self.saved = text
        backup.unlink(missing_ok=True)
        yield

    def _atomic(self) -> Iterator[None]:
        text = self._text()
        part = self._file.with_name(".MEMORY.md.new")
        part.write_bytes(text)
        part.rename(self._file)
        self.saved = text
        yield

    def _nano(self) -> Iterator[None]:
        text = self._text()
        fd = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.write(fd, text[: len(text) // 2])
        yield
        os.write(fd, text[len(text) // 2 :])
        os.close(fd)
        self.saved = text
        yield

    def _code(self) -> Iterator[None]:
        text = self._text()
        self._write(text, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        self.saved = text
        yield

    def _twice(self) -> Iterator[None]:
        """Two saves, of which the first may be seen or not."""
        for line in (b"- PERSON was here\n", b"- PERSON came again\n"):
            part = self._file.with_name(".MEMORY.md.new")
            part.write_bytes(self._current().replace(b"# Notes\n", b"# Notes\n" + line))
            part.rename(self._file)
            self.lines.append(line.decode())
            self.saved = b""
            yield

    def _append(self) -> Iterator[None]:
        """`echo ... >> MEMORY.md`: what it lands in is known only afterwards, so that the line alone is looked for."""
        self.lines.append("- PERSON was here\n")
        fd = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        yield
        os.write(fd, b"- PERSON was here\n")
        os.close(fd)
        self.saved = b""
        yield

    def _delete(self) -> Iterator[None]:
        self._file.unlink(missing_ok=True)
        self.deleted = True
        yield

    def _write(self, text: bytes, flags: int) -> None:
        fd = os.open(self._file, flags, 0o644)
        os.write(fd, text)
        os.fsync(fd)
        os.close(fd)
