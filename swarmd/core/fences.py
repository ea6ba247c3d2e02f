"""The pieces that a prompt is made of, and the fences that keep foreign texts apart; no piece knows the fence.

Every line that swarmd fences begins with `[CODE `, where CODE comes from a secret of the agent's and stands in
no text of the prompt. So a text can neither end itself nor start another, and it stays byte for byte what it is.
The code is chosen last, over the finished pieces: no text can have been forgotten.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from swarmd.core.text import one_line

CODE_LENGTH = 12
"""Hexadecimal digits: who has to guess has one try a session, of 2^48."""
SAMPLE_CODE = "8f3a9c21d04e"
"""Stands for the code where a piece is measured before the code is known."""
INLINE_LENGTH = 200
"""A text of this length or less that is one plain line stands on the line of its mark, after ` = `."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A line of swarmd's that starts with the code; `words` come after it."""

    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ours:
    """A line of swarmd's own words; a short foreign text may end it, after ` = `."""

    line: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Theirs:
    """A foreign text, byte for byte; always between two marks."""

    text: str


Piece = Mark | Ours | Theirs
Pieces = tuple[Piece, ...]


def block(words: str, text: str) -> Pieces:
    """A foreign text between its marks; `words` say what it is and who wrote it."""
    return (Mark(words=f"begin text: {one_line(words)}"), Theirs(text=text), Mark(words="end text"))


def quoted(lead: str, text: str) -> Pieces:
    """A foreign text after `lead`: on the same line where it is short and plain, else as a block."""
    lead = one_line(lead)
    if len(text) <= INLINE_LENGTH and text == text.strip() and text == one_line(text):
        return (Ours(line=f"{lead} = {text}"),)
    return block(lead, text)


def section(name: str, about: str, pieces: Pieces) -> Pieces:
    """The pieces of one section between its marks; one line where it is empty."""
    if not pieces:
        return (Mark(words=f"empty section {name}"),)
    return (Mark(words=f"section {name}: {about}"), *pieces, Mark(words=f"end section {name}"))


def render(pieces: Iterable[Piece], code: str) -> str:
    """The text of the pieces, each ended by one line feed (which is not part of a foreign text)."""
    return "".join(_rendered(piece, code) for piece in pieces)


def _rendered(piece: Piece, code: str) -> str:
    match piece:
        case Mark():
            return f"[{code} {piece.words}]\n"
        case Ours():
            return f"{piece.line}\n"
        case Theirs():
            return f"{piece.text}\n"


def text_of(piece: Piece) -> str:
    """What the piece says, without the code."""
    match piece:
        case Mark():
            return piece.words
        case Ours():
            return piece.line
        case Theirs():
            return piece.text


def code_for(secret: str, agent: str, texts: Iterable[str]) -> str:
    """The first of the agent's codes that stands in none of the texts, in whatever case.

    The same secret gives the same codes in the same order, so the code changes only when a text holds it: a
    provider's cache of the prompt's beginning stays good from session to session.
    """
    lowered = [text.lower() for text in texts]
    number = 0
    while True:
        seed = f"swarmd prompt fence\n{secret}\n{agent}\n{number}"
        code = hashlib.sha256(seed.encode("utf-8", "surrogatepass")).hexdigest()[:CODE_LENGTH]
        if not any(code in text for text in lowered):
            return code
        number += 1
