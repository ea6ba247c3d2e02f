"""Reads of memory: they see what a session has staged, through its world."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from swarmd.core.documents import FIRST_LINE_READ, file_doc, first_line, memory_doc, text_doc
from swarmd.core.memory import is_archive, path_problem
from swarmd.core.owners import shared_name, shared_owner, subject_owner
from swarmd.errors import BadInput, NotFound
from swarmd.service.quarantined import NOTE, Untainted
from swarmd.service.view import JSON, Args, View, items, number, one_more, page, text, window
from swarmd.store import lineage, owners, queries, windows
from swarmd.store.rows import DamagedText, is_text

if TYPE_CHECKING:
    from swarmd.core.world import Document

ARCHIVED_READ = 50
"""Of how many archived files a list has the first line."""


def memory_list(view: View, args: Args) -> JSON:
    """The files of an agent's memory; `folder`: those below it alone, and nothing of their texts."""
    agent, folder = view.memory_of(args), text(args, "folder", required=False)
    files = [file for file in view.world.files(agent) if file.path.startswith(folder)]
    if folder:
        return items([file_doc(file) for file in files])
    texts: dict[str, Document | None] = {document.path: document for document in view.world.documents(agent)}
    # Of what is archived the newest; the texts of hundreds are not read for a list.
    for file in [file for file in files if is_archive(file.path)][-ARCHIVED_READ:]:
        texts[file.path] = view.world.document(agent, file.path)
    shown = Untainted(view, agent)
    return items(
        [{**file_doc(file), "first_line": _first_line(shown, texts.get(file.path))} for file in files]
    )


def _first_line(shown: Untainted, document: Document | None) -> str:
    if document is None or document.data is None:
        return ""
    data = document.data[:FIRST_LINE_READ].lstrip().partition(b"\n")[0]
    return first_line(shown.text(document.path, data))


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
    past = rev if args.get("rev") is not None else None
    return {**memory_doc(document), "rev": rev, **text_doc(Untainted(view, agent).text(path, data, rev=past))}


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


NOTES: Mapping[str, str] = {
    "write": "written", "merge": "merged with other edits", "adopt": "a person's edit", "restore": "restored",
    "revert": "a session undone", "compact": "compaction", "consolidate": "consolidation",
    "import": "taken over from elsewhere",
}  # fmt: skip
"""How a revision was made, in words; one that is not here says it by its own name."""


def memory_history(view: View, args: Args) -> JSON:
    """The revisions of an agent's memory, newest first."""
    agent, asked = view.memory_of(args), window(args)
    path = path_of(args) if args.get("file") else None
    found = queries.revisions(view.connection, agent, path, one_more(asked))
    rows, rest = page(found, asked, lambda row: str(row["at"]))
    return items([{"rev": r["rev"], "file": r["path"], "by": r["by"], "at": r["at"], "bytes": r["size"],
                   "note": _note(r)} for r in rows], rest)  # fmt: skip


def _note(row: windows.Row) -> str:
    how = NOTES.get(row["how"], row["how"])
    if row["hash"] is not None:
        return how
    return "deleted" if row["how"] == "write" else f"deleted: {how}"


def memory_diff(view: View, args: Args) -> JSON:
    """What changed in a memory file from `rev` to `other` (default: the head), as a unified diff."""
    agent, path, rev = view.memory_of(args), path_of(args), number(args, "rev")
    import difflib

    head = view.world.document(agent, path)
    other = number(args, "other") if args.get("other") is not None else head.rev if head is not None else 0
    untainted = Untainted(view, agent)
    old, new = (
        untainted.text(path, _revision(view, agent, path, number), rev=number) for number in (rev, other)
    )
    lines = difflib.unified_diff(
        old.decode("utf-8", "replace").splitlines(), new.decode("utf-8", "replace").splitlines(),
        f"{path} revision {rev}", f"{path} revision {other}", lineterm="",
    )  # fmt: skip
    return {"agent": agent, "file": path, "rev": rev, "other": other, "diff": "\n".join(lines)}


def memory_blame(view: View, args: Args) -> JSON:
    """Who wrote each line of a memory file: the revision that brought it, of an archive one of the file it was."""
    from swarmd.core.blame import Revision, origins
    from swarmd.core.merge import keys_of, lines_of

    agent, path = view.memory_of(args), path_of(args)
    rows = queries.all_revisions(view.connection, agent, path)
    if not rows:
        raise NotFound(f"{agent} has no memory file {path!r}")
    source = lineage.archived_from(view.connection, agent, path) if is_archive(path) else None
    if source is not None:
        rows = [
            row for row in queries.all_revisions(view.connection, agent, source[0]) if row["rev"] <= source[1]
        ]
    by_rev = {row["rev"]: row for row in rows}
    known = [Revision(**{name: row[name] for name in ("rev", "parent", "hash", "by", "how")}) for row in rows]
    of = source[0] if source is not None else path
    brought = origins(known, lambda rev: view.world.revision(agent, of, rev) or b"")
    head = view.world.revision(agent, of, max(by_rev)) or b""
    texts = [line.decode("utf-8", "replace") for line in keys_of(lines_of(head))]
    if (gone := Untainted(view, agent).marks(path, head)) is not None:
        texts = [NOTE if is_gone else line for line, is_gone in zip(texts, gone, strict=True)]
    lines = zip(texts, brought, strict=True)
    return {"agent": agent, "file": path, "lines": [
        {"line": n, "text": line, "rev": rev, "by": by_rev[rev]["by"],
         "at": by_rev[rev]["at"]}
        for n, (line, rev) in enumerate(lines, 1)
    ]}  # fmt: skip


def memory_conflicts(view: View, args: Args) -> JSON:
    """Lines of an agent's that met other edits and stand aside."""
    agent = view.memory_of(args)
    names = ("id", "agent", "path", "line", "ours", "theirs", "session", "by", "at")
    # Of a folder that others write too, a session is told of its own lines: those of others are not in the file.
    own = view.actor.agent
    of = (own, view.actor.subject) if own is not None and shared_name(agent) is not None else None
    found = queries.conflicts(view.connection, agent, of=of, untainted=own is not None)
    return items([{name: row[name] for name in names} for row in found])


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
