"""What commands take: texts (`-` is standard input), agents, sessions, moments, and the options of lists."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NoReturn, TypeVar

import click

from swarmd.cli.invocation import Invocation
from swarmd.core.durations import DurationError, parse_duration
from swarmd.core.instants import from_text, to_text
from swarmd.core.names import agent_name_problem
from swarmd.core.owners import owner_problem, subject_problem
from swarmd.core.searching import place_of
from swarmd.errors import BadInput, NotFound

F = TypeVar("F", bound=Callable[..., Any])

INPUT_BYTES = 16 * 1024 * 1024
"""More than this is taken from no standard input: it is the most that a whole memory folder may hold."""
FILE_BYTES = 1024 * 1024
"""And no more from a file that is named."""

_SPAN = re.compile(r"([0-9]{1,9}) ?(second|sec|minute|min|hour|day|week)s?")
_UNITS = {"second": 1, "sec": 1, "minute": 60, "min": 60, "hour": 3600, "day": 86400, "week": 604800}
_CLOCK = re.compile(r"[0-2][0-9]:[0-5][0-9](:[0-5][0-9])?")
_DAYS = {"today": 0, "yesterday": -1, "tomorrow": 1}


def read_text(value: str, noun: str, *, may_be_empty: bool = False) -> str:
    """The text itself, or for `-` what standard input holds. Raises BadInput where it is empty or no text."""
    text = read_standard_input() if value == "-" else value
    if not may_be_empty and not text.strip():
        raise BadInput(f"{noun} may not be empty")
    return text


def text_for(
    invocation: Invocation, agent: str | None, value: str, noun: str, *, may_be_empty: bool = False
) -> str:
    """As `read_text`, for an agent or another folder's owner: of one that is not there it is told before all that may
    be wrong with standard input.
    """
    with invocation.agent_first(agent if value == "-" else None):
        return read_text(value, noun, may_be_empty=may_be_empty)


def read_standard_input() -> str:
    """All of standard input, as UTF-8 text, byte for byte."""
    if sys.stdin is None:
        raise BadInput("standard input is closed; '-' reads the text from there")
    data = sys.stdin.buffer.read(INPUT_BYTES + 1)
    if len(data) > INPUT_BYTES:
        raise BadInput(f"standard input holds more than {INPUT_BYTES} bytes")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadInput(
            f"standard input is not UTF-8: byte {error.start + 1} is {data[error.start]:#04x}"
        ) from None


def read_file(name: str) -> str:
    """A file's text, for those who may not be able to read it themselves. Raises NotFound, BadInput."""
    try:
        with open(name, "rb") as opened:
            data = opened.read(FILE_BYTES + 1)
        text = data.decode("utf-8")
    except FileNotFoundError:
        raise NotFound(f"{name}: there is no such file") from None
    except OSError as error:
        raise BadInput(f"{name}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise BadInput(f"{name}: is not UTF-8 (byte {error.start + 1})") from None
    if len(data) > FILE_BYTES:
        raise BadInput(f"{name}: is larger than {FILE_BYTES} bytes")
    return text


class Text(click.ParamType[str]):
    """A text, or `-` for standard input."""

    name = "text"

    def __init__(self, noun: str, *, may_be_empty: bool = False) -> None:
        """`noun` is how an error names the text, as `a handoff`."""
        self.noun = noun
        self.may_be_empty = may_be_empty

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Read it."""
        return read_text(value, self.noun, may_be_empty=self.may_be_empty)


class AgentName(click.ParamType[str]):
    """An agent's name, checked as one in a file is; `also` are words that mean something here."""

    name = "agent"

    def __init__(self, *also: str) -> None:
        """`also`: as `all`, `children`, `operator`."""
        self.also = also

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Check it."""
        problem = None if value in self.also else agent_name_problem(value)
        if problem is not None and "@" in value and owner_problem(str(value)) is None:
            kind = "a shared folder" if value.startswith("@") else "a folder about a subject"
            problem = f"{value} is {kind}, and an agent is expected here"
        if problem is not None:
            self.fail(problem, param, ctx)
        return str(value)


AGENT = AgentName()


class Checked(click.ParamType[str]):
    """A name that a rule of core judges."""

    def __init__(self, name: str, problem_of: Callable[[str], str | None]) -> None:
        """`problem_of` is the rule: why it is none."""
        self.name = name
        self._problem_of = problem_of

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Check it."""
        problem = self._problem_of(str(value))
        if problem is not None:
            self.fail(problem, param, ctx)
        return str(value)


OWNER = Checked("owner", owner_problem)
"""Whose folder of notes: AGENT, `@NAME` (a shared one), AGENT@SUBJECT."""
SUBJECT = Checked("subject", subject_problem)
"""What a session is about."""


class Number(click.IntRange):
    """A whole number from 1 on, refused with what it should name and where such numbers are to be found."""

    def __init__(self, noun: str, most: int, hint: str = "") -> None:
        """`noun` as `handoff`; `hint` says where to find one."""
        super().__init__(1, most)
        self.noun = noun
        self.hint = hint

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Read it."""
        text = str(value)
        number = int(text) if text.isascii() and text.isdigit() and len(text) < 20 else 0
        if not 1 <= number <= (self.max or 0):
            bound = f" to {self.max}" if self.max is not None and self.max <= 1_000_000 else ""
            wanted = f"a whole number from 1{bound or ' on'} is expected"
            hint = f", {self.hint}" if self.hint else ""
            self.fail(f"{text[:40]!r} is no {self.noun}: {wanted}{hint}", param, ctx)
        return number


HANDOFF = Number("handoff", 2**62 - 1, "`swarmd handoff list` shows them")
COUNT = Number("count", 100_000)


class Moment(click.ParamType[str]):
    """A moment, given to calls as UTC; `ahead` says whether a bare `2h` lies ahead or behind."""

    name = "time"

    def __init__(self, *, ahead: bool) -> None:
        """Which way a bare duration goes."""
        self.ahead = ahead

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Read it by the clock of the one who typed it."""
        now = now_of(ctx)
        try:
            return to_text(parse_moment(value, now, ahead=self.ahead))
        except ValueError as error:
            self.fail(str(error), param, ctx)


SINCE = Moment(ahead=False)
DUE = Moment(ahead=True)


class Onward(Moment):
    """A moment, or the `next` of a search's answer, which is no moment alone."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """As it came, where a search has said it."""
        return str(value) if place_of(value) is not None else super().convert(value, param, ctx)


class SessionName(click.ParamType[str]):
    """A session: ID, AGENT (its last) or AGENT@TIME; the service finds it.

    It takes a time without an offset by the agent's own zone, so only words such as `yesterday` become UTC here.
    """

    name = "session"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Check its form."""
        agent, at, moment = str(value).partition("@")
        if not agent.isascii() or not agent.isdigit():
            AGENT.convert(agent, param, ctx)
        if not at:
            return agent
        return f"{agent}@{moment if _is_iso(moment) else SINCE.convert(moment, param, ctx)}"


SESSION = SessionName()


def now_of(ctx: click.Context | None) -> datetime:
    """The invocation's clock."""
    invocation = ctx.find_object(Invocation) if ctx is not None else None
    return (invocation or Invocation()).now()


def parse_moment(text: str, now: datetime, *, ahead: bool) -> datetime:
    """The instant that a person means. Raises ValueError with what to write.

    `now`, `today`, `yesterday`, `tomorrow` (at midnight), `09:30` (today), a date, ISO 8601 with or without offset,
    `2h`, `3 days`, `3 days ago`, `in 2h`. What has no offset is by the zone of the host.
    """
    words = " ".join(text.split()).lower()
    wall = now.astimezone().replace(tzinfo=None)
    if words == "now":
        return now
    if words in _DAYS:
        return (
            wall.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=_DAYS[words])
        ).astimezone()
    if _CLOCK.fullmatch(words):
        return _iso(f"{wall.date().isoformat()}T{words}", text)
    span = words.removesuffix(" ago").removeprefix("in ")
    seconds = _seconds(span)
    if seconds is not None:
        forward = words.startswith("in ") or (ahead and not words.endswith(" ago"))
        try:
            return now + timedelta(seconds=seconds if forward else -seconds)
        except OverflowError:
            raise ValueError(f"{text[:40]!r} is too far away") from None
    return _iso(text.strip(), text)


