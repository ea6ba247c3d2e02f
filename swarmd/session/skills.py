"""The operator's skills of an agent as a session is shown them: read at its start, by the daemon."""

from __future__ import annotations

import functools
import logging
import os
from dataclasses import replace

from swarmd.config.files import Guard
from swarmd.config.skill_folders import Found, SkillRules, skills_in, written_by
from swarmd.config.skill_text import own_skills
from swarmd.core.agent import Agent
from swarmd.core.skills import Skill
from swarmd.core.snapshot import Snapshot
from swarmd.core.tree import Tree

log = logging.getLogger("swarmd")


def skills_of(agent: Agent, tree: Tree, state: str) -> Found:
    """The skills that its file names, and what is wrong with some. Blocking: it reads files."""
    return skills_in(agent.skills, rules_here(tree, state)) if agent.skills else Found()


def shown_skills(agent: Agent, tree: Tree, state: str) -> tuple[Skill, ...]:
    """The same for a session: the good ones alone. What is wrong is said in the log when it is seen first."""
    found = skills_of(agent, tree, state)
    if found.fresh:
        for fault in found.faults:
            log.warning("skills: %s", fault, extra={"agent": agent.name})
    return found.skills


def with_own(seen: Snapshot) -> Snapshot:
    """The snapshot with the skills in the agent's own memory, as its prompt is made of it."""
    own = own_skills(seen.memory, seen.owner)
    return replace(seen, skills=(*(skill for skill in seen.skills if not skill.own), *own)) if own else seen


@functools.lru_cache(maxsize=4)
def rules_here(tree: Tree, state: str) -> SkillRules:
    """What skills are judged by: the state's owner is the daemon's user, and where sessions write there are none."""
    try:
        uid = os.stat(state).st_uid
    except OSError:
        uid = os.geteuid()
    return SkillRules(guard=Guard(uid=uid), writable=written_by(tree.agents.values(), state))
