"""What every section of the prompt has in common: its part of the prompt, its author marks; not what stands in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from swarmd.core.fences import Ours, Pieces
from swarmd.core.text import one_line, shortened
from swarmd.core.world import agent_of

_FIRST_LINE = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A section before it is fenced. `about` says in its first mark what it is and whose; `left_out` as in Section."""

    name: str
    about: str
    pieces: Pieces
    left_out: str = ""


OUTCOMES_SAID: Mapping[str, str] = {
    "committed": "saved",  # never "committed": coding agents would run git
    "no_change": "nothing to save",
    "timed_out": "timed out",
    "lost": "lost: swarmd stopped while it ran",
    "dry_run": "dry run",
}


def said(outcome: str) -> str:
    """An outcome in the prompt's words."""
    return OUTCOMES_SAID.get(outcome, outcome)


def wrote(by: str, me: str) -> str:
    """Who wrote it, in a mark: `you`, or the name that history keeps."""
    if agent_of(by) == me:
        return "you"
    # A lead ends at its first " = ": no name may hold one.
    return one_line(by).replace(" = ", " \\x3d ") or "unknown"


def part(name: str, about: str, pieces: Pieces, *notes: str) -> Part:
    """The part, with the notes on what was left out as its last lines."""
    told = [note for note in notes if note]
    return Part(
        name=name,
        about=about,
        pieces=(*pieces, *(Ours(line=f"({note})") for note in told)),
        left_out="; ".join(told),
    )


def more(total: int, shown: int, command: str, noun: str = "") -> str:
    """What was left out and the command that shows it, `12 more: ...`; nothing where all is shown."""
    return f"{total - shown:,} more{noun and f' {noun}'}: `{command}`" if total > shown else ""


def first_line(data: bytes) -> str:
    """The first line of a file in which something stands, shortened, for a list of files."""
    first = data[: _FIRST_LINE * 5].decode("utf-8", "replace").lstrip("\ufeff\r\n").split("\n", 1)[0]
    return shortened(first.strip(), _FIRST_LINE)
