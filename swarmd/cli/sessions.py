"""`swarmd session`: what ran, what it changed, and what an operator may still do about it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from swarmd.cli import output
from swarmd.cli.base import Group
from swarmd.cli.invocation import Invocation, pass_invocation
from swarmd.cli.left_running import tell_left_running
from swarmd.cli.params import AGENT, SESSION, Text, list_options
from swarmd.cli.searching import session_search
from swarmd.cli.transcripts import Printer, cost_words
from swarmd.core.counts import counted
from swarmd.core.sessions import OUTCOMES
from swarmd.errors import BadInput

POLL_SECONDS = 0.5
LINE_SHOWN = 160

_name = click.argument("session", type=SESSION)


def result_of(session: Mapping[str, Any]) -> Any:
    """The outcome, and until there is one the state."""
    return session.get("outcome") or session.get("state")


_SESSIONS = output.columns_of("id agent ~trigger started outcome ~by ~reason", outcome=result_of)


@click.group(cls=Group)
def session() -> None:
    """Sessions. One is named by its ID, by AGENT (its last) or by AGENT@TIME."""


session.add_command(session_search)


@session.command("list")
@click.option("--agent", type=AGENT, metavar="AGENT", help="Only those of this agent.")
@click.option("--outcome", type=click.Choice(OUTCOMES), help="Only those that ended so.")
@list_options
@pass_invocation
def list_sessions(invocation: Invocation, **args: Any) -> None:
    """Sessions, newest first."""
    document = invocation.call("session_list", **args)
    invocation.show(document, lambda found: output.listing(found, _SESSIONS, "no sessions"))
    tell_left_running(invocation, (one.get("state") for one in document["items"]))


@session.command("show")
@_name
@pass_invocation
def show_session(invocation: Invocation, session: str) -> None:
    """One session: how it ended, what it changed, what was refused."""
    document = invocation.call("session_show", session=session)
    invocation.show(document, print_session)
    tell_left_running(invocation, (document.get("state"),))


_NOT_FACTS = (
    "changes",
    "prompt",
    "prompt_hash",
    "definition",
    "usage",
    "prompt_text",
    "compared",
    "quarantined",
)


def print_session(document: Mapping[str, Any]) -> None:
    """A session for a reader."""
    changes = document.get("changes") or []
    output.facts(document, without=_NOT_FACTS)
    if mark := document.get("quarantined"):
        why = f": {output.shown('', mark['reason'])}" if mark.get("reason") else ""
        output.line(f"in quarantine since {output.shown('at', mark['at'])}{why}")
    for used in document.get("usage") or []:
        output.line(f"{output.shown('', used.get('model') or 'model unknown')}: {cost_words(used)}")
    if changes:
        output.line("changes")
        for change in changes:
            output.line(f"  {change_line(change)}")


def change_line(change: Mapping[str, Any]) -> str:
    """One change in one line: what was done to what, from what to what, and the verdict where it is not `done`."""
    parts = [output.shown("", change.get("act")), output.shown("", change.get("target"))]
    before, after = change.get("before"), change.get("after")
    if before is not None:
        parts.append(f"{output.cut(before)} -> {output.cut(after) if after is not None else 'nothing'}")
    elif after is not None:
        parts.append(output.cut(after))
    verdict = change.get("verdict")
    if verdict not in (None, "done"):
        parts.append(f"[{output.shown('', verdict)}]")
    return "  ".join(parts)


@session.command("log")
@_name
@click.option("-f", "--follow", is_flag=True, help="Go on until the session has ended.")
@pass_invocation
def session_log(invocation: Invocation, session: str, follow: bool) -> None:
    """The events of the session's transcript (what was said, each call with its result, usage), and what its program
    wrote.
    """
    if follow:
        if invocation.options.json:
            raise BadInput("--follow and --json do not go together: --json prints one document")
        _follow(invocation, session)
        return
    document = whole_log(invocation, session)
    invocation.show(document, lambda found: _print_log({**found, "done": True}))


def whole_log(invocation: Invocation, session: str) -> dict[str, Any]:
    """The log in one document, however many pages its events come in."""
    document = dict(invocation.call("session_log", session=session))
    events = list(document.get("events") or [])
    while document.get("events_more"):
        # By its number: a later session of the same agent is not run into.
        session = str(document["session"])
        page = invocation.call("session_log", session=session, events_from=document["events_next"],
                               output_from=document["output_next"])  # fmt: skip
        events += page["events"]
        document |= {name: page[name] for name in ("events_next", "events_more")}
    return {**document, "events": events} if "events" in document else document


def _print_log(document: Mapping[str, Any]) -> None:
    events = document.get("events") or []
    Printer().print(events)
    if events and document["output"]:
        output.line("-- the program's output:")
    if document["output"]:
        output.block(str(document["output"]))


def _follow(invocation: Invocation, session: str) -> None:
    """As it comes: the daemon or the files are asked for what is new. Of the output an unfinished line waits."""
    printer = Printer()
    places = {"events_from": 0, "output_from": 0}
    while True:
        document = invocation.call("session_log", session=session, **places)
        session = str(document.get("session", session))
        printer.print(document.get("events") or [])
        if document["output"]:
            output.block(str(document["output"]))
        output.flush()
        if document["done"] and not document.get("events_more"):
            return
        places = {
            "events_from": document.get("events_next", 0),
            "output_from": document.get("output_next", 0),
        }
        if not document.get("events_more"):
            invocation.wait(POLL_SECONDS)


@session.command("cancel")
@_name
@pass_invocation
def cancel(invocation: Invocation, session: str) -> None:
    """End a session that is queued or runs; what it has not saved stays a draft."""
    document = invocation.call("session_cancel", session=session)
    invocation.show(document, lambda found: output.done(f"session {_id(found, session)} is cancelled", found))


@session.command("apply")
@_name
@click.option("--as-operator", is_flag=True, help="In your own name, where the agent may not.")
@pass_invocation
def apply(invocation: Invocation, session: str, as_operator: bool) -> None:
    """Save a session's draft, judged as its agent."""
    document = invocation.call("session_apply", session=session, as_operator=as_operator)
    invocation.show(
        document, lambda found: output.done(f"the draft of session {_id(found, session)} is saved", found)
    )


