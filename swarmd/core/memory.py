"""Which paths and sizes a memory folder may have, and what its globs match; nothing here opens a file."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from functools import lru_cache

from swarmd.core.text import one_line

PATH_PARTS = 4
PART_BYTES = 100
FIRST_FILE = "MEMORY.md"
FIRST_FILE_BYTES = 1024 * 1024
FOLDER_BYTES = 16 * 1024 * 1024
FOLDER_FILES = 1000
ARCHIVE = "archive/"
"""Where swarmd itself puts older texts. They stay, in whatever number: they count against no limit of the folder, and
no session is given them by itself."""

_RESERVED = f"{ARCHIVE} is the folder of older texts, and nothing else may have its name"
_FULL = re.compile(
    r"memory full: (?P<path>.+?) has (?P<size>[\d,]+) bytes and may have [\d,]+; with this ", re.DOTALL
)
_KNOWN = 16 * FOLDER_FILES
"""Paths of which is remembered what they are: where many files come at once each is looked at with each."""


@lru_cache(maxsize=_KNOWN)
def path_problem(path: str) -> str | None:
    """Why `path` may not name a memory file, or None where it may."""
    if not path:
        return "a memory path may not be empty"
    parts = path.split("/")
    if parts[0] != ARCHIVE[:-1] == _folded(parts[0]):
        return f"{_shown(path)}: {_RESERVED}"
    if len(parts) > PATH_PARTS:
        return f"{_shown(path)}: a memory path has up to {PATH_PARTS} parts; this one has {len(parts)}"
    for part in parts:
        problem = _part_problem(part)
        if problem is not None:
            return f"{_shown(path)}: {problem}"
    if path != FIRST_FILE and _folded(parts[0]) == _folded(FIRST_FILE):
        return (
            f"{_shown(path)}: {FIRST_FILE} is always a file of this very name, and nothing else may have it"
        )
    return None


def _part_problem(part: str) -> str | None:
    if not part:
        return "a memory path may not start or end with '/', nor hold '//'"
    if part.startswith("."):
        return "no part of a memory path may start with a dot"
    try:
        size = len(part.encode("utf-8"))
    except UnicodeEncodeError:
        return "a memory path must be UTF-8; this one holds bytes that are not"
    if size > PART_BYTES:
        return f"each part of a memory path may have {PART_BYTES} bytes; this one has {size}"
    # Line and paragraph separators break a listing just as control characters do.
    if any(unicodedata.category(char) in ("Cc", "Zl", "Zp") for char in part):
        return "a memory path may not hold control characters"
    if not unicodedata.is_normalized("NFC", part):
        return "a memory path must be in Unicode's composed form (NFC)"
    return None


def is_archive(path: str) -> bool:
    """Whether it is one of the older texts that swarmd keeps."""
    return path.startswith(ARCHIVE)


def _shown(path: str) -> str:
    return f"'{one_line(path if len(path) <= 120 else path[:117] + '...')}'"


def tree_problems(paths: Iterable[str]) -> list[str]:
    """Every reason why these paths may not stand in one folder together; each path by itself included."""
    names = sorted(set(paths))
    problems = [problem for problem in map(path_problem, names) if problem is not None]
    count = sum(not is_archive(name) for name in names)
    if count > FOLDER_FILES:
        problems.append(
            f"a memory folder may have {FOLDER_FILES} files; this one has {count}: remove or join some"
        )
    if ARCHIVE[:-1] in names:
        problems.append(f"{_shown(ARCHIVE[:-1])}: {_RESERVED}")
    return problems + _twins(names)


def _twins(names: list[str]) -> list[str]:
    """Names that some file system or reader takes for one, and files that would have to be folders too."""
    seen: dict[str, str] = {}
    files = set(names)
    problems: list[str] = []
    for path in names:
        parts = path.split("/")
        for count in range(1, len(parts) + 1):
            prefix = "/".join(parts[:count])
            twin = seen.setdefault(_folded(prefix), prefix)
            if twin != prefix:
                problems.append(f"{_shown(prefix)} and {_shown(twin)} differ only in case")
            elif count < len(parts) and prefix in files:
                problems.append(f"{_shown(prefix)} is a file, so that {_shown(path)} cannot stand in it")
    return list(dict.fromkeys(problems))


@lru_cache(maxsize=_KNOWN)
def _folded(path: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())


def file_limit(path: str) -> int:
    """How many bytes the file under `path` may have."""
    return FIRST_FILE_BYTES if path == FIRST_FILE else FOLDER_BYTES


def size_problems(sizes: Iterable[tuple[str, int]]) -> list[str]:
    """Every limit in bytes that files of these sizes go over."""
    problems = []
    total = 0
    for path, size in sizes:
        total += 0 if is_archive(path) else size
        if size > file_limit(path):
            problems.append(too_large(path, size, file_limit(path)))
    if total > FOLDER_BYTES:
        problems.append(too_large(FOLDER, total, FOLDER_BYTES))
    return problems


FOLDER = "the folder"
"""How sentences about limits name the memory folder as a whole."""
FULL = "memory full: "
"""How the sentence begins that says so: lists of what needs a person go by it."""


def too_large(path: str, size: int, limit: int) -> str:
    """What is said of a file (or FOLDER) that is over its limit as it stands."""
    return (
        f"{FULL}{_named(path)} has {size:,} bytes and may have {limit:,}: cut at least {size - limit:,} bytes"
    )


def no_room(path: str, size: int, wanted: int, limit: int) -> str:
    """What is said of a write that would make a file (or FOLDER) of `size` bytes one of `wanted`."""
    others = "" if path == FOLDER else ", or put text into other files"
    return (
        f"{FULL}{_named(path)} has {size:,} bytes and may have {limit:,}; with this it would have {wanted:,}: "
        f"cut at least {wanted - limit:,} bytes first{others}"
    )


def full_at(reason: str) -> tuple[str, int] | None:
    """Of a sentence that `no_room` made: the file (or FOLDER), and the size that it had."""
    found = _FULL.match(reason)
    return None if found is None else (found["path"], int(found["size"].replace(",", "")))


def room_problem(sizes: Mapping[str, int], path: str, wanted: int) -> str | None:
    """Why the file may not grow to `wanted` bytes beside files of these sizes, or None where it may. To become
    smaller, or to stay as large, is always right.
    """
    size = sizes.get(path, 0)
    if wanted <= size:
        return None
    if wanted > file_limit(path):
        return no_room(path, size, wanted, file_limit(path))
    if is_archive(path):
        return None
    total = sum(each for name, each in sizes.items() if not is_archive(name))
    if total - size + wanted > FOLDER_BYTES:
        return no_room(FOLDER, total, total - size + wanted, FOLDER_BYTES)
    return None


def _named(path: str) -> str:
    return path if path.isprintable() else _shown(path)


def has_crlf(data: bytes) -> bool:
    """Whether most of its lines end as Windows ends them."""
    return data.count(b"\r\n") * 2 > data.count(b"\n")


def ended_as(added: bytes, *texts: bytes) -> bytes:
    """`added` with the line ends that most lines have of the first of these texts that has any; else as it is."""
    like = next((text for text in texts if b"\n" in text), None)
    if like is None:
        return added
    plain = added.replace(b"\r\n", b"\n")
    return plain.replace(b"\n", b"\r\n") if has_crlf(like) else plain


def appended(old: bytes, added: bytes, like: bytes | None = None) -> bytes:
    """`added` after `old`, on lines of its own, with the line ends that most lines of `like` have: of the whole file,
    where `old` is a part of it.
    """
    gap = b"" if not old or old.endswith(b"\n") else b"\n"
    end = b"" if added.endswith(b"\n") else b"\n"
    return old + ended_as(gap + added + end, old if like is None else like, added)


def matches(path: str, globs: Iterable[str]) -> bool:
    """Whether one of `globs` covers `path`: `*` and `?` within a part, `**` across parts.

    A glob that covers a folder covers all that is in it, so that a protected folder has no way in. Case does not
    count: names that differ only in case are one name in a folder, and whoever takes one has taken the other.
    """
    parts = _folded(path).split("/")
    prefixes = ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]
    return any(_pattern(_folded(glob)).fullmatch(prefix) for glob in globs for prefix in prefixes)


@lru_cache(maxsize=512)
def _pattern(glob: str) -> re.Pattern[str]:
    tokens = {"**/": "(?:[^/]+/)*", "**": ".+", "*": "[^/]*", "?": "[^/]"}
    pieces = re.split(r"(\*\*/|\*\*|\*|\?)", glob.rstrip("/"))
    return re.compile("".join(tokens.get(piece, re.escape(piece)) for piece in pieces), re.DOTALL)
