"""Which words of a text say something, and what two texts have in common."""

from __future__ import annotations

import re
import unicodedata

from swarmd.core.dates import without_dates

_WORD = re.compile(
    # Vowel signs and accents that stand by themselves are parts of their word, though they are no letters.
    r"[^\W_](?:[\w-]|[\u0300-\u036f\u0591-\u05bd\u0610-\u061a\u064b-\u065f\u06d6-\u06ed\u0900-\u0963\u0966-\u0dff])*"
)
_ALONE = re.compile(r"[\u0e00-\u109f\u1780-\u17ff\u1950-\u1aaf\u2e80-\U0010ffff]")
"""Characters of scripts that set no spaces between words: those of East Asia, Thai, Lao, Burmese, Khmer and theirs."""
_TIME = re.compile(r"(?<!\d)T?\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?(?!\d)")
_STEM, _SHORT, _ENDING = 5, 3, 2
"""Letters by which a word is known: `deploys` is a word of notes that have `deployed`. Shorter ones have the second at
least, and differ by an ending of so many: `ovens` is one of notes that have `oven`."""
_COMMON_WORDS = (
    "about above after again all also although and any are because been before being below between both but came can "
    "come could did does doing done down during each else ever every few for from further get give given gave goes had "
    "has have having her here hers him his how however into its itself just less like made make many may might more "
    "most much must near nor not now off once one only other our ours out over own per same shall she should since "
    "some still such than that the their them then there these they this those through thus too under until upon use "
    "used was way well were what when where which while who whom whose why will with within without would yes yet you "
    "your able agent answer contain content current date dated day days entries entry following log memory note noted "
    "notes okay overview please provide provided request result short sorry summaries summarise summarised summarize "
    "summarized summarizer summary text unable january february march april june july august september october "
    "november december monday tuesday wednesday thursday friday saturday sunday "
    "das dem den der des die ein eine einer für ist mit nicht oder und von war zur les des une pour avec est pas sur "
    "dans las los una para con por que del"
)
"""Words that any text may have, and those of which an answer that says nothing is made."""
_COMMON = frozenset(_COMMON_WORDS.split())


def content(text: str) -> set[str]:
    """The words that say something, by their beginnings: no dates, no numbers, no common words. Of scripts that set no
    spaces between words each character counts as one.
    """
    found: set[str] = set()
    for word in words(without_dates(text)):
        if not word.isascii() and (alone := _ALONE.findall(word)):
            found.update(char for char in alone if char.isalpha())
            word = _ALONE.sub("", word)  # noqa: PLW2901 - a name of another script within such a text
        if len(word) > 2 and word not in _COMMON and any(char.isalpha() for char in word):
            found.add(word[:_STEM])
    return found


def words(text: str) -> list[str]:
    """All of them, as they are compared."""
    return _WORD.findall(unicodedata.normalize("NFC", text).lower())


def figures(text: str) -> set[str]:
    """Numbers and names with one, such as `8080` and `s3`; not those of dates and times, nor single digits."""
    plain = _TIME.sub(" ", without_dates(text))
    return {word for word in words(plain) if len(word) > 1 and any(char.isdigit() for char in word)}


def common(one: set[str], other: set[str]) -> set[str]:
    """The words of the first content that the second has too, be it with another ending."""
    short = {word for word in other if _SHORT <= len(word) < _STEM}
    longer = {word[: len(word) - cut] for word in other for cut in range(1, _ENDING + 1)}
    return {
        word for word in one
        if word in other
        or any(word[: len(word) - cut] in short for cut in range(1, _ENDING + 1))
        or (_SHORT <= len(word) < _STEM and word in longer)
    }  # fmt: skip
