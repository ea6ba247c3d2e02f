"""Picks who answers a command's call: in a session its desk, else store or daemon; the rule stands here alone."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from swarmd.errors import Refused, StoreUnusable

if TYPE_CHECKING:
    from swarmd.places import Places

READS = frozenset({
    "agent_history", "agent_list", "agent_show", "agent_tree", "approval_list", "approval_show",
    "attention", "ctx_get", "ctx_history", "ctx_list",
    "doctor", "handoff_list", "handoff_show", "log", "memory_blame", "memory_conflicts", "memory_diff",
    "memory_export", "memory_history", "memory_list", "memory_search", "memory_shared", "memory_show",
    "memory_subjects", "next", "prompt", "report_list", "session_list", "session_log", "session_search",
    "session_show", "session_trace", "skill_list", "skill_show", "status", "usage", "verify", "why",
})  # fmt: skip
"""The calls that change nothing; every other call is an act."""

_OPERATORS_ONLY = frozenset({
    "approval_approve", "approval_deny", "approval_list", "approval_show", "attention", "attention_ack", "doctor",
    "forget", "forget_subject", "memory_compact", "memory_export", "memory_import", "memory_restore", "memory_shared",
    "memory_subjects", "memory_take", "pause", "reload", "rename", "resume", "run", "session_apply", "session_cancel",
    "session_discard", "session_quarantine", "session_revert", "session_trace", "session_unquarantine", "status",
    "verify",
})  # fmt: skip
"""Calls that no desk answers. The desk would refuse them too; here the sentence can name the command."""
_COMMANDS = {
    "forget": "agent forget", "forget_subject": "memory forget-subject", "memory_take": "memory conflicts --take",
    "rename": "agent rename",
}  # fmt: skip
"""Those of them that have another name than their command."""

_RUNS = frozenset({"memory_compact", "run"})
"""Calls that wait for a session's end: somebody has to run it."""


@dataclass(slots=True)
class Options:
    """The global options of one run, as given before or after the command."""

    agents: str | None = None
    state: str | None = None
    runtime: str | None = None
    config: str | None = None
    as_agent: str | None = None
    json: bool = False


class Client(Protocol):
    """Whoever answers."""

    def call(self, name: str, args: Mapping[str, Any]) -> Any:
        """The call's JSON document. Raises SwarmdError where it cannot be had."""
        ...


def in_session(environ: Mapping[str, str]) -> bool:
    """Whether a session started this program. An empty value counts: nobody leaves a session by clearing one."""
    return "SWARMD_SESSION" in environ or "SWARMD_TOKEN" in environ


def operators_command(command: str) -> Refused:
    """What a session is told that asks for one."""
    return Refused(f"`swarmd {command}` is an operator's command; a session may not use it")


def choose(options: Options, environ: Mapping[str, str]) -> Client:
    """The session's desk in a session, else the operator's way. Raises Refused, never falls back to the operator."""
    if in_session(environ):
        return SessionClient.of(options, environ)
    return OperatorClient(options, environ)


def places_of(options: Options, environ: Mapping[str, str]) -> Places:
    """Where this run's agent files, state, sockets and settings are."""
    from pathlib import Path

    from swarmd.places import PlaceOptions, places

    named = PlaceOptions(
        agents=options.agents, state=options.state, runtime=options.runtime, config=options.config
    )
    return places(named, environ, Path.cwd(), os.getuid())


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionClient:
    """Speaks at the session's desk. Who is speaking is told by the token alone, so `--as` cannot change it."""

    socket: str
    token: str

    @classmethod
    def of(cls, options: Options, environ: Mapping[str, str]) -> SessionClient:
        """The client of the session that started this program. Raises Refused where that cannot be shown."""
        token, socket = environ.get("SWARMD_TOKEN"), environ.get("SWARMD_SOCKET")
        if not token or not socket:
            missing = "SWARMD_TOKEN" if not token else "SWARMD_SOCKET"
            raise Refused(
                f"this is inside a session (SWARMD_SESSION or SWARMD_TOKEN is set), and {missing} is missing or empty; "
                "only programs that the session was given its token for may use swarmd here"
            )
        own = environ.get("SWARMD_AGENT", "")
        if options.as_agent is not None and options.as_agent != own:
            raise Refused(
                f"a session acts as its own agent ({own or 'unnamed'}) and as no other, also not {options.as_agent}"
            )
        return cls(socket=socket, token=token)

    def call(self, name: str, args: Mapping[str, Any]) -> Any:
        """As Client."""
        from swarmd import wire_client

        if name in _OPERATORS_ONLY:
            raise operators_command(_COMMANDS.get(name, name.replace("_", " ")))
        try:
            return wire_client.call(self.socket, self.token, name, args)
        except ConnectionError as error:
            raise Refused(f"the session has ended, or its socket cannot be reached ({error})") from error


