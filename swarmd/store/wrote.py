"""What a commit wrote, as its audit row keeps it: which history rows, and their digest, so that a later edit shows."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from swarmd.core.digests import digest
from swarmd.core.owners import agent_of_owner, is_about, renamed
from swarmd.core.staging import Effect, HandoffWritten, KeyWritten, MemoryWritten

_ROWS: Mapping[str, str] = {
    "key": "SELECT value, by FROM key_history WHERE agent = ? AND key = ? AND version = ?",
    "memory": "SELECT hash, by FROM revisions WHERE agent = ? AND path = ? AND rev = ?",
    "entry": "SELECT kind, by, text FROM handoff_entries WHERE handoff = ? AND seq = ?",
    "handoff": "SELECT text, by FROM handoffs WHERE id = ?",
}


def wrote(effects: Sequence[Effect]) -> dict[str, Any]:
    """The rows that these effects make in tables that only grow, and the digest of what is in them."""
    rows: list[list[Any]] = []
    content: list[list[Any]] = []
    for effect in effects:
        match effect:
            case KeyWritten(key=key):
                rows.append(["key", key.agent, key.key, key.version])
                content.append([key.value, key.by])
            case MemoryWritten(document=document) if document.rev != effect.parent:
                rows.append(["memory", document.agent, document.path, document.rev])
                content.append([None if document.data is None else digest(document.data), document.by])
            case HandoffWritten(handoff=handoff, entry=entry):
                if effect.created:
                    rows.append(["handoff", handoff.id])
                    content.append([handoff.text, handoff.by])
                if entry is not None:
                    rows.append(["entry", handoff.id, len(handoff.thread)])
                    content.append([entry.kind, entry.by, entry.text])
            case _:
                pass  # reports can be read nowhere else either
    return {"rows": rows, "digest": _digest(content)} if rows else {}


def faults(connection: sqlite3.Connection, limit: int = 20) -> list[str]:
    """Audit rows whose commit's rows are not what they were: a sentence each."""
    found: list[str] = []
    names: dict[str, str | None] = {}
    """What an agent of that name was called later; None: it was forgotten, with what it had."""
    for row in connection.execute("SELECT seq, at, by, act, target, detail FROM audit ORDER BY seq DESC"):
        detail = _decoded(row["detail"])
        if row["act"] == "rename":
            old, new = str(detail.get("old")), row["target"]
            names[old] = names.get(new, new)
            gone = [name for name in names if name != new and is_about(name, new)]
            names |= {renamed(name, new, old): names[name] for name in gone}
        elif row["act"] in ("forget", "forget_subject"):
            names[row["target"]] = None
        told = detail.get("wrote")
        if isinstance(told, dict) and told and not _stands(connection, told, names):
            found.append(
                f"what {row['act']} by {row['by']} wrote at {row['at']} (audit row {row['seq']}) was changed or "
                f"removed since: {', '.join('/'.join(map(str, r[1:])) for r in told.get('rows', ())[:5])}"
            )
        if len(found) >= limit:
            break
    return found


def _stands(connection: sqlite3.Connection, told: Mapping[str, Any], names: Mapping[str, str | None]) -> bool:
    content: list[list[Any]] = []
    for kind, *place in told.get("rows", ()):
        if kind in ("key", "memory"):
            owner = _owner_now(place[0], names)
            if owner is None:
                return True  # it cannot be told any more
            place[0] = owner
        row = connection.execute(_ROWS[kind], place).fetchone()
        if row is None:
            return False
        content.append(list(row))
    return _digest(content) == told.get("digest")


def _owner_now(owner: str, names: Mapping[str, str | None]) -> str | None:
    """What the owner of a folder or key is called now, with its agent's name; None: it was forgotten."""
    if owner in names:
        return names[owner]
    agent = agent_of_owner(owner)
    if agent is None or agent not in names:
        return owner
    now = names[agent]
    return None if now is None else renamed(owner, agent, now)


def _decoded(text: str) -> Mapping[str, Any]:
    """A row's detail; one that is none has broken the chain, which says so."""
    try:
        detail = json.loads(text)
    except ValueError:
        return {}
    return detail if isinstance(detail, dict) else {}


def _digest(content: list[list[Any]]) -> str:
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), default=repr)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
