"""The end of the demo: what each session committed, as a table, and how to look further."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from swarmd.cli import output
from swarmd.demo.stage import Stage
from swarmd.demo.teller import Teller

_TABLE = output.columns_of("session agent keys handoffs reports memory")


def summarize(stage: Stage, teller: Teller) -> None:
    """Print the table and the counts; the daemon has ended, and the store is read as it was left."""
    sessions = [teller.sessions[id] for id in sorted(teller.sessions)]
    committed = [row for row in sessions if row["what"] == "committed"]
    output.line("\nWhat each session committed, all of it in one transaction:\n")
    output.table([_row(row) for row in committed], _TABLE)
    outcomes = Counter(str(row["what"]) for row in sessions)
    statuses = Counter(str(one["status"]) for one in teller.handoffs)
    verdict = "whole" if stage.ask("verify")["ok"] else "NOT WHOLE: swarmd verify"
    output.line()
    output.line(f"sessions   {len(sessions)}: {_counted(outcomes)}")
    output.line(f"handoffs   {len(teller.handoffs)}: {_counted(statuses)}")
    output.line(f"the store  {verdict}")


def _row(row: Mapping[str, Any]) -> dict[str, str]:
    """One session's changes, gathered by kind."""
    found: dict[str, list[str]] = {"keys": [], "handoffs": [], "reports": [], "memory": []}
    for change in row["changes"]:
        act, target = str(change["act"]), str(change["target"])
        if act.startswith("ctx_"):
            found["keys"].append(target.partition("/")[2])
        elif act == "handoff_send":
            found["handoffs"].append(f"sent to {target}")
        elif act.startswith("handoff_"):
            found["handoffs"].append(f"{target.removeprefix('handoff ')} {change['after']}")
        elif act.startswith("memory_"):
            found["memory"].append(target.partition(":")[2])
        else:
            found["reports"].append("1")
    cells = {name: ", ".join(values) for name, values in found.items()}
    return {"session": str(row["session"]), "agent": str(row["agent"]), **cells}


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {what}" for what, count in counts.most_common()) or "none"


def look_further(stage: Stage, *, kept: bool) -> None:
    """The commands that a reader may try now."""
    if kept:
        output.line(f"\nLook further:  cd {stage.folder}, then")
    else:
        output.line(
            "\nThe same tree for yourself:  swarmd init swarm, cd swarm, swarmd serve, and in another terminal"
        )
    for command, about in (
        ("swarmd log --stat", "what has happened, with every change"),
        ("swarmd session show host", "the last session of host"),
        ("swarmd prompt host", "what the next session of host will be given"),
        ("swarmd memory blame host", "which session wrote which line of its memory"),
        ("swarmd why disk", "why disk ran, or did not"),
    ):
        output.line(f"  {command:26s} {about}")
