"""`swarmd memory search` and `swarmd session search`: what was known, said and done, found by its words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from swarmd.cli import output
from swarmd.cli.base import Command
from swarmd.cli.invocation import Invocation, pass_invocation
from swarmd.cli.params import OWNER, read_text, search_options
from swarmd.core.acts import SEARCH_KINDS

_words = click.argument("words", nargs=-1, required=True, metavar="TEXT...")
_agent = click.option("--agent", type=OWNER, metavar="AGENT", help="Only what is this agent's.")


@click.command("search", cls=Command)
@_words
@_agent
@click.option("--kind", type=click.Choice(SEARCH_KINDS), help="Only what is of this kind.")
@search_options
@pass_invocation
def memory_search(invocation: Invocation, words: tuple[str, ...], **args: Any) -> None:
    """Memory, archives, keys, handoffs and sessions that have all these words, the best first.

    "several words" in double quotes stand together, as one argument of the shell; word* is a beginning; `-` alone takes
    the words from standard input.
    """
    _show(invocation, invocation.call("memory_search", text=_text(words), **args))


@click.command("search", cls=Command)
@_words
@_agent
@search_options
@pass_invocation
def session_search(invocation: Invocation, words: tuple[str, ...], **args: Any) -> None:
    """What sessions said, called, were answered and printed, as far as it has all these words, the best first.

    "several words" in double quotes stand together, as one argument of the shell; word* is a beginning; `-` alone takes
    the words from standard input.
    """
    _show(invocation, invocation.call("session_search", text=_text(words), **args))


def _text(words: tuple[str, ...]) -> str:
    return read_text(" ".join(words), "what is searched for")


def _show(invocation: Invocation, document: Any) -> None:
    invocation.show(document, _print)


def _print(document: Mapping[str, Any]) -> None:
    for hit in document["items"]:
        parts = [output.local(hit["at"]), output.shown("", hit["kind"]), output.shown("", hit["agent"])]
        output.line("  ".join([*parts, output.shown("", _where(hit))]))
        output.line(f"    {output.shown('', hit['snippet'])}")
    until = document.get("indexed_until")
    if until is None and document["items"]:
        output.note("the search index is still being made: there may be more")
    elif until is None:
        output.note("nothing was found, but the search index is still being made: search again in a moment")
    if not document["items"] and until is not None:
        output.note(f"nothing was found; the index has what there was at {output.local(until)}")
    if document.get("next") is not None:
        rest = "there is more" if document.get("more") else "what is older was not looked at"
        output.note(f"{rest}: the same search with --until {output.shown('', document['next'])} shows it")


def _where(hit: Mapping[str, Any]) -> str:
    """The place that a person can go to."""
    kind = hit["kind"]
    if kind in ("transcript", "output"):
        place = f"line {hit['line']}" if kind == "output" else f"event {hit['seq']}"
        return f"session {hit['session']}, {place}{' (in quarantine)' if hit.get('quarantined') else ''}"
    if kind == "handoff":
        return f"handoff {hit['handoff']} from {hit['sender']}, by {hit['by']}"
    place = hit["key"] if kind == "key" else f"{hit['file']}, line {hit['line']}"
    return f"{place}, by {hit['by']}"
