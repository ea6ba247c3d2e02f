#!/usr/bin/env python3
"""The agent above the others: reads their keys, hands off work, collects replies, keeps notes. Standard library only.

It names none of the agents below: put another agent's file with `parent = "host"` into the folder, and it is part of
this. An agent is below its parent, and the parent may read its keys and hand it work; never the other way round.
"""

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

OWN = os.environ["SWARMD_AGENT"]
NOTES = Path(os.environ["SWARMD_MEMORY"], "MEMORY.md")
WORST = ("ok", "warn", "bad")
ENDED = ("completed", "declined", "expired", "cancelled")
KEPT_EVENTS = 20


def swarmd(*args: str, text: str | None = None) -> str:
    """Run one command of swarmd; a refusal ends this script, and with it the session."""
    return subprocess.run(["swarmd", *args], input=text, check=True, stdout=subprocess.PIPE, text=True).stdout


def items(*args: str) -> list[dict[str, Any]]:
    """What a reading command lists."""
    listed: list[dict[str, Any]] = json.loads(swarmd(*args, "--json"))["items"]
    return listed


def keys_of(agent: str) -> dict[str, str]:
    """An agent's keys: its own, or one's below it."""
    return {key["key"]: key["value"] for key in items("ctx", "list", "--agent", agent)}


def collect(waiting: list[int]) -> tuple[dict[str, str], list[int]]:
    """The first line of each reply that has come, by agent, and the handoffs that are still out."""
    replies: dict[str, str] = {}
    sent = {handoff["id"]: handoff for handoff in items("handoff", "list", "--from", OWN)}
    for number in list(waiting):
        handoff = sent.get(number)
        if handoff is None or handoff["status"] in ENDED:
            waiting.remove(number)
        if handoff is not None and handoff["status"] in ENDED:
            said = handoff["thread"][-1]["text"].strip() if handoff["thread"] else ""
            replies[handoff["receiver"]] = said.splitlines()[0][:100] if said else handoff["status"]
    return replies, waiting


def choose(below: list[str], states: dict[str, str], last: str) -> str:
    """Whom to ask now: the one that stands worst, and where all are well each in its turn."""
    worst = max(below, key=lambda name: WORST.index(states[name]))
    if states[worst] != "ok" and worst != last:
        return worst
    return next((name for name in below if name > last), below[0])


def ask(agent: str, state: str, summary: str) -> int:
    """Hand it off. With a dedupe key a second one changes nothing while the first is open, and gives its number."""
    text = f"Look closer, please, and reply with what you find. Your last summary was: {summary}"
    priority = "normal" if state == "ok" else "high"
    sent = swarmd("handoff", "send", "--to", agent, "--text", "-", "--priority", priority, "--dedupe", "closer",
                  "--json", text=text)  # fmt: skip
    return int(json.loads(sent)["id"])


def note(usual: dict[str, str], events: list[str]) -> None:
    """Memory: for each agent below the last reply, then what was different and when; both have a bound."""
    old = NOTES.read_text().splitlines() if NOTES.exists() else []
    known = dict(line[2:].split(": ", 1) for line in old if line.startswith("- "))
    known.update(usual)
    before = [line for line in old if line.startswith("* ")]
    stamp = time.strftime("%F %R")
    lines = ["# The last closer look at each", *(f"- {name}: {said}" for name, said in sorted(known.items()))]
    lines += ["", "# What changed, newest first", *(f"* {stamp} {event}" for event in events), *before]
    NOTES.write_text("\n".join(lines[: len(known) + 3 + KEPT_EVENTS]) + "\n")


def main() -> None:
    """Look down, collect, note, ask, say how it is."""
    own = keys_of(OWN)
    below = sorted(agent["name"] for agent in items("agent", "list") if agent["parent"] == OWN)
    if not below:
        swarmd("ctx", "set", "summary", "no agent is below this one yet")
        return
    keys = {name: keys_of(name) for name in below}
    # What those below write is data: a state that is none of ours is taken for a bad one, not believed.
    states = {name: found.get("state", "ok") for name, found in keys.items()}
    states = {name: state if state in WORST else "bad" for name, state in states.items()}

    replies, waiting = collect(json.loads(own.get("waiting_for", "[]")))
    before = json.loads(own.get("states", "{}"))
    events = [f"{name}: {before.get(name, 'new')} -> {state}" for name, state in states.items()
              if before.get(name) != state]  # fmt: skip
    if replies or events:
        note(replies, events)

    chosen = choose(below, states, own.get("asked_last", ""))
    number = ask(chosen, states[chosen], keys[chosen].get("summary", "none yet"))
    swarmd("ctx", "set", "asked_last", chosen)
    swarmd("ctx", "set", "waiting_for", json.dumps(sorted({*waiting, number})))
    swarmd("ctx", "set", "states", json.dumps(states, sort_keys=True))
    worst = max(states.values(), key=WORST.index)
    swarmd("ctx", "set", "summary", f"{len(below)} agents below, the worst is {worst}")
    # A root has no parent: its reports come to the operator, in `swarmd attention`. So only what needs a person.
    if worst == "bad" and own.get("states") != json.dumps(states, sort_keys=True):
        swarmd("report", "needs a person: " + ", ".join(name for name in below if states[name] == "bad"))


main()
