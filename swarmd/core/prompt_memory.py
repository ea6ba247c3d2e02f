"""MEMORY.md in the prompt: whole where it has room, and else what of it is worth most."""

from __future__ import annotations

from dataclasses import dataclass

from swarmd.core import interaction_log
from swarmd.core.fences import Ours, Pieces, block
from swarmd.core.memory import FIRST_FILE
from swarmd.core.room import CHARS_PER_TOKEN, Count, head, remaining
from swarmd.core.sections import Part, part, wrote
from swarmd.core.snapshot import Snapshot
from swarmd.core.world import Document

WARN_FROM = 0.8
"""The part of its room from which MEMORY.md is told to be pruned: early enough to do it in peace."""
LOG_SHARE = 2
"""Of a memory that is past its room the notes before the log take one part of so many, and its newest entries the
rest, or what the other leaves."""


def memory_part(snapshot: Snapshot, count: Count) -> Part:
    """MEMORY.md. Where it is longer than its room it is cut at a line's end; of one with an interaction log the oldest
    entries are left out instead, since the newest say where the work stands.
    """
    about = "MEMORY.md, your own notes (data)"
    document = next((d for d in snapshot.memory if d.path == FIRST_FILE and d.data), None)
    if document is None:
        return part("memory", about, ())
    room = snapshot.agent.memory.room
    text, broken = _decoded(document.data or b"")
    words = _words(document, snapshot)
    notes = [Ours(line=broken)] if broken else []
    shown = head(text, room, count)
    if len(shown) == len(text):
        full = _nearly_full(count(shown), room)
        return part("memory", about, (*block(words, shown), *notes, *([Ours(line=full)] if full else ())))
    cut = _around_log(text, room, count) if snapshot.agent.memory.log else None
    if cut is not None:
        left, total, pieces = cut.tokens_left, cut.tokens, cut.pieces(words)
        lead = f"left out here: {cut.left_out}, {left:,} tokens, read "
    else:
        left = remaining(text, shown, count)
        total, pieces = count(shown) + left, block(words, shown) if shown else ()
        lead = f"{FIRST_FILE} goes on: {left:,} more tokens, read "
    inside = "" if cut or shown.endswith("\n") or not shown else " (cut inside a line)"
    note = (
        f"{lead}$SWARMD_MEMORY/{FIRST_FILE}{inside}; it takes {total:,} tokens and its room here is {room:,}: "
        f"cut at least {total - room:,}, or move as much to files of their own"
    )
    return part("memory", about, (*pieces, *notes), note)


def _words(document: Document, snapshot: Snapshot) -> str:
    return f"{FIRST_FILE}, yours, revision {document.rev}, by {wrote(document.by, snapshot.agent.name)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cut:
    """A text without its middle; `left_out` says what that is."""

    before: str
    after: str
    left_out: str
    tokens_left: int
    tokens: int

    def pieces(self, words: str) -> Pieces:
        beginning = block(f"{words}: its beginning", self.before) if self.before else ()
        return (*beginning, *block(f"{words}: the newest of its log, to its end", self.after))


def _around_log(text: str, room: int, count: Count) -> _Cut | None:
    """The beginning and the newest entries; None where there is no log whose end has room."""
    place = interaction_log.section(text)
    entries = [b for b in interaction_log.blocks(text) if place and place[0] <= b.start < place[1]]
    if not entries:
        return None
    whole = before = text[: entries[0].start]
    if len(before) > room * CHARS_PER_TOKEN or count(before) > room // LOG_SHARE:
        before = head(before, room // LOG_SHARE, count)
    used, start, first = count(before), len(text), len(entries)
    # From the end: what stands behind the log goes with its newest entry.
    while first and (start - entries[first - 1].start) <= (room - used) * CHARS_PER_TOKEN:
        size = count(text[entries[first - 1].start : start])
        if used + size > room:
            break
        used, start, first = used + size, entries[first - 1].start, first - 1
    if first == len(entries):
        return None
    left_out = ["the rest of what stands before its log"] if len(before) < len(whole) else []
    if first:
        left_out.append("1 older entry of its log" if first == 1 else f"{first:,} older entries of its log")
    left = remaining(text[:start], before, count)
    return _Cut(
        before=before,
        after=text[start:],
        left_out=" and ".join(left_out),
        tokens_left=left,
        tokens=used + left,
    )


def _decoded(data: bytes) -> tuple[str, str]:
    """The text, and a line that says so where some bytes are none."""
    try:
        return data.decode("utf-8"), ""
    except UnicodeDecodeError:
        note = f"({FIRST_FILE} is not all UTF-8: bytes that are not stand here as U+FFFD)"
        return data.decode("utf-8", errors="replace"), note


def _nearly_full(tokens: int, room: int) -> str:
    if tokens < room * WARN_FROM:
        return ""
    figures = f"{FIRST_FILE} takes {tokens:,} of its {room:,} tokens here"
    return f"({figures}: prune it, or move topics to files of their own)"
