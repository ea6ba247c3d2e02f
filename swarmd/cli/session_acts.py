"""`swarmd checkpoint`, `fail` and `draft`: what only a session does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from swarmd.cli import output
from swarmd.cli.base import Command, Group
from swarmd.cli.invocation import Invocation, pass_invocation
from swarmd.cli.params import Text
from swarmd.cli.sessions import change_line, outcome_words
from swarmd.core.counts import counted


@click.command(cls=Command)
@pass_invocation
def checkpoint(invocation: Invocation) -> None:
    """Save what is staged now, for good; the session goes on."""
    invocation.session_only("checkpoint")
    invocation.show(invocation.call("checkpoint"), _print_checkpoint)


def _print_checkpoint(document: Mapping[str, Any]) -> None:
    changes = document.get("changes") or []
    if document.get("checkpoint") is None:
        words = counted(len(changes), "change would be", "changes would be")
        output.line(f"nothing is saved of this session; {words}")
    else:
        output.line(f"checkpoint {document.get('checkpoint')}: {outcome_words(changes, 'saved')}")
    for change in changes:
        output.line(f"  {change_line(change)}")
    for one in document.get("superseded") or []:
        output.note(f"overtaken, and not saved: {output.shown('', one)}")


@click.command(cls=Command)
@click.argument("reason", type=Text("a reason"))
@pass_invocation
def fail(invocation: Invocation, reason: str) -> None:
    """Say that this session has failed, and why (`-`: standard input)."""
    invocation.session_only("fail")
    document = invocation.call("fail", reason=reason)
    invocation.show(
        document, lambda _: output.line("the session will end as failed; nothing that is staged is saved")
    )


@click.group(cls=Group)
def draft() -> None:
    """What this agent's last session wanted to write and did not save."""


@draft.command("show")
@pass_invocation
def show_draft(invocation: Invocation) -> None:
    """The draft's changes."""
    invocation.session_only("draft show")
    invocation.show(invocation.call("draft_show"), output.facts)


@draft.command("apply")
@pass_invocation
def apply_draft(invocation: Invocation) -> None:
    """Stage the draft's changes in this session, judged anew."""
    invocation.session_only("draft apply")
    invocation.show(invocation.call("draft_apply"), _print_taken_up)


def _print_taken_up(document: Mapping[str, Any]) -> None:
    changes = document.get("changes") or []
    words = outcome_words(changes, "staged")
    output.line(f"the draft of session {document.get('session')}: {words} (saved when the session ends well)")
    for change in changes:
        output.line(f"  {change_line(change)}")


@draft.command("discard")
@pass_invocation
def discard_draft(invocation: Invocation) -> None:
    """Drop the draft."""
    invocation.session_only("draft discard")
    invocation.show(invocation.call("draft_discard"), lambda _: output.line("the draft is dropped"))
