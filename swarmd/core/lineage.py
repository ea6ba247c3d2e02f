"""Which lines of a text are a session's: by who brought them, by the blocks of a log that bear its number, and where
neither tells, by what they say.

A line that is moved to another place or file, indented or given another bullet says the same; one that was worded anew
does not. Equal words prove little where lines are short: those are held for a session's only where history says so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence

from swarmd.core.interaction_log import HEADING, Block, blocks, section
from swarmd.core.merge import lines_of

DISTINCTIVE_BYTES = 16
"""What a line has to say at least to be known by its words alone."""
_LEAD = re.compile(r"(?:[-*+>#|]+|\d{1,9}[.)])\s+")
_HEADING = re.compile(r"\s*#{1,6}(?:\s|$)")


def key_of(line: str) -> str | None:
    """What a line says, by which it is known again; None for one without a letter or digit."""
    words = " ".join(line.split())
    while (lead := _LEAD.match(words)) is not None:
        words = words[lead.end() :]
    return words if any(char.isalnum() for char in words) else None


def keys_of(data: bytes | None) -> frozenset[str]:
    """What the lines of a text say."""
    return frozenset(key for line in lines_of(data or b"") if (key := key_of(_text(line))) is not None)


def said(data: bytes) -> list[tuple[str, bool]]:
    """What each line of a text says ("" for nothing), and whether it is distinctive."""
    texts = [_text(line) for line in lines_of(data)]
    return [("" if _is_log_heading(text) else key_of(text) or "", is_distinctive(text)) for text in texts]


def is_distinctive(line: str) -> bool:
    """Whether a line may be known by its words alone: it is no heading, and not so short that others write it too."""
    return _HEADING.match(line) is None and len((key_of(line) or "").encode()) >= DISTINCTIVE_BYTES


def telling(data: bytes, keys: Collection[str], session: int) -> dict[str, list[int]]:
    """Of those of these keys that distinctive lines of the text have, where those lines are, from 0. What stands in a
    block that another session than this has in a log is that one's.
    """
    found: dict[str, list[int]] = {}
    lines = lines_of(data)
    for n, (line, block) in enumerate(zip(map(_text, lines), _blocks(lines), strict=True)):
        key = key_of(line)
        if key is not None and key in keys and is_distinctive(line) and _number(block) in (session, None):
            found.setdefault(key, []).append(n)
    return found


def of_session(data: bytes, authors: Sequence[int | None], session: int) -> list[bool]:
    """Of each line of a text whether it goes with this session. `authors`: the session that brought each; None: a
    person, or not known.

    Its blocks of an interaction log go whole, others' keep their form, and the log's heading stays while there is more.
    """
    lines = lines_of(data)
    heads: dict[int, int | None] = {}
    marks: list[bool] = []
    for line, author, block in zip(lines, authors, _blocks(lines), strict=True):
        mark, says = author == session, key_of(_text(line)) is not None
        head = None if block is None else heads.setdefault(block.start, author)
        if block is not None and block.session == session and head in (session, None):
            mark = author in (session, head) or not says
        elif block is not None and block.session is not None and head != session:
            mark = mark and says
        marks.append(mark)
    _spare_heading(lines, marks)
    return marks


def _spare_heading(lines: Sequence[bytes], marks: list[bool]) -> None:
    """Take the mark off the log's heading, with the empty lines about it, where something stays below it."""
    texts = [line.decode("utf-8", "surrogateescape") for line in lines]
    log = section("".join(texts))
    if log is None:
        return
    starts = [0]
    for text in texts:
        starts.append(starts[-1] + len(text))
    first = starts.index(log[0])
    if not any(not marks[n] and lines[n].strip() for n in range(first + 1, len(lines)) if starts[n] < log[1]):
        return
    marks[first] = False
    for about in (range(first - 1, -1, -1), range(first + 1, len(lines))):
        for n in about:
            if lines[n].strip():
                break
            marks[n] = False


def marked(
    data: bytes,
    keys: Collection[str],
    sessions: Collection[int],
    *,
    brought: Callable[[], Sequence[bool]] = tuple,
    also_others: Callable[[Collection[str]], Collection[str]] = lambda _: (),
) -> list[bool]:
    """Of each line of a text whether it is one of these sessions', which have brought lines that say `keys`.

    It is where a block of a log bears such a number; where the line says a key, and is one that they have `brought`, as
    history tells; and where a distinctive line says a key that they alone have written: `also_others` tells those of
    some keys that other sessions have written too. What stands in another session's block is that one's.
    """
    lines = lines_of(data)
    inside = _blocks(lines)
    found = [block is not None and block.session in sessions for block in inside]
    asked = [
        n
        for n, line in enumerate(lines)
        if not found[n] and key_of(_text(line)) in keys and not _is_log_heading(_text(line))
    ]
    known = brought() if asked else ()
    for n in asked:
        found[n] = n < len(known) and known[n]
    rest = {
        n: key_of(_text(lines[n])) or ""
        for n in asked
        if not found[n] and is_distinctive(_text(lines[n])) and _number(inside[n]) is None
    }
    common = also_others(frozenset(rest.values())) if rest else ()
    for n, key in rest.items():
        found[n] = key not in common
    return found


def without(data: bytes, marks: Sequence[bool], note: str | None) -> bytes:
    """The text without the lines that are marked; in the place of each run of them stands `note`, where there is one. A
    text that has none of them comes back as it is.
    """
    if not any(marks):
        return data
    told = b"" if note is None else note.encode() + b"\n"
    out: list[bytes] = []
    for line, is_one in zip(lines_of(data), marks, strict=True):
        if not is_one:
            out.append(line)
        elif out[-1:] != [told]:
            out.append(told)
    return b"".join(out)


def _is_log_heading(line: str) -> bool:
    return line.strip().casefold() == HEADING.casefold()


def _number(block: Block | None) -> int | None:
    return None if block is None else block.session


def _blocks(lines: Sequence[bytes]) -> list[Block | None]:
    """The block of a log that each line stands in."""
    texts = [line.decode("utf-8", "surrogateescape") for line in lines]
    every = iter(blocks("".join(texts)))
    block, at = next(every, None), 0
    found: list[Block | None] = []
    for text in texts:
        while block is not None and at >= block.end:
            block = next(every, None)
        found.append(block if block is not None and at >= block.start else None)
        at += len(text)
    return found


def _text(line: bytes) -> str:
    return line.decode("utf-8", "replace")
