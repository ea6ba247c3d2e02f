"""What a read is given: rows, a world, who asks; and the checks that every read of another's things begins with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from swarmd.core import owners
from swarmd.core.instants import from_text, to_text
from swarmd.core.names import unknown_agent, unknown_folder
from swarmd.errors import BadInput, NotFound, Refused
from swarmd.store.queries import is_known
from swarmd.store.windows import Window

if TYPE_CHECKING:
    from swarmd.core.handoffs import Handoff
    from swarmd.core.tree import Tree
    from swarmd.core.world import Actor, World
    from swarmd.places import Places
    from swarmd.store.connections import Connection

Args = Mapping[str, Any]
JSON = Any


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """One caller's look at the store. `staged` worlds show a session its own unsaved writes."""

    connection: Connection
    world: World
    actor: Actor
    places: Places
    daemon: Callable[[], Mapping[str, Any]] = field(default=dict)
    """What the running daemon says of itself, where it is the one that answers."""

    @property
    def now(self) -> datetime:
        """The moment of the read."""
        return self.world.now

    @property
    def tree(self) -> Tree:
        """The agents in force."""
        return self.world.tree

    def agent(self, args: Args, name: str = "agent") -> str:
        """The agent that the call names, or the caller's own; one that the caller may look at.

        Raises NotFound for a name that never was an agent's, Refused for one that is not below.
        """
        agent = args.get(name) or self.actor.agent
        if not isinstance(agent, str):
            raise BadInput(f"{name} is missing: name the agent")
        self.must_see(agent)
        if not is_known(self.connection, agent):
            raise NotFound(unknown_agent(agent))
        return agent

    def must_see(self, agent: str) -> None:
        """Raises Refused when the caller may not see keys, state and outcomes of `agent`."""
        refusal = self._refusal("may_read_keys", agent)
        if refusal is not None:
            raise Refused(refusal)

    def sees(self, agent: str) -> bool:
        """Whether the caller may see keys, state and outcomes of `agent`."""
        return self._refusal("may_read_keys", agent) is None

    def handoff_refusal(self, handoff: Handoff) -> str | None:
        """Why the caller may not see this handoff, or None."""
        if self.actor.agent is None:
            return None
        from swarmd.core.authority import may_read_handoff

        return may_read_handoff(self.actor, handoff, self.tree)

    def _refusal(self, rule: str, agent: str) -> str | None:
        if self.actor.agent is None:
            return None  # an operator sees all, and pays for no tree
        from swarmd.core import authority

        found: str | None = getattr(authority, rule)(self.actor, agent, self.tree)
        return found

    def memory_of(self, args: Args) -> str:
        """The owner (core.owners) of the folder that the call names, or of the caller's own; one that he may read.

        Raises NotFound for one that never was, Refused for one that the caller may not read.
        """
        owner = args.get("agent") or self.actor.owner
        if not isinstance(owner, str):
            raise BadInput("agent is missing: name the agent")
        refusal = self._refusal("may_read_memory", owner)
        if refusal is not None:
            raise Refused(refusal)
        if owner != self.actor.owner and (unknown := self._unknown(owner)):
            raise NotFound(unknown)
        return owner

    def _unknown(self, owner: str) -> str | None:
        """Why nobody has, or had, a folder of this owner."""
        from swarmd.store.owners import folder_is_known

        if folder_is_known(self.connection, owner):
            return None
        if (folder := owners.shared_name(owner)) is not None:
            return None if self.tree.sharers(folder) else unknown_folder(folder)
        agent, subject = owners.agent_of_owner(owner) or owner, owners.subject_of(owner)
        if subject is not None and is_known(self.connection, agent):
            return f"{agent} has nothing about {subject!r}; swarmd memory subjects {agent} lists what it has"
        return unknown_agent(agent)

    def session_refusal(self, row: Mapping[str, Any]) -> str | None:
        """Why the caller may not see what the session of this row said and wrote, or None."""
        if self.actor.agent is None:
            return None
        from swarmd.core.authority import may_read_session

        return may_read_session(self.actor, row["agent"], row["subject"], self.tree)


def window(args: Args, n: int = 1000) -> Window:
    """The part of a list that the call asks for. Raises BadInput."""
    count = args.get("n")
    if count is not None and (
        isinstance(count, bool) or not isinstance(count, int) or not 0 < count <= 100_000
    ):
        raise BadInput(f"n: a whole number from 1 to 100000 is expected, not {count!r:.40}")
    return Window(since=moment_text(args, "since"), until=moment_text(args, "until"), n=count or n)


def moment(args: Args, name: str) -> datetime | None:
    """A time argument. Raises BadInput."""
    value = args.get(name)
    if value is None:
        return None
    try:
        found = from_text(value)
    except (TypeError, ValueError):
        raise BadInput(f"{name}: {value!r:.40} is no time; write it as 2026-12-24T18:00+01:00") from None
    if found.tzinfo is None:
        raise BadInput(f"{name}: {value!r:.40} has no offset; write it as 2026-12-24T18:00+01:00")
    return found


def moment_text(args: Args, name: str) -> str | None:
    """A time argument as store text."""
    found = moment(args, name)
    return None if found is None else to_text(found)


def text(args: Args, name: str, *, required: bool = True) -> str:
    """A text argument. Raises BadInput."""
    value = args.get(name)
    if value is None and not required:
        return ""
    if not isinstance(value, str) or (required and not value):
        raise BadInput(f"{name} is missing or is no text")
    return value


def subject_of(args: Args) -> str | None:
    """What a session is to be about, or None. Raises BadInput."""
    given = args.get("subject")
    if given is None:
        return None
    problem = owners.subject_problem(given) if isinstance(given, str) else "subject: text is expected"
    if problem is not None:
        raise BadInput(problem)
    return str(given)


def number(args: Args, name: str) -> int:
    """A whole number above 0. Raises BadInput."""
    value = args.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 2**62:
        raise BadInput(f"{name}: a whole number above 0 is expected, not {value!r:.40}")
    return value


def seen_agents(view: View, agent: str | None) -> list[str] | None:
    """Of whom a list may tell: the one that was asked for, or all that the caller may see (None: everybody)."""
    if agent is not None:
        return [agent]
    own = view.actor.agent
    return None if own is None else [own, *view.tree.below(own)]


def one_more(asked: Window) -> Window:
    """What to read for `page`."""
    return replace(asked, n=asked.n + 1)


def page(rows: list[Any], asked: Window, time: Callable[[Any], str]) -> tuple[list[Any], str | None]:
    """The first of the rows (newest first), as many as were asked for, and the `until` that shows the rest."""
    if len(rows) <= asked.n:
        return rows, None
    # `until` is exclusive, so it lies just after the newest that is left out; what has the same time may come twice.
    # (Where a whole page has one time, the next begins before it, or there would be no end.)
    left = time(rows[asked.n])
    on_and_on = time(rows[0]) == left
    return rows[: asked.n], left if on_and_on else to_text(from_text(left) + timedelta(microseconds=1))


def items(rows: list[Any], next: str | None = None) -> dict[str, JSON]:
    """A list document; `next`: the `until` with which to ask for what is not in it, or None where all is."""
    return {"items": rows, "next": next}
