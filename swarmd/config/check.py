"""Judges scanned files one by one and makes agents of them; how they stand to one another is load.py's question."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from swarmd.config.complaints import complaints, with_nul
from swarmd.config.document import Document
from swarmd.config.fields import zone_problem
from swarmd.config.kinds import Kinds
from swarmd.config.memory_table import spanning_memory
from swarmd.config.merge import SCHEDULES, merged, normal, without
from swarmd.config.model import AgentFile, ConsolidateTable, LimitsTable, MemoryTable
from swarmd.config.problems import Complaint, Path, Problem, shown
from swarmd.config.runner_table import capability_complaints, check_runner, measure_complaints
from swarmd.config.scan import FolderState, Scan, ScannedFile
from swarmd.config.settings import Defaults, Settings, prompt_text
from swarmd.config.skill_table import spanning_skills
from swarmd.core.agent import (
    Adaptive,
    Agent,
    Consolidate,
    Hooks,
    Limits,
    MemoryRules,
    Sandbox,
    SharedFolder,
    Success,
    When,
)
from swarmd.core.cron import CronError
from swarmd.core.names import agent_name_problem
from swarmd.core.schedule import ScheduleError, cron_schedule, every_schedule, parse_at, parse_zone

WriteProblems = Callable[[Sequence[str]], Sequence[str]]
"""Says which of these folders a session must never be able to write, a sentence each."""


def _none_forbidden(_paths: Sequence[str]) -> Sequence[str]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What files are judged by, beside their own text."""

    kinds: Kinds
    host_zone: str = "UTC"
    write_problems: WriteProblems = _none_forbidden
    sessions_write: tuple[str, ...] = ()
    """Folders of the daemon's own in which sessions have theirs: no skill of the operator's may stand there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCheck:
    """One file, judged by itself: the agent that it defines, or at least one error."""

    name: str
    document: Document
    agent: Agent | None
    sketch: Agent | None = None
    """Of a file with errors: what it would define without the fields that they are in, for `check` to look at."""
    parent: str | None = None
    """The parent that it names, also where the file has errors."""
    reads: tuple[str, ...] = ()
    """Whose memory it may read, also where the file has errors; what is no name is left empty."""
    problems: tuple[Problem, ...] = ()

    def located(self, complaint: Complaint) -> Problem:
        """A complaint about this file, with its line."""
        return self.document.located(complaint)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """All files of a folder, each judged by itself. `held` says why none of them may take force now."""

    folder: FolderState
    files: Mapping[str, FileCheck] = field(default_factory=dict)
    other_problems: tuple[Problem, ...] = ()
    """Those of swarmd.toml, and of files that name no agent."""
    held: str | None = None
    is_empty: bool = False
    """Whether the folder holds no file of ours at all, not even one with a wrong name."""

    @property
    def agents(self) -> dict[str, Agent]:
        """What the good files define, before their places in the tree are looked at."""
        return {name: file.agent for name, file in self.files.items() if file.agent is not None}

    @property
    def problems(self) -> tuple[Problem, ...]:
        """All that is wrong with the files, each taken by itself."""
        return (*self.other_problems, *(problem for file in self.files.values() for problem in file.problems))


class Cache:
    """What was judged before, so that only files which changed are judged again. One folder, one cache."""

    __slots__ = ("_by", "_checks")

    def __init__(self) -> None:
        self._by: tuple[Rules, Defaults | None] | None = None
        self._checks: dict[str, tuple[ScannedFile, FileCheck]] = {}

    def start(self, rules: Rules, defaults: Defaults | None) -> None:
        """Forget everything where the rules have changed."""
        if self._by is None or self._by[0] != rules or self._by[1] is not defaults:
            self._by = (rules, defaults)
            self._checks = {}

    def get(self, file: ScannedFile) -> FileCheck | None:
        """The judgement of this very text."""
        known = self._checks.get(file.name)
        return known[1] if known is not None and known[0].says_same_as(file) else None

    def keep(self, checks: Mapping[str, tuple[ScannedFile, FileCheck]]) -> None:
        """Remember these, and only these."""
        self._checks = dict(checks)


def check(scan: Scan, settings: Settings, rules: Rules, cache: Cache | None = None) -> Checked:
    """Every file of the scan, judged; all errors of all files in one pass."""
    cache = cache if cache is not None else Cache()
    cache.start(rules, settings.defaults)
    checks = {
        name: (file, cache.get(file) or check_file(file, settings.defaults, rules))
        for name, file in sorted(scan.files.items())
    }
    cache.keep(checks)
    held = None
    if settings.defaults is None:
        held = "the settings file has problems, and its [defaults] are part of every agent: nothing changes until then"
    return Checked(
        folder=scan.state,
        files={name: judged for name, (_, judged) in checks.items()},
        other_problems=(*settings.problems, *scan.strays),
        held=held,
        is_empty=not scan.files and not scan.strays,
    )


def check_file(file: ScannedFile, defaults: Defaults | None, rules: Rules) -> FileCheck:
    """One file. With unknown defaults what is missing is no error, and no agent comes of it."""
    document = file.document
    if document.problem is not None:
        return FileCheck(name=file.name, document=document, agent=None, problems=(document.problem,))
    laid_over = defaults if defaults is not None else Defaults()
    folder = str(file.read.path.parent.absolute())
    raw = merged(laid_over.raw, normal(document.data, folder))
    if raw.get("parent") == file.name and "parent" not in document.data:
        del raw["parent"]  # a parent for all by [defaults] is not its own
    model, found = complaints(AgentFile, raw)
    partial = defaults is None or "runner" in laid_over.unsound
    kind, options, runner_found = check_runner(raw.get("runner", {}), rules.kinds, partial=partial)
    found += runner_found if "runner" in raw else []
    found += measure_complaints(raw.get("limits"), kind, rules.kinds)
    found += capability_complaints(raw, kind, rules.kinds)
    found += _missing(raw, laid_over.unsound) if defaults is not None else []
    own_prompt = "system_prompt_file" in document.data
    prompt, complaint = laid_over.prompt, None
    if own_prompt:
        prompt, complaint = prompt_text(file.prompt, document.data["system_prompt_file"])
    found += [complaint] if complaint is not None else []
    found += _spanning(model, rules) if model is not None else []
    found = with_nul(found, raw)
    problems = tuple(sorted((located(one, document, laid_over) for one in found), key=_order))
    agent = sketch = None
    if any(problem.is_error for problem in problems):
        rest, more = complaints(AgentFile, without(raw, [complaint.path for complaint in found]))
        sketch = _agent(file.name, folder, rest, prompt, (kind, options), rules) if not more else None
    elif defaults is not None:
        agent = _agent(file.name, folder, model, prompt, (kind, options), rules)
    return FileCheck(
        name=file.name,
        document=document,
        agent=agent,
        sketch=sketch,
        parent=_name(raw.get("parent")) or None,
        reads=_reads(raw),
        problems=problems,
    )


def _name(value: object) -> str:
    return value if isinstance(value, str) and agent_name_problem(value) is None else ""


def _reads(raw: Mapping[str, Any]) -> tuple[str, ...]:
    memory = raw.get("memory")
    names = memory.get("reads") if isinstance(memory, Mapping) else None
    return tuple(_name(name) for name in names) if isinstance(names, list) else ()


def located(complaint: Complaint, document: Document, defaults: Defaults) -> Problem:
    """In the agent's file, unless only [defaults] holds what is wrong."""
    in_defaults = ("defaults", *complaint.path)
    if defaults.document.has(in_defaults) - 1 > document.has(complaint.path):
        return defaults.document.located(
            Complaint(path=in_defaults, text=complaint.text, hint=complaint.hint, severity=complaint.severity)
        )
    return document.located(complaint)