class Doors(Protocol):
    """The operator's ways to the store."""

    def open_reader(self, where: Places) -> Any:
        """Reads the database itself. Raises PermissionError where that is not allowed."""
        ...

    def socket_client(self, where: Places) -> Any:
        """Speaks to the daemon. Raises ConnectionError where none answers."""
        ...

    def open_local(self, where: Places, as_agent: str | None) -> Any:
        """Acts under the store's lock, while no daemon has it; a context manager."""
        ...

    def run_local(self, where: Places, name: str, args: Mapping[str, Any], as_agent: str | None) -> Any:
        """Does what runs a session while no daemon has the lock: a daemon without schedules for that long."""
        ...


@dataclass(frozen=True, slots=True)
class OperatorClient:
    """Speaks for a person: reads the store itself where it may, and acts through whoever holds the store's lock."""

    options: Options
    environ: Mapping[str, str]
    doors: Doors | None = None

    def call(self, name: str, args: Mapping[str, Any]) -> Any:
        """As Client."""
        where = places_of(self.options, self.environ)
        doors = self.doors or StoreDoors()
        if name in READS:
            return self._read(doors, where, name, args)
        value = self._act(doors, where, name, args)
        if args.get("mode") != "dry_run":
            note_where(where)
        return value

    def _read(self, doors: Doors, where: Places, name: str, args: Mapping[str, Any]) -> Any:
        as_agent = self.options.as_agent
        try:
            return doors.open_reader(where).call(name, args, as_agent=as_agent)
        except PermissionError as denied:
            try:
                return doors.socket_client(where).call(name, args, as_agent=as_agent)
            except (ConnectionError, PermissionError):
                raise _shut("read", where, denied) from None

    def _act(self, doors: Doors, where: Places, name: str, args: Mapping[str, Any]) -> Any:
        as_agent = self.options.as_agent
        try:
            try:
                return doors.socket_client(where).call(name, args, as_agent=as_agent)
            except ConnectionError:  # no daemon: the lock is free, or open_local says who has it
                if name in _RUNS and args.get("mode") != "dry_run":
                    return doors.run_local(where, name, args, as_agent)
                with doors.open_local(where, as_agent) as local:
                    return local.call(name, args)
        except PermissionError as denied:
            raise _shut("write", where, denied) from None


class StoreDoors:
    """The real doors; a module is imported when its door is opened."""

    def open_reader(self, where: Places) -> Any:
        """As Doors."""
        from swarmd.service import operator

        return operator.open_reader(where)

    def socket_client(self, where: Places) -> Any:
        """As Doors."""
        from swarmd.service import operator

        return operator.socket_client(where)

    def open_local(self, where: Places, as_agent: str | None) -> Any:
        """As Doors."""
        from swarmd.service import operator

        return operator.open_local(where, as_agent)

    def run_local(self, where: Places, name: str, args: Mapping[str, Any], as_agent: str | None) -> Any:
        """As Doors."""
        from swarmd.daemon import main

        return main.run_local(where, args, as_agent, name=name)


def _shut(what: str, where: Places, denied: PermissionError) -> StoreUnusable:
    return StoreUnusable(
        f"{where.state}: you may not {what} the store ({denied.strerror or denied}), and no daemon answers in "
        f"{where.runtime}; ask its owner, or start the daemon"
    )


def note_where(where: Places) -> None:
    """Say on standard error which state was acted on, where it is not the system's."""
    from swarmd.cli.output import note

    if not where.is_system:
        note(f"acted on {where.state}")
