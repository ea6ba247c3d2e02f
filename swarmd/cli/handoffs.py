"""`swarmd handoff`: its acts are made from the table of acts; only `list` and `show` are written out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from swarmd.cli import output
from swarmd.cli.base import Command, Group
from swarmd.cli.invocation import Invocation, pass_invocation
from swarmd.cli.params import AGENT, DUE, HANDOFF, AgentName, Text, list_options
from swarmd.core.acts import ACTS, Act, Arg
from swarmd.core.handoffs import PRIORITIES, Status
from swarmd.errors import Refused

_HANDOFFS = output.columns_of("id status ~priority from=sender to=receiver ~created ~due text")
RECEIVER = AgentName("children")
SENDER = AgentName("operator")
_TEXTS = ("text", "reply")


@click.group(cls=Group)
def handoff() -> None:
    """Work handed down the tree: send it, take it up, complete it, ask about it."""


@handoff.command("list")
@click.option("--to", type=AGENT, metavar="AGENT", help="Only those it has received.")
@click.option("--from", "sender", type=SENDER, metavar="AGENT", help="Only those it has sent.")
@click.option(
    "--status", type=click.Choice([status.value for status in Status]), help="Only those that stand so."
)
@list_options
@pass_invocation
def list_handoffs(invocation: Invocation, sender: str | None, **args: Any) -> None:
    """Handoffs, newest first."""
    document = invocation.call("handoff_list", **{"from": sender}, **args)
    invocation.show(document, lambda found: output.listing(found, _HANDOFFS, "no handoffs"))


@handoff.command("show")
@click.argument("id", type=HANDOFF)
@pass_invocation
def show_handoff(invocation: Invocation, id: int) -> None:
    """One handoff with its thread."""
    invocation.show(invocation.call("handoff_show", id=id), output.facts)


def act_command(act: Act, name: str) -> click.Command:
    """The command of an act: its `id` is an argument, all else are options, its sentence the help."""
    params = [_parameter(act, arg) for arg in act.args]
    if act.name == "handoff_send":
        params.append(click.Option(["--from", "sender"], type=SENDER, hidden=True))

    @pass_invocation
    def asked(invocation: Invocation, sender: str | None = None, **args: Any) -> None:
        refuse_other_sender(invocation, sender)
        invocation.show(invocation.call(act.name, **args), _moved)

    return Command(name, params=params, callback=asked, help=f"{act.sentence}\n\nIn a session: {act.rule}.")


def _parameter(act: Act, arg: Arg) -> click.Parameter:
    if arg.name == "id":
        return click.Argument(["id"], type=HANDOFF)
    kinds: Mapping[str, tuple[click.ParamType[Any], str]] = {
        "priority": (click.Choice(PRIORITIES), "P"),
        "time": (DUE, "TIME"),
        "agent": (RECEIVER, "AGENT"),
    }
    free: click.ParamType[Any] = Text(f"--{arg.name}") if arg.name in _TEXTS else click.STRING
    kind, metavar = kinds.get(arg.kind, (free, "TEXT"))
    help = arg.help + (" (`-`: standard input)" if isinstance(kind, Text) else "")
    return click.Option([f"--{arg.name}"], type=kind, metavar=metavar, required=arg.required, help=help)


def refuse_other_sender(invocation: Invocation, sender: str | None) -> None:
    """A handoff's sender is whoever acts. `--from` may say so again, and may not say anything else."""
    if sender is None:
        return
    own = invocation.environ.get("SWARMD_AGENT") if invocation.in_session else invocation.options.as_agent
    if sender == (own or "operator"):
        return
    if invocation.in_session:
        raise Refused(
            f"--from {sender}: a session sends as its own agent ({own or 'unnamed'}) and as no other"
        )
    raise Refused(
        f"--from {sender}: the sender would be {own or 'operator'}; to act as {sender} give --as {sender}"
    )


def _moved(document: Mapping[str, Any]) -> None:
    for one in document.get("items", [document]):
        if one.get("id") is None:
            output.done(f"nothing was sent to {output.shown('', one.get('receiver'))}", one)
            continue
        whom = f"from {output.shown('', one.get('sender'))} to {output.shown('', one.get('receiver'))}"
        output.done(f"handoff {one['id']} {whom} is {one.get('status')}, {one.get('priority')}", one)


for _act in ACTS.values():
    if _act.name.startswith("handoff_"):
        handoff.add_command(act_command(_act, _act.name.removeprefix("handoff_")))
