"""What must hold of a whole session after recovery: all of it, or what its checkpoint has saved, or nothing of it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from swarmd.core.changes import Change, SendHandoff, WriteMemory, act_of, change_from_json, target_of
from swarmd.core.world import Actor
from swarmd.places import Places
from swarmd.service.reading import read
from swarmd.service.view import View
from swarmd.store import meta
from swarmd.store.connections import open_reading
from swarmd.store.world import SqlWorld
from tests.crash import checks, part
from tests.crash.story import Story, Told
from tests.swarm import NOW

AGENT = "studio"
SESSION = 3
"""The two before it made what the story begins with."""
SENT = "go on from there"
CHANGED = (
    ("memory_write", "MEMORY.md"), ("memory_delete", "b.md"), ("memory_write", "new/n.md"), ("memory_write", "topics/a.md"),
)  # fmt: skip
Acts = tuple[tuple[tuple[str, str], ...], ...]
"""Of each part of a session what it does, and to what."""


def acts_of(owner: str) -> Acts:
    """What the checkpoint saves, and what the end does, where the memory is this owner's."""
    memory = tuple((act, f"{owner}:{path}") for act, path in CHANGED)
    return (
        (("ctx_set", "studio/phase"), ("handoff_ack", "handoff 1"), memory[0]),
        (
            ("ctx_set", "studio/status"), ("ctx_set", "studio/count"), ("ctx_set", "game/goal"),
            ("handoff_complete", "handoff 1"), ("handoff_send", "game"), ("report", "parent"), *memory,
        ),
    )  # fmt: skip


KEYS = {
    0: {("studio", "status", "idle", 1)},
    1: {("studio", "status", "idle", 1), ("studio", "phase", "half", 1)},
    2: {("studio", "status", "done", 2), ("studio", "phase", "half", 1), ("studio", "count", "3", 1),
        ("game", "goal", "win", 1)},
}  # fmt: skip
LINES = {"- AGENT half": 1, "- AGENT one": 2, "- AGENT two": 2, "- AGENT three": 2}
THREAD = ["ack", "complete"]
STATUS = ["open", "acknowledged", "completed"]
STATE = {"swarmd.db", "memory", "sessions", "homes", "operator.key"}
KEPT = {"acts.jsonl", "output.log", "transcript.jsonl"}


def broken(story: Story, told: Told, places: Places, *, session: int = SESSION) -> list[str]:
    """Every promise that does not hold of this session."""
    found: list[str] = []
    acts = acts_of(story.agent)
    with contextlib.closing(open_reading(places.state / "swarmd.db")) as connection:
        row = connection.execute("SELECT * FROM sessions WHERE id = ?", (session,)).fetchone()
        stage = stage_of(row)
        found += ending(connection, row, stage, told, session)
        found += _rows(connection, stage, session, acts)
        found += _draft(connection, row, stage, told, acts)
        lines = {line: stage >= of for line, of in LINES.items()}
        found += checks.memory(story, connection, told, lines)
        found += verified(connection, places)
    if (story.notes / "b.md").exists() == (stage == 2):
        found.append(f"I2: b.md is {'there' if stage == 2 else 'gone'}")
    found += [f"{path} was left behind" for path in strays(places)]
    found += [f"I9: process {pid} outlived its session" for pid in leftovers()]
    return found + checks.others(story)


def stage_of(row: sqlite3.Row | None) -> int:
    """How much is saved: nothing, the checkpoint, all."""
    if row is None:
        return 0
    return 2 if row["outcome"] == "committed" else int(row["checkpoints"])


def ending(
    connection: sqlite3.Connection, row: sqlite3.Row | None, stage: int, told: Told, session: int = SESSION
) -> Iterator[str]:
    """How it has ended, what follows it, and what the audit says of it."""
    if told.acknowledged and stage != 2:
        yield "I1: acknowledged and not committed"
    if "1 checkpoint" in told.acts and stage == 0:
        yield "I1: the checkpoint was acknowledged, and is gone"
    after = connection.execute("SELECT * FROM sessions WHERE id > ?", (session,)).fetchall()
    if row is None:
        if after or told.acts:
            yield "the session has no row"
        return
    if row["state"] != "ended" or row["outcome"] not in ("committed", "lost", "cancelled"):
        yield f"the session is {row['state']} ({row['outcome']}: {row['reason']})"
    retries = [(r["state"], r["trigger"], r["retry_of"]) for r in after]
    wanted = [("queued", "retry", session)] if row["outcome"] == "lost" and stage == 0 else []
    if retries != wanted:
        yield f"its retries are {retries}, not {wanted}"
    told_of = {"lost": ["session_end"], "committed": ["commit"]}.get(row["outcome"], [])
    wanted_acts = [*(["checkpoint"] if row["checkpoints"] else []), *told_of]
    said = [
        r[0] for r in connection.execute("SELECT act FROM audit WHERE session = ? ORDER BY seq", (session,))
    ]
    if said != wanted_acts:
        yield f"I2: the audit has {said}, not {wanted_acts}"


