"""The moments of a cron text, for `swarmd next --cron`; no store and no agent is asked."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from zoneinfo import ZoneInfo

from swarmd.cli.invocation import Invocation
from swarmd.cli.params import parse_moment
from swarmd.core.cron import CronError
from swarmd.core.schedule import ScheduleError, cron_schedule, next_slot, parse_at
from swarmd.core.zones import ZoneError
from swarmd.errors import BadInput


def fires(text: str, zone: str | None, start: str, n: int, invocation: Invocation) -> list[str]:
    """The next `n` moments after `start`, ISO 8601 by the clocks of the zone. Raises BadInput for a bad argument."""
    try:
        schedule = cron_schedule(text, zone if zone is not None else _host_zone(invocation.environ))
    except CronError as error:
        raise BadInput(f"--cron {text[:100]!r}: {error}") from None
    except ZoneError as error:
        raise BadInput(f"--timezone: {error}") from None
    found: list[str] = []
    try:
        slot = next_slot(schedule, _start(start, schedule.zone, invocation.now()))
        while slot is not None and len(found) < n:
            found.append(slot.astimezone(schedule.zone).isoformat())
            slot = next_slot(schedule, slot)
    except OverflowError:
        pass  # the end of the calendar
    return found


def _start(text: str, zone: ZoneInfo, now: datetime) -> datetime:
    """A time without an offset is by the clocks of the zone that was asked about, not by the host's."""
    for form in (text, f"{text}T00:00"):
        try:
            return parse_at(form, zone)
        except ScheduleError:
            continue
    try:
        return parse_moment(text, now, ahead=True)
    except ValueError as error:
        raise BadInput(f"--from: {error}") from None


def _host_zone(environ: Mapping[str, str]) -> str:
    from swarmd.config.host_zone import host_zone

    return host_zone(environ)[0]