def _seconds(span: str) -> float | None:
    found = _SPAN.fullmatch(span)
    if found is not None:
        return float(int(found[1]) * _UNITS[found[2]])
    try:
        return parse_duration(span)
    except DurationError:
        return None


def _is_iso(text: str) -> bool:
    try:
        from_text(text)
    except ValueError:
        return False
    return True


def _iso(text: str, typed: str) -> datetime:
    try:
        return from_text(text).astimezone()
    except (ValueError, OverflowError):
        raise ValueError(
            f"{typed[:40]!r} is no time; write it as 2026-12-24T18:00, 2026-12-24, 18:00, yesterday, 2h or '3 days ago'"
        ) from None


_since = click.option(
    "--since", type=SINCE, metavar="TIME", help="None before this moment, as yesterday or 2h."
)


def list_options(function: F) -> F:
    """`--since`, `--until` and `-n`, as every list takes them."""
    for option in (
        click.option("-n", "n", type=COUNT, metavar="N", help="At most so many, the newest."),
        click.option("--until", type=SINCE, metavar="TIME", help="None after this moment."),
        _since,
    ):
        function = option(function)
    return function


def search_options(function: F) -> F:
    """The same of a search."""
    for option in (
        click.option("-n", "n", type=COUNT, metavar="N", help="At most so many, the best."),
        click.option("--until", type=Onward(ahead=False), metavar="TIME|NEXT",
                     help="None after this moment; or what an answer's `next` says: what it did not show."),
        _since,
    ):  # fmt: skip
        function = option(function)
    return function


