"""Whose a memory folder is: an agent's own, one that several share, or an agent's about one subject; as one text.

The store keeps every folder under its owner, in the column `agent`, and publishes it at `memory/OWNER/`. No agent's
name holds an `@`, so that no owner can be taken for another.
"""

from __future__ import annotations

import re

from swarmd.core.names import agent_name_problem

SUBJECT_NAME = re.compile(r"[a-z0-9][a-z0-9_.+@-]{0,62}", re.ASCII)


def shared_owner(name: str) -> str:
    """The owner of the shared folder of this name: `@NAME`, as commands name it too."""
    return f"@{name}"


def subject_owner(agent: str, subject: str) -> str:
    """The owner of an agent's folder about a subject: `AGENT@SUBJECT`."""
    return f"{agent}@{subject}"


def shared_name(owner: str) -> str | None:
    """The name of the shared folder that this owner is, or None for an agent's own folder."""
    return owner[1:] if owner.startswith("@") else None


def agent_of_owner(owner: str) -> str | None:
    """The agent whose folder it is, alone or about a subject; None for a shared one."""
    return owner.partition("@")[0] or None


def subject_of(owner: str) -> str | None:
    """The subject that the folder is about, or None."""
    agent, mark, subject = owner.partition("@")
    return subject if agent and mark else None


def subject_problem(subject: str) -> str | None:
    """Why `subject` may not name one, or None where it may."""
    if SUBJECT_NAME.fullmatch(subject) and ".." not in subject:
        return None
    return (
        f"a subject has 1 to 63 of a-z, 0-9 and _ . + @ -, starts with a letter or digit, and has no two dots in a "
        f"row; {subject[:80]!r} is none"
    )


def is_about(owner: str, agent: str) -> bool:
    """Whether it is a folder of the agent's: its own, or one about a subject."""
    return agent_of_owner(owner) == agent


def renamed(owner: str, old: str, new: str) -> str:
    """The owner after the agent `old` was renamed to `new`."""
    return new + owner[len(old) :] if is_about(owner, old) else owner


def owner_problem(owner: str) -> str | None:
    """Why no folder can have this owner, or None."""
    shared = shared_name(owner)
    if shared is not None:
        return agent_name_problem(shared)
    agent, mark, subject = owner.partition("@")
    return agent_name_problem(agent) or (subject_problem(subject) if mark else None)
