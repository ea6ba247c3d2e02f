"""What a good agent file asks for and this machine does not have now: warnings, since it may come later.

It looks at the file system, so `check` and `doctor` ask it, and the daemon's look at the files every few seconds
does not.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from types import MappingProxyType

from swarmd.config.check import Checked, located
from swarmd.config.files import Guard
from swarmd.config.kinds import Kinds
from swarmd.config.problems import Complaint, Path, Problem, shown
from swarmd.config.settings import Defaults
from swarmd.config.skill_folders import SkillRules, written_by
from swarmd.config.skill_table import skill_warnings
from swarmd.core import summaries
from swarmd.core.agent import Agent, When
from swarmd.core.compaction import due_at, is_automatic, summarizer_of, summary_most
from swarmd.core.cron import CronError
from swarmd.core.durations import format_duration
from swarmd.core.memory import FIRST_FILE, matches
from swarmd.core.schedule import ScheduleError, cron_schedule, parse_at, parse_zone, slots_between

_LOOKED_AT = 50
_LOOKED_AHEAD = timedelta(days=400)


def warnings(
    checked: Checked,
    defaults: Defaults | None,
    environ: Mapping[str, str],
    now: datetime,
    kinds: Kinds = MappingProxyType({}),
    guard: Guard | None = None,
) -> list[Problem]:
    """What every file of the folder lacks, with its lines; of a bad one, what is seen beside its errors. `guard`: who
    may own what configures agents; None: this user.
    """
    agents = [agent for file in checked.files.values() if (agent := file.agent or file.sketch) is not None]
    skills = SkillRules(guard=guard or Guard(uid=os.geteuid()), writable=written_by(agents))
    found = [
        located(complaint, file.document, defaults or Defaults())
        for _, file in sorted(checked.files.items())
        for agent in (file.agent or file.sketch,)
        for complaint in (lacking(agent, environ, now, kinds, skills) if agent is not None else ())
        # A [defaults] for those that have a schedule is no mistake of one that has none.
        if complaint.path[0] != "schedule" or file.document.has(complaint.path) == len(complaint.path)
    ]
    return sorted(dict.fromkeys(found), key=lambda problem: (problem.file, problem.line or 0))


def lacking(
    agent: Agent,
    environ: Mapping[str, str],
    now: datetime,
    kinds: Kinds = MappingProxyType({}),
    skills: SkillRules | None = None,
) -> list[Complaint]:
    """All that would keep the agent's sessions from going well, or its schedule from meaning what it says.

    `environ` stands for the daemon's own environment: PATH, and what `pass_env` takes.
    """
    skills = skills or SkillRules(guard=Guard(uid=os.geteuid()), writable=written_by([agent]))
    return [
        *_of_runner(agent, environ, kinds),
        *_of_folders(agent),
        *_of_summarizer(agent, environ, kinds),
        *_of_window(agent),
        *_unasked(agent),
        *_of_schedule(agent.when, now),
        *skill_warnings(agent, skills),
    ]


def _of_runner(agent: Agent, environ: Mapping[str, str], kinds: Kinds) -> Iterator[Complaint]:
    known = kinds.get(agent.runner_kind)
    options = agent.runner_options if agent.runner_kind == "command" or known is not None else {}
    path = str((options.get("env") or {}).get("PATH") or environ.get("PATH") or os.defpath)
    checks: list[tuple[Path, Sequence[str]]] = [
        (("runner", "command", 0), options.get("command") or ()),
        (("runner", "program"), [options["program"]] if options.get("program") else ()),
        (("success", "command", 0), agent.success.command),
        (("hooks", "before_commit", 0), agent.hooks.before_commit),
        (("hooks", "after_commit", 0), agent.hooks.after_commit),
        (("memory", "summarizer_command", 0), agent.memory.summarizer_command),
        (("consolidate", "command", 0), agent.consolidate.command),
    ]
    for place, command in checks:
        problem = _program_problem(command[0], agent.folder, path) if command else None
        if problem is not None:
            yield _warning(place, problem, command[0])
        yield from _of_arguments(place, command, agent.folder, options.get("workdir"))
    workdir = options.get("workdir")
    if workdir is not None and not os.path.isdir(os.path.join(agent.folder, workdir)):
        yield _warning(("runner", "workdir"), _no_folder(os.path.join(agent.folder, workdir)), workdir)
    for index, name in enumerate(options.get("pass_env") or ()):
        if name not in environ:
            text = (
                f"{name} is not set here; the daemon's own environment must have it, or sessions go without"
            )
            yield _warning(("runner", "pass_env", index), text, name)
    if known is not None and known.lacks is not None and options:
        for place, text in known.lacks(options, agent.folder, environ):
            yield Complaint(path=("runner", *place), text=text, severity="warning")


def _of_summarizer(agent: Agent, environ: Mapping[str, str], kinds: Kinds) -> Iterator[Complaint]:
    """What a model that summarizes needs, where the agent is none itself (else its own table is looked at)."""
    summarizer = summarizer_of(agent, asked=False)
    if summarizer is None or summarizer.kind in ("command", agent.runner_kind):
        return
    known = kinds.get(summarizer.kind)
    if known is None or known.lacks is None:
        return
    options = known.options.model_validate(summarizer.options).model_dump()
    for _, text in known.lacks(options, agent.folder, environ):
        yield _warning(("memory", "summarizer_model"), f"no compaction can succeed: {text}", summarizer.name)


def _of_arguments(
    place: Path, command: Sequence[str], folder: str, workdir: str | None
) -> Iterator[Complaint]:
    """A script that is named as an argument and stands beside the agent file, where only programs are looked for."""
    for index, argument in enumerate(command[1:], 1):
        beside = os.path.join(folder, argument)
        is_script = (
            not argument.startswith(("-", "/")) and argument not in ("", ".", "..") and os.path.isfile(beside)
        )
        if is_script and not (workdir and os.path.exists(os.path.join(folder, workdir, argument))):
            text = (
                f"{argument} is beside the agent file, and the program is not started there: write the whole path, "
                f"or make it the program itself, './{argument}'"
            )
            yield _warning((*place[:-1], index), text, argument)


def _program_problem(name: str, folder: str, path: str) -> str | None:
    """Why this program cannot be started: a relative path starts at the agent file, a bare name is on PATH."""
    if "/" in name:
        place = os.path.normpath(os.path.join(folder, name))
        if not os.path.exists(place):
            return f"there is no program {place}"
        return None if _can_run(place) else f"{place} is not executable; see chmod +x"
    if name == "swarmd" or any(_can_run(os.path.join(part or ".", name)) for part in path.split(os.pathsep)):
        return None
    hint = f"; one beside the agent file is './{name}'" if os.path.exists(os.path.join(folder, name)) else ""
    return f"no program {name!r} is on PATH{hint}"


def _can_run(place: str) -> bool:
    return os.path.isfile(place) and os.access(place, os.X_OK)


def _of_folders(agent: Agent) -> Iterator[Complaint]:
    """The places to write: a session that cannot be given them does not start."""
    for index, path in enumerate(agent.sandbox.write):
        if not os.path.exists(path):
            yield _warning(("sandbox", "write", index), _no_folder(path), path)
    home = agent.sandbox.home
    if home != "private" and not os.path.isdir(home):
        yield _warning(("sandbox", "home"), _no_folder(home), home)


def _of_window(agent: Agent) -> Iterator[Complaint]:
    """A summarizer's window in which notes that are due have no room, neither at once nor in pieces."""
    rules = agent.memory
    if rules.context_tokens is None or summarizer_of(agent, asked=False) is None:
        return
    most = summary_most(rules)
    if problem := summaries.window_problem(
        window=rules.context_tokens, most=most, count=lambda text: len(text) // 4, notes=due_at(rules)
    ):
        yield _warning(
            ("memory", "context_tokens"), f"no compaction can succeed: {problem}", str(rules.context_tokens)
        )


