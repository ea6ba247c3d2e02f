"""`swarmd init`, `schema` and `completion`: what stands before the first agent runs."""

from __future__ import annotations

from pathlib import Path

import click

from swarmd.cli import output
from swarmd.cli.base import Command
from swarmd.cli.invocation import Invocation, pass_invocation
from swarmd.errors import Failed

STATE_FOLDER = ".swarmd"
_STATE_MODE = 0o700


@click.command(cls=Command)
@click.argument("folder", metavar="[DIR]", default=".", type=click.Path())
@pass_invocation
def init(invocation: Invocation, folder: str) -> None:
    """Make a first agents.d, a small tree that runs without any key, and .swarmd for its state.

    Nothing that is there is overwritten.
    """
    invocation.operator_only("init")
    from swarmd.cli.first_tree import copy_tree

    base = Path(folder)
    agents, state = base / "agents.d", base / STATE_FOLDER
    _refuse_damage(state)
    try:
        base.mkdir(parents=True, exist_ok=True)
        has_agents = agents.is_dir() and any(agents.iterdir())
        written = [] if has_agents else copy_tree(agents)
        had_state = state.is_dir()
        state.mkdir(mode=_STATE_MODE, exist_ok=True)
    except OSError as error:
        raise Failed(f"{error.filename or folder}: {error.strerror or error}") from error
    invocation.has_acted = True
    for path in written:
        output.line(f"made {output.shown('', str(path))}")
    if has_agents:
        output.line(f"{output.shown('', str(agents))} has files already: left as it is")
    output.line(
        f"{output.shown('', str(state))} is there already"
        if had_state
        else f"made {output.shown('', str(state))}"
    )
    enter = "" if folder == "." else f"cd {output.shown('', folder)}, then "
    output.line(f"next: {enter}swarmd check, swarmd agent tree, swarmd serve")


def _refuse_damage(state: Path) -> None:
    """Raises StoreUnusable where a state has lost its database: nothing that is begun there could run."""
    from swarmd.store.opening import lost_database

    lost = lost_database(state)
    if lost is not None:
        raise lost


@click.command(cls=Command)
@pass_invocation
def schema(invocation: Invocation) -> None:
    """Print the JSON Schema of agent files, for editors that complete and check by it."""
    del invocation
    from swarmd.config.schema import json_schema
    from swarmd.service.loading import kinds

    output.json_document(json_schema(kinds()))


@click.command(cls=Command)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print a completion script: `eval "$(swarmd completion bash)"`."""
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    output.line(kind(ctx.find_root().command, {}, "swarmd", "_SWARMD_COMPLETE").source())
