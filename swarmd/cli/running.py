"""`swarmd run` and `swarmd prompt`: a session now, or what one would be given."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from swarmd.cli import output
from swarmd.cli.base import Command
from swarmd.cli.invocation import Invocation, pass_invocation
from swarmd.cli.params import AGENT, SESSION, SINCE, SUBJECT, Text, read_file, usage
from swarmd.cli.sessions import print_session, result_of
from swarmd.core.sessions import TRIGGERS, exit_status

_file_option = click.option(
    "--file", metavar="NEW.toml", help="With this definition, in place of the one in force."
)


@click.command(cls=Command)
@click.argument("agent", type=AGENT)
@click.option(
    "--text", type=Text("--text"), metavar="TEXT", help="Hand it this as well (`-`: standard input)."
)
@click.option(
    "--no-commit", is_flag=True, help="Run for real, save nothing, show what would have been saved."
)
@click.option(
    "--dry-run", is_flag=True, help="Start nothing: show gate, budgets, prompt size and command line."
)
@click.option("--force", is_flag=True, help="Also where the agent is paused.")
@click.option(
    "--from-session",
    type=SESSION,
    metavar="ID",
    help="Given what that session was given; with --no-commit. Both change sets are shown side by side.",
)
@click.option(
    "--subject",
    type=SUBJECT,
    metavar="SUBJECT",
    help="Whom or what it is about: its memory is then a private folder for that subject.",
)
@_file_option
@pass_invocation
def run(
    invocation: Invocation,
    agent: str,
    text: str | None,
    no_commit: bool,
    dry_run: bool,
    force: bool,
    from_session: str | None,
    subject: str | None,
    file: str | None,
) -> int:
    """Run an agent now, whatever its schedule says, and wait for its end.

    Exit status 0 where it committed or had no change, 1 for any other outcome.
    """
    if no_commit and dry_run:
        usage("--no-commit runs the agent and --dry-run does not: give one of them")
    if from_session is not None and (not no_commit or text is not None):
        usage(
            "--from-session goes with --no-commit and without --text: what such a session wants is of another day"
        )
    mode = "dry_run" if dry_run else "no_commit" if no_commit else "commit"
    document = invocation.call("run", agent=agent, text=text, mode=mode, force=force, from_session=from_session,
                               subject=subject, **_given(invocation, agent, file))  # fmt: skip
    return report_run(invocation, agent, document)


def report_run(invocation: Invocation, agent: str, document: Mapping[str, Any]) -> int:
    """Print how a session that was asked for went; the exit status."""
    invocation.show(document, _print_run)
    if not invocation.options.json and document.get("command_line") is None:
        reason = document.get("reason")
        because = f": {output.shown('', reason)}" if reason else ""
        output.note(
            f"session {document.get('id')} of {agent}: {output.shown('', result_of(document))}{because}"
        )
    return exit_status(document.get("outcome"))


def _print_run(document: Mapping[str, Any]) -> None:
    if document.get("compared") is None:
        print_session(document)
        return
    from swarmd.cli.side_by_side import print_compared

    print_compared(document, document["compared"])


@click.command(cls=Command)
@click.argument("agent", type=AGENT)
@click.option("--trigger", type=click.Choice(TRIGGERS), help="As if this had started the session.")
@click.option("--at", type=SINCE, metavar="TIME", help="As of this moment.")
@click.option("--subject", type=SUBJECT, metavar="SUBJECT", help="As if it were about this.")
@_file_option
@pass_invocation
def prompt(
    invocation: Invocation,
    agent: str,
    trigger: str | None,
    at: str | None,
    subject: str | None,
    file: str | None,
) -> None:
    """Print exactly what a session would be given now; nothing is spent."""
    given = _given(invocation, agent, file)
    document = invocation.call("prompt", agent=agent, trigger=trigger, at=at, subject=subject, **given)
    invocation.show(document, _print_prompt)


def _print_prompt(document: Mapping[str, Any]) -> None:
    """As a command reads it on its standard input."""
    parts = [str(document[part]) for part in ("system", "user") if document[part]]
    output.bare("\n\n".join(parts).encode("utf-8", "surrogatepass"))


def _given(invocation: Invocation, agent: str, file: str | None) -> dict[str, str]:
    """The text of `--file` and its absolute path: whoever answers may not be able to read it, or stands elsewhere."""
    if file is None:
        return {}
    with invocation.agent_first(agent):
        return {"file_text": read_file(file), "file_path": str(Path(file).absolute())}
