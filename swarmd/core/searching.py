"""What a person types to search, as a query of the index; and texts as the index takes them.

All words must be there; "several words" stand together; a word that ends in * is a beginning. Nothing else has a
meaning: whatever is typed is quoted, so that no text is a fault in the query.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from swarmd.core.instants import from_text

TEXT_CHARACTERS = 500
WORDS = 32
PREFIX_CHARACTERS = 3
"""A shorter beginning stands for a good part of all words, and finds nothing that one would look for."""
GAP = "\x1f"
"""Stands in the index around each character of a script that puts no spaces between words, so that each is a word of
its own, and several of them side by side are found as any phrase is."""
OPEN, CLOSE = "\x02", "\x03"
"""Stand around what was found, in a text that comes from the index."""

_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3040-\u30ff"
    "\u3100-\u318f\u31a0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff66-\uffdc"
    "\U00020000-\U0003ffff"
)
"""Thai, Lao, Burmese, Khmer, Chinese, Japanese; Korean too, whose words carry their endings with them."""
_RUN = re.compile(f"[{_UNSPACED}]+")
_OURS = re.compile(f"[\0{GAP}{OPEN}{CLOSE}]")
_PART = re.compile(r'"([^"]*)"?|(\S+)')


class NothingToFind(ValueError):
    """The text cannot be searched for; the sentence says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """What is to be found: every one of `parts`, each a string in the index's own language; `words` are the parts with
    phrases taken apart, which is quicker to say no to.
    """

    parts: tuple[str, ...]
    words: tuple[str, ...]

    @property
    def expression(self) -> str:
        """All of them."""
        return " AND ".join(self.parts)

    @property
    def apart(self) -> str:
        """All words, wherever they stand: whatever the expression finds, and more."""
        return " AND ".join(self.words)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a search goes on. The newest texts that fit are ranked a window at a time: a window begins in a `second`,
    behind so many of it (`skip`), and has `width` texts (0: as many as any). Of its hits so many were `shown`. `until`
    is what was asked for at first.
    """

    second: str
    skip: int = 0
    shown: int = 0
    width: int = 0
    until: str | None = None

    def __str__(self) -> str:
        """As `next` of an answer has it, and `place_of` reads it."""
        text = f"{self.second}_{self.skip}_{self.shown}_{self.width}"
        return text if self.until is None else f"{text}_{self.until}"


_MOMENT = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?Z"
_PLACE = re.compile(rf"({_MOMENT})_(\d{{1,5}})_(\d{{1,3}})_(\d{{1,3}})(?:_({_MOMENT}))?", re.ASCII)


def place_of(text: object) -> Place | None:
    """The place that the text names, or None where it is something else, as a time."""
    found = _PLACE.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        return None
    second, skip, shown, width, until = found.groups()
    try:
        for moment in filter(None, (second, until)):
            from_text(moment)
    except ValueError:
        return None
    return Place(second=second, skip=int(skip), shown=int(shown), width=int(width), until=until)


def query_of(text: str) -> Query:
    """What the text asks for. Raises NothingToFind."""
    if len(text) > TEXT_CHARACTERS:
        raise NothingToFind(f"a search has at most {TEXT_CHARACTERS} characters; this one has {len(text)}")
    typed = [(found, part) for found in _PART.finditer(text) if (part := _part(found)) is not None]
    parts = [part for _, part in typed]
    if not parts:
        raise NothingToFind(f"there is no word in {text[:60]!r} to search for: give letters or digits")
    if len(parts) > WORDS:
        raise NothingToFind(f"a search has at most {WORDS} words; this one has {len(parts)}")
    words = [word for found, part in typed for word in _apart(found, part)]
    return Query(parts=tuple(dict.fromkeys(parts)), words=tuple(dict.fromkeys(words)))


def _part(found: re.Match[str]) -> str | None:
    phrase, word = found.groups()
    if word is None:
        return _quoted(phrase) if _words(phrase) else None
    words = _words(word)
    if not words:
        return None
    if not word.endswith("*") or _RUN.search(words[-1][-1]):
        return _quoted(word)
    if len(words[-1]) < PREFIX_CHARACTERS:
        raise NothingToFind(
            f"{word[:60]}: give {PREFIX_CHARACTERS} letters or more before the *, or the whole word without it"
        )
    return f"{_quoted(word.rstrip('*'))} *"


def _apart(found: re.Match[str], part: str) -> list[str]:
    return [part] if found[1] is None else [_quoted(word) for word in _words(found[1])]


def _words(text: str) -> list[str]:
    return "".join(char if char.isalnum() else " " for char in text).split()


def _quoted(text: str) -> str:
    """A string of the index's language. The quote would be doubled; it parts words, as a space does."""
    return f'"{indexed(text).replace(chr(34), " ")}"'


def indexed(text: str) -> str:
    """The text as the index takes it: one form for one character, none that it has for itself, no halves of any."""
    if text.isascii():
        return _OURS.sub(" ", text) if _OURS.search(text) else text
    text = _OURS.sub(" ", text.encode("utf-8", "replace").decode("utf-8"))
    if not unicodedata.is_normalized("NFC", text):
        text = unicodedata.normalize("NFC", text)
    return _RUN.sub(lambda run: f"{GAP}{GAP.join(run[0])}{GAP}", text)
