"""The verdict on a memory change: paths and limits, then a three-way merge with what others wrote meanwhile."""

from __future__ import annotations

from collections.abc import Sequence

from swarmd.core.changes import AppendMemory, WriteMemory
from swarmd.core.counts import counted
from swarmd.core.interaction_log import added_to, appended_under, heading_problem
from swarmd.core.memory import path_problem, room_problem, tree_problems
from swarmd.core.merge import Merged, merge
from swarmd.core.names import unknown_agent, unknown_folder
from swarmd.core.owners import agent_of_owner, owner_problem, shared_name
from swarmd.core.staging import Conflict, MemoryWritten, Verdict
from swarmd.core.world import Actor, Document, World


def writing(actor: Actor, change: WriteMemory, world: World) -> Verdict:
    """A file as its writer left it, merged with the head where that is not the revision it was made from.

    Where both changed one place a person's lines stay, whoever came first: a session's are set aside.
    """
    head = world.document(change.agent, change.path)
    if problem := _problem(actor, change.agent, change.path, head, world):
        return problem
    head_data = head.data if head is not None else None
    head_rev = head.rev if head is not None else 0
    if head_data == change.data:
        return Verdict(decision="nothing")
    if head_rev == change.base and change.base_hash is None:
        return _written(actor, change, head, change.data, world)
    if change.base_hash is not None:
        base = world.blob(change.base_hash)
    else:
        base = world.revision(change.agent, change.path, change.base)
    if change.data is None:
        if base == head_data:
            return _written(actor, change, head, None, world)
        return Verdict(
            decision="superseded", reason=f"{change.path} was changed meanwhile; it is not deleted"
        )
    of_person = actor.agent is None and actor.session is None
    if head_data is None:
        if base is None or base == change.data or of_person:
            return _written(actor, change, head, change.data, world)
        conflict = Conflict(path=change.path, line=1, ours=_text(change.data), theirs="")
        return _written(actor, change, head, None, world, merged=True, conflicts=(conflict,))
    sides = (head_data, change.data) if of_person else (change.data, head_data)
    merged = merge(base or b"", *sides)
    conflicts = conflicts_of(merged, change.path, head.by if of_person and head is not None else None)
    if merged.data == head_data and not conflicts:
        return Verdict(decision="nothing")
    return _written(actor, change, head, merged.data, world, merged=True, conflicts=conflicts)


def conflicts_of(merged: Merged, path: str, by: str | None) -> tuple[Conflict, ...]:
    """What a merge of a file set aside, and whose it was."""
    return tuple(
        Conflict(path=path, line=piece.line, ours=piece.ours, theirs=piece.theirs, by=by)
        for piece in merged.conflicts
    )


def overtaken(actor: Actor, change: WriteMemory, world: World) -> Verdict | None:
    """The verdict on a consolidation's change of a file that is not what it was shown, or None. It is never merged, so
    that it wins against nobody.
    """
    head = world.document(change.agent, change.path) if actor.only_memory else None
    if head is None or head.data == change.data or (head.rev == change.base and change.base_hash is None):
        return None
    reason = f"{change.path} was changed by {head.by} meanwhile, and a consolidation never wins against that"
    return Verdict(decision="superseded", reason=reason)


def appending(actor: Actor, change: AppendMemory, world: World) -> Verdict:
    """Text at the end of the head, or of one of its sections, on a line of its own."""
    head = world.document(change.agent, change.path)
    if problem := _problem(actor, change.agent, change.path, head, world):
        return problem
    try:
        added = change.text.encode("utf-8")
    except UnicodeEncodeError:
        return Verdict(decision="refused", reason="the text must be UTF-8; it holds bytes that are not")
    if not added:
        return Verdict(decision="refused", reason="the text to append may not be empty", kind="bad_input")
    old = (head.data or b"") if head is not None else b""
    if change.under is None:
        return _written(actor, change, head, added_to(change.path, old, added), world)
    if no_heading := heading_problem(change.under):
        return Verdict(decision="refused", reason=no_heading, kind="bad_input")
    return _written(actor, change, head, appended_under(old, added, change.under), world)


def _problem(actor: Actor, agent: str, path: str, head: Document | None, world: World) -> Verdict | None:
    if actor.agent is None and (unknown := unknown_owner(agent, world)):
        return Verdict(decision="refused", reason=unknown, kind="not_found")
    if problem := path_problem(path):
        return Verdict(decision="refused", reason=problem)
    if head is None or head.data is None:
        others = [file.path for file in world.files(agent)]
        if problems := tree_problems([*others, path]):
            return Verdict(decision="refused", reason=problems[0])
    return None


def unknown_owner(owner: str, world: World) -> str | None:
    """Why nobody in force has a folder of this owner, or None where somebody has or may have it."""
    folder = shared_name(owner)
    if folder is not None:
        return None if world.tree.sharers(folder) else unknown_folder(folder)
    agent = agent_of_owner(owner) or owner
    return owner_problem(owner) if agent in world.tree else unknown_agent(agent)


def _written(
    actor: Actor,
    change: WriteMemory | AppendMemory,
    head: Document | None,
    data: bytes | None,
    world: World,
    *,
    merged: bool = False,
    conflicts: tuple[Conflict, ...] = (),
) -> Verdict:
    before = len(head.data) if head is not None and head.data is not None else 0
    if data is not None and len(data) > before:
        sizes = {file.path: file.size for file in world.files(change.agent)}
        if problem := room_problem(sizes, change.path, len(data)):
            return Verdict(decision="refused", reason=problem)
    rev = head.rev if head is not None else 0
    # Where only conflicts come of it the head stays: no revision is made.
    stays = head is not None and head.data == data
    document = head if head is not None and stays else Document(
        agent=change.agent, path=change.path, rev=rev + 1, data=data, at=world.now, by=actor.by
    )  # fmt: skip
    over = head.data if head is not None else None
    effect = MemoryWritten(document=document, parent=rev, over=over, merged=merged, conflicts=conflicts)
    return Verdict(
        decision="done", reason=_met(change.path, conflicts), effects=(effect,),
        before=f"revision {rev}, {before} bytes",
        after=f"revision {document.rev}, {len(data) if data is not None else 0} bytes", value=document.rev,
    )  # fmt: skip


def _met(path: str, conflicts: Sequence[Conflict]) -> str:
    if not conflicts:
        return ""
    by = conflicts[0].by
    kept = f"what {by} wrote there is kept" if by else "what was written there is kept"
    what = "a conflict" if len(conflicts) == 1 else "conflicts"
    return f"{counted(len(conflicts), 'place')} in {path} met other edits; {kept} as {what}"


def _text(data: bytes) -> str:
    return data.decode("utf-8", errors="replace")
