"""When a rewrite of a memory file counts as losing most of it; the text is kept all the same, and a person is told.

Of a file of some size less than half of its lines is left, by their length. Of a topic (neither MEMORY.md, which
everything hangs on, nor an archive, which is to stay as it is) less than half of its bytes are left, too: one that is
written anew in as many words is no loss. Lines that the same change set puts into other files are moved, not lost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from swarmd.core.deltas import same_start
from swarmd.core.memory import FIRST_FILE, is_archive
from swarmd.core.merge import keys_of, lines_of

LEAST_BYTES = 1000
"""A smaller file is read again, and written again, in a minute."""
LEFT = 1 / 2
SHRUNK = 1 / 2
WANTED = frozenset({"compact", "consolidate", "restore", "revert"})
"""How a revision was made by somebody whose very purpose it is (`how` of a revision): never a loss."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """How many lines the text had, empty ones left out, and how many of them are left."""

    lines: int
    left: int


def loss_of(path: str, old: bytes, new: bytes | None, beside: Iterable[bytes] = ()) -> Loss | None:
    """What of `old` a rewrite as `new` (None: a deletion) has lost, or None where that is not most of it. `beside`: the
    other files that were written with it.
    """
    text = new or b""
    is_topic = path != FIRST_FILE and not is_archive(path)
    if len(old) < LEAST_BYTES or (is_topic and len(text) >= len(old) * SHRUNK):
        return None
    if same_start(old, text) >= len(old) * LEFT:
        return None  # most rewrites touch one place; lines need not be looked at
    had = _bag(old)
    here = had & _bag(text)
    elsewhere: Counter[bytes] = Counter()
    for other in beside:
        elsewhere |= _bag(other)
    left = here + ((had - here) & elsewhere)
    if _length(left) >= _length(had) * LEFT:
        return None
    return Loss(lines=had.total(), left=left.total())


def _bag(text: bytes) -> Counter[bytes]:
    lines = (line.strip() for line in keys_of(lines_of(text)))
    return Counter(line for line in lines if line)


def _length(lines: Counter[bytes]) -> int:
    return sum(len(line) * count for line, count in lines.items())
