"""The classes that commands are made of: global options at either side, lazily loaded groups, default commands."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import click

from swarmd.cli.invocation import Invocation
from swarmd.errors import BadInput

_PLACES = {
    "agents": ("DIR", "The folder of the agent files."),
    "state": ("DIR", "The folder of the store."),
    "runtime": ("DIR", "The folder of the sockets."),
    "config": ("FILE", "The settings file, swarmd.toml."),
}


LATER = frozenset({
    "edit", "import", "plan",
})  # fmt: skip
"""Commands that people may have read about and that this version does not have."""

_TAKE_A_VALUE = (*(f"--{name}" for name in _PLACES), "--as", "--as-node")


def _keep(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    """Write a global option down where it was given; the one nearest to the command's end wins. Raises BadInput for an
    empty agent: a variable that is not set must not make an operator of whoever meant to act as an agent.
    """
    if param.name == "as_agent" and value == "":
        raise BadInput("--as is empty: name the agent whose authority is meant")
    if value not in (None, False) and param.name is not None:
        setattr(ctx.ensure_object(Invocation).options, param.name, value)


def global_options(*, hidden: bool) -> list[click.Parameter]:
    """The options that stand before a command, and after it too; shown in the help of `swarmd` alone."""
    options: list[click.Parameter] = [
        click.Option(
            [f"--{name}"], metavar=metavar, help=text, expose_value=False, callback=_keep, hidden=hidden
        )
        for name, (metavar, text) in _PLACES.items()
    ]
    options.append(
        click.Option(["--as", "--as-node", "as_agent"], metavar="AGENT", expose_value=False, callback=_keep,
                     help="Act with that agent's authority only.", hidden=hidden)
    )  # fmt: skip
    options.append(
        click.Option(
            ["--json"], is_flag=True, expose_value=False, callback=_keep, help="Print one JSON document."
        )
    )
    return options


class Command(click.Command):
    """A command that also takes the global options."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """As click.Command."""
        super().__init__(*args, **kwargs)
        self.params += global_options(hidden=True)


class Group(click.Group):
    """A noun with its commands. `default` names the command that is meant where none is named."""

    command_class = Command
    group_class = type

    def __init__(self, *args: Any, default: str | None = None, **kwargs: Any) -> None:
        """As click.Group, with the name of the default command."""
        super().__init__(*args, **kwargs)
        self.default = default
        self.no_args_is_help = default is None
        self.params += global_options(hidden=True)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click.Group; what names no command goes to the default one."""
        if self.default is not None and not self._names_command(args):
            args = [self.default, *args]
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click.Group; a command of a later version is no slip of the keyboard."""
        _refuse_later(ctx, args[0])
        return super().resolve_command(ctx, args)

    def _names_command(self, args: list[str]) -> bool:
        """Whether the first word behind the global options is a command, or help is asked for."""
        words = iter(args)
        for word in words:
            if word in _TAKE_A_VALUE:
                next(words, None)
            elif word != "--json" and not word.startswith(tuple(f"{option}=" for option in _TAKE_A_VALUE)):
                return word in self.commands or word in ("--help", "-h")
        return False


def _refuse_later(ctx: click.Context, name: str) -> None:
    """Raises BadInput for a command that is still to come."""
    words = [*ctx.command_path.split()[1:], name]
    if " ".join(words) in LATER and not ctx.resilient_parsing:
        raise BadInput(f"this version has no `swarmd {' '.join(words)}` yet (README: Not there yet)")


class LazyGroup(click.Group):
    """The root: `sections` maps a heading to name -> (module, attribute, help); a module is imported when invoked."""

    def __init__(
        self, *args: Any, sections: Mapping[str, Mapping[str, tuple[str, str, str]]], **kwargs: Any
    ) -> None:
        """As click.Group, with the table of commands."""
        super().__init__(*args, **kwargs)
        self.sections = sections
        self.table = {name: row for rows in sections.values() for name, row in rows.items()}
        self.params += global_options(hidden=False)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every command's name."""
        return sorted(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, imported now."""
        row = self.table.get(cmd_name)
        if row is None:
            return None
        command = getattr(importlib.import_module(f"swarmd.cli.{row[0]}"), row[1])
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click.Group, with suggestions from the table, since nothing is imported yet."""
        name = args[0]
        _refuse_later(ctx, name)
        if name not in self.table and not name.startswith("-") and not ctx.resilient_parsing:
            raise click.exceptions.NoSuchCommand(name, possibilities=self.table, ctx=ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Every command with its help, from the table alone."""
        for heading, rows in self.sections.items():
            with formatter.section(heading):
                formatter.write_dl([(name, text) for name, (_, _, text) in rows.items()])
