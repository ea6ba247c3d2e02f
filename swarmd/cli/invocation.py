"""One run of the program: its environment, global options and clock, and the client that answers it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

import click

from swarmd.cli import client, output
from swarmd.cli.client import Client, Options
from swarmd.errors import BadInput, NotFound, SwarmdError

if TYPE_CHECKING:
    from swarmd.places import Places

R = TypeVar("R")
NO_FOLDER = "./"
"""No file is ever below it: whether there is such an owner is asked, and nothing of its files."""


def _utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(kw_only=True)
class Invocation:
    """What a command is handed. Tests hand in a scripted client, an environment and a clock of their own."""

    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    connect: Callable[[Options, Mapping[str, str]], Client] = client.choose
    now: Callable[[], datetime] = _utc_now
    wait: Callable[[float], None] = time.sleep
    options: Options = field(default_factory=Options)
    has_acted: bool = False
    """Whether something was changed: where what is printed gets lost, a person must know that it was."""
    _client: Client | None = None

    @property
    def in_session(self) -> bool:
        """Whether a session started this program."""
        return client.in_session(self.environ)

    def call(self, name: str, /, **args: Any) -> Any:
        """The document that the call gives; an argument of None is left out."""
        self.must_speak()
        assert self._client is not None
        document = self._client.call(name, {key: value for key, value in args.items() if value is not None})
        reads = name in client.READS or name == "draft_show" or args.get("mode") == "dry_run"
        self.has_acted = self.has_acted or not reads
        if isinstance(document, Mapping) and document.get("warning"):
            output.note(f"warning: {output.shown('', document['warning'])}")
        return document

    @contextmanager
    def agent_first(self, owner: str | None) -> Iterator[None]:
        """Around what reads a person's files for an agent, or for another folder's owner: where they are bad and there
        is no such agent, it is the agent that is told of. Costs nothing where they are good.
        """
        try:
            yield
        except SwarmdError:
            if owner is not None and not self.in_session:
                self._must_know(owner)
            raise

    def _must_know(self, owner: str) -> None:
        """Raises NotFound where nobody and nothing has this name."""
        try:
            self.call("memory_list", agent=owner, folder=NO_FOLDER)
        except NotFound:
            raise
        except SwarmdError:  # the files' fault is told then
            return

    def must_speak(self) -> None:
        """Raises what a call would where nobody could be asked in this environment."""
        if self._client is None:
            self._client = self.connect(self.options, self.environ)

    def show(self, document: Any, printer: Callable[[Any], object]) -> None:
        """Print the document: as it came with --json, else for a reader."""
        if self.options.json:
            output.json_document(document)
        else:
            printer(document)

    def operator_only(self, command: str) -> None:
        """Raises Refused inside a session: these commands touch state and agent files without a call."""
        if self.in_session:
            raise client.operators_command(command)

    def session_only(self, command: str) -> None:
        """Raises BadInput outside a session, where there is nothing staged."""
        if not self.in_session:
            raise BadInput(
                f"`swarmd {command}` works inside a session only: it is about what that session has staged"
            )

    def places(self) -> Places:
        """Where agent files, state, sockets and settings are."""
        return client.places_of(self.options, self.environ)


def pass_invocation(function: Callable[..., R]) -> Callable[..., R]:
    """Hand the command its invocation, as the first argument."""
    return click.make_pass_decorator(Invocation)(function)
