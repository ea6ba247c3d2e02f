"""`swarmd agent`: the agents in force, their tree and their history."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import click

from swarmd.cli import output
from swarmd.cli.base import Group
from swarmd.cli.invocation import Invocation, pass_invocation
from swarmd.cli.left_running import tell_left_running
from swarmd.cli.params import AGENT, COUNT, SESSION, list_options, narrowed


def state_of(agent: Mapping[str, Any]) -> str:
    """How an agent stands, in one word, the most pressing first."""
    if agent.get("problem"):
        return "problem"
    if agent.get("paused"):
        return "paused"
    if agent.get("enabled") is False:
        return "disabled"
    return "running" if agent.get("running") else "ready"


_AGENTS = output.columns_of("name ~parent state ~schedule ~zone=timezone next last=last_outcome ~open=open_handoffs",
                            state=state_of)  # fmt: skip
_HISTORY = output.columns_of("at what by ~hash")


@click.group(cls=Group)
def agent() -> None:
    """The agents in force."""


@agent.command("list")
@click.option("-n", "n", type=COUNT, metavar="N", help="At most so many.")
@pass_invocation
def list_agents(invocation: Invocation, n: int | None) -> None:
    """Every agent in force, by name."""
    document = narrowed(invocation.call("agent_list"), "next", {"n": n})
    invocation.show(document, _listing)
    _tell_left_running(invocation, document["items"])


def _listing(document: Mapping[str, Any]) -> None:
    output.listing(document, _AGENTS, "no agents are in force; `swarmd check` says what the files hold")
    for one in document["items"]:
        if one.get("problem"):
            output.note(f"{one['name']}: {output.shown('', one['problem'])}")


def _tell_left_running(invocation: Invocation, agents: Iterable[Mapping[str, Any]]) -> None:
    """Of these agents and those below them."""
    waiting, states = list(agents), []
    while waiting:
        one = waiting.pop()
        states += ["running"] * bool(one.get("running"))
        waiting += one.get("children") or []
    tell_left_running(invocation, states)


@agent.command("tree")
@pass_invocation
def tree(invocation: Invocation) -> None:
    """The tree, each agent below its parent."""
    document = invocation.call("agent_tree")
    invocation.show(document, lambda found: _branches(found["roots"], "", root=True))
    _tell_left_running(invocation, document["roots"])


def _branches(agents: list[Mapping[str, Any]], stem: str, *, root: bool = False) -> None:
    """Plain ASCII, so that it lines up in every locale; a loop, for a tree may be deep."""
    rows = [(one, stem, place == len(agents) - 1, root) for place, one in enumerate(agents)]
    while rows:
        one, stem, last, is_root = rows.pop(0)
        state = state_of(one)
        text = output.shown("", one.get("name")) + (f" ({state})" if state != "ready" else "")
        output.line(text if is_root else f"{stem}{'`-- ' if last else '|-- '}{text}")
        below = "" if is_root else stem + ("    " if last else "|   ")
        children = one.get("children") or []
        rows[:0] = [(child, below, place == len(children) - 1, False) for place, child in enumerate(children)]


@agent.command("show")
@click.argument("name", type=AGENT, metavar="AGENT")
@click.option("--at", type=SESSION, metavar="SESSION", help="As it was when that session started.")
@pass_invocation
def show_agent(invocation: Invocation, name: str, at: str | None) -> None:
    """Everything about one agent."""
    document = invocation.call("agent_show", agent=name, at=at)
    invocation.show(document, lambda found: output.facts(found, without=("definition",)))
    tell_left_running(invocation, ["running"] * bool(document.get("running")))


@agent.command("history")
@click.argument("name", type=AGENT, metavar="AGENT")
@list_options
@pass_invocation
def agent_history(invocation: Invocation, name: str, **bounds: Any) -> None:
    """The definitions it has had, its pauses and renames."""
    document = narrowed(invocation.call("agent_history", agent=name), "at", bounds)
    invocation.show(document, lambda found: output.listing(found, _HISTORY, f"{name} has no history"))


@agent.command("rename")
@click.argument("old", type=AGENT)
@click.argument("new", type=AGENT)
@pass_invocation
def rename(invocation: Invocation, old: str, new: str) -> None:
    """Give all that is stored of OLD to NEW, whose file must be there or come."""
    invocation.show(invocation.call("rename", old=old, new=new), lambda _: output.line(f"{old} is now {new}"))


@agent.command("forget")
@click.argument("name", type=AGENT, metavar="AGENT")
@pass_invocation
def forget(invocation: Invocation, name: str) -> None:
    """Drop what is stored of an agent that has no file any more."""
    invocation.show(invocation.call("forget", name=name), lambda _: output.line(f"{name} is forgotten"))
