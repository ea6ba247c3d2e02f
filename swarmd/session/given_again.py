"""What an earlier session was given, made again: to be shown, or to be given to another definition of its agent."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from swarmd.core.agent import Agent
from swarmd.core.calibration import measured_as
from swarmd.core.digests import prompt_digest
from swarmd.core.prompt import assemble
from swarmd.core.snapshot import Prompt, Snapshot
from swarmd.core.tree import Tree
from swarmd.errors import Failed, Refused
from swarmd.session.consolidating import shown_again
from swarmd.session.instructions import standing
from swarmd.session.skills import skills_of, with_own
from swarmd.store import sessions, usage
from swarmd.store.bases import rebuilt
from swarmd.store.connections import Connection, Row, reading
from swarmd.store.consolidated import given_to
from swarmd.store.past import Past, past_of
from swarmd.store.trees import tree_of
from swarmd.store.windows import Row as Found


def with_skills(seen: Snapshot, row: Row | Found, tree: Tree, state: str) -> Snapshot:
    """The snapshot with the operator's skills, of which the store keeps digests alone: they are read as they are now.
    Raises Refused where they are not what that session was shown.
    """
    shown = json.loads(row["base"]).get("skills", [])
    skills = skills_of(seen.agent, tree, state).skills
    if [[skill.name, skill.digest] for skill in skills] != shown:
        names = sorted({name for name, _ in shown} | {skill.name for skill in skills})
        raise Refused(
            f"the prompt of session {row['id']} cannot be made again: skills of the operator's have changed since "
            f"({', '.join(names)[:200]})"
        )
    return replace(seen, skills=skills)


def prompt_of(seen: Snapshot, row: Row | Found, count: Callable[[str], int], state: str) -> Prompt:
    """The prompt that the session of this row was given. Raises Refused where it comes out differently. Instructions
    are files of the agent's own, of which nothing is kept: they are read as they are now.
    """
    try:
        made = assemble(with_own(seen), count, standing=standing(seen.agent, state))
    except Failed as gone:
        raise Refused(f"the prompt of session {row['id']} cannot be made again: {gone}") from gone
    if prompt_digest(made.system, made.user) != row["prompt_hash"]:
        raise Refused(
            f"the prompt of session {row['id']} comes out differently when it is made again: by another version of "
            "swarmd, with other token counts, or from instructions that have changed since"
        )
    return made


def prompt_again(connection: Connection, row: Row | Found, count: Callable[[str], int], state: str) -> Prompt:
    """The same from what is kept. Raises Refused where something is not kept any more, too."""
    with reading(connection):
        seen = rebuilt(connection, row)
        if (given := given_to(row["base"])) is not None:
            seen = shown_again(connection, seen, given, Path(state) / "sessions")
        else:
            seen = with_skills(seen, row, tree_of(connection), state)
    return prompt_of(seen, row, count, state)


def past_for(
    connection: Connection, session: int, agent: Agent, count: Callable[[str], int], state: str
) -> Past:
    """The moment of an earlier session, had its agent been defined as `agent` then. Raises Refused where that moment
    cannot be made again to the byte.
    """
    with reading(connection):
        row = sessions.row(connection, session)
        past, tree = past_of(connection, row), tree_of(connection)
        past = replace(past, seen=with_skills(past.seen, row, tree, state))
        then = past.seen.agent
        corrected = usage.learnt(connection, agent.name, measured_as(agent))
    prompt_of(past.seen, row, count, state)
    past = past.with_agent(agent)
    if agent.skills != then.skills:
        past = replace(past, seen=replace(past.seen, skills=skills_of(agent, tree, state).skills))
    if measured_as(agent) == measured_as(then):
        return past
    # Of another model the counts of then say nothing.
    return replace(
        past, seen=replace(past.seen, token_ratio=corrected.ratio, token_overhead=corrected.overhead)
    )
