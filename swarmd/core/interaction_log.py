"""The interaction log in a MEMORY.md: how a block of it is written and read, and where text under a heading goes.

A block is `### ROLE — TIME`, the text, and a line `---`, as the Swarms framework writes it, so that folders can be
taken over from there and read there again. A text of ours can neither begin a block nor end the section: its headings
are escaped and a code fence that it leaves open is closed. Texts that came from elsewhere stay as they are; where they
hold headings of their own, the line that closes each block tells them from headings of the file.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from swarmd.core.changes import AppendMemory, Change
from swarmd.core.memory import FIRST_FILE, appended, ended_as, has_crlf
from swarmd.core.text import escaped, one_line

HEADING = "## Interaction Log"
UNDATED = "no date"
"""Stands in the place of the time, where none is known."""
BLOCK_BYTES = 2048
"""The most that the text of one block has."""
ROLE_CHARACTERS = 80

_DATE = r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d\S*)?"
_HEAD = re.compile(rf"### (?P<role>.+) \N{{EM DASH}} (?P<at>{_DATE}|{UNDATED})\s*")
_SESSION = re.compile(r"(?P<role>.+) \(session (?P<session>\d{1,18})\)")
_ATX = re.compile(r" {0,3}(#{1,6})(?:[ \t].*)?")
_LIKE_A_HEADING = re.compile(r"^( {0,3}\\*)(#{1,3}(?:[ \t]|$))", re.MULTILINE)
_ESCAPED = re.compile(r"^( {0,3}\\*)\\(#{1,3}(?:[ \t]|$))", re.MULTILINE)
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
_CLOSE = "---"


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """An entry of the log. `at` is the time as it is written there, or UNDATED; `start` and `end` are where it stands
    in the text that was read, in characters.
    """

    role: str
    at: str
    text: str
    session: int | None = None
    start: int = 0
    end: int = 0


# -- writing ----------------------------------------------------------------------------------------------------------


def stamp(instant: datetime) -> str:
    """A moment as blocks have it: UTC, to the second."""
    return instant.astimezone(UTC).isoformat(timespec="seconds")


def moment(at: str) -> datetime | None:
    """The moment that a block has, of which foreign ones may have no zone (then UTC) or a day alone; None: no date."""
    try:
        found = datetime.fromisoformat(at)
    except ValueError:
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def written(block: Block) -> str:
    """The block as it stands in the file."""
    role = one_line(block.role)[:ROLE_CHARACTERS].strip() or "unknown"
    by = "" if block.session is None else f" (session {block.session})"
    text = _LIKE_A_HEADING.sub(r"\1\\\2", _readable(block.text).strip("\n"))
    return f"### {role}{by} \N{EM DASH} {block.at}\n\n{_fences_closed(text)}\n\n{_CLOSE}\n\n"


def _readable(text: str) -> str:
    return escaped(text.replace("\r\n", "\n").replace("\r", "\n"))


def _fences_closed(text: str) -> str:
    """The text, with the end of a code fence that it leaves open."""
    open_fence = ""
    for line in text.split("\n"):
        open_fence = _fence_after(line, open_fence)
    return f"{text}\n{open_fence}" if open_fence else text


def _fence_after(line: str, fence: str) -> str:
    """The marks of the code fence that is open after this line; `fence` are those before it."""
    found = _FENCE.fullmatch(line)
    if found is None:
        return fence
    marks, rest = found[1], found[2]
    if not fence:
        return "" if marks[0] == "`" and "`" in rest else marks
    closes = marks[0] == fence[0] and len(marks) >= len(fence) and not rest.strip()
    return "" if closes else fence


def shortened(text: str, room: int, *, tail: bool = False, before: int = 0) -> str:
    """The text in at most `room` bytes of UTF-8 and a note of how much of it is left out: of its end, or beginning.
    `before`: so many bytes stood before a text of which the tail is kept, and are gone already.
    """
    data = text.encode("utf-8", "backslashreplace")
    if len(data) <= room and not before:
        return text
    kept = (data[-room:] if tail else data[:room]).decode("utf-8", "ignore")
    left = before + len(data) - len(kept.encode())
    return f"[{left:,} bytes before this]\n{kept}" if tail else f"{kept}\n[{left:,} more bytes]"


def is_log(change: Change) -> bool:
    """Whether the change adds blocks to a log. No session can ask for one."""
    return isinstance(change, AppendMemory) and change.path == FIRST_FILE and change.under == HEADING


# -- reading ----------------------------------------------------------------------------------------------------------


def blocks(text: str) -> list[Block]:
    """Every block in the text, in its order: of a MEMORY.md, or of an archive of one."""
    page = _Page(text)
    found = []
    for place, first in enumerate(page.heads):
        last = page.end_of_block(place, 2)
        head = _HEAD.fullmatch(page.lines[first])
        assert head is not None
        close = next((n for n in range(last - 1, first, -1) if page.lines[n] == _CLOSE), None)
        body = page.lines[first + 1 : last if close is None else close]
        # What somebody has written behind the line that closes it is no part of it.
        last = last if close is None else page.after_blank(close + 1, last)
        told = _SESSION.fullmatch(head["role"])
        found.append(
            Block(
                role=told["role"] if told else head["role"],
                at=head["at"],
                text=_ESCAPED.sub(r"\1\2", "\n".join(body).strip("\n")),
                session=int(told["session"]) if told else None,
                start=page.starts[first],
                end=page.starts[last],
            )
        )
    return found


def section(text: str, under: str = HEADING) -> tuple[int, int] | None:
    """Where the section below this heading begins (with its heading) and ends, in characters; None: there is none."""
    page = _Page(text)
    lines = page.section(under)
    return None if lines is None else (page.starts[lines[0]], page.starts[lines[1]])


def heading_problem(under: str) -> str | None:
    """Why text cannot go under this heading, or None."""
    if "\n" not in under and _ATX.fullmatch(under) is not None and under.strip("# \t"):
        return None
    return f"{under[:80]!r} is no heading: `## Name` is expected, on one line"


def appended_under(old: bytes, added: bytes, under: str) -> bytes:
    """`added` at the end of the section below `under`, which is made at the end of the file where there is none. The
    rest of the file stays as it is, to the byte; what is added has the line ends that most of the file has.
    """
    text = old.decode("utf-8", "surrogateescape")
    new = added.replace(b"\r\n", b"\n").decode("utf-8", "surrogateescape").strip("\n") + "\n"
    page = _Page(text)
    lines = page.section(under)
    if lines is None:
        new, at = f"{under.strip()}\n\n{new}", len(text)
    else:
        at = page.starts[lines[1]]
    before, after = text[:at], text[at:]
    if before and not before.endswith("\n"):
        new = f"\n\n{new}"
    elif before and before[:-1].rpartition("\n")[2].strip():
        new = f"\n{new}"
    if after:
        new = f"{new}\n"
    put = ended_as(new.encode("utf-8", "surrogateescape"), old, added)
    return before.encode("utf-8", "surrogateescape") + put + after.encode("utf-8", "surrogateescape")


def added_to(path: str, old: bytes, added: bytes) -> bytes:
    """`added` at the end of the file, on lines of its own. In a MEMORY.md whose end is the log it goes before the log:
    behind a block it would be taken for a part of the log, and go into the archive with it.
    """
    if path != FIRST_FILE or HEADING.encode().lower() not in old.lower():
        return appended(old, added)
    text = old.decode("utf-8", "surrogateescape")
    log = section(text)
    if log is None or text[log[1] :].strip():
        return appended(old, added)
    notes = appended(text[: log[0]].rstrip().encode("utf-8", "surrogateescape"), added, old)
    gap = b"\r\n" if has_crlf(old) else b"\n"
    return notes + gap + text[log[0] :].encode("utf-8", "surrogateescape")


class _Page:
    """A text by its lines: which are headings and which begin a block."""

    def __init__(self, text: str) -> None:
        pieces = text.split("\n")
        self.lines = [piece.removesuffix("\r") for piece in pieces]
        self.lines[0] = self.lines[0].removeprefix("\ufeff")
        self.starts = [0]
        """Where each line begins, and where the text ends."""
        for piece in pieces:
            self.starts.append(self.starts[-1] + len(piece) + 1)
        self.starts[-1] = len(text)
        self.heads = [n for n, line in enumerate(self.lines) if _HEAD.fullmatch(line)]
        """The first lines of blocks."""
        self._levels = _levels(self.lines, self.heads)

    def section(self, under: str) -> tuple[int, int] | None:
        """The first and the last but one line of the section below this heading."""
        wanted = _name(under)
        level = len(wanted) - len(wanted.lstrip("#"))
        first = next(
            (n for n, each in self._levels.items() if each == level and _name(self.lines[n]) == wanted), None
        )
        if first is None:
            return None
        inside = [place for place, head in enumerate(self.heads) if head > first] if level < 3 else []
        at = first + 1
        for place in inside:
            if self._ending(at, self.heads[place], level) is not None:
                break  # the section ends before this block
            at = self.end_of_block(place, level)
            if place + 1 < len(self.heads) and at < self.heads[place + 1]:
                return first, at
        end = self._ending(at, len(self.lines), level)
        return first, len(self.lines) if end is None else end

    def end_of_block(self, place: int, level: int) -> int:
        """The line after the block's last: the next block, or a heading of this level or above that is not in its text.

        Where the last line before the next block closes this one, headings in between are its text. In the last block
        of the file they are text up to one that stands just behind a line which closes it.
        """
        first, is_last = self.heads[place], place + 1 == len(self.heads)
        last = len(self.lines) if is_last else self.heads[place + 1]
        closed = self._line_before(last, first) == _CLOSE
        if closed and not is_last:
            return last
        headings = [n for n in range(first + 1, last) if self._levels.get(n, 7) <= level]
        behind = next((n for n in headings if self._line_before(n, first) == _CLOSE), None)
        if behind is not None or closed:
            return last if behind is None else behind
        return headings[0] if headings else last

    def after_blank(self, start: int, stop: int) -> int:
        """The first line between these with something on it, or `stop`."""
        return next((n for n in range(start, stop) if self.lines[n].strip()), stop)

    def _ending(self, start: int, stop: int, level: int) -> int | None:
        """The first heading of this level or above between these lines."""
        found = (n for n in range(start, stop) if self._levels.get(n, 7) <= level)
        return next(found, None)

    def _line_before(self, stop: int, start: int) -> str:
        """The last line with something on it between these."""
        return next((self.lines[n] for n in range(stop - 1, start, -1) if self.lines[n].strip()), "")


def _levels(lines: Sequence[str], heads: Sequence[int]) -> dict[int, int]:
    """The headings outside of code: their lines, and the level of each. A fence that nothing closes is none, and no
    fence goes on beyond a block.
    """
    closers = _closers(lines, heads)
    found: dict[int, int] = {}
    skip_to = 0
    for n, line in enumerate(lines):
        if n < skip_to:
            continue
        if n in closers:
            skip_to = closers[n] + 1
        elif (heading := _ATX.fullmatch(line)) is not None:
            found[n] = len(heading[1])
    return found


def _closers(lines: Sequence[str], heads: Sequence[int]) -> dict[int, int]:
    """For each line that opens a code fence the one that closes it."""
    found: dict[int, int] = {}
    starts = set(heads)
    opened: list[tuple[int, str]] = []
    for n, line in enumerate(lines):
        if n in starts:
            opened.clear()
        fence = _FENCE.fullmatch(line)
        if fence is None:
            continue
        marks, bare = fence[1], not fence[2].strip()
        match = next(
            (
                at
                for at, (_, old) in enumerate(opened)
                if bare and old[0] == marks[0] and len(marks) >= len(old)
            ),
            None,
        )
        if match is not None:
            found[opened[match][0]] = n
            del opened[match:]
        elif not (marks[0] == "`" and "`" in fence[2]) and not any(
            old[0] == marks[0] and len(old) <= len(marks) for _, old in opened
        ):
            # Of those that the same line would close only the first counts: the list stays short.
            opened.append((n, marks))
    return found


def _name(heading: str) -> str:
    """A heading as it is compared: case, spaces and closing marks do not count."""
    marks, _, words = heading.strip().partition(" ")
    return f"{marks} {' '.join(words.rstrip('#').split()).casefold()}"
