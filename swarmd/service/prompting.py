"""`swarmd prompt`: exactly what a session of that trigger and time would be given, for free."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from swarmd.core.adaptive import Pace
from swarmd.core.agent import Agent
from swarmd.core.consolidation import consolidating, problem_of
from swarmd.core.prompt import assemble
from swarmd.core.schedule import last_slot
from swarmd.core.sessions import CONSOLIDATE, TRIGGERS
from swarmd.core.snapshot import Prompt, Snapshot, Trigger
from swarmd.errors import BadInput, NotFound, Refused
from swarmd.service import rows
from swarmd.service.view import JSON, Args, View, moment, subject_of, text
from swarmd.session import consolidating as consolidating_session
from swarmd.session.instructions import standing
from swarmd.session.skills import skills_of, with_own
from swarmd.session.tokens import TokenCounter
from swarmd.store import adaptive
from swarmd.store.snapshots import snapshot

OF_A_SLOT = ("cron", "every", "at", "adaptive", "catch_up")
LOOK_BACK = timedelta(days=1500)
"""Far enough for a slot of 29 February."""


def prompt(view: View, args: Args) -> JSON:
    """The prompt as JSON: system, user, tokens, sections."""
    return assembled(view, args)[1].as_json()


def assembled(view: View, args: Args) -> tuple[Snapshot, Prompt]:
    """The snapshot and prompt that a call asks for."""
    name = view.agent(args)
    agent = definition(view, name, args)
    trigger = text(args, "trigger", required=False) or _usual(agent)
    if trigger not in TRIGGERS:
        raise BadInput(f"trigger: {trigger!r:.40} is none of {', '.join(TRIGGERS)}")
    at = moment(args, "at") or view.now
    if trigger == CONSOLIDATE:
        return _of_consolidation(view, agent, at)
    rule = agent.when.adaptive
    pace = adaptive.as_it_is(view.connection, {name: rule}, view.now).get(name) if rule is not None else None
    slot = _slot(agent, at, pace) if trigger in OF_A_SLOT else None
    reasons = (pace.reason,) if pace is not None and trigger == "adaptive" else ()
    skills = skills_of(agent, view.tree, str(view.places.state)).skills
    seen = snapshot(
        view.connection, agent, Trigger(kind=trigger, slot=slot, reasons=reasons), at, skills=skills,
        subject=_subject(view, name, args),
    )  # fmt: skip
    return seen, assemble(with_own(seen), _counter().count, standing=standing(agent, str(view.places.state)))


def _of_consolidation(view: View, agent: Agent, at: datetime) -> tuple[Snapshot, Prompt]:
    if problem := problem_of(agent):
        raise Refused(problem)
    sessions_dir = view.places.state / "sessions"
    trigger = Trigger(kind=CONSOLIDATE)
    seen = consolidating_session.snapshot(view.connection, consolidating(agent), trigger, at, sessions_dir)
    return seen, assemble(with_own(seen), _counter().count)


def _counter() -> TokenCounter:
    return TokenCounter(None, os.environ, lambda _warning: None)


def _subject(view: View, name: str, args: Args) -> str | None:
    """What the session would be about; a session asks for that of its own subject, and for no other."""
    wanted = subject_of(args)
    if wanted is None and name == view.actor.agent:
        return view.actor.subject
    if wanted is not None and (refusal := view.session_refusal({"agent": name, "subject": wanted})):
        raise Refused(refusal)
    return wanted


def _slot(agent: Agent, at: datetime, pace: Pace | None) -> datetime | None:
    """The slot that a session of the schedule which starts at that moment is for."""
    if pace is not None:
        return pace.next if pace.next <= at else None
    schedule = rows.schedule_of(agent)
    return None if schedule is None else last_slot(schedule, at - LOOK_BACK, at)


def _usual(agent: Agent) -> str:
    when = agent.when
    if when.cron is not None:
        return "cron"
    if when.adaptive is not None:
        return "adaptive"
    return "every" if when.every_seconds is not None else "at" if when.at is not None else "manual"


def definition(view: View, name: str, args: Mapping[str, Any]) -> Agent:
    """The definition in force, or that of the edited file which the call gives."""
    if args.get("file_text") is not None:
        if view.actor.agent is not None:
            # A file names others (system_prompt_file), which are read with the daemon's own rights.
            raise Refused("an edited agent file is the operator's to try out")
        path = text(args, "file_path", required=False) or None
        return from_file(view, name, text(args, "file_text"), path)
    agent = view.tree.agent(name)
    if agent is None:
        raise NotFound(f"the agent {name!r} is not in force; swarmd agent history {name} tells why")
    return agent


def from_file(view: View, name: str, file_text: str, path: str | None) -> Agent:
    """An edited file's definition. Raises BadInput with every problem of the file."""
    import time

    from swarmd.config.files import Guard
    from swarmd.config.settings import read_settings
    from swarmd.service.loading import edited, kinds, rules_of

    runner_kinds = kinds()
    settings = read_settings(view.places.config, kinds=runner_kinds, guard=Guard(uid=os.geteuid()),
                             now_ns=time.time_ns())  # fmt: skip
    return edited(view.places, name, file_text, path, rules_of(view.places, runner_kinds), settings)
