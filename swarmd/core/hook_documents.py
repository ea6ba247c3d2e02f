"""What a hook is given: a change set as one JSON object, readable, with before and after of whatever it touches."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from typing import Any

from swarmd.core.changes import (
    AppendMemory,
    Change,
    ChangeHandoff,
    MoveHandoff,
    SendHandoff,
    SetKey,
    UnsetKey,
    WriteMemory,
    act_of,
    target_of,
)
from swarmd.core.instants import maybe_text
from swarmd.core.staging import MemoryWritten, Verdict
from swarmd.core.world import World

Texts = dict[tuple[str, str, int], bytes | None]
"""Revisions that are not in the world yet, by owner, path and number."""


def concerns(verdicts: Iterable[Verdict]) -> bool:
    """Whether a change set writes anything, or wants to: hooks are not asked about others."""
    return any(verdict.decision in ("done", "held") for verdict in verdicts)


def change_set(changes: Sequence[Change], verdicts: Sequence[Verdict], world: World) -> list[dict[str, Any]]:
    """The changes with what they do; `world` has what was there before them, be it as history."""
    texts: Texts = {}
    return [_change(c, v, world, texts) for c, v in zip(changes, verdicts, strict=True)]


def _change(change: Change, verdict: Verdict, world: World, texts: Texts) -> dict[str, Any]:
    common = {"act": act_of(change), "target": target_of(change), "verdict": verdict.decision,
              "reason": verdict.reason}  # fmt: skip
    match change:
        case SetKey() | UnsetKey():
            return {**common, "agent": change.agent, "key": change.key, "before": verdict.before,
                    "after": verdict.after}  # fmt: skip
        case WriteMemory() | AppendMemory():
            return {
                **common,
                "agent": change.agent,
                "path": change.path,
                **_file(change, verdict, world, texts),
            }
        case SendHandoff():
            return {**common, "id": change.id, "to": change.to, "text": change.text, "priority": change.priority,
                    "due": maybe_text(change.due), "expires": maybe_text(change.expires)}  # fmt: skip
        case MoveHandoff():
            return {**common, "id": change.id, "text": change.text, "before": verdict.before,
                    "after": verdict.after}  # fmt: skip
        case ChangeHandoff():
            return {**common, "id": change.id, "before": verdict.before, "after": verdict.after}
        case _:
            return {**common, "text": change.text}


def _file(change: WriteMemory | AppendMemory, verdict: Verdict, world: World, texts: Texts) -> dict[str, Any]:
    """The file as it was and as it is then; null where there is none."""
    written = next((e for e in (*verdict.effects, *verdict.withheld) if isinstance(e, MemoryWritten)), None)
    if written is None:
        return {"before": None, "after": None}
    place = written.document.agent, written.document.path
    before = texts.get((*place, written.parent)) or world.revision(*place, written.parent)
    texts[*place, written.document.rev] = written.document.data
    found = {"before": text_of(before), "after": text_of(written.document.data)}
    if isinstance(change, AppendMemory):
        found["added"] = {"text": change.text}
    return found


def text_of(data: bytes | None) -> dict[str, str] | None:
    """A file's bytes as `text`, or as `base64` where they are no UTF-8."""
    if data is None:
        return None
    try:
        return {"text": data.decode("utf-8")}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode("ascii")}
