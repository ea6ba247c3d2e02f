"""Reads of memory: they see what a session has staged, through its world."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from swarmd.core.documents import memory_doc
from swarmd.core.memory import path_problem
from swarmd.core.owners import shared_name, shared_owner, subject_owner
from swarmd.errors import BadInput, NotFound
from swarmd.service.view import JSON, Args, View, items, number
from swarmd.store import owners, queries
from swarmd.store.rows import DamagedText, is_text

if TYPE_CHECKING:
    from swarmd.core.world import Document


def memory_list(view: View, args: Args) -> JSON:
    """The files of an agent's memory."""
    agent = view.memory_of(args)
    return items([{**memory_doc(d), "first_line": _first_line(d)} for d in view.world.documents(agent)])


def _first_line(document: Document) -> str:
    lines = (document.data or b"").decode("utf-8", "replace").strip().splitlines()
    return lines[0][:200] if lines else ""


def memory_show(view: View, args: Args) -> JSON:
    """The text of a memory file, at its head or at a revision. Bytes that are not UTF-8 come as base64 too."""
    agent, path = view.memory_of(args), path_of(args)
    document = view.world.document(agent, path)
    if document is None:
        raise NotFound(f"{agent} has no memory file {path!r}; swarmd memory list {agent} shows what it has")
    data = document.data
    rev = document.rev
    if args.get("rev") is not None:
        rev = number(args, "rev")
        data = _revision(view, agent, path, rev)
    if data is None:
        raise NotFound(
            f"{agent} has no memory file {path!r} any more; swarmd memory history {agent} shows what it was"
        )
    shown = data.decode("utf-8", "replace")
    raw = None if shown.encode() == data else base64.b64encode(data).decode()
    return {**memory_doc(document), "rev": rev, "bytes": len(data), "text": shown, "base64": raw}


def path_of(args: Args) -> str:
    """The memory file that a call means; left out: MEMORY.md."""
    path = args.get("file") or "MEMORY.md"
    if not isinstance(path, str) or (problem := path_problem(path)) is not None:
        raise BadInput(problem if isinstance(path, str) and problem else "file: text is expected")
    return path


def _revision(view: View, agent: str, path: str, rev: int) -> bytes:
    row = queries.revision(view.connection, agent, path, rev)
    if row is None:
        raise NotFound(
            f"{agent} has no revision {rev} of {path}; swarmd memory history {agent} {path} shows them"
        )
    data = view.world.revision(agent, path, rev)
    if data is None and row["hash"] is not None:
        raise NotFound(
            f"the text of {agent}:{path} revision {rev} is not kept any more; a backup may have it"
        )
    if data is not None and not is_text(data, row["hash"]):
        raise DamagedText(agent, path, rev)
    return data or b""


def memory_history(view: View, args: Args) -> JSON:
    """The revisions of an agent's memory, newest first."""
    agent = view.memory_of(args)
    path = path_of(args) if args.get("file") else None
    rows = queries.revisions(view.connection, agent, path)
    return items([{"rev": r["rev"], "file": r["path"], "by": r["by"], "at": r["at"], "bytes": r["size"],
                   "note": "deleted" if r["hash"] is None else r["how"]} for r in rows])  # fmt: skip


def memory_diff(view: View, args: Args) -> JSON:
    """What changed in a memory file from `rev` to `other` (default: the head), as a unified diff."""
    agent, path, rev = view.memory_of(args), path_of(args), number(args, "rev")
    import difflib

    head = view.world.document(agent, path)
    other = number(args, "other") if args.get("other") is not None else head.rev if head is not None else 0
    old, new = _revision(view, agent, path, rev), _revision(view, agent, path, other)
    lines = difflib.unified_diff(
        old.decode("utf-8", "replace").splitlines(), new.decode("utf-8", "replace").splitlines(),
        f"{path} revision {rev}", f"{path} revision {other}", lineterm="",
    )  # fmt: skip
    return {"agent": agent, "file": path, "rev": rev, "other": other, "diff": "\n".join(lines)}


def memory_blame(view: View, args: Args) -> JSON:
    """Who wrote each line of a memory file: the revision that brought it."""
    agent, path = view.memory_of(args), path_of(args)
    rows = list(reversed(queries.revisions(view.connection, agent, path, 100_000)))
    if not rows:
        raise NotFound(f"{agent} has no memory file {path!r}")
    import difflib

    lines: list[tuple[str, dict[str, Any]]] = []
    for row in rows:
        new = (view.world.revision(agent, path, row["rev"]) or b"").decode("utf-8", "replace").splitlines()
        matcher = difflib.SequenceMatcher(None, [line for line, _ in lines], new, autojunk=False)
        merged: list[tuple[str, dict[str, Any]]] = []
        for tag, a1, a2, b1, b2 in matcher.get_opcodes():
            merged.extend(lines[a1:a2] if tag == "equal" else [(line, row) for line in new[b1:b2]])
        lines = merged
    return {"agent": agent, "file": path, "lines": [
        {"line": n, "text": line, "rev": row["rev"], "by": row["by"], "at": row["at"]}
        for n, (line, row) in enumerate(lines, 1)
    ]}  # fmt: skip


def memory_conflicts(view: View, args: Args) -> JSON:
    """Lines of an agent's that met other edits and stand aside."""
    agent = view.memory_of(args)
    names = ("id", "agent", "path", "line", "ours", "theirs", "session", "by", "at")
    # Of a folder that others write too, a session is told of its own lines: those of others are not in the file.
    own = view.actor.agent
    of = (own, view.actor.subject) if own is not None and shared_name(agent) is not None else None
    rows = queries.conflicts(view.connection, agent, of=of)
    return items([{name: row[name] for name in names} for row in rows])


def memory_subjects(view: View, args: Args) -> JSON:
    """Whom or what an agent's sessions were about, and what it keeps about each."""
    agent = view.agent(args)
    found = owners.subjects(view.connection, agent)
    sizes = owners.sizes(view.connection, [subject_owner(agent, subject) for subject in found])
    rows = []
    for subject, facts in found.items():
        owner = subject_owner(agent, subject)
        files, size = sizes[owner]
        rows.append(
            {"agent": agent, "subject": subject, "owner": owner, "files": files, "bytes": size, **facts}
        )
    return items(rows)


def memory_shared(view: View, args: Args) -> JSON:
    """The shared folders that agent files name: who has each, who may write it, what is in it."""
    names = view.tree.shared_folders()
    sizes = owners.sizes(view.connection, [shared_owner(name) for name in names])
    rows = []
    for name in names:
        sharers = [(agent, view.tree.agents[agent].memory.shares(name)) for agent in view.tree.sharers(name)]
        files, size = sizes[shared_owner(name)]
        rows.append({
            "name": name, "owner": shared_owner(name), "files": files, "bytes": size,
            "agents": [agent for agent, _ in sharers],
            "writers": [agent for agent, folder in sharers if folder is not None and folder.write],
            "approval": [agent for agent, folder in sharers if folder is not None and folder.approval],
        })  # fmt: skip
    return items(rows)
