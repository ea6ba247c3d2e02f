"""The root command, and the one boundary where an error becomes a sentence and an exit status."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

import click

from swarmd import __version__
from swarmd.cli import output
from swarmd.cli.base import LazyGroup
from swarmd.cli.invocation import Invocation
from swarmd.core.text import one_line
from swarmd.errors import BadInput, SwarmdError

INTERRUPTED = 130
PIPE_CLOSED = 141
_COMPLETION = "_SWARMD_COMPLETE"

SECTIONS: Mapping[str, Mapping[str, tuple[str, str, str]]] = {
    "Setting up": {
        "init": ("setup", "init", "Make a first agents.d and .swarmd."),
        "check": ("checking", "check", "Validate agent files: every problem."),
        "reload": ("operations", "reload", "Take up changed agent files."),
        "serve": ("operations", "serve", "Run the daemon."),
        "schema": ("setup", "schema", "Print the JSON Schema of agent files."),
        "completion": ("setup", "completion", "Print a shell's completion script."),
    },
    "Looking": {
        "status": ("looking", "status", "Where everything is and how it goes."),
        "attention": ("looking", "attention", "What needs a person."),
        "agent": ("agents", "agent", "Agents: list, tree, show, history."),
        "session": ("sessions", "session", "Sessions: list, show, log, revert and more."),
        "log": ("looking", "log", "What has happened, newest first."),
        "why": ("looking", "why", "Why an agent ran or did not."),
        "next": ("looking", "next_fires", "When agents are due."),
        "usage": ("usage", "usage", "Tokens and cost, by agent, model, day or subtree."),
        "prompt": ("running", "prompt", "Print what a session would be given."),
        "doctor": ("store", "doctor", "Look for what is wrong with this installation."),
    },
    "Acting": {
        "run": ("running", "run", "Run an agent now."),
        "pause": ("operations", "pause", "Let an agent and all below it start nothing."),
        "resume": ("operations", "resume", "Lift a pause."),
        "ctx": ("ctx", "ctx", "Context keys: list, get, set, unset, history."),
        "handoff": ("handoffs", "handoff", "Work handed down the tree."),
        "report": ("reports", "report", "Notes up to the parent."),
        "memory": ("memory", "memory", "An agent's folder of notes."),
        "skill": ("skills", "skill", "Skills: list, show."),
        "approval": ("approvals", "approval", "What waits for your yes: list, show, approve, deny."),
    },
    "Inside a session": {
        "checkpoint": ("session_acts", "checkpoint", "Save what is staged; the session goes on."),
        "fail": ("session_acts", "fail", "Say that this session has failed."),
        "draft": ("session_acts", "draft", "What an earlier session left unsaved."),
        "mcp": ("mcp_bridge", "mcp", "All of this as MCP tools; --operator: for your own assistant."),
    },
    "The store": {
        "verify": ("store", "verify", "Check the store and its history."),
        "backup": ("store", "backup", "Copy the state into one file."),
        "restore": ("store", "restore", "Make the state from such a file."),
    },
}
"""Every command: its module in this package, its name there, and its help, so that `--help` imports none of them."""


class _Root(LazyGroup):
    """`swarmd`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Refuse bytes that are no text before anything looks at them."""
        for place, arg in enumerate(args, 1):
            if any("\ud800" <= char <= "\udfff" for char in arg):
                raise BadInput(
                    f"argument {place} is not UTF-8 text: '{one_line(arg[:60])}'; give it as UTF-8"
                )
        return super().parse_args(ctx, args)


root = _Root(
    "swarmd",
    sections=SECTIONS,
    help="A daemon that runs a tree of AI agents on schedules.\n\nGlobal options may stand before or after a command.",
    context_settings={"help_option_names": ["-h", "--help"]},
)
click.version_option(__version__, message="swarmd %(version)s")(root)


def main(args: Sequence[str] | None = None) -> int:
    """Run the program; the exit status."""
    output.make_standard_files_safe()
    return run(sys.argv[1:] if args is None else args, Invocation())


def run(args: Sequence[str], invocation: Invocation) -> int:
    """Run one command. Whatever goes wrong comes out as one sentence on standard error."""
    try:
        status = _status(list(args), invocation)
        output.flush()
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - the one place where errors end
        return _told(error, invocation)
    return status


def _status(args: list[str], invocation: Invocation) -> int:
    instruction = invocation.environ.get(_COMPLETION)
    if instruction:
        from click.shell_completion import shell_complete

        return shell_complete(root, {"obj": invocation}, "swarmd", _COMPLETION, instruction)
    try:
        with root.make_context("swarmd", args, obj=invocation) as ctx:
            return int(root.invoke(ctx) or 0)
    except click.exceptions.Exit as leaving:  # a help text was asked for
        return leaving.exit_code


def _told(error: BaseException, invocation: Invocation) -> int:
    """Say what went wrong; the exit status."""
    match error:
        case click.exceptions.NoArgsIsHelpError():
            click.echo(error.format_message(), err=True)
            return error.exit_code
        case click.ClickException():
            output.note(_usage_sentence(error))
            return error.exit_code
        case SwarmdError():
            output.note(str(error))
            return error.exit_status
        case KeyboardInterrupt() | click.Abort():
            output.note("interrupted")
            return INTERRUPTED
        case BrokenPipeError():
            output.close_quietly()
            return PIPE_CLOSED
        case OSError():
            output.close_quietly()
            done = "; the command itself was carried out" if invocation.has_acted else ""
            output.note(f"{_named(error)}: {error.strerror or error}{done}")
            return 1
    if invocation.environ.get("SWARMD_DEBUG"):
        raise error
    output.note(f"internal error: {type(error).__name__}: {error} (SWARMD_DEBUG=1 shows where)")
    return 1


def _named(error: OSError) -> str:
    """Which file it is about; an error without one comes from writing what was asked for."""
    return str(error.filename) if error.filename is not None else "standard output"


def _usage_sentence(error: click.ClickException) -> str:
    """The message of click in our form, with where to read on."""
    message = error.format_message().strip().rstrip(".")
    message = message[:1].lower() + message[1:].replace(". Did you mean", " (did you mean")
    message = message.replace("\n", " ")
    if " (did you mean" in message:
        message += ")"
    if isinstance(error, click.NoSuchOption):
        message += _about_dashes(error)
    if isinstance(error, click.UsageError) and error.ctx is not None:
        message += f"; see `{error.ctx.command_path} --help`"
    return message


def _about_dashes(error: click.NoSuchOption) -> str:
    """A text that begins with a dash looks like an option to any program."""
    command = error.ctx.command if error.ctx is not None else None
    if command is None or not any(isinstance(param, click.Argument) for param in command.params):
        return ""
    if (
        error.option_name == "--kind"
        and error.ctx is not None
        and error.ctx.command_path.endswith("session search")
    ):
        return "; swarmd memory search has it"
    return "; a text that begins with '-' goes behind `--`, or give `-` and the text on standard input"
