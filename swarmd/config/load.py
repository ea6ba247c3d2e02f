"""Decides which agents are in force: what stood before, what the files say now, and the rules between them. Pure.

The rules:

- One bad file never stops the others. A bad edit leaves the last good definition in force.
- A file that is gone keeps its agent in force for ten seconds, since many ways of saving remove a file first.
- A folder that is missing, unreadable or suddenly empty changes nothing.
- An agent whose parent is not in force keeps the place it had: below the nearest agent that stood above it and still
  does. It says so in `gone_parent`. So a removal gives nobody a right: those above had authority over it already,
  nobody else gets any, and what it would have reported to its parent goes to no agent. Where it had no place yet,
  it is out, and only it.
- Files that close a cycle are refused, those that only took part in it by what was in force already are not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from swarmd.config.arrange import Arrangement, arrange, cycle_complaint, cycles
from swarmd.config.check import Checked, FileCheck
from swarmd.config.problems import Complaint, Problem, did_you_mean
from swarmd.core.agent import Agent
from swarmd.core.counts import counted
from swarmd.core.tree import Tree

ABSENCE_SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class InForce:
    """An agent as the store has it in force; `absent_since` (seconds since 1970) where its file is gone."""

    agent: Agent
    absent_since: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reload:
    """What a look at the files comes to.

    `agents` is the whole of what is now in force, `added`, `changed` and `removed` what differs from before;
    `sources` the text of the files of those added and changed.
    """

    agents: Mapping[str, Agent]
    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    """In force by their last good definition, while their file has errors (named in `problems`)."""
    out: tuple[str, ...] = ()
    """Not in force at all, because of errors in their file."""
    absent: Mapping[str, float] = field(default_factory=dict)
    """In force although their file is gone, and since when."""
    recheck_at: float | None = None
    """When the first of the absent must go, and this must be asked again."""
    problems: tuple[Problem, ...] = ()
    attention: tuple[str, ...] = ()
    """What prevents any change at all, for a person."""
    sources: Mapping[str, str] = field(default_factory=dict)

    @property
    def tree(self) -> Tree:
        """The agents in force as a tree."""
        return Tree(self.agents)

    @property
    def is_change(self) -> bool:
        """Whether anything in force differs from before."""
        return bool(self.added or self.changed or self.removed)


def reconcile(
    in_force: Mapping[str, InForce], checked: Checked, *, now: float, allow_empty: bool = False
) -> Reload:
    """What is in force from now on. `allow_empty` takes an empty folder at its word, at once."""
    stopped = _stopped(in_force, checked, allow_empty)
    if stopped is not None:
        agents = {name: known.agent for name, known in sorted(in_force.items())}
        kept = tuple(
            name for name, file in sorted(checked.files.items()) if file.agent is None and name in agents
        )
        return Reload(agents=agents, kept=kept, problems=checked.problems, attention=(stopped,))
    absent = _absent(in_force, checked, now)
    leaving = {name for name, since in absent.items() if allow_empty or now - since >= ABSENCE_SECONDS}
    arrangement = arrange(
        new=checked.agents,
        last={name: known.agent for name, known in in_force.items()},
        leaving=frozenset(leaving),
        files=frozenset(checked.files),
    )
    waiting = {name: since for name, since in sorted(absent.items()) if name not in leaving}
    return _reload(in_force, checked, arrangement, waiting)


def _stopped(in_force: Mapping[str, InForce], checked: Checked, allow_empty: bool) -> str | None:
    """Why nothing may change now, or None."""
    if checked.folder.kind != "present":
        return f"{checked.folder.reason}: the agents in force stay as they are"
    if in_force and checked.is_empty and not allow_empty:
        agents = counted(len(in_force), "agent is", "agents are")
        return (
            f"the folder of agent files is suddenly empty, and {agents} in force: that stays as it is "
            "(to remove them: swarmd reload --allow-empty)"
        )
    return checked.held


def _absent(in_force: Mapping[str, InForce], checked: Checked, now: float) -> dict[str, float]:
    """Since when the files of agents in force are gone; a clock that was set back starts the wait anew."""
    return {
        name: now if known.absent_since is None else min(known.absent_since, now)
        for name, known in in_force.items()
        if name not in checked.files
    }


def _reload(
    in_force: Mapping[str, InForce], checked: Checked, arrangement: Arrangement, absent: Mapping[str, float]
) -> Reload:
    agents = arrangement.agents
    changed = tuple(
        name for name, agent in agents.items() if name in in_force and _differs(in_force[name].agent, agent)
    )
    added = tuple(name for name in agents if name not in in_force)
    bad = [name for name, file in checked.files.items() if file.agent is None or name in arrangement.fallen]
    return Reload(
        agents=agents,
        added=added,
        changed=changed,
        removed=tuple(sorted(name for name in in_force if name not in agents)),
        kept=tuple(sorted(name for name in bad if name in agents)),
        out=tuple(sorted(name for name in bad if name not in agents)),
        absent=absent,
        recheck_at=min(absent.values()) + ABSENCE_SECONDS if absent else None,
        problems=_problems(checked, arrangement),
        sources={
            name: checked.files[name].document.text for name in (*added, *changed) if name in checked.files
        },
    )


def _differs(before: Agent, now: Agent) -> bool:
    return before is not now and before != now


def _problems(checked: Checked, arrangement: Arrangement) -> tuple[Problem, ...]:
    """All problems, file by file: those of the file by itself, then those of its place and of what it refers to."""
    found = list(checked.other_problems)
    known = frozenset({*checked.files, *arrangement.agents})
    round_about = _cycles_of_bad_files(checked)
    for name, file in sorted(checked.files.items()):
        found += file.problems
        complaint = round_about.get(name) or arrangement.complaints.get(name)
        if complaint is not None:
            found.append(file.located(complaint))
        found += _unknown_parent(file, known) if file.agent is None else []
        found += _unknown_reads(file, known)
    return tuple(found)


def _cycles_of_bad_files(checked: Checked) -> dict[str, Complaint]:
    """The cycles that files would close if they had no other errors: `arrange` sees good files only."""
    parents = {
        name: file.parent if file.parent in checked.files else None for name, file in checked.files.items()
    }
    return {
        name: cycle_complaint(cycle, name)
        for cycle in cycles(parents)
        if any(checked.files[name].agent is None for name in cycle)
        for name in cycle
    }


def _unknown_parent(file: FileCheck, known: frozenset[str]) -> list[Problem]:
    """What `arrange` says of good files; of one that has errors anyway it is said too, so that all are in one list."""
    if file.parent is None or file.parent in known:
        return []
    text, hint = f"no agent is named {file.parent!r}", did_you_mean(file.parent, known)
    return [file.located(Complaint(path=("parent",), text=text, hint=hint))]


def _unknown_reads(file: FileCheck, known: frozenset[str]) -> list[Problem]:
    return [
        file.located(
            Complaint(
                path=("memory", "reads", index),
                text=f"no agent is named {name!r}",
                hint=did_you_mean(name, known),
                severity="warning",
            )
        )
        for index, name in enumerate(file.reads)
        if name and name not in known
    ]
