"""`swarmd approval`: what sessions wanted written and may not without an operator's yes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from swarmd.cli import output
from swarmd.cli.base import Group
from swarmd.cli.invocation import Invocation, pass_invocation
from swarmd.cli.params import AGENT, Number, list_options
from swarmd.core.counts import counted

_APPROVALS = output.columns_of("id agent ~session state target ~created expires ~decided_by reason")
_ID = Number("approval", 2**62 - 1, "`swarmd approval list` shows them")
_id = click.argument("id", type=_ID)


@click.group(cls=Group)
def approval() -> None:
    """What sessions wanted written and an operator has to approve."""


@approval.command("list")
@click.option("--agent", type=AGENT, metavar="AGENT", help="Only those of this agent.")
@click.option("--all", "everything", is_flag=True, help="Also those that were decided on or have expired.")
@list_options
@pass_invocation
def list_approvals(invocation: Invocation, everything: bool, **args: Any) -> None:
    """Those that are open, newest first."""
    document = invocation.call("approval_list", all=everything or None, **args)
    invocation.show(document, lambda found: output.listing(found, _APPROVALS, "nothing waits for approval"))


@approval.command("show")
@_id
@pass_invocation
def show_approval(invocation: Invocation, id: int) -> None:
    """One of them, with what it would change now: old and new value, or the difference of a memory file."""
    invocation.show(invocation.call("approval_show", id=id), _print)


def _print(document: Mapping[str, Any]) -> None:
    output.facts(
        {**document, "verdict": _verdict(document)}, without=("changes", "hash", "set_aside", "whole")
    )
    for change in document["changes"]:
        output.line(f"{output.shown('', change.get('act'))}  {output.shown('', change.get('target'))}")
        conflicts = change.get("conflicts") or ()
        if change.get("diff") is not None:
            same = "(nothing would be written)" if conflicts or document["problem"] else "(the same lines)"
            output.block(str(change["diff"]) or same, "  ")
        else:
            _sides(change, "  ", before="old", after="new")
        for conflict in conflicts:
            output.line(f"  would be set aside as a conflict: line {output.shown('', conflict.get('line'))}")
            sides = {side: conflict.get(side) or None for side in ("ours", "theirs")}
            _sides(sides, "    ", theirs="theirs (stays in the file)", ours="ours (the agent's)")


def _verdict(document: Mapping[str, Any]) -> Any:
    """What a yes would do; where lines meet other edits, in words: it would be done, and they would not get there."""
    lines = document.get("set_aside")
    if document["state"] != "open" or not lines or document["problem"]:
        return document["verdict"]
    aside = f"{counted(lines, 'line')} would be set aside as a conflict"
    if all(change.get("before") == change.get("after") for change in document["changes"]):
        return f"nothing would be written: {aside}"
    return f"done in part: {aside}"


def _sides(document: Mapping[str, Any], indent: str, **labels: str) -> None:
    """Two texts, each below its label."""
    for name, label in labels.items():
        output.line(indent + label)
        output.block(_text(document.get(name)), f"{indent}  ")


def _text(value: Any) -> str:
    """A key's value, or a file."""
    if value is None:
        return "(nothing)"
    if isinstance(value, Mapping):
        return str(value.get("text", "(no text)"))
    return str(value)


@approval.command("approve")
@_id
@pass_invocation
def approve(invocation: Invocation, id: int) -> int:
    """Write it, in the name of the session that asked for it; exit 1 where others were faster."""
    document = invocation.call("approval_approve", id=id)
    invocation.show(document, _told)
    return int(document["state"] != "approved")


@approval.command("deny")
@_id
@click.option("--reason", metavar="TEXT", help="Why; the agent is told.")
@pass_invocation
def deny(invocation: Invocation, id: int, reason: str | None) -> None:
    """Write nothing of it."""
    invocation.show(invocation.call("approval_deny", id=id, reason=reason), _told)


def _told(document: Mapping[str, Any]) -> None:
    what = f"approval {output.shown('', document['id'])} ({output.shown('', document['target'])})"
    reason = document.get("decided_reason")
    why = f": {output.shown('', reason)}" if reason else ""
    words = (
        "was overtaken, and is not written"
        if document["state"] == "superseded"
        else f"is {document['state']}"
    )
    output.line(f"{what} {words}{why}")
    if document.get("set_aside"):
        owner = output.shown("", document["target"]).partition(":")[0]
        output.note(
            f"what was set aside: swarmd memory conflicts {owner} shows it, and with --take ours N puts it in"
        )
