"""A text told by another one: where both begin and end alike, and what stands between. Pure bytes, exact both ways."""

from __future__ import annotations

import struct

_ENDS = struct.Struct(">QQ")


def told_by(text: bytes, base: bytes) -> bytes | None:
    """`text` as a difference from `base`; None where that is not much shorter."""
    start = same_start(text, base)
    end = same_end(text, base, min(len(text), len(base)) - start)
    middle = text[start : len(text) - end]
    if (len(middle) + _ENDS.size) * 4 > len(text):
        return None
    return _ENDS.pack(start, end) + middle


def told(difference: bytes, base: bytes) -> bytes | None:
    """The text that `told_by` made `difference` of; None where it is no difference from that base."""
    if len(difference) < _ENDS.size:
        return None
    start, end = _ENDS.unpack_from(difference)
    if start + end > len(base):
        return None
    return base[:start] + difference[_ENDS.size :] + base[len(base) - end :]


def same_start(a: bytes, b: bytes) -> int:
    """How many bytes both begin with."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if a[low:middle] == b[low:middle] else (low, middle - 1)
    return low


def same_end(a: bytes, b: bytes, most: int) -> int:
    """How many bytes both end with, `most` at most."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        same = a[len(a) - middle : len(a) - low] == b[len(b) - middle : len(b) - low]
        low, high = (middle, high) if same else (low, middle - 1)
    return low
