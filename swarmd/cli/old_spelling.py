"""The spelling of cron-swarm (`swarmd memory ctx set --node N ...`), for people who come from it: the same acts."""

from __future__ import annotations

import click

from swarmd.cli.base import Group
from swarmd.cli.ctx import get, put
from swarmd.cli.handoffs import act_command
from swarmd.cli.invocation import Invocation, pass_invocation
from swarmd.cli.params import AGENT
from swarmd.core.acts import ACTS

_node = click.option("--node", type=AGENT, required=True, metavar="AGENT", help="The agent.")
_key = click.option("--key", required=True, help="The key's name.")


@click.group(cls=Group, hidden=True)
def ctx() -> None:
    """As `swarmd ctx`."""


@ctx.command("get")
@_node
@_key
@pass_invocation
def get_key(invocation: Invocation, node: str, key: str) -> None:
    """As `swarmd ctx get`."""
    get(invocation, node, key)


@ctx.command("set")
@_node
@_key
@click.option("--value", required=True, help="The value (`-`: standard input).")
@pass_invocation
def set_key(invocation: Invocation, node: str, key: str, value: str) -> None:
    """As `swarmd ctx set`."""
    put(invocation, node, key, value)


@click.group(cls=Group, hidden=True)
def handoff() -> None:
    """As `swarmd handoff`."""


handoff.add_command(act_command(ACTS["handoff_send"], "send"))