def narrowed(document: Mapping[str, Any], field: str, bounds: Mapping[str, Any]) -> Mapping[str, Any]:
    """A short list, that its call gives whole, cut by the list options here; `field` is its time."""
    rows = list(document.get("items") or [])
    since, until, most = bounds.get("since"), bounds.get("until"), bounds.get("n")
    if since is not None or until is not None:
        low, high = since or "", until or "9999"
        rows = [row for row in rows if row.get(field) and low <= _comparable(row[field]) < high]
    return {**document, "items": rows[:most]}


def _comparable(instant: str) -> str:
    return to_text(from_text(instant))


def split_agent(
    invocation: Invocation,
    agent: str | None,
    words: Sequence[str],
    wanted: Sequence[str],
    *,
    optional: int = 0,
    kind: click.ParamType[str] = AGENT,
) -> tuple[str | None, list[str]]:
    """AGENT and the words after it. In a session, and with `--agent`, AGENT is left out and means that one. `kind`:
    what AGENT may be.
    """
    own = invocation.in_session or agent is not None
    names = list(wanted) if own else ["AGENT", *wanted]
    if len(words) < len(names) - optional:
        usage(f"missing argument {names[len(words)]}")
    if len(words) > len(names):
        if invocation.in_session:
            invocation.must_speak()  # first of all: whoever is no session's program is not told how one would write it
        hint = "; inside a session AGENT is left out (--agent names another)" if invocation.in_session else ""
        expected = (
            f"{' '.join(names)} is expected, a text in quotes"
            if names
            else "nothing is expected after the command"
        )
        usage(f"unexpected argument {words[len(names)]!r}: {expected}{hint}")
    if own:
        return agent, list(words)
    return kind.convert(words[0], None, click.get_current_context()), list(words[1:])


def usage(message: str) -> NoReturn:
    """Raise the error of a wrong use of the present command."""
    raise click.UsageError(message, ctx=click.get_current_context())


def agent_option(function: F) -> F:
    """`--agent`, whose keys it is, in place of the first argument."""
    return click.option(
        "--agent", type=AGENT, metavar="AGENT", help="Whose; in a session left out for its own."
    )(function)


def owner_option(function: F) -> F:
    """`--agent`, whose memory it is, in place of the first argument."""
    return click.option(
        "--agent", type=OWNER, metavar="AGENT",
        help="Whose: AGENT, @NAME (a shared folder), AGENT@SUBJECT; in a session left out for its own.",
    )(function)  # fmt: skip
