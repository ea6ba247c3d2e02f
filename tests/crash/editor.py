"""A person at MEMORY.md, as a program: loads it, thinks, puts in a line and saves, in the way of several editors.

What was saved is written down. Between two people their editors warn: who has loaded what the other saved, or would save
over that, and finds the file changed, loads anew. Else what swarmd has written since is not looked at: such a save is
stale. It imports nothing but the standard library.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

STYLES = ("vim", "atomic", "nano", "code", "append")
LOADS = 50


class Editor:
    def __init__(self, file: Path, desk: Path, name: str, seed: str, words: str) -> None:
        """`desk` is the folder that both people share; `words` make a line, with the name and a number."""
        self._file, self._desk, self._name, self._words = file, desk, name, words
        self._chance = random.Random(seed)
        self._number = 0

    def work(self, until: Callable[[], bool]) -> None:
        while not until():
            with suppress(FileNotFoundError):
                self._once()

    def _once(self) -> None:
        chance = self._chance
        self._number += 1
        line = f"- {self._name} {self._number}: {self._words}\n"
        style = chance.choice(STYLES)
        for _ in range(LOADS):
            with self._alone():
                loaded = self._file.read_bytes()
            time.sleep(chance.choice((0.0, 0.0, 0.01, 0.05, 0.3)))
            with self._alone():
                now = self._file.read_bytes()
                changed = style != "append" and now != loaded
                if changed and (self._is_a_persons(loaded) or self._is_a_persons(now)):
                    continue  # "the file has changed since reading it": load it again
                self._tell("begun", line)
                self._save(style, loaded, line)
                self._tell("saved", line)
                return

    def _save(self, style: str, loaded: bytes, line: str) -> None:
        if style == "append":
            fd = os.open(self._file, os.O_WRONLY | os.O_APPEND)
            os.write(fd, line.encode())
            os.close(fd)
            self._note(self._file.read_bytes())
            return
        lines = loaded.splitlines(keepends=True)
        at = self._chance.choice((min(1, len(lines)), len(lines) // 2, len(lines)))
        text = b"".join([*lines[:at], line.encode(), *lines[at:]])
        self._note(text)
        getattr(self, f"_{style}")(text)

    def _vim(self, text: bytes) -> None:
        backup = self._file.with_name("MEMORY.md~")
        self._file.rename(backup)
        self._pause()
        self._write(self._file, text)
        backup.unlink(missing_ok=True)

    def _atomic(self, text: bytes) -> None:
        part = self._file.with_name(f".MEMORY.md.{self._name}.new")
        self._write(part, text)
        part.rename(self._file)

    def _nano(self, text: bytes) -> None:
        fd = os.open(self._file, os.O_WRONLY | os.O_TRUNC)
        os.write(fd, text[: len(text) // 2])
        self._pause()
        os.write(fd, text[len(text) // 2 :])
        os.close(fd)

    def _code(self, text: bytes) -> None:
        self._write(self._file, text)

    def _pause(self) -> None:
        time.sleep(self._chance.choice((0.0, 0.002, 0.02)))

    def _write(self, file: Path, text: bytes) -> None:
        fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.write(fd, text)
        os.close(fd)

    # -- the other person -----------------------------------------------------------------------------------

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """The other person does not save, so that nobody loads half of a text."""
        with (self._desk / "lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _note(self, text: bytes) -> None:
        with (self._desk / "saved").open("a") as file:
            file.write(f"{hashlib.sha256(text).hexdigest()}\n")

    def _is_a_persons(self, text: bytes) -> bool:
        try:
            return hashlib.sha256(text).hexdigest() in (self._desk / "saved").read_text()
        except FileNotFoundError:
            return False

    def _tell(self, what: str, line: str) -> None:
        with (self._desk / f"{self._name}.{what}").open("a") as file:
            file.write(line)


def main() -> None:
    file, desk, name, seed, words = sys.argv[1:]
    stop, parent = Path(desk) / "stop", os.getppid()
    Editor(Path(file), Path(desk), name, seed, words).work(lambda: stop.exists() or os.getppid() != parent)


if __name__ == "__main__":
    main()