@session.command("discard")
@_name
@pass_invocation
def discard(invocation: Invocation, session: str) -> None:
    """Drop a session's draft."""
    document = invocation.call("session_discard", session=session)
    invocation.show(
        document, lambda found: output.done(f"the draft of session {_id(found, session)} is dropped", found)
    )


def _id(document: Any, session: str) -> str:
    """The number that the service found, else the name as it was typed."""
    return output.shown("", document.get("id", session)) if isinstance(document, Mapping) else session


@session.command("revert")
@click.argument("sessions", type=SESSION, nargs=-1, required=True)
@pass_invocation
def revert(invocation: Invocation, sessions: tuple[str, ...]) -> int:
    """Undo what sessions have written, as far as nothing was changed since; exit 1 where nothing could be undone."""
    document = invocation.call("session_revert", sessions=list(sessions))
    invocation.show(document, _print_reverted)
    return int(bool(document["not_undone"]) and not document["undone"])


def _print_reverted(document: Mapping[str, Any]) -> None:
    for change in document["undone"]:
        lines = change.get("lines")
        cut = f": {counted(lines, 'line')} of its own cut" if lines else ""
        output.line(f"undone      {change_line(change)}{cut}")
    for change in document["not_undone"]:
        output.line(f"not undone  {change_line(change)}: {output.shown('', change.get('reason'))}")
    if not document["undone"] and not document["not_undone"]:
        output.note("these sessions have changed nothing")


@session.command("quarantine")
@_name
@click.option("--reason", type=Text("--reason"), metavar="TEXT", help="Why, for those who ask later.")
@click.option("--revert", "also", is_flag=True, help="Also undo what it wrote, as far as that can be.")
@pass_invocation
def quarantine(invocation: Invocation, session: str, reason: str | None, also: bool) -> None:
    """Take a session's transcript, draft and archived lines away from agents: out of prompts, reads, search and
    consolidation. What it wrote that still stands is shown.
    """
    document = invocation.call("session_quarantine", session=session, reason=reason, revert=also)
    invocation.show(document, _print_quarantined)


@session.command("unquarantine")
@_name
@pass_invocation
def unquarantine(invocation: Invocation, session: str) -> None:
    """Let a session's texts be seen again."""
    document = invocation.call("session_unquarantine", session=session)
    invocation.show(document, _print_quarantined)


def _print_quarantined(document: Mapping[str, Any]) -> None:
    state = "is in quarantine" if document["quarantined"] else "is in quarantine no more"
    output.line(f"session {document['session']} of {output.shown('', document['agent'])} {state}")
    if document["undone"] or document["not_undone"]:
        _print_reverted(document)
    if not document["quarantined"]:
        return
    for item in document["in_force"]:
        alike = item["kind"] == "memory_alike"
        output.line(f"{'alike' if alike else 'stands':<11} {output.shown('', item['target'])}")
        for line in item["lines"]:
            output.line(f"              {output.cut_to(line, LINE_SHOWN)}")
        if item["count"] > len(item["lines"]):
            output.line(f"              ... {item['count'] - len(item['lines']):,} more")
    if document["next_step"]:
        output.note(document["next_step"])


@session.command("trace")
@_name
@pass_invocation
def trace(invocation: Invocation, session: str) -> None:
    """What a session wrote, and which later sessions were shown it."""
    invocation.show(invocation.call("session_trace", session=session), _print_trace)


def _print_trace(document: Mapping[str, Any]) -> None:
    output.line(f"session {document['session']} of {output.shown('', document['agent'])}")
    for row in document["items"]:
        readers = [_reader(one) for one in row["shown_to"]]
        output.line(f"  {change_line(row)}  shown to {', '.join(readers) or 'nobody yet'}")


def _reader(one: Mapping[str, Any]) -> str:
    """Who was shown it; `files`: only in its copy of the memory."""
    how = f" ({one['how']})" if one.get("how") not in (None, "prompt") else ""
    through = f" (through session {one['through']})" if one.get("through") is not None else ""
    return f"{output.shown('', one['agent'])}#{one['session']}{how}{through}"


@session.command("export")
@_name
@click.option(
    "--format", "form", type=click.Choice(["json", "yaml", "md"]), default="json", help="How it is written."
)
@pass_invocation
def export(invocation: Invocation, session: str, form: str) -> None:
    """A session whole: what it changed, its prompt where that can be made again, its transcript, output and usage."""
    from swarmd.cli.exporting import as_document, as_markdown, as_yaml

    shown = invocation.call("session_show", session=session, prompt_text=True)
    document = as_document(shown, whole_log(invocation, str(shown["id"])))
    if invocation.options.json or form == "json":
        output.json_document(document)
    elif form == "yaml":
        output.bare(as_yaml(document).encode("utf-8"))
    else:
        output.line(as_markdown(document))
