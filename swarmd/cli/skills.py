"""`swarmd skill`: what an agent has been told about how things are done, by the operator and by itself."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import click

from swarmd.cli import output
from swarmd.cli.base import Group
from swarmd.cli.invocation import Invocation, pass_invocation
from swarmd.cli.params import agent_option, split_agent

_SKILLS = output.columns_of("name whose description ~problem ~folder")


@click.group(cls=Group)
def skill() -> None:
    """Skills: folders with a SKILL.md; the operator's, and those in the agent's own memory.

    Inside a session AGENT is left out: its own skills are meant, --agent names another.
    """


@skill.command("list")
@click.argument("words", nargs=-1, metavar="[AGENT]")
@agent_option
@pass_invocation
def list_skills(invocation: Invocation, words: tuple[str, ...], agent: str | None) -> None:
    """The agent's skills, whose each is, and what is wrong with some."""
    agent, _ = split_agent(invocation, agent, words, [])
    document = invocation.call("skill_list", agent=agent)
    invocation.show(document, lambda found: output.listing(found, _SKILLS, "there are no skills"))


@skill.command("show")
@click.argument("words", nargs=-1, metavar="[AGENT] NAME [FILE]")
@agent_option
@pass_invocation
def show_skill(invocation: Invocation, words: tuple[str, ...], agent: str | None) -> None:
    """A skill's text, with the names of its other files; or one of these files, as it is."""
    agent, names = split_agent(invocation, agent, words, ["NAME", "FILE"], optional=1)
    name, file = [*names, None][:2]
    document = invocation.call("skill_show", agent=agent, name=name, file=file)
    invocation.show(document, lambda found: _print_skill(found, whole=file is not None))


def _print_skill(document: Mapping[str, Any], *, whole: bool) -> None:
    data = document.get("base64")
    output.bare(
        base64.b64decode(data) if data is not None else str(document["text"]).encode("utf-8", "surrogatepass")
    )
    if whole or not (document["files"] or document["whose"] == "operator"):
        return
    output.line()
    output.line(f"folder: {output.shown('', document['folder'])}")
    for file in document["files"]:
        output.line(f"file: {output.shown('', file['file'])} ({file['bytes']:,} bytes)")
