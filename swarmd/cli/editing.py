"""Lets a person edit a copy of a text in their editor; what they wrote is never lost, whatever fails after it."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from swarmd.cli import output
from swarmd.errors import BadInput, Failed

_EDITORS = ("sensible-editor", "vi", "nano")


@contextmanager
def edit_copy(environ: Mapping[str, str], name: str, before: bytes) -> Iterator[str | None]:
    """The text after editing, or None where it is unchanged. If the block fails, the copy stays and is named."""
    folder = Path(tempfile.mkdtemp(prefix="swarmd-edit-"))
    copy = folder / (Path(name).name or "text")
    keep = False
    try:
        copy.write_bytes(before)
        _run_editor(environ, copy)
        after = copy.read_bytes()
        keep = after != before
        yield _text(after) if keep else None
        keep = False
    finally:
        if keep:
            output.note(f"what you wrote is kept in {copy}")
        else:
            shutil.rmtree(folder, ignore_errors=True)


def _run_editor(environ: Mapping[str, str], copy: Path) -> None:
    chosen = environ.get("VISUAL") or environ.get("EDITOR")
    if not chosen:
        _must_have_a_terminal()
        chosen = next(filter(shutil.which, _EDITORS), "vi")
    try:
        command = [*shlex.split(chosen), os.fspath(copy)]
        status = subprocess.run(command, check=False).returncode
    except ValueError as error:
        raise BadInput(f"EDITOR is {chosen!r}: {error}") from None
    except OSError as error:
        raise Failed(f"the editor {chosen!r} cannot be started: {error.strerror}; set EDITOR") from None
    if status:
        raise Failed(f"the editor {chosen!r} ended with status {status}: nothing is changed")


def _must_have_a_terminal() -> None:
    """An editor that nobody has named waits for keys. One that somebody has named may be a script, and is run."""
    if not all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout)):
        raise BadInput(
            "an editor needs a terminal, and here is none: give the text with `swarmd memory write AGENT FILE - "
            "--base REV` (REV: the revision that you have read) or `swarmd memory append AGENT FILE -`, or set EDITOR "
            "to a program that needs none"
        )


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadInput(
            f"the edited text is not UTF-8: byte {error.start + 1} is {data[error.start]:#04x}"
        ) from None
