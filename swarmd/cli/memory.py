"""`swarmd memory`: an agent's folder of notes, its revisions and its conflicts."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Any

import click

from swarmd.cli import output
from swarmd.cli.base import Group
from swarmd.cli.editing import edit_copy
from swarmd.cli.invocation import Invocation, pass_invocation
from swarmd.cli.memory_moving import export_memory, import_memory
from swarmd.cli.old_spelling import ctx as old_ctx
from swarmd.cli.old_spelling import handoff as old_handoff
from swarmd.cli.params import (
    AGENT,
    OWNER,
    SUBJECT,
    Number,
    list_options,
    narrowed,
    owner_option,
    read_file,
    read_text,
    split_agent,
    text_for,
    usage,
)
from swarmd.cli.searching import memory_search
from swarmd.core.acts import ACTS
from swarmd.core.owners import agent_of_owner, subject_of
from swarmd.core.sessions import exit_status
from swarmd.errors import BadInput, NotFound

FIRST_FILE = "MEMORY.md"
_REVISION = Number("revision", 2**62 - 1, "`swarmd memory history` lists them")


def _file(document: Mapping[str, Any]) -> Any:
    """The name of a file: a session's own copy calls it `file`."""
    return document.get("path") or document.get("file")


def _names(field: str) -> Callable[[Mapping[str, Any]], Any]:
    """A list of names in one column."""
    return lambda document: ", ".join(document.get(field) or [])


_FILES = output.columns_of("file=path ~rev bytes ~at ~by first_line", path=_file)
_HISTORY = output.columns_of("rev ~file at bytes by ~note")
_BLAME = output.columns_of("line ~rev by ~at text")
_CONFLICTS = output.columns_of("id file=path ~line ours theirs ~at")

_words = click.argument("words", nargs=-1, metavar="[AGENT] [FILE]")
_file_option = click.option(
    "--file", default=FIRST_FILE, show_default=True, metavar="FILE", help="Which file."
)
_rev_option = click.option("--rev", type=_REVISION, metavar="REV", help="As it was in this revision.")


@click.group(cls=Group)
def memory() -> None:
    """An agent's folder of notes; MEMORY.md is its first file.

    Inside a session AGENT is left out: its own memory is meant, --agent names another. A folder that agents share is
    named as @NAME, an agent's folder about a subject as AGENT@SUBJECT.
    """


memory.add_command(memory_search)
memory.add_command(old_ctx)
memory.add_command(old_handoff)
memory.add_command(import_memory)
memory.add_command(export_memory)


@memory.command("list")
@click.argument("words", nargs=-1, metavar="[AGENT]")
@owner_option
@list_options
@pass_invocation
def list_files(invocation: Invocation, words: tuple[str, ...], agent: str | None, **bounds: Any) -> None:
    """The files of the folder."""
    agent, _ = _split(invocation, agent, words, [])
    document = narrowed(invocation.call("memory_list", agent=agent), "at", bounds)
    invocation.show(document, lambda found: output.listing(found, _FILES, "the memory is empty"))


@memory.command("show")
@_words
@owner_option
@_rev_option
@pass_invocation
def show_file(invocation: Invocation, words: tuple[str, ...], agent: str | None, rev: int | None) -> None:
    """A file's text: as it is when piped, escaped on a terminal."""
    agent, file = _agent_and_file(invocation, agent, words)
    document = invocation.call("memory_show", agent=agent, file=file, rev=rev)
    invocation.show(document, lambda found: output.bare(data_of(found)))


@memory.command("edit")
@_words
@owner_option
@pass_invocation
def edit_file(invocation: Invocation, words: tuple[str, ...], agent: str | None) -> None:
    """Edit a copy in $EDITOR; what the agent has written meanwhile is merged with it."""
    agent, file = _agent_and_file(invocation, agent, words)
    try:
        before = invocation.call("memory_show", agent=agent, file=file)
    except NotFound:
        if agent is not None:
            invocation.call(
                "memory_list", agent=agent
            )  # a file that is not there can be made, an agent cannot
        before = {"rev": 0, "text": ""}
    with edit_copy(invocation.environ, file, data_of(before)) as text:
        if text is None:
            output.line(f"{file} is unchanged")
            return
        # What a session writes is merged from what it has read, by the desk's own account.
        base = None if invocation.in_session else before["rev"]
        document = invocation.call("memory_write", agent=agent, file=file, text=text, base=base)
    invocation.show(document, _written)


