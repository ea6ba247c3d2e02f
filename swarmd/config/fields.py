"""The kinds of value that an agent file has beside plain text, numbers and lists: each reads and explains itself."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import AfterValidator, Field, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from swarmd.config.problems import expected_found, shown
from swarmd.core.cron import CronError, parse_cron
from swarmd.core.durations import DurationError, format_duration, parse_duration
from swarmd.core.names import agent_name_problem, key_name_problem
from swarmd.core.schedule import ScheduleError, ZoneError, every_schedule, parse_zone

REFUSAL = "swarmd"
"""The type of our own errors among pydantic's; their context holds `text`, `expected`, `hint`."""

DURATION_FORMAT = "duration-text"
"""Marks durations in the schema that pydantic makes; schema.py puts a pattern in its place."""

DAY = 86400.0
YEAR = 366 * DAY
DESCRIPTION_CHARACTERS = 1000


def refusal(text: str, *, expected: str | None = None, hint: str | None = None) -> PydanticCustomError:
    """An error that says just this."""
    return PydanticCustomError(REFUSAL, "refused", {"text": text, "expected": expected, "hint": hint})


@dataclass(frozen=True, slots=True)
class Seconds:
    """A duration as text (`90s`, `15m`, `PT15M`) between two bounds; becomes seconds."""

    least: float
    most: float

    def read(self, value: object) -> float:
        """The seconds of `value`."""
        expected = (
            f"a duration from {format_duration(self.least)} to {format_duration(self.most)}, such as '90s'"
        )
        if not isinstance(value, str):
            raise refusal(expected_found(expected, shown(value)), expected=expected, hint=_with_unit(value))
        try:
            seconds = parse_duration(value)
        except DurationError as error:
            raise refusal(str(error), expected=expected) from None
        if not self.least <= seconds <= self.most:
            raise refusal(expected_found(expected, shown(value)), expected=expected)
        return seconds

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Read by `read` alone: pydantic's own idea of a number plays no part."""
        return core_schema.no_info_plain_validator_function(self.read)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """A text, for editors."""
        return {"type": "string", "format": DURATION_FORMAT, "examples": ["90s", "15m", "2h", "1d", "PT15M"]}


def _with_unit(value: object) -> str | None:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**9:
        return f'did you mean "{value}s"?'
    return None


def _explained(check: Callable[[str], str | None]) -> Callable[[str], str]:
    """A validator out of a function that says what is wrong with a text."""

    def validate(value: str) -> str:
        text = check(value)
        if text is not None:
            raise refusal(text)
        return value

    return validate


@functools.lru_cache(maxsize=4096)  # a swarm has far fewer schedules than agents
def _cron_problem(text: str) -> str | None:
    if not text.strip():
        return f"expected five cron fields such as '0 * * * *', found {shown(text)}; without a schedule leave it out"
    try:
        parse_cron(text)
    except CronError as error:
        return f"{error} (in {shown(text)})"
    return None


def _every_problem(text: str) -> str | None:
    try:
        every_schedule(text)
    except (DurationError, ScheduleError) as error:
        return str(error).removeprefix("every: ")
    return None


@functools.lru_cache(maxsize=1024)
def zone_problem(name: str) -> str | None:
    """Why this names no time zone, with the one that may be meant."""
    try:
        parse_zone(name)
    except ZoneError as error:
        return str(error)
    return None


def _not_empty(text: str) -> str | None:
    return None if text.strip() else expected_found("text", shown(text))


def _parent_problem(name: str) -> str | None:
    if not name.strip():
        return "expected an agent's name, found ''; a root of the tree has no `parent` at all"
    return agent_name_problem(name)


def _path_problem(path: str) -> str | None:
    """Paths are made absolute before they come here; `~` is not, since no shell reads these files."""
    if path.startswith("/"):
        return None
    return expected_found("a path, absolute or from the file that names it (and no '~')", shown(path))


def _home_problem(home: str) -> str | None:
    return None if home == "private" else _path_problem(home)


def _glob_problem(glob: str) -> str | None:
    parts = glob.split("/")
    if not glob.strip() or glob.startswith("/") or ".." in parts:
        return expected_found(
            "a pattern of paths inside the memory folder, such as 'policies/**'", shown(glob)
        )
    return None


def _folder_name_problem(name: str) -> str | None:
    problem = agent_name_problem(name)
    return problem and problem.replace("an agent's name", "a shared folder's name")


def _key_glob_problem(glob: str) -> str | None:
    problem = key_name_problem(glob.replace("*", "x").replace("?", "x"))
    return problem and expected_found("a pattern of keys, such as 'deploy.*'", shown(glob))


CronText = Annotated[str, AfterValidator(_explained(_cron_problem)), Field(examples=["0 * * * *"])]
EveryText = Annotated[str, AfterValidator(_explained(_every_problem)), Field(examples=["15m"])]
ZoneName = Annotated[str, AfterValidator(_explained(zone_problem)), Field(examples=["Europe/Berlin"])]
Text = Annotated[str, AfterValidator(_explained(_not_empty)), Field(min_length=1)]
ParentName = Annotated[str, AfterValidator(_explained(_parent_problem))]
AgentName = Annotated[str, AfterValidator(_explained(agent_name_problem))]
KeyName = Annotated[str, AfterValidator(_explained(key_name_problem))]
FilePath = Annotated[str, AfterValidator(_explained(_path_problem))]
HomePath = Annotated[str, AfterValidator(_explained(_home_problem))]
MemoryGlob = Annotated[str, AfterValidator(_explained(_glob_problem))]
FolderName = Annotated[str, AfterValidator(_explained(_folder_name_problem))]
KeyGlob = Annotated[str, AfterValidator(_explained(_key_glob_problem))]
Description = Annotated[str, Field(max_length=DESCRIPTION_CHARACTERS)]
