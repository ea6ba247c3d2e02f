"""Values as the JSON documents that users read (INTERFACE section 9); fields are only ever added."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from swarmd.core.instants import maybe_text, to_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from swarmd.core.changes import Change
    from swarmd.core.handoffs import Handoff
    from swarmd.core.staging import Verdict
    from swarmd.core.world import Actor, Document, FileFacts, Key, World

JSON = Any
FIRST_LINE = 200
FIRST_LINE_READ = 4096
"""In so many bytes the first line of a file is looked for."""


def key_doc(key: Key) -> dict[str, JSON]:
    """A key."""
    return {"agent": key.agent, "key": key.key, "value": key.value, "version": key.version,
            "updated": to_text(key.updated), "by": key.by}  # fmt: skip


def handoff_doc(handoff: Handoff) -> dict[str, JSON]:
    """A handoff with its thread."""
    return {
        "id": handoff.id, "sender": handoff.sender, "receiver": handoff.receiver, "text": handoff.text,
        "priority": handoff.priority, "status": handoff.status.value, "created": to_text(handoff.created),
        "due": maybe_text(handoff.due), "expires": maybe_text(handoff.expires),
        "thread": [{"at": to_text(e.at), "by": e.by, "kind": e.kind, "text": e.text} for e in handoff.thread],
        "cause": {"session": handoff.cause.session, "handoff": handoff.cause.handoff}, "depth": handoff.depth,
        "dedupe": handoff.dedupe, "by": handoff.by,
    }  # fmt: skip


def memory_doc(document: Document, conflicts: int = 0) -> dict[str, JSON]:
    """A memory file's head, without its text."""
    return {"agent": document.agent, "path": document.path, "rev": document.rev, "at": to_text(document.at),
            "by": document.by, "bytes": len(document.data or b""), "conflicts": conflicts}  # fmt: skip


def revision_doc(document: Document) -> dict[str, JSON]:
    """Which revision it is, when it was made and by whom."""
    return {"rev": document.rev, "at": to_text(document.at), "by": document.by}


def file_doc(file: FileFacts) -> dict[str, JSON]:
    """The same of a file whose text was not read."""
    return {"agent": file.agent, "path": file.path, "rev": file.rev, "at": to_text(file.at), "by": file.by,
            "bytes": file.size, "conflicts": 0}  # fmt: skip


def copied_doc(agent: str, path: str, size: int, made_from: Mapping[str, JSON]) -> dict[str, JSON]:
    """The same of a file of a session's copy. `made_from` has `rev`, `at` and `by` where it is as it was handed out;
    what the session has changed has none of them yet.
    """
    known = {name: made_from.get(name) for name in ("rev", "at", "by")}
    return {"agent": agent, "path": path, "file": path, **known, "bytes": size, "conflicts": 0}


def text_doc(data: bytes) -> dict[str, JSON]:
    """A file's bytes as text. What is not UTF-8 is whole in `base64` only."""
    shown = data.decode("utf-8", "replace")
    raw = None if shown.encode() == data else base64.b64encode(data).decode()
    return {"bytes": len(data), "text": shown, "base64": raw}


def first_line(data: bytes) -> str:
    """How a file begins, for a list."""
    lines = data[:FIRST_LINE_READ].decode("utf-8", "replace").strip().splitlines()
    return lines[0][:FIRST_LINE] if lines else ""


def written_doc(change: Change, verdict: Verdict, world: World, actor: Actor) -> dict[str, JSON]:
    """What an act has written (or found written already), for the one who asked."""
    # Imported here: reads, which are most of all calls, never need it.
    from swarmd.core.staging import HandoffWritten, KeyWritten, MemoryWritten, Reported

    for effect in verdict.effects:
        match effect:
            case KeyWritten():
                return key_doc(effect.key)
            case HandoffWritten():
                return handoff_doc(effect.handoff)
            case MemoryWritten():
                return memory_doc(effect.document, len(effect.conflicts))
            case Reported():
                return {"id": None, "agent": effect.agent, "parent": effect.parent, "text": effect.text,
                        "at": to_text(world.now), "by": actor.by}  # fmt: skip
    return _unchanged(change, verdict, world)


def verdict_doc(change: Change, verdict: Verdict) -> dict[str, JSON]:
    """What became of one change of a change set; `approval` is the number of the one that holds it."""
    from swarmd.core.changes import act_of, target_of

    return {"act": act_of(change), "target": target_of(change), "verdict": verdict.decision, "reason": verdict.reason,
            "approval": verdict.value if verdict.decision == "held" else None}  # fmt: skip


def _unchanged(change: Change, verdict: Verdict, world: World) -> dict[str, JSON]:
    from swarmd.core.changes import AppendMemory, SendHandoff, SetKey, UnsetKey, WriteMemory

    handoff = world.handoff(verdict.value) if isinstance(verdict.value, int) else None
    if handoff is not None:
        return handoff_doc(handoff)
    if isinstance(change, SetKey | UnsetKey):
        key = world.key(change.agent, change.key)
        return key_doc(key) if key is not None else {"agent": change.agent, "key": change.key, "value": None}
    if isinstance(change, WriteMemory | AppendMemory):
        document = world.document(change.agent, change.path)
        return memory_doc(document) if document is not None else {"agent": change.agent, "path": change.path}
    return {"receiver": change.to} if isinstance(change, SendHandoff) else {}