def _unasked(agent: Agent) -> Iterator[Complaint]:
    """Rules that one may think hold for compactions too, where such come by themselves."""
    if not is_automatic(agent):
        return
    compacts = f"for compactions, by which swarmd itself puts a summary in the place of {FIRST_FILE}"
    if agent.hooks.before_commit:
        yield Complaint(path=("hooks", "before_commit"), text=f"is not run {compacts}", severity="warning")
    if matches(FIRST_FILE, agent.memory.approval):
        yield Complaint(path=("memory", "approval"), text=f"is not asked {compacts}", severity="warning")


def _no_folder(path: str) -> str:
    return f"{os.path.normpath(path)} does not exist; make it, or sessions fail"


def _of_schedule(when: When, now: datetime) -> Iterator[Complaint]:
    if when.text is None:
        given = {
            "jitter": when.jitter_seconds > 0,
            "catch_up": when.catch_up != "none",
            "overlap": when.overlap != "skip",
        }
        for name, is_given in given.items():
            if is_given:
                text = "means nothing without a schedule: none of cron, every, at and adaptive is there"
                yield Complaint(path=("schedule", name), text=text, severity="warning")
        return
    if when.at is not None and _is_past(when.at, when.timezone, now):
        yield _warning(("schedule", "at"), f"{when.at} is past: it comes no more", when.at)
    shortest = _interval(when, now)
    if shortest is not None and when.jitter_seconds > shortest:
        text = (
            f"{format_duration(when.jitter_seconds)} is longer than the {format_duration(shortest)} from one slot "
            "to the next: starts may lie behind later slots"
        )
        yield Complaint(path=("schedule", "jitter"), text=text, severity="warning")


def _is_past(at: str, zone: str, now: datetime) -> bool:
    try:
        return parse_at(at, parse_zone(zone)) <= now
    except ScheduleError:
        return False


def _interval(when: When, now: datetime) -> float | None:
    """The seconds between slots, the fewest that come soon; None where there is no second one."""
    if when.adaptive is not None:
        return when.adaptive.min_seconds
    if when.every_seconds is not None:
        return when.every_seconds
    if when.cron is None:
        return None
    try:
        schedule = cron_schedule(when.cron, when.timezone)
        slots = slots_between(schedule, now, now + _LOOKED_AHEAD, _LOOKED_AT)
    except (CronError, OverflowError):
        return None
    return min(((later - slot).total_seconds() for slot, later in pairwise(slots)), default=None)


def _warning(path: Path, text: str, found: str) -> Complaint:
    return Complaint(path=path, text=text, found=shown(found), severity="warning")
