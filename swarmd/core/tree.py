"""The tree of agents: who stands above and below whom. A value; it knows nothing of files or rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from swarmd.core.agent import Agent


class Tree:
    """The agents in force, by name. Parents that are not in it make their children roots of their own.

    Building never fails: files that would close a cycle are refused before they come into force, and a cycle
    that got in all the same grants nobody anything (every agent in it counts as a root).
    """

    __slots__ = ("_agents", "_children", "_parents", "_sharers")

    def __init__(self, agents: Mapping[str, Agent]) -> None:
        self._agents = dict(sorted(agents.items()))
        named = {name: agent.parent for name, agent in self._agents.items() if agent.parent in self._agents}
        cyclic = in_cycles(named)
        self._parents = {name: parent for name, parent in named.items() if name not in cyclic}
        self._children: dict[str | None, list[str]] = {}
        for name in self._agents:
            self._children.setdefault(self._parents.get(name), []).append(name)
        self._sharers: dict[str, list[str]] = {}
        for name, agent in self._agents.items():
            for folder in agent.memory.shared:
                self._sharers.setdefault(folder.name, []).append(name)

    def __contains__(self, name: object) -> bool:
        return name in self._agents

    def __iter__(self) -> Iterator[str]:
        return iter(self._agents)

    def __len__(self) -> int:
        return len(self._agents)

    @property
    def agents(self) -> Mapping[str, Agent]:
        """Name to definition, sorted by name."""
        return self._agents

    def agent(self, name: str) -> Agent | None:
        """The definition in force, or None."""
        return self._agents.get(name)

    def parent(self, name: str) -> str | None:
        """The agent directly above, or None for a root (or an unknown name)."""
        return self._parents.get(name)

    def above(self, name: str) -> list[str]:
        """All agents above, nearest first."""
        found: list[str] = []
        parent = self.parent(name)
        while parent is not None:
            found.append(parent)
            parent = self.parent(parent)
        return found

    def is_below(self, name: str, other: str) -> bool:
        """Whether `name` stands strictly below `other`."""
        return name in self._agents and other in self.above(name)

    def is_within(self, name: str, other: str) -> bool:
        """Whether `name` is `other` or stands below it."""
        return name == other or self.is_below(name, other)

    def children(self, name: str | None) -> list[str]:
        """The agents directly below, sorted; of None, the roots."""
        return list(self._children.get(name, ()))

    def below(self, name: str) -> list[str]:
        """All agents strictly below, each parent before its children."""
        found: list[str] = []
        waiting = list(reversed(self.children(name)))
        while waiting:
            child = waiting.pop()
            found.append(child)
            waiting.extend(reversed(self.children(child)))
        return found

    def sharers(self, folder: str) -> list[str]:
        """The agents whose files list the shared folder of this name, sorted."""
        return list(self._sharers.get(folder, ()))

    def shared_folders(self) -> list[str]:
        """The names of all shared folders that any file lists, sorted."""
        return sorted(self._sharers)

    def depth(self, name: str) -> int:
        """How many agents stand above."""
        return len(self.above(name))


def in_cycles(parents: Mapping[str, str | None]) -> set[str]:
    """Every name that stands above itself."""
    found: set[str] = set()
    settled: set[str] = set()
    for start in parents:
        path: dict[str, None] = {}
        name: str | None = start
        while name is not None and name not in settled and name not in path:
            path[name] = None
            name = parents.get(name)
        if name in path:
            walked = list(path)
            found.update(walked[walked.index(name) :])
        settled.update(path)
    return found
