"""Skills: folders with a SKILL.md that says how something is done, as values; config reads them.

The operator's come from folders that an agent's file names, an agent's own stand in its memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from swarmd.core.world import Document

SKILL_FILE = "SKILL.md"
OWN_FOLDER = "skills/"
"""Where an agent's own stand in its memory."""
SKILL_BYTES = 64 * 1024

_PATH_PARTS = 8
_PATH_CHARS = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    """One skill, good or not. `folder` is absolute for the operator's, a path in the memory for an agent's own."""

    name: str
    folder: str
    own: bool
    description: str = ""
    license: str = ""
    compatibility: str = ""
    allowed_tools: str = ""
    digest: str = ""
    """Of its SKILL.md."""
    bytes: int = 0
    problem: str | None = None
    """Why it is none that can be used, in a sentence's words."""


def own_folders(memory: Sequence[Document]) -> frozenset[str]:
    """The folders of a memory that are skills, each with its last slash: what stands in them belongs to the skill."""
    return frozenset(
        f"{OWN_FOLDER}{folder}/"
        for document in memory
        if document.data is not None and (folder := folder_of(document.path)) is not None
    )


def replaced(own: Sequence[Skill], operators: Sequence[Skill]) -> frozenset[str]:
    """The names of own skills that an operator's stands in front of."""
    return frozenset(skill.name for skill in own) & frozenset(skill.name for skill in operators)


def file_problem(path: str) -> str | None:
    """Why this may not name a file of a skill, or None: a path that stays in the folder, without hidden parts."""
    parts = path.split("/")
    if "\x00" in path or len(path) > _PATH_CHARS or not all(parts) or len(parts) > _PATH_PARTS:
        return f"{path[:80]!r} is no file of a skill: a path inside its folder is expected, as scripts/run.py"
    if any(part.startswith(".") for part in parts):
        return f"{path[:80]!r} is no file of a skill: no part of its path begins with a dot"
    return None


def folder_of(path: str) -> str | None:
    """The name of the skill whose SKILL.md this path of a memory is."""
    place = file_of_skill(path)
    return place[0] if place is not None and place[1] == SKILL_FILE else None


def file_of_skill(path: str) -> tuple[str, str] | None:
    """The same, and the file's name, also where that is SKILL.md but for its case."""
    parts = path.split("/")
    if len(parts) == 3 and f"{parts[0]}/" == OWN_FOLDER and parts[2].lower() == SKILL_FILE.lower():
        return parts[1], parts[2]
    return None


def another_case(name: str) -> str:
    """What is said of a file that has the right name but for its case."""
    return f"its {name} must be called {SKILL_FILE}"
