"""The file tools as a program of their own, so that the sandbox of the session holds for them; standard library only.

One request as JSON on standard input, one answer on standard output: `{"text": ...}`, or `{"error": ...}`. Paths are
relative to the working folder, and what leads out of it is refused, whatever the sandbox would allow.
"""

from __future__ import annotations

import fnmatch
import json
import os
import re
import stat
import sys

TYPE_CHECKING = False  # typing costs half of the start
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

READ_BYTES = 256 * 1024
FILE_BYTES = 8 * 1024 * 1024
LINES, NAMES, MATCHES, WALKED = 2000, 500, 200, 50_000
LINE_CHARACTERS = 500


class Wrong(Exception):
    """What is to be said to the model."""


def main() -> None:
    """Answer one request."""
    try:
        request = json.load(sys.stdin)
        answer = {"text": _TOOLS[request["tool"]](request["args"])}
    except Wrong as wrong:
        answer = {"error": str(wrong)}
    except OSError as error:
        answer = {"error": f"{request['args'].get('path', 'the working folder')}: {error.strerror}"}
    except KeyError as error:
        answer = {"error": f"the argument {error} is missing"}
    except re.error as error:
        answer = {"error": f"regex is no regular expression: {error}"}
    except (TypeError, ValueError, AttributeError) as error:
        answer = {"error": f"the arguments cannot be used: {error}"}
    sys.stdout.write(json.dumps(answer))


def _place(path: str) -> str:
    """The real path, which is in the working folder."""
    root = os.path.realpath(".")
    real = os.path.realpath(os.path.join(root, path))
    if real != root and not real.startswith(root.rstrip("/") + "/"):
        raise Wrong(f"{path} leads out of the working folder {root}")
    return real


def _open(path: str) -> str:
    """A regular file's text, as far as one may read at once; a pipe or a device would hold us up for ever."""
    if os.path.isdir(_place(path)):
        raise Wrong(f"{path or '.'} is a folder; file_find lists what is in it")
    fd = os.open(_place(path), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise Wrong(f"{path} is no regular file")
        data = file.read(FILE_BYTES + 1)
    if len(data) > FILE_BYTES:
        raise Wrong(f"{path} has more than {FILE_BYTES} bytes; use another program for it")
    if b"\0" in data[:8192]:
        raise Wrong(f"{path} is no text")
    return data.decode("utf-8", "surrogateescape")


def _save(path: str, text: str) -> None:
    """Replace a file at once, so that nobody ever reads half of it; its mode stays."""
    real = _place(path)
    if os.path.isdir(real):
        raise Wrong(f"{path or '.'} is a folder")
    os.makedirs(os.path.dirname(real), exist_ok=True)
    mode = stat.S_IMODE(os.stat(real).st_mode) if os.path.exists(real) else 0o644
    temp = os.path.join(os.path.dirname(real), f".{os.path.basename(real)[:100]}.{os.getpid()}.tmp")
    fd = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(text.encode("utf-8", "surrogateescape"))
        os.chmod(temp, mode)
        os.replace(temp, real)
    except BaseException:
        os.unlink(temp)
        raise


def read(args: dict[str, Any]) -> str:
    """Numbered lines of a file."""
    lines = _open(str(args["path"])).split("\n")
    if lines[-1] == "":
        lines.pop()
    first = max(int(args.get("offset") or 1), 1)
    count = min(int(args.get("limit") or LINES), LINES)
    shown, size = [], 0
    for number, line in enumerate(lines[first - 1 : first - 1 + count], first):
        shown.append(f"{number:6}\t{_printable(line)}")
        size += len(line)
        if size > READ_BYTES:
            break
    rest = len(lines) - (first - 1 + len(shown))
    lines_left = f"{rest} more line{'' if rest == 1 else 's'}"
    note = [f"({lines_left}; go on with offset {first + len(shown)})"] if rest > 0 else []
    return "\n".join([*shown, *note]) or "(the file is empty)"


def write(args: dict[str, Any]) -> str:
    """A whole file."""
    path, text = str(args["path"]), args["text"]
    if not isinstance(text, str):
        raise Wrong("text must be text")
    _save(path, text)
    return f"{path}: {len(text.encode('utf-8', 'surrogateescape'))} bytes written"


def as_it_stands(text: str, old: str, new: str) -> tuple[str, str, int]:
    """`old` and `new` with the line ends that the text has where `old` stands in it, and how often it does.

    Models write LF, also of a file with the line ends of Windows; the file keeps its own.
    """
    plain = old.replace("\r\n", "\n")
    for form in (old, plain.replace("\n", "\r\n"), plain):
        if form in text:
            end = "\r\n" if "\r\n" in (form if "\n" in form else text) else "\n"
            return form, new.replace("\r\n", "\n").replace("\n", end), _count(text, form)
    return old, new, 0


def _count(text: str, part: str) -> int:
    """How often the part stands in the text, also where one place laps over another."""
    found, at = 0, text.find(part)
    while at >= 0:
        found, at = found + 1, text.find(part, at + 1)
    return found


def edit(args: dict[str, Any]) -> str:
    """One piece of a file by another."""
    path, old, new = str(args["path"]), args["old"], args["new"]
    if not isinstance(old, str) or not isinstance(new, str) or not old:
        raise Wrong("old and new must be texts, and old may not be empty")
    text = _open(path)
    old, new, found = as_it_stands(text, old, new)
    if found == 0:
        raise Wrong(f"{path} does not hold that text")
    if found > 1 and not args.get("all"):
        raise Wrong(f"{path} holds that text {found} times: give more of it, or set all")
    _save(path, text.replace(old, new))
    return f"{path}: {found} replaced"


def find(args: dict[str, Any]) -> str:
    """Names that match a pattern."""
    pattern = str(args.get("pattern") or "*")
    names = [name for name in _walk() if _fits(name, pattern)]
    names.sort()
    note = [f"({len(names) - NAMES} more)"] if len(names) > NAMES else []
    return "\n".join([*map(_printable, names[:NAMES]), *note]) or "(no file matches)"


def search(args: dict[str, Any]) -> str:
    """Lines that match a regular expression."""
    wanted, pattern = re.compile(str(args["regex"])), str(args.get("pattern") or "*")
    found: list[str] = []
    for name in sorted(_walk()):
        if not _fits(name, pattern):
            continue
        try:
            text = _open(name)
        except (Wrong, OSError):
            continue
        for number, line in enumerate(text.split("\n"), 1):
            if wanted.search(line):
                found.append(f"{_printable(name)}:{number}: {_printable(line[:LINE_CHARACTERS])}")
                if len(found) >= MATCHES:
                    return "\n".join([*found, "(more matches are not shown)"])
    return "\n".join(found) or "(no line matches)"


def _walk() -> Iterator[str]:
    """Every file of the working folder, without its repositories' own folders and without following links."""
    walked = 0
    for folder, folders, names in os.walk("."):
        folders[:] = [
            name for name in folders if name not in (".git", "node_modules", "__pycache__", ".venv")
        ]
        for name in names:
            walked += 1
            if walked > WALKED:
                return
            yield os.path.relpath(os.path.join(folder, name))


def _fits(name: str, pattern: str) -> bool:
    """`*.md` matches in every folder, `docs/*.md` from the working folder on."""
    return fnmatch.fnmatch(name if "/" in pattern else os.path.basename(name), pattern)


def _printable(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


_TOOLS = {"file_read": read, "file_write": write, "file_edit": edit, "file_find": find, "file_search": search}

if __name__ == "__main__":
    main()