@memory.command("write", help=ACTS["memory_write"].sentence)
@click.argument("words", nargs=-1, metavar="[AGENT] FILE TEXT|-")
@click.option("--base", type=_REVISION, metavar="REV",
              help="The revision that the text was made from: what came since is merged with it.")  # fmt: skip
@owner_option
@pass_invocation
def write_file(invocation: Invocation, words: tuple[str, ...], agent: str | None, base: int | None) -> None:
    """`-` as TEXT reads standard input."""
    if base is not None and invocation.in_session:
        usage("--base is for operators: what a session writes is merged from what it has read, without it")
    agent, (file, text) = _split(invocation, agent, words, ["FILE", "TEXT"])
    text = text_for(invocation, agent, text, "a file's text", may_be_empty=True)
    invocation.show(invocation.call("memory_write", agent=agent, file=file, text=text, base=base), _written)


@memory.command("append", help=ACTS["memory_append"].sentence)
@click.argument("words", nargs=-1, metavar="[AGENT] FILE TEXT")
@owner_option
@pass_invocation
def append_file(invocation: Invocation, words: tuple[str, ...], agent: str | None) -> None:
    """`-` as TEXT reads standard input."""
    agent, (file, text) = _split(invocation, agent, words, ["FILE", "TEXT"])
    text = text_for(invocation, agent, text, "what is to be appended")
    invocation.show(invocation.call("memory_append", agent=agent, file=file, text=text), _written)


@memory.command("delete", help=ACTS["memory_delete"].sentence)
@click.argument("words", nargs=-1, metavar="[AGENT] FILE")
@owner_option
@pass_invocation
def delete_file(invocation: Invocation, words: tuple[str, ...], agent: str | None) -> None:
    """Its revisions stay."""
    agent, (file,) = _split(invocation, agent, words, ["FILE"])
    document = invocation.call("memory_delete", agent=agent, file=file)
    invocation.show(
        document, lambda found: output.done(f"{output.shown('', _file(found))} is deleted", found)
    )


@memory.command("history")
@_words
@owner_option
@list_options
@pass_invocation
def file_history(invocation: Invocation, words: tuple[str, ...], agent: str | None, **bounds: Any) -> None:
    """The revisions of a file, or of all of them: who made them and when."""
    agent, files = _split(invocation, agent, words, ["FILE"], optional=1)
    document = invocation.call("memory_history", agent=agent, file=files[0] if files else None, **bounds)
    invocation.show(document, lambda found: output.listing(found, _HISTORY, "there are no revisions"))


@memory.command("diff")
@click.argument("words", nargs=-1, metavar="[AGENT] REV [REV]")
@_file_option
@owner_option
@pass_invocation
def diff_file(invocation: Invocation, words: tuple[str, ...], agent: str | None, file: str) -> None:
    """What changed between a revision and another, or the file as it is now."""
    agent, revisions = _split(invocation, agent, words, ["REV", "REV"], optional=1)
    rev, other = [*(_revision(word) for word in revisions), None][:2]
    document = invocation.call("memory_diff", agent=agent, file=file, rev=rev, other=other)
    invocation.show(document, _diff)


@memory.command("restore")
@click.argument("words", nargs=-1, metavar="[AGENT] REV")
@_file_option
@owner_option
@pass_invocation
def restore_file(invocation: Invocation, words: tuple[str, ...], agent: str | None, file: str) -> None:
    """Make the file what it was in a revision; a new revision says so."""
    agent, (rev,) = _split(invocation, agent, words, ["REV"])
    document = invocation.call("memory_restore", agent=agent, file=file, rev=_revision(rev))
    invocation.show(document, _written)


