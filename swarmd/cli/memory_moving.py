"""`swarmd memory import` and `swarmd memory export`: memory from elsewhere, and a folder that leaves as it is."""

from __future__ import annotations

import base64
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from swarmd.cli import output
from swarmd.cli.base import Command
from swarmd.cli.invocation import Invocation, pass_invocation
from swarmd.cli.params import AGENT, usage
from swarmd.core.counts import counted
from swarmd.errors import BadInput, Failed, NotFound, Refused

if TYPE_CHECKING:
    from swarmd.core.takeover import Format, Found, Plan

FORMATS = ("swarms", "conversation", "claude", "markdown")
_TAKEN = output.columns_of("what file=path bytes ~rev ~source")
_LEFT = output.columns_of("file why")
_RENAMED = output.columns_of("file path why")
_FILES = output.columns_of("file=path ~rev bytes ~at ~by")
_NAMED = 5


@click.command("import", cls=Command)
@click.argument("source", metavar="DIR|FILE", type=click.Path(path_type=Path))
@click.option("--agent", "agent", type=AGENT, required=True, metavar="AGENT", help="Whose memory it becomes.")
@click.option("--format", "format", type=click.Choice(FORMATS), help="What it is; left out: found out.")
@click.option("--merge", is_flag=True, help="Keep both texts of files that are there already.")
@click.option("--replace", is_flag=True,
              help="Put it in the place of files that are there already; history keeps them.")  # fmt: skip
@click.option("--skip-bad", is_flag=True, help="Take what can be taken; without it one bad file stops all.")
@click.option("--all-files", is_flag=True, help="Take text files of every name, not only .md and .txt.")
@click.option("--dry-run", is_flag=True, help="Show what would come, and write nothing.")
@pass_invocation
def import_memory(
    invocation: Invocation,
    source: Path,
    agent: str,
    format: str | None,
    merge: bool,
    replace: bool,
    skip_bad: bool,
    all_files: bool,
    dry_run: bool,
) -> None:
    """Take over a memory from elsewhere: a Swarms agent folder, an exported conversation (JSON or YAML), a Claude
    Code memory folder, or a folder of Markdown. All of it comes, or nothing.
    """
    from swarmd.core import takeover

    invocation.operator_only("memory import")
    if merge and replace:
        usage("only one of --merge and --replace may be there")
    with invocation.agent_first(agent):
        plan = _plan(source, format, all_files=all_files)
        _must_be_good(plan, source, skip_bad=skip_bad)
    files = [
        {"path": item.path, "base64": base64.b64encode(item.data).decode(), "log": item.log}
        for item in plan.items
    ]
    existing = "merge" if merge else "replace" if replace else None
    done = invocation.call(
        "memory_import", agent=agent, files=files, existing=existing, mode="dry_run" if dry_run else None
    )
    sources = {item.path: item.source for item in plan.items}
    rows = [{**row, "source": sources.get(row["path"])} for row in done.get("items") or []]
    invocation.show({**done, "items": rows, **takeover.report(plan)}, _imported)


def _must_be_good(plan: Plan, source: Path, *, skip_bad: bool) -> None:
    """Raises BadInput or NotFound where nothing of it, or not all that should, can come."""
    if plan.bad and not skip_bad:
        named = "; ".join(f"{bad['file']}: {bad['why']}" for bad in plan.bad[:_NAMED])
        more = f" and {len(plan.bad) - _NAMED} more" if len(plan.bad) > _NAMED else ""
        raise BadInput(f"nothing is imported from {source}: {named}{more}; --skip-bad takes the rest")
    if plan.problems:
        raise BadInput(f"nothing is imported from {source}: {'; '.join(plan.problems[:_NAMED])}")
    if not plan.items:
        raise NotFound(f"there is nothing to import in {source}")


