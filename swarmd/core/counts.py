"""A number and what it counts, in words."""

from __future__ import annotations


def counted(number: int, noun: str, plural: str = "") -> str:
    """`1 file`, `2,000 files`; `plural` where it is not the noun with an s."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"
