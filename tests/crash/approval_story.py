"""What waits for an operator's yes: a session whose change set is split, and the operator who decides.

`held` is the session; `approval` says yes to three wishes of it, no to one, and lets one expire, as the commands do
without a daemon. After the restart another operator says yes to all: each counts once.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import ClassVar
from unittest import mock

import pytest

from swarmd.daemon.daemon import Daemon
from swarmd.daemon.local import run_local
from swarmd.errors import Refused
from swarmd.service import operator
from swarmd.service.caller import Operator
from swarmd.store.connections import open_reading
from tests.crash import checks, part, session_checks
from tests.crash.memory_stories import SHARED, MemoryStory, keys_of
from tests.crash.session_story import BOOT, machine
from tests.crash.story import GoesOn, Told
from tests.store.memory_place import PatientDisk

VARIANTS = ("held", "approval")
TABLES = """\
[authority]
approval = ["deploy.*"]
approval_expires = "7d"
[memory]
approval = ["policies/**", "b.md"]
[[memory.shared]]
name = "team"
write = true
approval = true
"""
WISHES = (
    ("studio/deploy.eu", 1), ("studio:policies/a.md", 1), ("studio/deploy.us", 2), ("@team:MEMORY.md", 2),
    ("studio:b.md", 2),
)  # fmt: skip
"""What is held of the session, and with which of its parts."""


class HeldStory(MemoryStory):
    """The free part of a change set is saved and the held part is kept, both or neither."""

    lines: ClassVar = {"- AGENT half": 1, "- AGENT one": 2}

    def tables(self) -> str:
        return TABLES

    def furnish(self, daemon: Daemon) -> None:
        shared = {"agent": "@team", "file": "MEMORY.md", "text": SHARED}
        daemon.service.call(Operator(name="ada"), "memory_write", shared)

    def written(
        self, connection: sqlite3.Connection, row: sqlite3.Row | None, stage: int, told: Told
    ) -> Iterator[str]:
        rows = connection.execute("SELECT target, state, session FROM approvals").fetchall()
        wanted = sorted((target, "open", self.session) for target, of in WISHES if stage >= of)
        if sorted(map(tuple, rows)) != wanted:
            yield f"I2: after {stage} of 2 parts there wait {list(map(tuple, rows))}"
        keys = ({"status": "idle"}, {"status": "idle", "phase": "half"}, {"status": "done", "phase": "half"})[
            stage
        ]
        if keys_of(connection) != keys:
            yield f"I2: after {stage} of 2 parts the keys are {keys_of(connection)}"
        for target, _ in WISHES:
            if count := applied(connection, target, self.session):
                yield f"I5: {target} was written {count} times, and nobody has said yes"
        memory = self.state / "memory"
        if (memory / "studio/policies/a.md").exists() or not (memory / "studio/b.md").exists():
            yield "I5: a file that waits for a yes was written"
        if "AGENT" in (memory / "@team/MEMORY.md").read_text():
            yield "I5: what waits for a yes stands in @team"


def applied(connection: sqlite3.Connection, target: str, session: int) -> int:
    """How often what was wished for this target was written in the session's name."""
    owner, colon, path = target.partition(":")
    by = f"studio#{session}"
    if colon:
        sql = "SELECT count(*) FROM revisions WHERE agent = ? AND path = ? AND by = ?"
        return int(connection.execute(sql, (owner, path, by)).fetchone()[0])
    owner, _, key = target.partition("/")
    sql = "SELECT count(*) FROM key_history WHERE agent = ? AND key = ? AND by = ?"
    return int(connection.execute(sql, (owner, key, by)).fetchone()[0])


