"""`swarmd report`: notes up to the parent; a text without a command word is sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from swarmd.cli import output
from swarmd.cli.base import Group
from swarmd.cli.invocation import Invocation, pass_invocation
from swarmd.cli.params import AGENT, Text, list_options
from swarmd.core.acts import ACTS

_REPORTS = output.columns_of("~id at from=agent ~to=parent text")


@click.group(cls=Group, default="send", subcommand_metavar="TEXT | list [OPTIONS]")
def report() -> None:
    """Send a report to the parent, or list reports; `report -- TEXT` for a TEXT that is `list` or begins with -."""


@report.command("send", hidden=True, help=ACTS["report"].sentence)
@click.argument("text", type=Text("a report"))
@pass_invocation
def send_report(invocation: Invocation, text: str) -> None:
    """`-` as TEXT reads standard input."""
    invocation.show(invocation.call("report", text=text), _sent)


@report.command("list")
@click.option("--from", "sender", type=AGENT, metavar="AGENT", help="Only those of this agent.")
@list_options
@pass_invocation
def list_reports(invocation: Invocation, sender: str | None, **bounds: Any) -> None:
    """Reports, newest first."""
    document = invocation.call("report_list", **{"from": sender}, **bounds)
    invocation.show(document, lambda found: output.listing(found, _REPORTS, "no reports"))


def _sent(document: Mapping[str, Any]) -> None:
    parent = document.get("parent")
    where = (
        f"sent to {output.shown('', parent)}"
        if parent
        else "listed in `swarmd attention`: there is no parent"
    )
    output.done(f"report of {output.shown('', document.get('agent'))} {where}", document)
