"""A text in pieces of about a page's part, each with the line it starts at: what is searched, and found, one by one.

Where a piece ends follows from what stands before it alone: what is added at a text's end leaves its other pieces as
they are, and behind a heading pieces are the same again after an edit above it.
"""

from __future__ import annotations

from collections.abc import Iterator

ROOM = 1500
"""Characters of a piece."""
LEAST = 400
"""A heading, or a paragraph past the half of ROOM, begins a piece where the one before has as many."""
MOST = 20_000
"""Pieces of one text; what is behind them is not searched."""


def chunks(text: str) -> Iterator[tuple[int, str]]:
    """The pieces, each with its first line's number, from 1; none is blank."""
    count = 0
    for line, piece in _pieces(text):
        if piece.strip():
            yield line, piece
            count += 1
            if count >= MOST:
                return


def _pieces(text: str) -> Iterator[tuple[int, str]]:
    first, size, kept = 1, 0, list[str]()
    after_blank = False
    for number, line in enumerate(text.splitlines(), 1):
        if kept and (size + len(line) > ROOM or _begins(line, size, after_blank=after_blank)):
            yield first, "\n".join(kept)
            kept, size = [], 0
        if not kept:
            first = number
        rest = 0
        while len(line) - rest > ROOM:  # `kept` is empty: the line did not fit
            yield number, line[rest : rest + ROOM]
            rest += ROOM
        kept.append(line[rest:])
        size += len(line) - rest + 1
        after_blank = not line.strip()
    yield first, "\n".join(kept)


def _begins(line: str, size: int, *, after_blank: bool) -> bool:
    if size < LEAST:
        return False
    return line.startswith("#") or (after_blank and size > ROOM // 2 and bool(line.strip()))


def cut(text: str, head: int = 3000, tail: int = 1000) -> str:
    """The text, or its beginning and end where it is much longer."""
    left = len(text) - head - tail
    return text if left <= 0 else f"{text[:head]}\n[... {left} characters ...]\n{text[-tail:]}"