def _order(problem: Problem) -> tuple[str, int, str]:
    return (problem.file, problem.line or 0, problem.field or "")


def _missing(raw: Mapping[str, Any], unsound: frozenset[str]) -> list[Complaint]:
    """What an agent must have, and what it may have only once; what bad [defaults] may give is not asked for."""
    found = []
    prompts = [name for name in ("system_prompt", "system_prompt_file") if name in raw]
    if not prompts and not unsound & {"system_prompt", "system_prompt_file"}:
        found.append(
            Complaint(
                path=("system_prompt",), text="is missing (or `system_prompt_file`): every agent has one"
            )
        )
    if len(prompts) > 1:
        found.append(
            Complaint(path=("system_prompt_file",), text="only one of it and `system_prompt` may be there")
        )
    if "runner" not in raw and "runner" not in unsound:
        text = "is missing: a table with the runner's `kind` and its options"
        found.append(Complaint(path=("runner",), text=text))
    schedule = raw.get("schedule")
    if isinstance(schedule, Mapping):
        given = [name for name in schedule if name in SCHEDULES]
        found += [
            Complaint(
                path=("schedule", name),
                text=f"only one of cron, every, at and adaptive may be there, and {given[0]} is",
            )
            for name in given[1:]
        ]
    return found


def _spanning(model: AgentFile, rules: Rules) -> list[Complaint]:
    """What can be judged only from several fields, or with the host in view."""
    found = []
    schedule = model.schedule
    zone = schedule.timezone or rules.host_zone
    if zone_problem(zone) is None:
        if schedule.at is not None:
            text = _no_moment(schedule.at, zone)
            found += [Complaint(path=("schedule", "at"), text=text)] if text is not None else []
        if schedule.cron is not None:
            text = _never_in_zone(schedule.cron, zone)
            found += [Complaint(path=("schedule", "cron"), text=text)] if text is not None else []
        if model.consolidate.cron is not None:
            text = _never_in_zone(model.consolidate.cron, zone)
            found += [Complaint(path=("consolidate", "cron"), text=text)] if text is not None else []
    found += [*spanning_memory(model, rules.kinds), *spanning_skills(model, rules.sessions_write)]
    for index, path in enumerate(model.sandbox.write):
        found += _closed(("sandbox", "write", index), path, rules)
    if model.sandbox.home != "private":
        found += _closed(("sandbox", "home"), model.sandbox.home, rules)
    return found