def _plan(source: Path, format: str | None, *, all_files: bool) -> Plan:
    from swarmd.cli import foreign
    from swarmd.cli.import_sources import must_fit
    from swarmd.core import takeover

    if not source.exists():
        raise NotFound(f"there is no {source}")
    must_fit(source, format, all_files=all_files)
    if not source.is_dir():
        if format == "conversation" or (format is None and source.suffix.lower() in foreign.CONVERSATIONS):
            return takeover.of_conversation(foreign.read_conversation(source), source.name)
        try:
            found = [takeover.Found(path=source.name, data=foreign.read_file(str(source)))]
        except (BadInput, Failed, NotFound) as error:
            raise type(error)(f"{source}: {error}") from None
        return takeover.of_folder(found, _format(format, found, source), all_files=all_files)
    found = foreign.read_folder(source, all_files=all_files)
    return takeover.of_folder(found, _format(format, found, source), all_files=all_files)


def _format(format: str | None, found: Sequence[Found], source: Path) -> Format:
    from swarmd.core import takeover

    chosen = cast("Format | None", format) or takeover.detected(found)
    if chosen is None:
        raise BadInput(
            f"{source}: nothing in it looks like a memory ({', '.join(takeover.SUFFIXES)} files are looked for); name "
            "the file of a conversation, or what it is with --format"
        )
    return chosen


def _imported(document: Mapping[str, Any]) -> None:
    output.table(document["items"], _TAKEN)
    for name, columns, words in (
        ("renamed", _RENAMED, "other names here:"),
        ("left_out", _LEFT, "left where it is:"),
        ("skipped", _LEFT, "skipped:"),
    ):
        if document[name]:
            output.line()
            output.line(words)
            output.table(document[name], columns)
    for note in document["notes"]:
        output.note(note)
    count = sum(row["what"] != "same" for row in document["items"])
    files, format = f"of {document['agent']}", document["format"]
    if document.get("saved"):
        output.note(f"{counted(count, f'file {files} is', f'files {files} are')} written, from {format}")
    else:
        output.note(f"nothing is written: {counted(count, 'file')} {files} would be, from {format}")


@click.command("export", cls=Command)
@click.argument("agent", type=AGENT)
@click.argument("folder", metavar="[DIR]", type=click.Path(path_type=Path), required=False)
@pass_invocation
def export_memory(invocation: Invocation, agent: str, folder: Path | None) -> None:
    """Write an agent's memory into a new folder, byte for byte, archives too. Without DIR: show what would be written;
    with --json the texts too.
    """
    invocation.operator_only("memory export")
    if folder is None:
        document = invocation.call("memory_export", agent=agent)
        invocation.show(document, lambda found: output.listing(found, _FILES, "the memory is empty"))
        return
    with invocation.agent_first(agent):
        if os.path.lexists(folder) and (not folder.is_dir() or any(folder.iterdir())):
            raise Refused(f"{folder} is there already and is no empty folder; name another")
    document = invocation.call("memory_export", agent=agent)
    files = {row["path"]: _data(row) for row in document["items"]}
    if not files:
        raise NotFound(f"the memory of {agent} is empty: there is nothing to export")
    _write(folder, files)
    rows = [
        {name: value for name, value in row.items() if name not in ("text", "base64")}
        for row in document["items"]
    ]
    invocation.show({**document, "items": rows, "folder": str(folder)}, _exported)


def _data(row: Mapping[str, Any]) -> bytes:
    return base64.b64decode(row["base64"]) if row.get("base64") is not None else str(row["text"]).encode()


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    """All of it under another name beside, then in its place: a folder that is half written is never there."""
    parent = folder.absolute().parent
    try:
        parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=parent))
    except OSError as error:
        raise Failed(f"{parent} cannot be written: {error.strerror}") from None
    try:
        for path, data in files.items():
            place = part / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)
        part.replace(folder)
    except OSError as error:
        raise Failed(f"{folder} cannot be written: {error.strerror}") from None
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _exported(document: Mapping[str, Any]) -> None:
    output.table(document["items"], _FILES)
    output.note(f"{counted(len(document['items']), 'file is', 'files are')} written to {document['folder']}")
