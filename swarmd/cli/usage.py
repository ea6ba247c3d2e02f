"""`swarmd usage`: tokens and money, by agent, model, day or subtree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from swarmd.cli import output
from swarmd.cli.base import Command
from swarmd.cli.invocation import Invocation, pass_invocation
from swarmd.cli.params import list_options
from swarmd.cli.transcripts import dollars
from swarmd.core.counts import counted

BY = ("agent", "model", "day", "subtree")


@click.command(cls=Command)
@click.option(
    "--by",
    type=click.Choice(BY),
    default="agent",
    help="A line for each of these; subtree: an agent and all below.",
)
@list_options
@pass_invocation
def usage(invocation: Invocation, **args: Any) -> None:
    """Tokens and cost of the sessions that have ended, as far as they are known."""
    invocation.show(invocation.call("usage", **args), _print)


def _print(document: Mapping[str, Any]) -> None:
    rows, field = document["items"], "agent" if document["by"] == "subtree" else document["by"]
    if not rows:
        output.note("no session has ended")
        return
    total = {**document["total"], field: "all"}
    output.table([*rows, total], _columns(field))
    if document["left_out"]:
        output.note(f"{document['left_out']} more: a larger -n shows them")


def _columns(field: str) -> tuple[output.Column, ...]:
    def name(row: Mapping[str, Any]) -> Any:
        return row.get(field) or "unknown"

    def tokens(of: str) -> Any:
        return lambda row: amount(row, of)

    cells = {of: tokens(of) for of in ("tokens_in", "tokens_out", "cache_read", "cache_write")}
    return output.columns_of(
        f"{field} sessions in=tokens_in out=tokens_out ~from_cache=cache_read ~to_cache=cache_write cost=usd",
        **{field: name, "usd": cost, **cells},
    )


def amount(row: Mapping[str, Any], field: str) -> str:
    """A number of tokens; a sum that lacks some of them is a least."""
    if row[field] is None:
        return "unknown"
    return f"{row[field]:,}+" if row["tokens_unknown"] else f"{row[field]:,}"


def cost(row: Mapping[str, Any]) -> str:
    """An amount of money, likewise."""
    return "unknown" if row["usd"] is None else dollars(row["usd"], least=bool(row["usd_unknown"]))


def in_words(row: Mapping[str, Any]) -> str:
    """A sum in one line."""
    known = [
        f"{amount(row, field)} {words}"
        for field, words in (("tokens_in", "tokens in"), ("tokens_out", "out"))
    ]
    sessions = counted(row["sessions"], "session")
    return f"{sessions}, {', '.join(known)}, cost {cost(row)}"
