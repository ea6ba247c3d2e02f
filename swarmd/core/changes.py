"""What a session or operator can wish to write: one frozen value per kind, and how each becomes JSON."""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from swarmd.core.handoffs import Move, Priority


@dataclass(frozen=True, slots=True, kw_only=True)
class SetKey:
    """Set a key. `seen` is the version that the writer last read (0: it did not exist; None: do not care)."""

    agent: str
    key: str
    value: str
    seen: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnsetKey:
    """Remove a key; `seen` as in SetKey."""

    agent: str
    key: str
    seen: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SendHandoff:
    """Send a handoff under an id that was reserved when it was asked for. `sender` is an operator's to give: who
    had sent what is sent anew.
    """

    id: int
    to: str
    text: str
    priority: Priority = "normal"
    due: datetime | None = None
    expires: datetime | None = None
    dedupe: str | None = None
    sender: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveHandoff:
    """Move a handoff; `text` is the reply, the question or the answer."""

    id: int
    move: Move
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeHandoff:
    """Change priority or due of a handoff that is not final; None leaves it as it is."""

    id: int
    priority: Priority | None = None
    due: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteMemory:
    """A memory file as the writer left it (`data` None: deleted), made from revision `base` (0: none).

    `base_hash` names the bytes it was made from where those are no revision: after a checkpoint that merged, a
    session goes on from its own text, which the merged revision is not.
    """

    agent: str
    path: str
    data: bytes | None
    base: int = 0
    base_hash: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendMemory:
    """Text added at the end of a memory file, whatever its revision; it never collides. `under`: at the end of the
    section below this heading (a whole line, as `## Interaction Log`), which is made where there is none.
    """

    agent: str
    path: str
    text: str
    under: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A note up to the parent: data, never a command. `agent` is an operator's to give: whose draft it stands in."""

    text: str
    agent: str | None = None


Change = SetKey | UnsetKey | SendHandoff | MoveHandoff | ChangeHandoff | WriteMemory | AppendMemory | Report

_KINDS: Mapping[str, type[Change]] = {
    "ctx_set": SetKey,
    "ctx_unset": UnsetKey,
    "handoff_send": SendHandoff,
    "handoff_move": MoveHandoff,
    "handoff_change": ChangeHandoff,
    "memory_write": WriteMemory,
    "memory_append": AppendMemory,
    "report": Report,
}
_NAMES = {cls: name for name, cls in _KINDS.items()}


def act_of(change: Change) -> str:
    """The name of the act that makes this change, as users see it (`handoff_complete`, `ctx_set` ...)."""
    if isinstance(change, MoveHandoff):
        return f"handoff_{change.move.value}"
    if isinstance(change, WriteMemory) and change.data is None:
        return "memory_delete"
    return _NAMES[type(change)]


def target_of(change: Change) -> str:
    """What the change is about, in one word: `agent/key`, `handoff 7`, `agent:path`, `parent`."""
    match change:
        case SetKey() | UnsetKey():
            return f"{change.agent}/{change.key}"
        case SendHandoff():
            return change.to
        case MoveHandoff() | ChangeHandoff():
            return f"handoff {change.id}"
        case WriteMemory() | AppendMemory():
            return f"{change.agent}:{change.path}"
        case Report():
            return "parent"


def owners_of(changes: Iterable[Change]) -> frozenset[str]:
    """Whose memory folders these changes are about (core.owners)."""
    return frozenset(change.agent for change in changes if isinstance(change, WriteMemory | AppendMemory))


def change_to_json(change: Change) -> dict[str, Any]:
    """The change as a JSON object that `change_from_json` reads; bytes as base64, times as ISO 8601."""
    raw: dict[str, Any] = {"kind": _NAMES[type(change)]}
    for f in dataclasses.fields(change):
        value = getattr(change, f.name)
        if isinstance(value, bytes):
            value = base64.b64encode(value).decode()
        elif isinstance(value, datetime):
            value = value.isoformat()
        raw[f.name] = value
    return raw


def change_from_json(raw: Mapping[str, Any]) -> Change:
    """The change that `change_to_json` wrote."""
    values = dict(raw)
    cls = _KINDS[values.pop("kind")]
    if cls is WriteMemory and values["data"] is not None:
        values["data"] = base64.b64decode(values["data"])
    if cls is MoveHandoff:
        values["move"] = Move(values["move"])
    for name in ("due", "expires"):
        if values.get(name) is not None:
            values[name] = datetime.fromisoformat(values[name])
    return cls(**values)


def last_writes(changes: Sequence[Change]) -> list[Change]:
    """The changes without the writes of a key that a later one of the same key makes void."""
    last = {(c.agent, c.key): n for n, c in enumerate(changes) if isinstance(c, SetKey | UnsetKey)}
    return [
        change
        for n, change in enumerate(changes)
        if not isinstance(change, SetKey | UnsetKey) or last[change.agent, change.key] == n
    ]
