"""The front matter of a Markdown file: YAML between two lines `---`, read as plain texts, lists and tables.

Whoever wrote the file may mean ill: the part has a bound, and is read by `yaml_text`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from swarmd.config import yaml_text

MOST_CHARS = 16 * 1024
DEEPEST = 8
"""Tables in tables: what a person writes has two or three."""

_FILE = "SKILL.md"
"""The only one that is read so."""
_BEFORE = 1
"""So many lines are in the file before the YAML."""
_FENCE = "---"
_LINE_END = re.compile(r"\r\n|\n|\r")


class FrontMatterError(ValueError):
    """There is none, or it cannot be read; the sentence says why."""


def front_matter(text: str) -> Mapping[str, Any]:
    """The fields at the top of the text, in whatever form its lines end. Raises FrontMatterError."""
    lines = _LINE_END.split(text[: MOST_CHARS + 64].removeprefix("\ufeff"))
    if lines[0].rstrip() != _FENCE:
        raise FrontMatterError("it has no front matter: its first line must be ---")
    end = next((number for number, line in enumerate(lines[1:], 1) if line.rstrip() == _FENCE), None)
    if end is None:
        bound = f" within {MOST_CHARS:,} characters" if len(text) > MOST_CHARS else ""
        raise FrontMatterError(f"its front matter has no end{bound}: a line --- is expected after it")
    found = _read("\n".join(lines[1:end]))
    if not isinstance(found, Mapping):
        raise FrontMatterError("its front matter has no fields: lines such as `name: ...` are expected")
    return found


def _read(text: str) -> Any:
    try:
        return yaml_text.read(text, deepest=DEEPEST)
    except yaml_text.NoYaml as error:
        where = f"line {error.line + _BEFORE} of {_FILE}"
        if isinstance(error, yaml_text.TooMuch):
            raise FrontMatterError(f"its front matter has {error}, which is not read: {where}") from None
        raise FrontMatterError(f"its front matter is no YAML: {where}: {error}") from None
