"""`swarmd check`: every problem of agent files, whether they are in force yet or not."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from swarmd.cli import output
from swarmd.cli.base import Command
from swarmd.cli.invocation import Invocation, pass_invocation
from swarmd.core.counts import counted

if TYPE_CHECKING:
    from swarmd.config.check import Checked
    from swarmd.config.problems import Problem
    from swarmd.places import Places


@click.command(cls=Command)
@click.argument("files", nargs=-1, type=click.Path(), metavar="[FILE...]")
@pass_invocation
def check(invocation: Invocation, files: Sequence[str]) -> int:
    """Validate all agent files, or these as if they stood among them: every problem, exit 1 where any is an error.

    What a file names and this machine does not have (programs, folders, variables) is a warning.
    """
    invocation.operator_only("check")
    found, count = _problems(invocation, [Path(file) for file in files])
    document = {"items": [problem.as_json() for problem in found], "next": None, "files": count}
    invocation.show(document, _print)
    return int(any(problem.is_error for problem in found))


def _print(document: Mapping[str, Any]) -> None:
    for problem in document["items"]:
        output.line(output.shown("", problem["message"]))
    items, files = document["items"], counted(document["files"], "file")
    if not items:
        output.line(f"{files}, no problems")
    elif all(problem["severity"] == "warning" for problem in items):
        output.line(f"{files}, no errors, {counted(len(items), 'warning')}")


class _Judge:
    """The files of one place, judged as the daemon would."""

    def __init__(self, places: Places) -> None:
        from swarmd.config.files import Guard
        from swarmd.config.settings import read_settings
        from swarmd.service.loading import kinds, rules_of

        self.places = places
        self.now_ns = time.time_ns()
        self.guard = Guard(uid=_daemon_uid(places.state))
        known = kinds()
        self.rules = rules_of(places, known)
        read = read_settings(
            places.config, kinds=known, guard=self.guard, now_ns=self.now_ns, required=places.config_is_named
        )
        # Where the daemon would wait for good [defaults], a person is told all else that is wrong, too.
        self.settings = replace(read, defaults=read.defaults or read.sound)

    def folder(self) -> Checked:
        """All of agents.d."""
        from swarmd.config.check import check as judge
        from swarmd.config.scan import scan_folder

        scan = scan_folder(self.places.agents, guard=self.guard, now_ns=self.now_ns)
        return judge(scan, self.settings, self.rules)

    def given(self, files: list[Path]) -> Checked:
        """These files alone."""
        from swarmd.config.check import check as judge
        from swarmd.config.scan import scan_files

        return judge(scan_files(files, guard=self.guard, now_ns=self.now_ns), self.settings, self.rules)


def _problems(invocation: Invocation, files: list[Path]) -> tuple[list[Problem], int]:
    """All problems, and how many files were looked at."""
    from swarmd.config.lacking import warnings
    from swarmd.config.load import InForce, reconcile
    from swarmd.config.problems import Problem

    places = invocation.places()
    judge = _Judge(places)
    defaults, environ, now = judge.settings.defaults, invocation.environ, invocation.now()
    kinds = judge.rules.kinds
    folder = judge.folder()
    standing = reconcile({}, folder, now=0.0)
    if not files:
        found = [*standing.problems, *warnings(folder, defaults, environ, now, kinds, judge.guard)]
        if folder.folder.kind != "present":
            found.append(Problem(file=str(places.agents), text=folder.folder.reason))
        return found, len(folder.files)
    given = judge.given(files)
    in_force = {name: InForce(agent=agent) for name, agent in standing.agents.items()}
    found = [
        *reconcile(in_force, given, now=0.0).problems,
        *warnings(given, defaults, environ, now, kinds, judge.guard),
    ]
    return found, len(files)


def _daemon_uid(state: Path) -> int:
    """Whose daemon it is: the state's owner, and before there is a state whoever asks."""
    try:
        return os.stat(state).st_uid
    except OSError:
        return os.getuid()
