"""Tells what happens: asks `swarmd log`, `handoff` and `memory` again and again, and says what is new in them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from swarmd.cli import output
from swarmd.core.sessions import OUTCOMES
from swarmd.demo.stage import Stage

Session = Mapping[str, Any]
SHOWN_CHANGES = 6
SHOWN_LINES = 2
_INDENT = " " * 11


class Teller:
    """Remembers what was told already, and every session that has ended."""

    def __init__(self, stage: Stage) -> None:
        """The clock starts now."""
        self._stage = stage
        self._start = time.monotonic()
        self._notes: dict[str, str] = {}
        self.sessions: dict[int, Session] = {}
        self.handoffs: list[Mapping[str, Any]] = []

    @property
    def seconds(self) -> float:
        """Since when it tells."""
        return time.monotonic() - self._start

    def say(self, text: str, *, who: str = "") -> None:
        """One line, with the time since the start; written at once, for someone watches."""
        output.line(f"{int(self.seconds):4d} s  {who:8s} {text}".rstrip())
        output.flush()

    def look(self) -> None:
        """Tell every session that has ended since the last look, oldest first."""
        rows = self._stage.ask("log", "-n", "200")["items"]
        self.handoffs = list(self._stage.ask("handoff", "list")["items"])
        for row in reversed(rows):
            if row["kind"] == "session" and row["what"] in OUTCOMES and row["session"] not in self.sessions:
                self.sessions[row["session"]] = row
                self._tell(row)

    def _tell(self, row: Session) -> None:
        self.say(_outcome(row), who=f"{row['agent']}#{row['session']}")
        if row["what"] != "committed":
            return
        lines = [line for change in row["changes"] for line in self._change(row["agent"], change)]
        for line in lines[:SHOWN_CHANGES]:
            output.line(f"{_INDENT}    {line}")
        if len(lines) > SHOWN_CHANGES:
            output.line(
                f"{_INDENT}    and {len(lines) - SHOWN_CHANGES} more: swarmd session show {row['session']}"
            )
        output.flush()

    def _change(self, agent: str, change: Mapping[str, Any]) -> Iterator[str]:
        """One saved change, in words."""
        target, after = str(change["target"]), change["after"]
        match change["act"]:
            case "ctx_set":
                yield f"key      {target.partition('/')[2]} = {output.cut(after)}"
            case "handoff_send":
                yield f"handoff  to {target}: {output.cut(after)}"
            case "handoff_complete":
                yield f"handoff  {target.removeprefix('handoff ')} completed: {output.cut(self._reply(target))}"
            case "report":
                yield f"report   to the agent above: {output.cut(after)}"
            case "memory_write" | "memory_append":
                yield from self._memory(agent, target.partition(":")[2])
            case act:
                yield f"{act}  {target}"

    def _reply(self, target: str) -> str:
        """The first line of a handoff's last entry."""
        for handoff in self.handoffs:
            if target == f"handoff {handoff['id']}" and handoff["thread"]:
                return str(handoff["thread"][-1]["text"]).partition("\n")[0]
        return ""

    def _memory(self, agent: str, path: str) -> Iterator[str]:
        """The lines that are new in MEMORY.md; of another file only its name."""
        if path != "MEMORY.md":
            yield f"memory   {path} is rewritten"
            return
        text = str(self._stage.ask("memory", "show", agent)["text"])
        old = self._notes.get(agent, "").splitlines()
        self._notes[agent] = text
        new = [line for line in text.splitlines() if line.strip() and line not in old]
        for line in new[:SHOWN_LINES]:
            yield f"memory   {output.cut(line)}"
        if len(new) > SHOWN_LINES:
            yield f"memory   and {len(new) - SHOWN_LINES} lines more"

    @property
    def has_all(self) -> bool:
        """Whether everything that the demo is to show was seen."""
        return not self.missing()

    def missing(self) -> list[str]:
        """What the demo is to show and was not seen."""
        committed = [row for row in self.sessions.values() if row["what"] == "committed"]
        acts = {change["act"] for row in committed for change in row["changes"]}
        wanted = {
            "a session that committed": bool(committed),
            "a key that a session set": "ctx_set" in acts,
            "a handoff that was completed": any(one["status"] == "completed" for one in self.handoffs),
            "a report": "report" in acts,
            "a memory that changed": any(act.startswith("memory_") for act in acts),
        }
        return [what for what, seen in wanted.items() if not seen]


def _outcome(row: Session) -> str:
    """How a session ended, in words."""
    if row["what"] == "committed":
        return "committed"
    if row["what"] == "no_change":
        return "ended well, and had nothing new to write"
    return f"{row['what']}: {output.shown('', row['reason'])}"
