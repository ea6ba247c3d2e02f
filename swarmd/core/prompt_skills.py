"""The section of the prompt that lists skills: the name and description of each, whose it is, how to read one."""

from __future__ import annotations

from swarmd.core.fences import Ours, Pieces, quoted
from swarmd.core.room import NOTE_TOKENS, Count, fill
from swarmd.core.sections import Part, more, part
from swarmd.core.skills import Skill, replaced
from swarmd.core.snapshot import Snapshot
from swarmd.core.text import one_line, shortened

SKILLS_TOKENS = 4000
"""About forty skills with full descriptions, a hundred with short ones."""
SHORT_CHARS = 120
LONG_SHARE = 8
"""One description takes at most this part of the section, else it is shortened: no skill hides all the others."""

_HOW = (
    "Before a task that one of these is for, read it: `swarmd skill show NAME`, and `swarmd skill show NAME FILE` for "
    "a file beside it. Those of the operator are instructions for such a task; your own are your notes."
)


def skills_part(snapshot: Snapshot, count: Count) -> Part:
    """The operator's skills, then the agent's own. What is wrong with an own one is told, so that it can be mended."""
    about = "skills, whose they are = what each is for (data)"
    every = sorted(snapshot.skills, key=lambda skill: (skill.own, skill.name))
    own, operators = [one for one in every if one.own], [one for one in every if not one.own]
    if not every:
        return part("skills", about, ())
    hidden = replaced(own, operators)
    room = SKILLS_TOKENS - NOTE_TOKENS - count(_HOW)
    filled = fill(
        (_forms(skill, behind=skill.own and skill.name in hidden) for skill in every), room, count,
        most=SKILLS_TOKENS // LONG_SHARE,
    )  # fmt: skip
    cut = f"{filled.reduced:,} descriptions shortened" if filled.reduced else ""
    left = more(len(every), filled.shown, "swarmd skill list", "skills")
    return part("skills", about, (Ours(line=_HOW), *filled.pieces), cut, left)


def _forms(skill: Skill, *, behind: bool) -> tuple[Pieces, ...]:
    name = one_line(skill.name).replace(" = ", " \\x3d ")
    whose = "your own" if skill.own else "the operator's"
    if behind:
        return ((Ours(line=f"skill {name} (your own) is not used: the operator has one of that name"),),)
    if skill.problem is not None:
        lead = f"skill {name} ({whose}) cannot be used, mend {one_line(skill.folder)}/SKILL.md"
        return (quoted(lead.replace(" = ", " \\x3d "), shortened(skill.problem, 400)),)
    lead = f"skill {name} ({whose})"
    short = shortened(one_line(skill.description), SHORT_CHARS)
    return quoted(lead, skill.description), quoted(lead, short)