@memory.command("blame")
@_words
@owner_option
@pass_invocation
def blame_file(invocation: Invocation, words: tuple[str, ...], agent: str | None) -> None:
    """Who wrote each line, and when."""
    agent, file = _agent_and_file(invocation, agent, words)
    document = invocation.call("memory_blame", agent=agent, file=file)
    invocation.show(document, lambda found: output.table(found["lines"], _BLAME))


@memory.command("compact")
@click.argument("words", nargs=-1, metavar="AGENT")
@click.option(
    "--summary-file", metavar="F", help="Take this summary (`-`: standard input); no model is asked."
)
@owner_option
@pass_invocation
def compact_memory(
    invocation: Invocation, words: tuple[str, ...], summary_file: str | None, agent: str | None
) -> int:
    """Put a summary in the place of MEMORY.md; its whole text goes to the archive.

    Exit status 0 where that was done or nothing had to be, 1 where nothing is changed though it had to be.
    """
    agent, _ = _split(invocation, agent, words, [])
    summary = None
    if summary_file is not None:
        with invocation.agent_first(agent):
            summary = read_text("-", "a summary") if summary_file == "-" else read_file(summary_file)
    elif output.on_terminal():
        output.note(f"it may take a while; `swarmd session log {str(agent).partition('@')[0]} -f` follows it")
    document = invocation.call("memory_compact", agent=agent, summary=summary)
    invocation.show(document, _compacted)
    return exit_status(document.get("outcome"))


def _compacted(document: Mapping[str, Any]) -> None:
    outcome = output.shown("", document.get("outcome"))
    reason = output.shown("", document.get("reason")) if document.get("reason") else "nothing had to be done"
    output.line(f"session {document.get('session')} of {document.get('agent')}: {outcome}: {reason}")


@memory.command("conflicts")
@click.argument("words", nargs=-1, metavar="[AGENT]")
@click.option("--take", nargs=2, type=(click.Choice(["ours", "theirs"]), _REVISION), metavar="SIDE N",
              help="End conflict N: `ours` puts the agent's lines in, `theirs` leaves the file as it is.")  # fmt: skip
@owner_option
@list_options
@pass_invocation
def conflicts(
    invocation: Invocation,
    words: tuple[str, ...],
    take: tuple[str, int] | None,
    agent: str | None,
    **bounds: Any,
) -> None:
    """Lines of the agent that met a person's at the same place and were kept aside."""
    agent, _ = _split(invocation, agent, words, [])
    if take is not None:
        document = invocation.call("memory_take", agent=agent, conflict=take[1], side=take[0])
        invocation.show(document, lambda _: output.line(f"conflict {take[1]} is ended: {take[0]} was taken"))
        return
    document = narrowed(invocation.call("memory_conflicts", agent=agent), "at", bounds)
    invocation.show(document, lambda found: output.listing(found, _CONFLICTS, "no conflicts"))


_SUBJECTS = output.columns_of("subject files bytes sessions ~last_session")
_SHARED = output.columns_of("folder=owner files bytes agents=_agents writers=_writers", _agents=_names("agents"),
                            _writers=_names("writers"))  # fmt: skip


@memory.command("subjects")
@click.argument("agent", type=AGENT)
@pass_invocation
def subjects(invocation: Invocation, agent: str) -> None:
    """Whom or what an agent's sessions were about (`swarmd run --subject`), and what it keeps about each."""
    document = invocation.call("memory_subjects", agent=agent)
    invocation.show(document, lambda found: output.listing(found, _SUBJECTS, f"{agent} has no subjects"))


@memory.command("shared")
@pass_invocation
def shared(invocation: Invocation) -> None:
    """The folders that agents share, and who may read and write each."""
    document = invocation.call("memory_shared")
    invocation.show(document, lambda found: output.listing(found, _SHARED, "no agent has a shared folder"))


