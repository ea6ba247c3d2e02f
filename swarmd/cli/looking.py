"""`swarmd status`, `why`, `log`, `next` and `attention`: how it goes and why, for a person who looks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from swarmd.cli import output
from swarmd.cli.base import Command, Group
from swarmd.cli.invocation import Invocation, pass_invocation
from swarmd.cli.left_running import tell_left_running
from swarmd.cli.params import AGENT, SINCE, Number, list_options, narrowed, usage
from swarmd.cli.sessions import change_line, result_of
from swarmd.cli.transcripts import cost_words, dollars
from swarmd.cli.usage import in_words

SHOWN_FIRES = 5
MOMENTS = Number("count", 10_000)

_WHY = output.columns_of("slot ~last ~count decision ~session reason")
_FIRES = output.columns_of("start=local agent ~reason")
_ATTENTION = output.columns_of("id kind agent since text next_step")


@click.command(cls=Command)
@click.option("--check", is_flag=True, help="Exit 1 where anything needs attention.")
@pass_invocation
def status(invocation: Invocation, check: bool) -> int:
    """Where everything is and how it goes."""
    document = invocation.call("status")
    invocation.show(document, _print_status)
    tell_left_running(invocation, ["running"] * ((document.get("running") or {}).get("running") or 0))
    return int(check and needs_attention(document))


def needs_attention(status: Mapping[str, Any]) -> bool:
    """Whether the status counts anything that a person must look at."""
    return bool(status["attention"]["count"])


def _print_status(document: Mapping[str, Any]) -> None:
    output.facts(document["places"])
    output.line()
    attention, today = dict(document["attention"]), document.get("today")
    items = attention.pop("items", [])
    rest = {name: value for name, value in document.items() if name not in ("places", "attention", "today")}
    output.facts({**rest, "attention": attention, "today": None if today is None else in_words(today)})
    output.items(items, "  ")


@click.command(cls=Command)
@click.argument("agent", type=AGENT)
@click.argument("time", type=SINCE, required=False)
@list_options
@pass_invocation
def why(invocation: Invocation, agent: str, time: str | None, **bounds: Any) -> None:
    """The agent's last slots and wakes, each with its decision and the reason, and its next; or those of a moment."""
    document = invocation.call("why", agent=agent, time=time, **bounds)
    invocation.show(document, lambda found: _print_why(agent, found))
    tell_left_running(invocation, (one.get("state") for one in document.get("sessions") or []))


def _print_why(agent: str, document: Mapping[str, Any]) -> None:
    output.listing(document, _WHY, f"nothing was due for {agent} yet", whole=True)
    for session in document.get("sessions") or []:
        output.line(f"woken: session {session.get('id')} by {output.shown('', session.get('trigger'))}, "
                    f"{output.local(session.get('queued'))}: {output.shown('', result_of(session))}")  # fmt: skip
    reason = document.get("next_reason")
    output.line(
        f"next: {output.local(document.get('next_fire'))}"
        + (f" ({output.shown('', reason)})" if reason else "")
    )
    if tidied := document.get("consolidation"):
        output.line(
            f"memory is put in order: {output.local(tidied.get('next'))} ({output.shown('', tidied['reason'])})"
        )


@click.command(cls=Command)
@click.argument("agent", type=AGENT, required=False)
@click.option("--stat", is_flag=True, help="With what each has changed, and its cost.")
@list_options
@pass_invocation
def log(invocation: Invocation, agent: str | None, stat: bool, **bounds: Any) -> None:
    """One line a slot, session, operator's act and wish for an approval, newest first."""
    document = invocation.call("log", agent=agent, **bounds)
    invocation.show(document, lambda found: _print_log(found, stat=stat))


def _print_log(document: Mapping[str, Any], *, stat: bool) -> None:
    for row in document["items"]:
        output.line(_log_line(row))
        if stat:
            _print_stat(row)
    if not document["items"]:
        output.note("nothing has happened")
    output.more(document)


def _log_line(row: Mapping[str, Any]) -> str:
    who = output.shown("", row.get("agent") or row.get("by"))
    if row.get("session") is not None:
        who += f"#{row['session']}"
    count = f" ({row['count']} times)" if (row.get("count") or 1) > 1 else ""
    parts = [output.local(row.get("at")), who, output.shown("", row.get("what")) + count]
    parts += [output.shown("", row[field]) for field in ("trigger", "target", "reason") if row.get(field)]
    used = [
        row[field] for field in ("tokens_in", "tokens_out", "cache_read", "cache_write") if row.get(field)
    ]
    if used:
        parts.append(f"{sum(used):,} tokens, {dollars(row.get('usd'))}")
    return "  ".join(parts)


def _print_stat(row: Mapping[str, Any]) -> None:
    for change in row.get("changes") or []:
        output.line(f"    {change_line(change)}")
    if words := cost_words(row):
        output.line(f"    {words}")


@click.command("next", cls=Command)
@click.argument("agent", type=AGENT, required=False)
@click.option("-n", "n", type=MOMENTS, metavar="N", help="How many moments.")
@click.option("--cron", metavar="EXPR", help="Those of a cron text, in place of an agent's.")
@click.option("--timezone", "zone", metavar="TZ", help="By the clocks of this zone; with --cron.")
@click.option("--from", "start", metavar="TIME", help="After this moment; with --cron.")
@pass_invocation
def next_fires(
    invocation: Invocation,
    agent: str | None,
    n: int | None,
    cron: str | None,
    zone: str | None,
    start: str | None,
) -> None:
    """When agents are due next."""
    if cron is None:
        if zone is not None or start is not None:
            usage("--timezone and --from go with --cron")
        document = invocation.call("next", agent=agent, n=n)
        invocation.show(document, _print_next)
        return
    if agent is not None:
        usage(f"give an agent ({agent}) or --cron, not both")
    from swarmd.cli.cron import fires

    document = {"fires": fires(cron, zone, start or "now", n or SHOWN_FIRES, invocation)}
    invocation.show(document, lambda found: _print_fires(found["fires"]))


def _print_next(document: Mapping[str, Any]) -> None:
    output.listing(
        {"items": document["fires"], "next": document.get("next")}, _FIRES, "nothing is due by a schedule"
    )


def _print_fires(moments: Sequence[str]) -> None:
    for moment in moments:
        output.line(moment)
    if not moments:
        output.note("it comes no more after that moment, as far as the calendar goes")


@click.group(cls=Group, default="list", subcommand_metavar="[ack ID]")
def attention() -> None:
    """What needs a person; items close by themselves when they are cured."""


@attention.command("list", hidden=True)
@list_options
@pass_invocation
def list_attention(invocation: Invocation, **bounds: Any) -> None:
    """What needs a person."""
    document = narrowed(invocation.call("attention"), "since", bounds)
    invocation.show(document, lambda found: output.listing(found, _ATTENTION, "nothing needs attention"))


@attention.command("ack")
@click.argument("id")
@pass_invocation
def ack(invocation: Invocation, id: str) -> None:
    """Say that you have seen an item; it comes back where it gets worse."""
    document = invocation.call("attention_ack", id=id)
    invocation.show(document, lambda _: output.line(f"{output.shown('', id)} is acknowledged"))
