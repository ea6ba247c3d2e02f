"""The moments of a cron text, for `swarmd next --cron`; no store and no agent is asked."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from swarmd.core.cron import CronError
from swarmd.core.schedule import cron_schedule, next_slot
from swarmd.core.zones import ZoneError
from swarmd.errors import BadInput


def fires(text: str, zone: str | None, after: str, n: int, environ: Mapping[str, str]) -> list[str]:
    """The next `n` moments, ISO 8601 by the clocks of the zone. Raises BadInput for a bad text or zone."""
    try:
        schedule = cron_schedule(text, zone if zone is not None else _host_zone(environ))
    except CronError as error:
        raise BadInput(f"--cron {text[:100]!r}: {error}") from None
    except ZoneError as error:
        raise BadInput(f"--timezone: {error}") from None
    found: list[str] = []
    slot = next_slot(schedule, datetime.fromisoformat(after))
    while slot is not None and len(found) < n:
        found.append(slot.astimezone(schedule.zone).isoformat())
        slot = next_slot(schedule, slot)
    return found


def _host_zone(environ: Mapping[str, str]) -> str:
    from swarmd.config.host_zone import host_zone

    return host_zone(environ)[0]
