"""`swarmd pause`, `resume`, `reload` and `serve`: what an operator does to the daemon and its agents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from swarmd.cli import output
from swarmd.cli.base import Command
from swarmd.cli.invocation import Invocation, pass_invocation
from swarmd.cli.params import AgentName

_LEVELS = ("debug", "info", "warning", "error")
_AGENT_OR_ALL = AgentName("all")
_agent = click.argument("agent", type=_AGENT_OR_ALL, metavar="AGENT|all")


@click.command(cls=Command)
@_agent
@click.option("--reason", metavar="TEXT", help="Shown wherever the pause is.")
@click.option("--now", is_flag=True, help="End the sessions that run, too.")
@pass_invocation
def pause(invocation: Invocation, agent: str, reason: str | None, now: bool) -> None:
    """Let an agent and all below it start nothing, until it is resumed; restarts do not lift it."""
    invocation.show(invocation.call("pause", agent=agent, reason=reason, now=now), _print_pause)


@click.command(cls=Command)
@_agent
@pass_invocation
def resume(invocation: Invocation, agent: str) -> None:
    """Lift the pause that was set at this agent; one above it still holds, and is named."""
    invocation.show(invocation.call("resume", agent=agent), _print_resume)


def _print_pause(document: Mapping[str, Any]) -> None:
    reason = document.get("reason")
    output.line(f"{_whom(document)} is paused" + (f": {output.shown('', reason)}" if reason else ""))


def _print_resume(document: Mapping[str, Any]) -> None:
    above = document.get("held_by")
    held = (
        f"; it stays paused by the pause at {output.shown('', above)}" if document["paused"] and above else ""
    )
    agent = output.shown("", document["agent"])
    if document.get("lifted", True):
        output.line(f"the pause at {agent} is lifted{held}")
    else:
        output.line(f"no pause was set at {agent}{held}")


def _whom(document: Mapping[str, Any]) -> str:
    return "every agent" if document["agent"] == "all" else output.shown("", document["agent"])


@click.command(cls=Command)
@click.option("--allow-empty", is_flag=True, help="Take it seriously that the folder is empty.")
@pass_invocation
def reload(invocation: Invocation, allow_empty: bool) -> int:
    """Take up changed agent files. A bad file keeps its last good definition in force; exit 1 where there is one."""
    document = invocation.call("reload", allow_empty=allow_empty)
    invocation.show(document, _print_reload)
    return int(bool(_complaints(document)))


def _print_reload(document: Mapping[str, Any]) -> None:
    changes = [(what, document.get(what)) for what in ("added", "changed", "removed")]
    for what, names in changes:
        if names:
            output.line(f"{what}: {output.shown('', names)}")
    gone = document.get("absent") or []
    if gone:
        from swarmd.config.load import ABSENCE_SECONDS

        files = output.shown("", [f"{name}.toml" for name in gone])
        output.line(f"gone: {files}; that takes force {ABSENCE_SECONDS:.0f} seconds after it was first seen")
    if not gone and not any(names for _, names in changes):
        output.line("nothing has changed")
    for complaint in _complaints(document):
        output.note(complaint)


def _complaints(document: Mapping[str, Any]) -> list[str]:
    """The errors of files, and what prevents any change at all; a warning is neither."""
    problems = [one for one in document.get("problems") or [] if one.get("severity", "error") == "error"]
    return [*(str(one["message"]) for one in problems), *(document.get("attention") or [])]


@click.command(cls=Command)
@click.option(
    "--log-format", type=click.Choice(["text", "json"]), default="text", help="How events are written."
)
@click.option("--log-level", type=click.Choice(_LEVELS), default="info", help="Which events are written.")
@pass_invocation
def serve(invocation: Invocation, log_format: str, log_level: str) -> int:
    """Run the daemon in the foreground. SIGTERM stops it, SIGHUP makes it reload."""
    invocation.operator_only("serve")
    from swarmd.daemon.main import serve as run_daemon

    return int(run_daemon(invocation.places(), log_format=log_format, log_level=log_level))