class ApprovalStory(HeldStory, GoesOn):
    """Each wish is decided on once, with all that comes of it in the same transaction. The person edits a shared file."""

    agent = "@team"
    lines: ClassVar = {"- AGENT policy": 1, "- AGENT team": 1}
    recovery_calls = 120

    def visits(self, calls: int, swaps: list[int], *, few: bool) -> Iterable[tuple[str, int]]:
        return super().visits(calls, swaps[-1:], few=few)

    def runner(self) -> Mapping[str, object]:
        return {"kind": "script", "part": "held", "told": "/dev/null"}

    def prepare(self) -> None:
        super().prepare()
        with machine(PatientDisk(), BOOT):
            assert run_local(self.places(self.template), self.asked())["outcome"] == "committed"
        with checks.opened(self.template) as connection:
            self._ids = {row[0]: row[1] for row in connection.execute("SELECT target, id FROM approvals")}

    def play(self, acknowledge: Callable[[], None], disk: PatientDisk) -> None:
        tell, later = part.teller(str(self.acts)), [timedelta()]

        def now() -> datetime:
            return datetime.now(UTC) + later[0]

        with (
            machine(disk, BOOT),
            mock.patch.object(operator, "utc_now", now),
            operator.open_local(self.places(self.state), None) as local,
        ):
            for target in ("studio/deploy.eu", "studio:policies/a.md", "@team:MEMORY.md"):
                document = local.call("approval_approve", {"id": self._ids[target]})
                tell(f"approved {target}")
                assert document["state"] == "approved", document
            local.call("approval_deny", {"id": self._ids["studio/deploy.us"], "reason": "not now"})
            tell("denied studio/deploy.us")
            later[0] = timedelta(days=8)
            self._refused(local, "studio:b.md", "has expired")
            tell("expired studio:b.md")
        acknowledge()

    def _refused(self, local: operator.Local, target: str, why: str) -> None:
        with pytest.raises(Refused, match=why):
            local.call("approval_approve", {"id": self._ids[target]})

    def go_on(self, boot: str, disk: PatientDisk) -> None:
        """Another operator says yes to all, also to what was decided."""
        with machine(disk, boot), operator.open_local(self.places(self.state), None) as local:
            for id in self._ids.values():
                with contextlib.suppress(Refused):
                    local.call("approval_approve", {"id": id})

    def broken(self, told: Told) -> list[str]:
        found: list[str] = []
        places = self.places(self.state)
        with contextlib.closing(open_reading(places.state / "swarmd.db")) as connection:
            states = self._states(connection)
            found += self._decided(connection, states)
            for act in told.acts:
                state, target = act.split(" ", 1)
                if states[target] != state:
                    found.append(f"I1: {target} was {state}, and is {states[target]}")
            lines = {"- AGENT policy": "studio:policies/a.md", "- AGENT team": "@team:MEMORY.md"}
            texts = [f.read_text() for f in (self.state / "memory").rglob("*.md") if f.is_file()]
            for line, target in lines.items():
                if (count := "".join(texts).count(f"{line}\n")) != (states[target] == "approved"):
                    found.append(f"I5: {target} is {states[target]}, and {line!r} stands there {count} times")
            found += checks.memory(self, connection, told, {})
            found += session_checks.verified(connection, places)
        found += [f"{path} was left behind" for path in session_checks.strays(places)]
        return found + checks.others(self)

    def broken_after(self) -> list[str]:
        with contextlib.closing(open_reading(self.state / "swarmd.db")) as connection:
            states = self._states(connection)
            found = list(self._decided(connection, states))
            found += session_checks.verified(connection, self.places(self.state))
        return found + [f"{t} is still open" for t, state in states.items() if state == "open"]

    def _states(self, connection: sqlite3.Connection) -> dict[str, str]:
        return dict(connection.execute("SELECT target, state FROM approvals").fetchall())

    def _decided(self, connection: sqlite3.Connection, states: Mapping[str, str]) -> Iterator[str]:
        """Each is written once if it was approved and else not, and the audit says the same."""
        if set(states) != set(self._ids):
            yield f"the approvals are {states}"
            return
        for target, state in states.items():
            count = applied(connection, target, self.session)
            if count != (state == "approved"):
                yield f"I2: {target} is {state}, and was written {count} times"
            for act, of in (("approve", "approved"), ("deny", "denied")):
                told = connection.execute(
                    "SELECT count(*) FROM audit WHERE act = ? AND target = ?",
                    (act, f"approval {self._ids[target]}: {target}"),
                ).fetchone()[0]
                if told != (state == of):
                    yield f"I2: {target} is {state}, and the audit has {act} {told} times"
        expired = connection.execute("SELECT count(*) FROM audit WHERE act = 'approval_expire'").fetchone()[0]
        if expired != ("expired" in states.values()):
            yield f"I2: {states}, and the audit has approval_expire {expired} times"
        for target, path in (
            ("studio:policies/a.md", "studio/policies/a.md"),
            ("studio:b.md", "studio/b.md"),
        ):
            was_there = target == "studio:b.md"
            if Path(self.state / "memory" / path).exists() == (was_there == (states[target] == "approved")):
                yield f"I3: {target} is {states[target]}, and the file {'is' if was_there else 'is not'} as before"
