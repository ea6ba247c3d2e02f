"""Reads of skills: the operator's from the folders that the agent's file names, its own from its memory."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import TYPE_CHECKING

from swarmd.config.skill_folders import file_of, files_of
from swarmd.config.skill_text import own_skills
from swarmd.core.skills import SKILL_FILE, Skill, file_problem, replaced
from swarmd.core.text import shortened
from swarmd.errors import NotFound, Refused
from swarmd.service.view import JSON, Args, View, items, text
from swarmd.session.skills import rules_here, skills_of

if TYPE_CHECKING:
    from swarmd.config.skill_folders import Found
    from swarmd.core.world import Document

_REASON_CHARS = 500


def skill_list(view: View, args: Args) -> JSON:
    """The skills of an agent: the operator's, then its own, with what is wrong with some."""
    agent = view.agent(args)
    found, own = _operators(view, agent), own_skills(_memory(view, agent), _owner(view, agent))
    hidden = replaced(own, found.skills)
    bad = [
        {**dict.fromkeys(("description", "license", "compatibility", "allowed_tools"), ""),
         "name": fault.place.removesuffix(f"/{SKILL_FILE}").rpartition("/")[2], "whose": "operator",
         "folder": fault.place, "bytes": None, "problem": shortened(fault.text, _REASON_CHARS)}
        for fault in found.faults
    ]  # fmt: skip
    return items(
        [*map(_doc, found.skills), *bad, *(_doc(skill, hidden=skill.name in hidden) for skill in own)]
    )


def skill_show(view: View, args: Args) -> JSON:
    """A skill's SKILL.md and the list of its other files, or one of these; what is not UTF-8 as base64 too."""
    agent, name = view.agent(args), text(args, "name")
    path = text(args, "file", required=False) or SKILL_FILE
    found = _operators(view, agent)
    skill = next((skill for skill in found.skills if skill.name == name), None)
    if skill is not None:
        guard = rules_here(view.tree, str(view.places.state)).guard
        data = file_of(skill, path, guard, _command(view, "show", agent, name))
        return _shown(agent, skill, path, data, files_of(skill))
    documents = {document.path: document for document in _memory(view, agent)}
    own = next(
        (one for one in own_skills(list(documents.values()), _owner(view, agent)) if one.name == name), None
    )
    if own is None:
        raise NotFound(_no_such(view, agent, name, found))
    if (problem := file_problem(path)) is not None:
        raise Refused(problem)
    document = documents.get(f"{own.folder}/{path}")
    if document is None or document.data is None:
        listed = _command(view, "show", agent, name)
        raise NotFound(
            f"the skill {name} of {agent} has no file {path[:200]!r}; {listed} lists those that it has"
        )
    lead = f"{own.folder}/"
    beside = [
        (file.removeprefix(lead), len(one.data or b""))
        for file, one in sorted(documents.items())
        if file.startswith(lead) and file != f"{lead}{SKILL_FILE}"
    ]
    return _shown(agent, own, path, document.data, beside)


def _operators(view: View, agent: str) -> Found:
    from swarmd.config.skill_folders import Found

    definition = view.tree.agent(agent)
    return Found() if definition is None else skills_of(definition, view.tree, str(view.places.state))


def _owner(view: View, agent: str) -> str:
    """Whose folder has the agent's own skills: to its own session about a subject the one about that."""
    return view.actor.owner or agent if agent == view.actor.agent else agent


def _memory(view: View, agent: str) -> Sequence[Document]:
    """The agent's notes; of one that keeps none, none."""
    definition = view.tree.agent(agent)
    kept = definition is None or definition.memory.persistent
    return view.world.documents(_owner(view, agent)) if kept else ()


def _doc(skill: Skill, *, hidden: bool = False) -> dict[str, JSON]:
    problem = "the operator has one of that name, which counts" if hidden else skill.problem
    return {
        "name": skill.name, "whose": "own" if skill.own else "operator", "description": skill.description,
        "folder": skill.folder, "bytes": skill.bytes, "license": skill.license, "compatibility": skill.compatibility,
        "allowed_tools": skill.allowed_tools, "problem": problem,
    }  # fmt: skip


def _shown(agent: str, skill: Skill, path: str, data: bytes, files: Sequence[tuple[str, int]]) -> JSON:
    shown = data.decode("utf-8", "replace")
    raw = None if shown.encode() == data else base64.b64encode(data).decode()
    listed = [{"file": file, "bytes": size} for file, size in files]
    return {"agent": agent, **_doc(skill), "file": path, "bytes": len(data), "text": shown, "base64": raw,
            "files": listed}  # fmt: skip


def _no_such(view: View, agent: str, name: str, found: Found) -> str:
    for fault in found.faults:
        if fault.place.removesuffix(f"/{SKILL_FILE}").endswith(f"/{name}"):
            return f"the skill {name!r:.80} cannot be used: {shortened(str(fault), _REASON_CHARS)}"
    return f"{agent} has no skill {name!r:.80}; {_command(view, 'list', agent)} shows those that it has"


def _command(view: View, what: str, agent: str, *more: str) -> str:
    """As the asker types it: a session says no agent where it means itself, and names another by an option."""
    if view.actor.agent is None:
        return " ".join(("swarmd skill", what, agent, *more))
    whose = () if agent == view.actor.agent else ("--agent", agent)
    return " ".join(("swarmd skill", what, *whose, *more))
