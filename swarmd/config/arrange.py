"""Puts definitions into one tree: new ones where their files say, others where they were; it reads no files.

Each agent is there by its new definition or by its last one. A new one that finds no place falls back to the last
one, or the agent is out. That may take another's place, so this goes round until nothing falls any more; as each
round makes something fall for good, it ends.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from swarmd.config.problems import Complaint, did_you_mean
from swarmd.core.agent import Agent

_PARENT = ("parent",)
_SHOWN_NAMES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrangement:
    """The agents at their places. `complaints` say, by name, what is wrong with a place that a file asks for."""

    agents: Mapping[str, Agent]
    complaints: Mapping[str, Complaint]
    fallen: frozenset[str]
    """Those whose new definition was not taken."""


def arrange(
    *, new: Mapping[str, Agent], last: Mapping[str, Agent], leaving: frozenset[str], files: frozenset[str]
) -> Arrangement:
    """Find every agent its place.

    `new` are the definitions of good files, `last` those in force before, of which `leaving` go now; `files` are the
    names that have a file at all, good or bad.
    """
    work = _Work(new=new, last=last, leaving=leaving, files=files)
    work.chosen = {**{name: agent for name, agent in last.items() if name not in leaving}, **new}
    while work.drop_the_homeless() or work.break_cycles():
        pass
    return Arrangement(agents=work.placed(), complaints=work.complaints, fallen=frozenset(work.fallen))


@dataclass(slots=True, kw_only=True)
class _Work:
    """The rounds of one arrangement."""

    new: Mapping[str, Agent]
    last: Mapping[str, Agent]
    leaving: frozenset[str]
    files: frozenset[str]
    chosen: dict[str, Agent] = field(default_factory=dict)
    complaints: dict[str, Complaint] = field(default_factory=dict)
    fallen: set[str] = field(default_factory=set)

    def drop_the_homeless(self) -> bool:
        """Let fall what names a parent that is not in force, unless it stood below that one before."""
        homeless = [name for name in self.chosen if self.place(name) is None]
        for name in homeless:
            wanted = _wanted(self.chosen[name]) or ""
            self.fall(name, Complaint(path=_PARENT, text=self.lost(wanted), hint=self.meant(wanted)))
        return bool(homeless)

    def break_cycles(self) -> bool:
        """Let fall the members of a cycle that ask for a place other than the one they had."""
        parents = {name: (self.place(name) or (None, None))[0] for name in self.chosen}
        fell = False
        for cycle in cycles(parents):
            for name in cycle:
                if self.moves(name, parents[name]):
                    self.fall(name, cycle_complaint(cycle, name))
                    fell = True
        return fell

    def place(self, name: str) -> tuple[str | None, str | None] | None:
        """The agent above, and the one that the file names in its stead where that is gone; None: no place."""
        wanted = _wanted(self.chosen[name])
        if wanted is None or wanted in self.chosen:
            return wanted, None
        before = self.last.get(name)
        if before is not None and _wanted(before) == wanted:
            return self.nearest_above(before), wanted
        return None

    def nearest_above(self, before: Agent) -> str | None:
        """The nearest of those that stood above and are still in force."""
        seen = {before.name}
        parent = before.parent
        while parent is not None and parent not in self.chosen:
            if parent in seen or parent not in self.last:
                return None
            seen.add(parent)
            parent = self.last[parent].parent
        return parent

    def moves(self, name: str, parent: str | None) -> bool:
        """Whether it is there by a new definition that gives it another place than before."""
        if name not in self.new or name in self.fallen:
            return False
        return name not in self.last or self.last[name].parent != parent

    def fall(self, name: str, complaint: Complaint) -> None:
        """Back to the last definition, where there is one."""
        self.complaints[name] = complaint
        self.fallen.add(name)
        if name in self.last and name not in self.leaving:
            self.chosen[name] = self.last[name]
        else:
            del self.chosen[name]

    def placed(self) -> dict[str, Agent]:
        """The outcome; who hangs below another than its file names gets a complaint that says so."""
        agents: dict[str, Agent] = {}
        for name, agent in sorted(self.chosen.items()):
            parent, gone = self.place(name) or (None, None)
            agents[name] = agent
            if (agent.parent, agent.gone_parent) != (parent, gone):
                agents[name] = dataclasses.replace(agent, parent=parent, gone_parent=gone)
            if gone is not None and name in self.new and name not in self.fallen:
                kept = f"below {parent!r}" if parent is not None else "as a root"
                text = f"{self.lost(gone)}; {name} keeps its place {kept}, and its reports go to no agent"
                self.complaints[name] = Complaint(path=_PARENT, text=text, hint=self.meant(gone))
        return agents

    def lost(self, wanted: str) -> str:
        """Why this parent cannot be had."""
        if wanted in self.files:
            return f"{wanted!r} is not in force, since its own file has problems"
        more = " any more" if wanted in self.last else ""
        return f"no agent is named {wanted!r}{more}"

    def meant(self, wanted: str) -> str | None:
        """The name that may be meant."""
        return None if wanted in self.files else did_you_mean(wanted, self.files | self.chosen.keys())


def cycle_complaint(cycle: Sequence[str], name: str) -> Complaint:
    """What is said to a file whose agent takes part in a cycle, each name from child to parent."""
    number = cycle.index(name)
    path = _shortened([*cycle[number:], *cycle[:number], name])
    return Complaint(path=_PARENT, text=f"closes a cycle: {' -> '.join(path)}")


def cycles(parents: Mapping[str, str | None]) -> list[list[str]]:
    """All cycles, each from child to parent. Every name is walked over once, so a thousand of them are no matter."""
    found: list[list[str]] = []
    walked: set[str] = set()
    for start in sorted(parents):
        path: dict[str, None] = {}
        name: str | None = start
        while name is not None and name not in walked:
            walked.add(name)
            path[name] = None
            name = parents.get(name)
        if name in path:
            names = list(path)
            found.append(names[names.index(name) :])
    return found


def _shortened(path: list[str]) -> list[str]:
    """A long path with its middle left out."""
    left_out = len(path) - _SHOWN_NAMES
    return [*path[: _SHOWN_NAMES - 2], f"({left_out + 1} more)", path[-1]] if left_out > 0 else path


def _wanted(agent: Agent) -> str | None:
    """The parent that the agent's file names, whatever became of it."""
    return agent.gone_parent or agent.parent
