"""What becomes of memory from elsewhere: which of its files are taken, under which names, and what cannot be.

Files come over to the byte. A name is changed only where it may not stand here, and each change is told. Nothing here
opens a file.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from swarmd.core.conversations import Conversation
from swarmd.core.counts import counted
from swarmd.core.interaction_log import HEADING, UNDATED, Block, blocks, section
from swarmd.core.memory import (
    ARCHIVE,
    FIRST_FILE,
    FIRST_FILE_BYTES,
    PART_BYTES,
    PATH_PARTS,
    size_problems,
    tree_problems,
)

Format = Literal["swarms", "conversation", "claude", "markdown"]
FORMATS: tuple[Format, ...] = ("swarms", "conversation", "claude", "markdown")
SUFFIXES = (".md", ".markdown", ".txt")
"""What counts as a note by its name; the rest of a folder is left where it is."""
FIRST_FILE_KEPT = FIRST_FILE_BYTES - 64 * 1024
"""How much of a log that is too long stays in MEMORY.md: so much that the next sessions find room."""
AT_ONCE_FILES = 10_000
AT_ONCE_BYTES = 44 * 1024 * 1024
"""What one import may bring: it travels as one question, and is judged in one piece."""
SYSTEM_PROMPT = "system-prompt.md"
_ARCHIVE = re.compile(r"archive/history_.*\.md")
_FRONT_MATTER = re.compile(r"\ufeff?---[ \t]*\r?\n(?:.*\r?\n)*?(?:name|description):", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A file as it was met: its path below the folder, and its bytes, or why it cannot be read."""

    path: str
    data: bytes = b""
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A file as it is to be: `source` is where its text is from. `log`: it is a log and nothing else."""

    path: str
    data: bytes
    source: str
    log: bool = False


@dataclass(slots=True, kw_only=True)
class Plan:
    """What is to be taken over; `problems` stand against it, the rest is only told."""

    format: Format
    items: list[Item] = field(default_factory=list)
    renamed: list[dict[str, str]] = field(default_factory=list)
    left_out: list[dict[str, str]] = field(default_factory=list)
    bad: list[dict[str, str]] = field(default_factory=list)
    """Files that should come and cannot: they may be skipped."""
    notes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """What is wrong with all of it together."""


def detected(found: Sequence[Found]) -> Format | None:
    """What kind of folder this is; None where nothing in it is a note."""
    names = {file.path: file for file in found if is_note(file.path)}
    first = names.get(FIRST_FILE)
    log = first is not None and section(first.data.decode("utf-8", "replace")) is not None
    if log or any(_ARCHIVE.fullmatch(path) for path in names):
        return "swarms"
    if (
        first is not None
        or "CLAUDE.md" in names
        or any(_has_front_matter(file.data) for file in names.values())
    ):
        return "claude"
    return "markdown" if names else None


def is_note(path: str) -> bool:
    """Whether a file of this name is taken, where nothing else is said."""
    return path.lower().endswith(SUFFIXES)


def _has_front_matter(data: bytes) -> bool:
    return _FRONT_MATTER.match(data[:2000].decode("utf-8", "replace")) is not None


def of_folder(found: Sequence[Found], format: Format, *, all_files: bool = False) -> Plan:
    """What of a folder is taken over."""
    plan = Plan(format=format)
    taken: list[Found] = []
    for file in sorted(found, key=lambda each: each.path):
        if any(part.startswith(".") for part in file.path.split("/")):
            plan.left_out.append({"file": file.path, "why": "its name begins with a dot"})
        elif problem := file.problem:
            plan.bad.append({"file": file.path, "why": problem})
        elif not all_files and not is_note(file.path):
            plan.left_out.append({"file": file.path, "why": f"it is no {', '.join(SUFFIXES)} file"})
        elif problem := text_problem(file.data):
            plan.bad.append({"file": file.path, "why": problem})
        else:
            taken.append(file)
    names = legal_names([file.path for file in taken])
    for file in taken:
        path, why = names[file.path]
        if path != file.path:
            plan.renamed.append({"file": file.path, "path": path, "why": why})
        plan.items.append(Item(path=path, data=file.data, source=file.path))
    return _within_limits(plan)


def of_conversation(found: Conversation, source: str) -> Plan:
    """What becomes of a conversation: a log, and its system prompt beside it, which is no part of one."""
    plan = Plan(format="conversation")
    if found.blocks:
        plan.items.append(
            Item(path=FIRST_FILE, data=f"{HEADING}\n\n{found.text}".encode(), source=source, log=True)
        )
    if found.static:
        text = "\n\n".join(found.static).encode("utf-8", "backslashreplace")
        plan.items.append(Item(path=SYSTEM_PROMPT, data=text, source=source))
    if found.empty:
        plan.left_out.append(
            {
                "file": source,
                "why": counted(found.empty, "entry that says nothing", "entries that say nothing"),
            }
        )
    if found.undated:
        plan.notes.append(f"{found.undated} of {len(found.blocks)} entries have no time, and say so")
    return _within_limits(plan)


def text_problem(data: bytes) -> str:
    """Why these bytes are no note; nothing where they are one."""
    if (at := data.find(b"\0")) >= 0:
        return f"it is no text: byte {at + 1} is NUL"
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        return f"it is not UTF-8: byte {error.start + 1} is {data[error.start]:#04x}"
    return ""


# -- names ------------------------------------------------------------------------------------------------------------


def legal_names(paths: Sequence[str]) -> dict[str, tuple[str, str]]:
    """For each path the one that it has here, and why it is another; what may stay as it is goes first."""
    wanted = {path: _legal(path) for path in paths}
    spelled: dict[str, str] = {}
    """Folders by what counts as the same name."""
    used: set[str] = set()
    names: dict[str, tuple[str, str]] = {}
    for path in sorted(paths, key=lambda each: (wanted[each][0] != each, each)):
        legal, why = wanted[path]
        folder, mark, name = legal.rpartition("/")
        prefix = ""
        for part in folder.split("/") if mark else ():
            at = f"{prefix}{part}"
            known = spelled.setdefault(_folded(at), at)
            if known != at:
                why = why or f"{known} differs from it only in case"
            prefix = f"{known}/"
        free = _free(prefix, name, used)
        if free != name:
            why = f"{prefix}{name} is another file already, or differs only in case"
        used.add(_folded(prefix + free))
        names[path] = (prefix + free, why)
    return names


def _free(prefix: str, name: str, used: set[str]) -> str:
    number, free = 1, name
    while _folded(prefix + free) in used:
        number += 1
        free = _cut(name, f"-{number}")
    return free


def _legal(path: str) -> tuple[str, str]:
    """The path by the rules for one alone."""
    parts, whys = [], []
    for part in path.split("/"):
        plain = part.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        if plain != part:
            whys.append("its name is not UTF-8")
        composed = unicodedata.normalize("NFC", plain)
        if composed != plain:
            whys.append("its name is in decomposed Unicode")
        clean = "".join("_" if unicodedata.category(c) in ("Cc", "Zl", "Zp") else c for c in composed)
        if clean != composed:
            whys.append("its name holds control characters")
        parts.append(clean)
    if len(parts) > PATH_PARTS:
        parts = [*parts[: PATH_PARTS - 1], "-".join(parts[PATH_PARTS - 1 :])]
        whys.append(f"a path has up to {PATH_PARTS} parts")
    cut = [_cut(part) for part in parts]
    if cut != parts:
        whys.append(f"a part of a path has up to {PART_BYTES} bytes")
    if _folded(cut[0]) == ARCHIVE[:-1] != cut[0] and len(cut) > 1:
        whys.append(f"{ARCHIVE} is the folder of older texts, and always spelled so")
        cut[0] = ARCHIVE[:-1]
    if _folded(cut[0]) == _folded(FIRST_FILE) and cut != [FIRST_FILE]:
        whys.append(f"{FIRST_FILE} is always a file of this very name")
        cut = [FIRST_FILE] if len(cut) == 1 else [f"in-{cut[0]}", *cut[1:]]
    return "/".join(cut), "; ".join(dict.fromkeys(whys))


def _cut(name: str, mark: str = "") -> str:
    """The name in as many bytes as it may have, with its ending, and before that the mark, whatever else is cut."""
    stem, dot, end = name.rpartition(".")
    tail = f"{mark}{dot}{end}"
    if not dot or len(end.encode()) > PART_BYTES // 4:
        stem, tail = name, mark
    return stem.encode()[: PART_BYTES - len(tail.encode())].decode("utf-8", "ignore") + tail


def _folded(path: str) -> str:
    return unicodedata.normalize("NFC", path.casefold())


# -- limits -----------------------------------------------------------------------------------------------------------


def too_much(count: int, size: int) -> str:
    """Why so many files of so many bytes together cannot come at once; nothing where they can. Archives count here:
    they may be many, and come with one import or with several.
    """
    if count > AT_ONCE_FILES:
        return (
            f"{count:,} files are too many for one import, which takes {AT_ONCE_FILES:,}: bring them in parts"
        )
    if size > AT_ONCE_BYTES:
        return (
            f"{size:,} bytes are too many for one import, which takes {AT_ONCE_BYTES:,}: bring them in parts"
        )
    return ""


def _within_limits(plan: Plan) -> Plan:
    plan.items = [part for item in plan.items for part in _parts(plan, item)]
    plan.problems += tree_problems(item.path for item in plan.items)
    plan.problems += size_problems((item.path, len(item.data)) for item in plan.items)
    if problem := too_much(len(plan.items), sum(len(item.data) for item in plan.items)):
        plan.problems.append(problem)
    return plan


def _parts(plan: Plan, item: Item) -> Iterator[Item]:
    """The file, or where it is a log that is too long its newest part, with what is older as archives."""
    if item.path != FIRST_FILE or len(item.data) <= FIRST_FILE_BYTES:
        yield item
        return
    text = item.data.decode()
    entries = blocks(text)
    sizes = [len(text[b.start : b.end].encode()) for b in entries]
    older = _older(sizes, len(item.data) - FIRST_FILE_KEPT)
    if not older:
        yield item  # no log is too long: the limit says what is wrong
        return
    cut = "".join((text[: entries[0].start], *_kept(text, entries, older)))
    used = {each.path for each in plan.items}
    for first, last in older:
        name = _archive_name(entries[last - 1], used)
        used.add(name)
        old = "".join(text[b.start : b.end] for b in entries[first:last])
        yield Item(path=name, data=old.encode(), source=item.source)
        why = f"{FIRST_FILE} may have {FIRST_FILE_BYTES} bytes: the oldest of its log is here"
        plan.renamed.append({"file": item.source, "path": name, "why": why})
    yield Item(path=item.path, data=cut.encode(), source=item.source, log=item.log)


def _older(sizes: Sequence[int], too_much: int) -> list[tuple[int, int]]:
    """The oldest entries that have at least so many bytes together, in runs that each fit in a file; none where all
    have less.
    """
    runs: list[tuple[int, int]] = []
    first = size = total = 0
    for number, one in enumerate(sizes):
        if size and size + one > FIRST_FILE_BYTES:
            runs.append((first, number))
            first, size = number, 0
        size, total = size + one, total + one
        if total >= too_much:
            return [*runs, (first, number + 1)]
    return []


def _kept(text: str, entries: Sequence[Block], older: Sequence[tuple[int, int]]) -> Iterator[str]:
    """What is left: the text between the entries too."""
    gone = older[-1][1]
    for number, entry in enumerate(entries):
        end = entries[number + 1].start if number + 1 < len(entries) else len(text)
        yield text[entry.end if number < gone else entry.start : end]


def _archive_name(last: Block, used: set[str]) -> str:
    digits = re.findall(r"\d+", last.at)[:6]
    when = UNDATED.replace(" ", "-")
    if digits:
        day, clock = digits[:3], [*digits[3:], "00", "00", "00"][:3]
        when = f"{'-'.join(day)}_{'-'.join(clock)}"
    name, number = f"archive/history_{when}.md", 1
    while name in used:
        number += 1
        name = f"archive/history_{when}_{number}.md"
    return name


def report(plan: Plan) -> Mapping[str, object]:
    """What a person is told beside what becomes of each file."""
    return {
        "format": plan.format, "renamed": plan.renamed, "left_out": plan.left_out, "skipped": plan.bad,
        "notes": plan.notes,
    }  # fmt: skip
