"""`swarmd verify`, `backup`, `restore` and `doctor`: the store as a whole, and the installation it lives in."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from swarmd.cli import output
from swarmd.cli.base import Command
from swarmd.cli.client import note_where
from swarmd.cli.invocation import Invocation, pass_invocation
from swarmd.cli.params import AGENT
from swarmd.core.counts import counted

_DOCTOR = output.columns_of("name ok text")


@click.command(cls=Command)
@pass_invocation
def verify(invocation: Invocation) -> int:
    """Check the store: pages, rows, the chain of its audit, memory files. Exit 1 where anything is wrong."""
    document = invocation.call("verify")
    invocation.show(document, _print_verify)
    return int(not document["ok"])


def _print_verify(document: Mapping[str, Any]) -> None:
    for problem in document["items"]:
        output.line(output.shown("", problem["text"]))
    output.facts(document, without=("items", "next", "ok"))
    output.line("the store is whole" if document["ok"] else counted(len(document["items"]), "problem"))


@click.command(cls=Command)
@click.argument("agent", type=AGENT, required=False)
@pass_invocation
def doctor(invocation: Invocation, agent: str | None) -> int:
    """Look for what is wrong with this installation, or with what an agent needs. Exit 1 where anything is."""
    document = invocation.call("doctor", agent=agent)
    invocation.show(document, lambda found: output.listing(found, _DOCTOR, "nothing was checked", whole=True))
    return int(any(item.get("ok") is False for item in document["items"]))


@click.command(cls=Command)
@click.argument("file", type=click.Path())
@pass_invocation
def backup(invocation: Invocation, file: str) -> None:
    """Copy the whole state into one file, also while the daemon runs."""
    invocation.operator_only("backup")
    from swarmd.service import backup as archive

    document = archive.backup(invocation.places(), Path(file).absolute())
    invocation.has_acted = True
    invocation.show(document, lambda found: output.facts(found, without=("left_out",)))
    for one in document["left_out"]:
        output.note(f"warning: not in the backup: {one['agent']}/{one['file']}: {one['reason']}")


@click.command(cls=Command)
@click.argument("file", type=click.Path())
@pass_invocation
def restore(invocation: Invocation, file: str) -> None:
    """Make a new state from a backup; it starts paused, and nothing that is there is overwritten."""
    invocation.operator_only("restore")
    from swarmd.service import backup as archive

    places = invocation.places()
    document = archive.restore(places, Path(file).absolute())
    invocation.has_acted = True
    note_where(places)
    invocation.show(document, output.facts)
