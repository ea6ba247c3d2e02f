"""The tree of agents: who stands above and below whom. A value; it knows nothing of files or rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from swarmd.core.agent import Agent


class Tree:
    """The agents in force, by name. Parents that are not in it make their children roots of their own.

    Building never fails: files that would close a cycle are refused before they come into force, and a cycle
    that got in all the same grants nobody anything (every walk upward stops at a name already seen).
    """

    __slots__ = ("_agents", "_children")

    def __init__(self, agents: Mapping[str, Agent]) -> None:
        self._agents = dict(sorted(agents.items()))
        self._children: dict[str | None, list[str]] = {}
        for name, agent in self._agents.items():
            parent = agent.parent if agent.parent in self._agents else None
            self._children.setdefault(parent, []).append(name)

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
        agent = self._agents.get(name)
        return agent.parent if agent is not None and agent.parent in self._agents else None

    def above(self, name: str) -> list[str]:
        """All agents above, nearest first."""
        found: list[str] = []
        seen = {name}
        parent = self.parent(name)
        while parent is not None and parent not in seen:
            found.append(parent)
            seen.add(parent)
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
        seen = {name}
        while waiting:
            child = waiting.pop()
            if child in seen:
                continue
            seen.add(child)
            found.append(child)
            waiting.extend(reversed(self.children(child)))
        return found

    def depth(self, name: str) -> int:
        """How many agents stand above."""
        return len(self.above(name))


def cycle_through(name: str, parents: Mapping[str, str | None]) -> list[str] | None:
    """The cycle that `name` is part of, as a path that ends where it began, or None."""
    path = [name]
    parent = parents.get(name)
    while parent is not None and parent in parents:
        path.append(parent)
        if parent == name:
            return path
        if parent in path[:-1]:
            return None
        parent = parents.get(parent)
    return None
