"""What an act needs of a running daemon; where there is none, `NoDaemon` says so or does what can be done."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from swarmd.errors import Failed
from swarmd.places import Places
from swarmd.store import sessions, slots
from swarmd.store.connections import Connection
from swarmd.store.store import Store

if TYPE_CHECKING:
    from swarmd.core.agent import Agent
    from swarmd.core.approvals import Approval
    from swarmd.store.commit import Committed


@dataclass(frozen=True, slots=True, kw_only=True)
class RunWish:
    """`swarmd run`: which agent, by whom, and how."""

    agent: str
    by: str
    mode: str = "commit"
    text: str | None = None
    file_text: str | None = None
    file_path: str | None = None
    force: bool = False
    from_session: int | None = None
    subject: str | None = None
    """An earlier session, whose snapshot the new one is given; it saves nothing."""
    trigger: str = "manual"
    """Or `compact`: its memory is to be made small, by `summary` where a person gives one; or `consolidate`: it is to
    be put in order.
    """
    summary: str | None = None


class Control(Protocol):
    """The daemon, as acts see it. Called from a thread that is not the loop's."""

    def cancel(self, session: int, reason: str) -> None:
        """End a queued or running session as cancelled, and wait until its processes are dead."""
        ...

    def run(self, wish: RunWish) -> int:
        """Run an agent now and wait for its end; the session's id. Raises Busy when the agent runs."""
        ...

    def reload(self, *, allow_empty: bool, by: str) -> Mapping[str, Any]:
        """Look at the agent files now."""
        ...

    def wake(self) -> None:
        """Something has changed that may let a session start, or stop one from it."""
        ...

    def wake_index(self) -> None:
        """Something has changed that the search index should have soon."""
        ...

    def ask_hook(self, agent: Agent, found: Approval, by: str) -> str | None:
        """What the agent's `before_commit` says against what `by` approves, or None."""
        ...

    def tell_hook(self, agent: Agent, found: Approval, by: str, done: Committed) -> None:
        """Tell the agent's `after_commit` of what `by` has approved."""
        ...


class NoDaemon:
    """A process that holds the lock for one act only."""

    def __init__(self, store: Store, places: Places, now: Callable[[], datetime]) -> None:
        self._store = store
        self._places = places
        self._now = now

    def cancel(self, session: int, reason: str) -> None:
        """A queued session can be ended; none runs, since there is no daemon."""

        def work(connection: Connection) -> None:
            sessions.end(connection, session, outcome="cancelled", reason=reason, now=self._now())
            slots.redecide(connection, session, "skipped", reason)

        self._store.writer.do(work)

    def run(self, wish: RunWish) -> int:
        """Not here: a daemon without schedules is started for it."""
        raise Failed("no daemon runs")

    def reload(self, *, allow_empty: bool, by: str) -> Mapping[str, Any]:
        """Look at the agent files now."""
        from swarmd.service.loading import Loader

        loaded = Loader(self._places, self._store).look(allow_empty=allow_empty, by=by)
        return loaded.as_json() if loaded is not None else {}

    def wake(self) -> None:
        """Nothing sleeps."""

    def wake_index(self) -> None:
        """A search brings it up to date."""

    def ask_hook(self, agent: Agent, found: Approval, by: str) -> str | None:
        """In this process."""
        from swarmd.service import hooking

        return hooking.without_daemon(
            self._store, self._places, self._now, agent,
            lambda ports, secrets: hooking.ask(ports, secrets, agent, found, by),
        )  # fmt: skip

    def tell_hook(self, agent: Agent, found: Approval, by: str, done: Committed) -> None:
        """In this process."""
        from swarmd.service import hooking

        hooking.without_daemon(
            self._store, self._places, self._now, agent,
            lambda ports, secrets: hooking.tell(ports, secrets, agent, found, by, done),
        )  # fmt: skip
