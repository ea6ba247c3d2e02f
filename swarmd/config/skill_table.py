"""What is judged of `skills` from several fields of an agent file, and what of the folders is wrong on this machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from swarmd.config.model import AgentFile
from swarmd.config.problems import Complaint, printable, shown
from swarmd.config.skill_folders import SkillRules, Writable, careless_files, skills_in
from swarmd.core.agent import Agent

_EXPECTED = "a folder that no session can write"


def spanning_skills(model: AgentFile, sessions_write: Sequence[str]) -> list[Complaint]:
    """Folders of skills that lie where sessions write: what a session can write is no operator's instruction."""
    found = []
    home = () if model.sandbox.home == "private" else (model.sandbox.home,)
    named = [("sandbox.write", path) for path in model.sandbox.write] + [
        ("sandbox.home", path) for path in home
    ]
    places = [(f"{field} has {path}", path) for field, path in named]
    places += [(f"{path} is swarmd's own", path) for path in sessions_write]
    for index, folder in enumerate(model.skills):
        why = next((said for said, path in places if Writable.of([path]).reached(folder) is not None), None)
        if why is not None:
            text = f"lies where sessions write: {why}"
            found.append(
                Complaint(path=("skills", index), text=text, found=shown(folder), expected=_EXPECTED)
            )
    return found


def skill_warnings(agent: Agent, rules: SkillRules) -> Iterator[Complaint]:
    """What is wrong with the skills that the agent's file names: they are left out of its prompt."""
    if not agent.skills:
        return
    found = skills_in(agent.skills, rules)
    for fault in found.faults:
        yield Complaint(path=("skills", fault.index), text=printable(str(fault)), severity="warning")
    for skill in found.skills:
        index = next(
            (n for n, folder in enumerate(agent.skills) if skill.folder.startswith(folder.rstrip("/"))), 0
        )
        for fault in careless_files(skill, rules.guard):
            yield Complaint(path=("skills", index), text=printable(str(fault)), severity="warning")
