"""An agent file as pydantic reads it: its tables, fields, bounds and defaults; what spans several is in check.py.

Nothing is required here, so that the same model checks `[defaults]`; check.py asks for what an agent must have.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from swarmd.config.fields import (
    DAY,
    YEAR,
    AgentName,
    CronText,
    Description,
    EveryText,
    FilePath,
    FolderName,
    HomePath,
    KeyGlob,
    KeyName,
    MemoryGlob,
    ParentName,
    Seconds,
    Text,
    ZoneName,
)

LATER = frozenset(
    {
        "wake",
        "gate",
        "limits.sessions_per_day",
        "limits.tokens_per_day",
        "limits.usd_per_day",
    }
)
"""Fields that people may have read about and that this version does not have: no other field is suggested for them."""

Count = Annotated[int, Field(ge=1, le=1_000_000_000)]


class Table(BaseModel):
    """A table of the file: no unknown fields, no values bent into shape."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class AdaptiveTable(Table):
    """A schedule that follows the work."""

    min: Annotated[float, Seconds(1, YEAR)] = Field(description="Between sessions while there is work")
    max: Annotated[float, Seconds(1, YEAR)] = Field(description="Between sessions at most")
    work: list[KeyName] = Field(
        default=[], description="Keys that say that there is work, while they say anything"
    )


class ScheduleTable(Table):
    """When the agent starts by itself: one of `cron`, `every`, `at` and `adaptive`, or none of them. A text alone is
    `cron`.
    """

    cron: CronText | None = Field(
        default=None, description="Five fields as in crontab(5), or @hourly, @daily ..."
    )
    every: EveryText | None = Field(default=None, description="An interval, counted from 1970-01-01T00:00Z")
    at: Text | None = Field(
        default=None, description="Once, as 2026-12-24T18:00, in `timezone` or with an offset"
    )
    adaptive: AdaptiveTable | None = Field(
        default=None, description="Sooner while there is work, later while there is none: min, max, work"
    )
    timezone: ZoneName | None = Field(default=None, description="The host's zone where it is left out")
    jitter: Annotated[float, Seconds(0, DAY)] = Field(
        default=0.0, description="Start up to this much later, by a share that is the agent's own"
    )
    catch_up: Literal["none", "last", "all"] = Field(
        default="none", description="What to run of missed slots"
    )
    catch_up_max_age: Annotated[float, Seconds(1, YEAR)] = Field(
        default=DAY, description="Missed slots older than this are not caught up"
    )
    overlap: Literal["skip", "queue", "cancel_running"] = Field(
        default="skip", description="What becomes of a slot that is due while the agent runs"
    )


class SharedTable(Table):
    """A folder of notes that several agents have."""

    name: FolderName = Field(description="Its name; every agent that lists it has the same folder")
    write: bool = Field(default=False, description="Whether this agent's sessions may write there")
    approval: bool = Field(default=False, description="What they write waits for an operator's yes")


class SandboxTable(Table):
    """What the agent's programs may reach."""

    level: Literal["auto", "landlock", "none"] = Field(
        default="auto", description="auto: landlock where the kernel has it"
    )
    write: list[FilePath] = Field(
        default=[],
        description="Folders it may write beside its memory copy, its home and a private temp folder",
    )
    home: HomePath = Field(default="private", description="private (one per agent, under state), or a path")
    network: bool = Field(default=True, description="Whether it may use the network")


class LimitsTable(Table):
    """Bounds of a session, and what happens after a failed one."""

    timeout: Annotated[float, Seconds(1, 30 * DAY)] = Field(
        default=3600.0, description="A session may take this long"
    )
    retries: int = Field(default=0, ge=0, le=100, description="How often a slot is tried again")
    retry_delay: Annotated[float, Seconds(0, 7 * DAY)] = Field(
        default=60.0, description="Wait before the first retry; doubles, with jitter"
    )
    tokens_per_session: Count | None = Field(
        default=None,
        description="Input, output, cache writes and a tenth of cache reads; where the runner measures them",
    )
    pause_after_failures: Count = Field(
        default=10, description="The agent is paused after so many failures in a row"
    )
    handoffs_per_session: int = Field(
        default=20, ge=0, le=100_000, description="Handoffs that a session may send"
    )
    handoff_depth: Count = Field(default=8, description="How long a chain of handoffs may become")
    sessions_per_cause: Count = Field(default=50, description="Sessions that one cause may start in all")


