"""`swarmd ctx`: an agent's context keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from swarmd.cli import output
from swarmd.cli.base import Group
from swarmd.cli.invocation import Invocation, pass_invocation
from swarmd.cli.params import agent_option, list_options, narrowed, split_agent, text_for
from swarmd.core.acts import ACTS


def _shown_value(row: Mapping[str, Any]) -> Any:
    """An empty value is seen to be one; `-` is a value too."""
    return output.EMPTY if row.get("value") == "" else row.get("value")


_KEYS = output.columns_of("key value ~version updated ~by", value=_shown_value)
_HISTORY = output.columns_of("~version updated value by", value=_shown_value)


@click.group(cls=Group)
def ctx() -> None:
    """Context keys: small values that stand in every prompt of their agent.

    Inside a session AGENT is left out: its own keys are meant, --agent names another.
    """


@ctx.command("list")
@click.argument("words", nargs=-1, metavar="[AGENT]")
@agent_option
@list_options
@pass_invocation
def list_keys(invocation: Invocation, words: tuple[str, ...], agent: str | None, **bounds: Any) -> None:
    """The agent's keys."""
    agent, _ = split_agent(invocation, agent, words, [])
    document = narrowed(invocation.call("ctx_list", agent=agent), "updated", bounds)
    invocation.show(document, lambda found: output.listing(found, _KEYS, "no keys are set"))


@ctx.command("get")
@click.argument("words", nargs=-1, metavar="[AGENT] KEY")
@agent_option
@pass_invocation
def get_key(invocation: Invocation, words: tuple[str, ...], agent: str | None) -> None:
    """A key's value: as it is when piped, escaped on a terminal."""
    agent, (key,) = split_agent(invocation, agent, words, ["KEY"])
    get(invocation, agent, key)


@ctx.command("set", help=ACTS["ctx_set"].sentence)
@click.argument("words", nargs=-1, metavar="[AGENT] KEY VALUE")
@agent_option
@pass_invocation
def set_key(invocation: Invocation, words: tuple[str, ...], agent: str | None) -> None:
    """`-` as VALUE reads standard input."""
    agent, (key, value) = split_agent(invocation, agent, words, ["KEY", "VALUE"])
    put(invocation, agent, key, value)


@ctx.command("unset", help=ACTS["ctx_unset"].sentence)
@click.argument("words", nargs=-1, metavar="[AGENT] KEY")
@agent_option
@pass_invocation
def unset_key(invocation: Invocation, words: tuple[str, ...], agent: str | None) -> None:
    """Its history is kept."""
    agent, (key,) = split_agent(invocation, agent, words, ["KEY"])
    invocation.show(invocation.call("ctx_unset", agent=agent, key=key), _written)


@ctx.command("history")
@click.argument("words", nargs=-1, metavar="[AGENT] KEY")
@agent_option
@list_options
@pass_invocation
def key_history(invocation: Invocation, words: tuple[str, ...], agent: str | None, **bounds: Any) -> None:
    """Every value that a key has had, who set it and when."""
    agent, (key,) = split_agent(invocation, agent, words, ["KEY"])
    document = narrowed(invocation.call("ctx_history", agent=agent, key=key), "updated", bounds)
    invocation.show(document, lambda found: output.listing(found, _HISTORY, f"the key {key} has no history"))


def get(invocation: Invocation, agent: str | None, key: str) -> None:
    """Print a key's value."""
    invocation.show(invocation.call("ctx_get", agent=agent, key=key), _value)


def put(invocation: Invocation, agent: str | None, key: str, value: str) -> None:
    """Set a key."""
    text = text_for(invocation, agent, value, "a value", may_be_empty=True)
    invocation.show(invocation.call("ctx_set", agent=agent, key=key, value=text), _written)


def _value(document: Mapping[str, Any]) -> None:
    output.bare(str(document["value"]).encode("utf-8", "surrogatepass"))


def _written(document: Mapping[str, Any]) -> None:
    name = f"{output.shown('', document.get('agent'))} {output.shown('', document.get('key'))}"
    value = _shown_value(document)
    if document.get("superseded"):
        output.note(f"not {'unset' if value is None else 'set'}: {output.shown('', document['superseded'])}")
        return
    output.done(f"{name} is unset" if value is None else f"{name} = {output.cut(value)}", document)
