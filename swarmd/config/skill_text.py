"""What makes a skill: its SKILL.md, read and judged.

The format is the public one: front matter with `name` (the folder's own) and `description`, optionally `license`,
`compatibility`, `metadata`, `allowed-tools`, then Markdown; other files beside it. Fields that others have added are
left alone.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from swarmd.config.front_matter import MOST_CHARS, FrontMatterError, front_matter
from swarmd.core.digests import digest
from swarmd.core.skills import OWN_FOLDER, SKILL_BYTES, SKILL_FILE, Skill, another_case, file_of_skill
from swarmd.core.world import Document

NAME = re.compile(r"(?=.{1,64}\Z)[a-z0-9]+(?:-[a-z0-9]+)*", re.ASCII)
DESCRIPTION_CHARS = 1024
COMPATIBILITY_CHARS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """What the front matter says."""

    name: str
    description: str
    license: str = ""
    compatibility: str = ""
    allowed_tools: str = ""


class SkillError(ValueError):
    """The file makes no skill; the sentence says why."""


def skill_of(name: str, folder: str, data: bytes, *, own: bool) -> Skill:
    """The skill in the folder of this name, whose SKILL.md holds `data`; with its problem where that makes none."""
    try:
        head = _head(name, _top(data))
    except SkillError as error:
        return Skill(name=name, folder=folder, own=own, digest=digest(data), bytes=len(data),
                     problem=str(error))  # fmt: skip
    return Skill(name=name, folder=folder, own=own, description=head.description, license=head.license,
                 compatibility=head.compatibility, allowed_tools=head.allowed_tools, digest=digest(data),
                 bytes=len(data))  # fmt: skip


def own_skills(memory: Sequence[Document], agent: str) -> list[Skill]:
    """The skills in an agent's own memory, by name."""
    found = []
    for document in sorted(memory, key=lambda document: document.path):
        place = file_of_skill(document.path)
        if place is None or document.agent != agent or document.data is None:
            continue
        folder, file = place
        path = f"{OWN_FOLDER}{folder}"
        if file == SKILL_FILE:
            found.append(skill_of(folder, path, document.data, own=True))
        else:
            found.append(Skill(name=folder, folder=path, own=True, digest=digest(document.data),
                               bytes=len(document.data), problem=another_case(file)))  # fmt: skip
    return found


def _top(data: bytes) -> str:
    """The text as far as the front matter may go. Raises SkillError for what is none, in whole."""
    if len(data) > SKILL_BYTES:
        raise SkillError(f"its SKILL.md has {len(data):,} bytes; {SKILL_BYTES:,} are the most")
    if b"\x00" in data:
        raise SkillError("its SKILL.md holds a NUL character: it is no text")
    try:
        return data.decode("utf-8")[: MOST_CHARS + 64]
    except UnicodeDecodeError as error:
        raise SkillError(f"its SKILL.md is not UTF-8 (byte {error.start:,})") from None


@functools.lru_cache(maxsize=512)
def _judged(folder: str, top: str) -> Head | str:
    """Kept, since the same few files are looked at for each prompt; a reason is a value here, or it would not be."""
    try:
        fields = front_matter(top)
    except FrontMatterError as error:
        return str(error)
    try:
        return Head(
            name=_name(fields, folder),
            description=_text(fields, "description", DESCRIPTION_CHARS, must=True),
            license=_text(fields, "license", DESCRIPTION_CHARS),
            compatibility=_text(fields, "compatibility", COMPATIBILITY_CHARS),
            allowed_tools=_tools(fields),
        )
    except SkillError as error:
        return str(error)


def _head(folder: str, top: str) -> Head:
    found = _judged(folder, top)
    if isinstance(found, str):
        raise SkillError(found)
    return found


def _name(fields: Mapping[str, Any], folder: str) -> str:
    name = _text(fields, "name", 200, must=True)
    if NAME.fullmatch(name) is None:
        raise SkillError(
            f"its name {name[:80]!r} is none: 1 to 64 of a-z, 0-9 and single hyphens between them are expected"
        )
    if name != folder:
        raise SkillError(f"its name is {name!r} and its folder's {folder[:80]!r}: they must be the same")
    return name


def _text(fields: Mapping[str, Any], field: str, most: int, *, must: bool = False) -> str:
    value = fields.get(field, "")
    if not isinstance(value, str):
        raise SkillError(f"its {field} must be a text")
    value = value.strip()
    if must and not value:
        raise SkillError(f"its front matter has no {field}")
    if len(value) > most:
        raise SkillError(f"its {field} has {len(value):,} characters; {most:,} are the most")
    return value


def _tools(fields: Mapping[str, Any]) -> str:
    """Names with spaces between them; some write a list."""
    value = fields.get("allowed-tools", "")
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        value = " ".join(value)
    return _text({"allowed-tools": value}, "allowed-tools", 4096)