def _closed(place: Path, path: str, rules: Rules) -> list[Complaint]:
    """What is wrong with a place to write that no session may have."""
    expected = "a place that has nothing to do with agent files, state and runtime"
    return [
        Complaint(path=place, text=text, found=shown(path), expected=expected)
        for text in rules.write_problems([path])
    ]


def _no_moment(at: str, zone: str) -> str | None:
    try:
        parse_at(at, parse_zone(zone))
    except ScheduleError as error:
        return str(error)
    return None


@functools.lru_cache(maxsize=4096)  # a swarm has far fewer schedules than agents
def _never_in_zone(cron: str, zone: str) -> str | None:
    """Why this schedule, right by itself, never comes in this zone."""
    try:
        cron_schedule(cron, zone)
    except CronError as error:
        return str(error)
    return None


def _agent(
    name: str,
    folder: str,
    model: AgentFile,
    prompt: str | None,
    runner: tuple[str, dict[str, Any]],
    rules: Rules,
) -> Agent:
    return Agent(
        name=name,
        description=model.description,
        parent=model.parent,
        enabled=model.enabled,
        system_prompt=model.system_prompt if model.system_prompt is not None else prompt or "",
        folder=folder,
        runner_kind=runner[0],
        runner_options=runner[1],
        when=_when(model, rules),
        sandbox=Sandbox(
            level=model.sandbox.level,
            write=tuple(model.sandbox.write),
            home=model.sandbox.home,
            network=model.sandbox.network,
        ),
        limits=_limits(model.limits),
        memory=_memory(model.memory),
        keys_scope=model.authority.keys,
        success=Success(keys_changed=tuple(model.success.keys_changed), command=tuple(model.success.command)),
        hooks=Hooks(
            before_commit=tuple(model.hooks.before_commit),
            after_commit=tuple(model.hooks.after_commit),
            timeout_seconds=model.hooks.timeout,
        ),
        consolidate=_consolidate(model.consolidate),
        approval_keys=tuple(model.authority.approval),
        approval_expires_seconds=model.authority.approval_expires,
        skills=tuple(model.skills),
    )


def _memory(memory: MemoryTable) -> MemoryRules:
    return MemoryRules(
        prompt_tokens=memory.prompt_tokens,
        read_only=tuple(memory.read_only),
        reads=tuple(memory.reads),
        persistent=memory.persistent,
        log=memory.log,
        compact_at=memory.compact_at,
        context_tokens=memory.context_tokens,
        summary_tokens=memory.summary_tokens,
        summarizer_model=memory.summarizer_model,
        summarizer_command=tuple(memory.summarizer_command),
        approval=tuple(memory.approval),
        shared=tuple(
            SharedFolder(name=folder.name, write=folder.write, approval=folder.approval)
            for folder in memory.shared
        ),
    )


def _consolidate(table: ConsolidateTable) -> Consolidate:
    return Consolidate(
        cron=table.cron,
        after_seconds=table.after,
        model=table.model,
        command=tuple(table.command),
        sessions=table.sessions,
        tokens_per_session=table.tokens_per_session,
        timeout_seconds=table.timeout,
    )


def _limits(limits: LimitsTable) -> Limits:
    return Limits(
        timeout_seconds=limits.timeout,
        retries=limits.retries,
        retry_delay_seconds=limits.retry_delay,
        tokens_per_session=limits.tokens_per_session,
        pause_after_failures=limits.pause_after_failures,
        handoffs_per_session=limits.handoffs_per_session,
        handoff_depth=limits.handoff_depth,
        sessions_per_cause=limits.sessions_per_cause,
    )


def _when(model: AgentFile, rules: Rules) -> When:
    schedule = model.schedule
    every = every_schedule(schedule.every).seconds if schedule.every is not None else None
    return When(
        cron=schedule.cron,
        every_seconds=every,
        at=schedule.at,
        adaptive=None
        if schedule.adaptive is None
        else Adaptive(
            min_seconds=schedule.adaptive.min,
            max_seconds=schedule.adaptive.max,
            work=tuple(schedule.adaptive.work),
        ),
        timezone=schedule.timezone or rules.host_zone,
        jitter_seconds=schedule.jitter,
        catch_up=schedule.catch_up,
        catch_up_max_age_seconds=schedule.catch_up_max_age,
        overlap=schedule.overlap,
    )