@memory.command("forget-subject")
@click.argument("agent", type=AGENT)
@click.argument("subject", type=SUBJECT)
@pass_invocation
def forget_subject(invocation: Invocation, agent: str, subject: str) -> None:
    """Remove for good all that is kept about a subject: its notes and their history, and what its sessions said."""
    document = invocation.call("forget_subject", agent=agent, subject=subject)
    invocation.show(document, lambda _: output.line(f"{agent} has forgotten {subject}"))


@memory.command("consolidate")
@click.argument("agent", type=OWNER)
@click.option(
    "--no-commit", is_flag=True, help="Run for real, save nothing, show what would have been saved."
)
@click.option("--dry-run", is_flag=True, help="Start nothing: show prompt size and command line.")
@click.option("--force", is_flag=True, help="Also where the agent is paused.")
@pass_invocation
def consolidate(invocation: Invocation, agent: str, no_commit: bool, dry_run: bool, force: bool) -> int:
    """Have an agent's memory put in order now, by a session that reads its sessions since the last time, and wait for
    its end. Where there was none since, nothing is started.
    """
    invocation.operator_only("memory consolidate")
    if no_commit and dry_run:
        usage("--no-commit runs it and --dry-run does not: give one of them")
    with invocation.agent_first(agent):
        _must_be_an_agents_own(agent)
    from swarmd.cli.running import report_run

    mode = "dry_run" if dry_run else "no_commit" if no_commit else "commit"
    document = invocation.call("run", agent=agent, mode=mode, force=force, trigger="consolidate")
    return report_run(invocation, agent, document)


def _must_be_an_agents_own(owner: str) -> None:
    """Raises BadInput for another folder: its sessions' transcripts are not for whoever reads that."""
    agent, subject = agent_of_owner(owner), subject_of(owner)
    if agent is None:
        raise BadInput(
            f"{owner} is a folder that several share, and a consolidation is for one agent's own memory: put it "
            f"in order by hand, with swarmd memory edit {owner}"
        )
    if subject is not None:
        raise BadInput(
            f"{owner} is what {agent} keeps about {subject}, and a consolidation is for its own memory: make this one "
            f"small with swarmd memory compact {owner}, or put it in order with swarmd memory edit {owner}"
        )


def data_of(document: Mapping[str, Any]) -> bytes:
    """A file's bytes; what is not UTF-8 travels as base64."""
    if document.get("base64") is not None:
        return base64.b64decode(document["base64"])
    return str(document["text"]).encode("utf-8", "surrogatepass")


def _split(
    invocation: Invocation, agent: str | None, words: tuple[str, ...], wanted: list[str], optional: int = 0
) -> tuple[str | None, list[str]]:
    return split_agent(invocation, agent, words, wanted, optional=optional, kind=OWNER)


def _agent_and_file(
    invocation: Invocation, agent: str | None, words: tuple[str, ...]
) -> tuple[str | None, str]:
    agent, files = _split(invocation, agent, words, ["FILE"], optional=1)
    if files == [""]:
        raise BadInput("the file's name is empty")
    return agent, files[0] if files else FIRST_FILE


def _diff(document: Mapping[str, Any]) -> None:
    text = str(document["diff"])
    if text:
        output.bare((text.removesuffix("\n") + "\n").encode("utf-8", "surrogatepass"))
    else:
        output.note("these revisions hold the same text")


def _revision(word: str) -> int:
    if not word.isascii() or not word.isdigit() or len(word) > 18:
        usage(f"{word[:40]!r} is no revision: a number is expected, as `swarmd memory history` lists them")
    return int(word)


def _written(document: Mapping[str, Any]) -> None:
    """In a session it is the copy that was written: that has no revision yet, and is saved with all the rest."""
    parts = [output.shown("", part) for part in (document.get("agent"), _file(document)) if part]
    revision = f"revision {document['rev']}, " if document.get("rev") is not None else ""
    is_copy = not revision
    output.done(
        f"{' '.join(parts)}: {revision}{document.get('bytes')} bytes",
        {**document, "staged": document.get("staged") or is_copy},
    )
    if document.get("conflicts"):
        output.note(
            f"{document['conflicts']} of the lines met others at the same place: `swarmd memory conflicts`"
        )