def _rows(connection: sqlite3.Connection, stage: int, session: int, acts: Acts) -> Iterator[str]:
    own = f"agent IN ('{AGENT}', 'game')"
    keys = {tuple(r) for r in connection.execute(f"SELECT agent, key, value, version FROM keys WHERE {own}")}
    history = connection.execute(f"SELECT count(*) FROM key_history WHERE {own}").fetchone()[0]
    if keys != KEYS[stage] or history != sum(key[3] for key in keys):
        yield f"I2: after {stage} of 2 parts the keys are {keys}, with {history} rows of history"
    moved = connection.execute("SELECT status FROM handoffs WHERE id = ?", (part.HANDOFF,)).fetchone()[0]
    thread = [r[0] for r in connection.execute("SELECT kind FROM handoff_entries ORDER BY handoff, seq")]
    if moved != STATUS[stage] or thread != THREAD[:stage]:
        yield f"I2: after {stage} of 2 parts the handoff is {moved}, its thread {thread}"
    sent = [
        tuple(r)
        for r in connection.execute("SELECT text, cause_session FROM handoffs WHERE id != ?", (part.HANDOFF,))
    ]
    if sent != [(SENT, session)][: stage == 2]:
        yield f"I2: after {stage} of 2 parts the handoffs sent are {sent}"
    given = connection.execute("SELECT max(id) FROM handoffs").fetchone()[0]
    if given > int(meta.get(connection, "handoffs") or 0):
        yield f"I2: the handoff's number {given} will be given again"
    reports = [r[0] for r in connection.execute("SELECT text FROM reports WHERE session = ?", (session,))]
    if reports != ["all is well"][: stage == 2]:
        yield f"I2: after {stage} of 2 parts the reports are {reports}"
    done = [
        (r["part"], r["act"], r["target"])
        for r in connection.execute(
            "SELECT * FROM changes WHERE session = ? AND verdict = 'done' ORDER BY seq", (session,)
        )
    ]
    saved = [(n, *act) for n, part_of in enumerate(acts[:stage], 1) for act in part_of]
    if done != saved:
        yield f"I2: after {stage} of 2 parts the session's changes are {done}"


def drafted_of(connection: sqlite3.Connection, row: sqlite3.Row | None) -> list[Change]:
    """The session's draft."""
    kept = None
    if row is not None:
        kept = connection.execute("SELECT changes FROM drafts WHERE session = ?", (row["id"],)).fetchone()
    return [] if kept is None else [change_from_json(raw) for raw in json.loads(kept[0])]


def marked(row: sqlite3.Row | None, changes: Sequence[Change]) -> Iterator[str]:
    """Only a session that was lost has a draft, and its row says so."""
    if row is not None and row["draft"] != ("open" if changes else "none"):
        yield f"the draft is {row['draft']}, with {len(changes)} changes"
    if changes and (row is None or row["outcome"] != "lost"):
        yield f"a draft is left of a session that is {row and row['outcome']}"


def _draft(
    connection: sqlite3.Connection, row: sqlite3.Row | None, stage: int, told: Told, acts: Acts
) -> Iterator[str]:
    """What the program was told is staged is in the draft of a session that was lost, and nothing that it never did."""
    changes = drafted_of(connection, row)
    yield from marked(row, changes)
    if row is None or row["outcome"] != "lost":
        return
    numbers = {change.id for change in changes if isinstance(change, SendHandoff)}
    if numbers and max(numbers) > int(meta.get(connection, "handoffs") or 0):
        yield f"I2: the numbers {numbers} of handoffs in the draft will be given again"
    drafted = [(act_of(change), target_of(change)) for change in changes]
    never = [act for act in drafted if act not in acts[stage] or drafted.count(act) > 1]
    never += [
        act for act, change in zip(drafted, changes, strict=True) if told.power_cut and not is_whole(change)
    ]
    if never:
        yield f"the draft of part {stage + 1} has {never}, which the session never did"
    lacking = [act for act in _asked(told, stage, acts) if act not in drafted]
    if lacking and not told.power_cut:
        yield f"the draft of part {stage + 1} lacks {lacking}"


def _asked(told: Told, stage: int, acts: Acts) -> list[tuple[str, str]]:
    """What is known to have been asked for in the part that was not saved."""
    calls = sum(act.startswith(f"{stage + 1} ") for act in told.acts)
    # Its end comes after all edits; before it they may have been made or not.
    ended = f"{stage + 1} end" in told.acts
    return list(acts[stage]) if ended else list(acts[stage][: min(calls, len(part.WORK[stage]))])


def is_whole(change: Change) -> bool:
    """Whether a text is none that a power cut has made."""
    return not isinstance(change, WriteMemory) or change.data is None or change.data.endswith(b"\n")


def verified(connection: sqlite3.Connection, places: Places) -> Iterator[str]:
    """What `swarmd verify` says."""
    view = View(connection=connection, world=SqlWorld(connection, NOW), actor=Actor(by="operator:ada"),
                places=places)  # fmt: skip
    document: Mapping[str, Any] = read(view, "verify", {})
    for item in document["items"]:
        yield f"I8: verify: {item['text']}"


def strays(places: Places) -> Iterator[Path]:
    """What nobody will ever use or remove."""
    for path in places.state.iterdir():
        if path.name not in STATE and not path.name.startswith(("swarmd.db-", "search.db")):
            yield path
    for path in (places.state / "sessions").glob("*/*"):
        if path.name not in KEPT:
            yield path
    yield from (places.runtime / "s").glob("*")


def leftovers() -> Iterator[int]:
    """Living children of this process, which orphans of the killed one have become; they are ended."""
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            yield from _end_children()
            return


def _end_children() -> Iterator[int]:
    for name in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
        os.kill(int(name), signal.SIGKILL)
        os.waitpid(int(name), 0)
        yield int(name)
