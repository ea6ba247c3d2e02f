"""The shim that kills a process at a chosen call, as Python sees it: compiled on first use, loaded before libc."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from pathlib import Path

SOURCE = Path(__file__).with_name("shim.c")


def compiler() -> str | None:
    return shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


def build(folder: Path) -> Path:
    made = folder / "shim.so"
    cc = compiler()
    assert cc is not None, "there is no C compiler"
    subprocess.run(
        [cc, "-shared", "-fPIC", "-O1", "-Wall", "-D_LARGEFILE64_SOURCE", "-o", made, SOURCE], check=True
    )
    return made


class Shim:
    """Only in a process that was started with LD_PRELOAD."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(os.environ["LD_PRELOAD"])
        self.ask = self._library.crash_ask

    def arm(self, at: int, *, torn: bool = False, pipes: tuple[int, int] = (-1, -1), journal: int = -1,
            moments: tuple[int, ...] = ()) -> None:  # fmt: skip
        when = (ctypes.c_int * max(len(moments), 1))(*moments)
        self._library.crash_arm(at, int(torn), pipes[0], pipes[1], journal, when, len(moments))

    def disarm(self) -> int:
        return self._library.crash_disarm()