class MemoryTable(Table):
    """The agent's notes."""

    prompt_tokens: Count = Field(default=4000, description="Tokens of the prompt that memory may take")
    read_only: list[MemoryGlob] = Field(
        default=[], description="Patterns of files that sessions may not change"
    )
    reads: list[AgentName] = Field(
        default=[], description="Other agents' memory that it may read, never write"
    )
    persistent: bool = Field(default=True, description="false: nothing is kept from one session to the next")
    log: bool = Field(
        default=False, description="Every turn of a session is kept in MEMORY.md, below `## Interaction Log`"
    )
    compact_at: float = Field(
        default=0.9, gt=0, le=1, description="MEMORY.md is summarized when it reaches this part of its room"
    )
    context_tokens: Count | None = Field(
        default=None,
        description="The summarizer's window: a longer memory is summarized in pieces. Where it is smaller than "
        "prompt_tokens it is the memory's room too",
    )
    summary_tokens: Count | None = Field(
        default=None,
        description="The most that a summary may have; half of the memory's room where it is left out",
    )
    summarizer_model: Text | None = Field(default=None, description="The model that summarizes the memory")
    summarizer_command: list[Text] = Field(
        default=[], description="A program that does it: it is given the text, and prints the summary"
    )
    approval: list[MemoryGlob] = Field(
        default=[], description="Patterns of files whose changes by sessions wait for an operator's yes"
    )
    shared: list[SharedTable] = Field(
        default=[], description="Folders of notes that it shares with other agents"
    )


class AuthorityTable(Table):
    """How far down the tree the agent's authority reaches."""

    keys: Literal["own", "below"] = Field(default="below", description="Whose keys it may set")
    approval: list[KeyGlob] = Field(
        default=[], description="Patterns of keys whose change by its sessions waits for an operator's yes"
    )
    approval_expires: Annotated[float, Seconds(60, YEAR)] = Field(
        default=7 * DAY, description="What waits for a yes is given up after this long"
    )


class SuccessTable(Table):
    """What must hold before a session's commit; else its outcome is failed."""

    keys_changed: list[KeyName] = Field(
        default=[], description="Keys that must have got another value by the session"
    )
    command: list[Text] = Field(default=[], description="A program and its arguments that must exit with 0")


class HooksTable(Table):
    """Programs that look at a session's change set, as JSON on standard input; not at a compaction's."""

    before_commit: list[Text] = Field(
        default=[],
        description="Run before each commit but a compaction's: another exit status than 0 refuses it",
    )
    after_commit: list[Text] = Field(default=[], description="Run after each commit but a compaction's")
    timeout: Annotated[float, Seconds(1, DAY)] = Field(default=60.0, description="How long one may take")


class ConsolidateTable(Table):
    """Putting the memory in order: a session that reads recent transcripts and rewrites the memory, nothing else."""

    cron: CronText | None = Field(default=None, description="When, as `schedule`")
    after: Annotated[float, Seconds(1, YEAR)] | None = Field(
        default=None, description="After this long without a session of the agent"
    )
    model: Text | None = Field(default=None, description="The model; left out: that of the agent's runner")
    command: list[Text] = Field(
        default=[], description="A program in the runner's place, for agents whose runner is a command"
    )
    sessions: int = Field(default=20, ge=1, le=1000, description="How many sessions it looks back at most")
    tokens_per_session: Count | None = Field(
        default=None, description="Its budget; left out: that of `limits`"
    )
    timeout: Annotated[float, Seconds(1, DAY)] = Field(default=1800.0, description="How long it may take")


class AgentFile(Table):
    """One agent of the swarm: `agents.d/NAME.toml`."""

    description: Description = Field(default="", description="One line for listings and for the agent above")
    parent: ParentName | None = Field(
        default=None, description="The agent above; without one it is a root of the tree"
    )
    enabled: bool = Field(
        default=True, description="false: it starts nothing by itself; place and rights stay"
    )
    system_prompt: Text | None = Field(
        default=None, description="What the model is told before everything else"
    )
    system_prompt_file: Text | None = Field(
        default=None, description="A file with the system prompt, from this file's folder"
    )
    schedule: ScheduleTable = ScheduleTable()
    runner: dict[str, Any] = Field(default={})
    sandbox: SandboxTable = SandboxTable()
    limits: LimitsTable = LimitsTable()
    memory: MemoryTable = MemoryTable()
    authority: AuthorityTable = AuthorityTable()
    success: SuccessTable = SuccessTable()
    hooks: HooksTable = HooksTable()
    consolidate: ConsolidateTable = ConsolidateTable()
    skills: list[FilePath] = Field(
        default=[], description="Folders with skills: a SKILL.md each, in itself or in folders below it"
    )


TABLES: dict[str, type[Table]] = {
    "schedule": ScheduleTable,
    "sandbox": SandboxTable,
    "limits": LimitsTable,
    "memory": MemoryTable,
    "authority": AuthorityTable,
    "success": SuccessTable,
    "hooks": HooksTable,
    "consolidate": ConsolidateTable,
}


def fields_at(model: type[BaseModel], path: Iterable[str | int]) -> frozenset[str]:
    """The names that a table may hold, where `model` describes the table that `path` starts from."""
    for part in path:
        inner = model.model_fields[str(part)].annotation if part in model.model_fields else None
        if not (isinstance(inner, type) and issubclass(inner, BaseModel)):
            return frozenset()
        model = inner
    return frozenset(model.model_fields)
