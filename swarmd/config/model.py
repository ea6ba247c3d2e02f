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
    HomePath,
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


class ScheduleTable(Table):
    """When the agent starts by itself: one of `cron`, `every` and `at`, or none of them. A text alone is `cron`."""

    cron: CronText | None = Field(
        default=None, description="Five fields as in crontab(5), or @hourly, @daily ..."
    )
    every: EveryText | None = Field(default=None, description="An interval, counted from 1970-01-01T00:00Z")
    at: Text | None = Field(
        default=None, description="Once, as 2026-12-24T18:00, in `timezone` or with an offset"
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


class AuthorityTable(Table):
    """How far down the tree the agent's authority reaches."""

    keys: Literal["own", "below"] = Field(default="below", description="Whose keys it may set")


class SuccessTable(Table):
    """What must hold before a session's commit; else its outcome is failed."""

    keys_changed: list[KeyName] = Field(
        default=[], description="Keys that must have got another value by the session"
    )
    command: list[Text] = Field(default=[], description="A program and its arguments that must exit with 0")


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


TABLES: dict[str, type[Table]] = {
    "schedule": ScheduleTable,
    "sandbox": SandboxTable,
    "limits": LimitsTable,
    "memory": MemoryTable,
    "authority": AuthorityTable,
    "success": SuccessTable,
}


def fields_at(model: type[BaseModel], path: Iterable[str | int]) -> frozenset[str]:
    """The names that a table may hold, where `model` describes the table that `path` starts from."""
    for part in path:
        inner = model.model_fields[str(part)].annotation if part in model.model_fields else None
        if not (isinstance(inner, type) and issubclass(inner, BaseModel)):
            return frozenset()
        model = inner
    return frozenset(model.model_fields)
