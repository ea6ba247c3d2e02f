"""What of agents' memories needs a person: full ones, MEMORY.md past its room for long, rewrites that lost most."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any

from swarmd.core.compaction import is_automatic
from swarmd.core.counts import counted
from swarmd.core.instants import to_text
from swarmd.core.memory import FIRST_FILE, FOLDER, FULL, full_at, is_archive
from swarmd.core.owners import agent_of_owner, subject_owner
from swarmd.service.attention_item import item
from swarmd.service.view import View
from swarmd.store import losses, queries, session_reads, windows

SESSIONS_IN_VAIN = 3
"""After how many sessions on end that were shown a MEMORY.md cut to its room a person is told: the agent has been told
each time how much to cut, and has not done it.
"""
FILES_NAMED = 5


def full(view: View, last: Mapping[str, windows.Row]) -> list[dict[str, Any]]:
    """Of agents' newest sessions those whose writes found no room, until something has changed there since."""
    by_session = {row["id"]: row for row in last.values()}
    refused = session_reads.refused_with(view.connection, list(by_session), FULL)
    found = []
    for id, rows in groupby(refused, key=lambda row: row["session"]):
        session, agent = by_session[id], by_session[id]["agent"]
        own = [
            (owner, reason)
            for owner, reason in _writes(session, rows)
            if _is_so(view, session, owner, reason)
        ]
        if own:
            owner, reason = own[-1]
            changed = max((file.at for file in view.world.files(owner)), default=None)
            times = counted(len(own), "write")
            found.append(
                item(f"memory_full:{agent}", "memory_full", agent,
                     session["started"] if changed is None else to_text(changed),
                     f"{times} of session {id} to the memory of {owner} found no room: {reason}",
                     f"swarmd memory list {owner}, then swarmd memory edit {owner} FILE")
            )  # fmt: skip
    return found


def _writes(session: windows.Row, rows: Iterable[windows.Row]) -> Iterator[tuple[str, str]]:
    """Owner of the folder and reason of each. What a session did to its own memory has the agent's name."""
    agent, subject = session["agent"], session["subject"]
    for row in rows:
        owner = row["target"].partition(":")[0]
        if owner in ("", agent) and subject is not None:
            owner = subject_owner(agent, subject)
        yield owner or agent, row["reason"]


def _is_so(view: View, session: windows.Row, owner: str, reason: str) -> bool:
    """Whether the memory is as it was when the write was refused. Of a copy that was over a limit: whether nothing was
    written since the session.
    """
    files = view.world.files(owner)
    at = full_at(reason)
    if at is None:
        return not any(to_text(file.at) > session["ended"] for file in files)
    path, size = at
    if path == FOLDER:
        return size == sum(file.size for file in files if not is_archive(file.path))
    return size == next((file.size for file in files if file.path == path), 0)


def past_its_room(view: View, last: Mapping[str, windows.Row]) -> Iterator[dict[str, Any]]:
    """Agents whose last sessions were all shown a MEMORY.md cut to its room, which nothing makes small by itself."""
    for agent, row in last.items():
        definition = view.tree.agents[agent]
        if not _was_cut(row) or is_automatic(definition) or not definition.memory.persistent:
            continue
        rows = session_reads.last_started(view.connection, agent, SESSIONS_IN_VAIN)
        if len(rows) < SESSIONS_IN_VAIN or not all(map(_was_cut, rows)):
            continue
        shown = json.loads(row["base"] or "{}").get("memory", {}).get(FIRST_FILE)
        before = queries.revision(view.connection, agent, FIRST_FILE, shown) if shown else None
        size = next((file.size for file in view.world.files(agent) if file.path == FIRST_FILE), 0)
        if before is None or size < before["size"]:
            continue  # somebody is at it: the next session will tell
        yield item(f"memory_room:{agent}", "memory_room", agent, rows[-1]["started"],
                   f"{FIRST_FILE} of {agent} has been past its room in the last {SESSIONS_IN_VAIN} sessions, which "
                   f"were shown a part of it: {_left_out(row)}",
                   f"swarmd memory edit {agent}, or raise memory.prompt_tokens")  # fmt: skip


def _was_cut(row: windows.Row) -> bool:
    return bool(_left_out(row))


def _left_out(row: windows.Row) -> str:
    """What the prompt of a session said that it left out of MEMORY.md."""
    sections = json.loads(row["prompt"]).get("sections", ()) if row["prompt"] else ()
    return next((str(each["left_out"]) for each in sections if each["name"] == "memory"), "")


def lost(view: View) -> Iterator[dict[str, Any]]:
    """Rewrites that lost most of a file and are not made good: one item for whoever did it, session or person."""
    rows = sorted(losses.open_losses(view.connection), key=lambda row: (row["agent"], row["by"]))
    for (agent, by), several in groupby(rows, key=lambda row: (row["agent"], row["by"])):
        own = sorted(several, key=lambda row: (row["path"] != FIRST_FILE, row["path"]))
        named = [_lost(row) for row in own[:FILES_NAMED]]
        if len(own) > FILES_NAMED:
            named.append(f"and {counted(len(own) - FILES_NAMED, 'more file')}")
        yield item(f"memory_loss:{agent}:{by}", "memory_loss", agent_of_owner(agent),
                   max(row["at"] for row in own),
                   f"{by} rewrote the memory of {agent} and lost most of it: {'; '.join(named)}",
                   " && ".join(map(_restoring, own[:FILES_NAMED])))  # fmt: skip


def _restoring(row: Mapping[str, Any]) -> str:
    """The command that brings the file back."""
    file = "" if row["path"] == FIRST_FILE else f" --file {shlex.quote(row['path'])}"
    return f"swarmd memory restore {row['agent']} {row['before']}{file}"


def _lost(row: Mapping[str, Any]) -> str:
    if row["deleted"]:
        return f"{row['path']} (revision {row['before']}, {row['size_before']:,} bytes) was deleted"
    return (
        f"{row['path']} has {row['kept']:,} of {row['lines']:,} lines left ({row['size']:,} bytes of "
        f"{row['size_before']:,}; revision {row['before']} has all)"
    )
