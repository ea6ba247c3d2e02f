"""Instants and spans as prompts say them, in an agent's time zone; nothing here asks what time it is."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo

from swarmd.core.durations import format_duration
from swarmd.core.text import one_line
from swarmd.core.zones import ZoneError, parse_zone

# Named here, for strftime would ask the locale.
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
           "November", "December")  # fmt: skip


def spoken(instant: datetime, zone: str) -> str:
    """With weekday and zone: `Monday 30 November 2026, 00:30 +05:30 (Asia/Kolkata)`."""
    where, label = _zone(zone)
    local = instant.astimezone(where)
    day = f"{_DAYS[local.weekday()]} {local.day} {_MONTHS[local.month - 1]} {local.year}"
    return f"{day}, {local:%H:%M} {_offset(local)} ({label})"


def moment(instant: datetime, zone: str) -> str:
    """To the minute, with the offset in force: `2026-11-30 00:30 +05:30`."""
    local = instant.astimezone(_zone(zone)[0])
    return f"{local.year:04d}-{local:%m-%d %H:%M} {_offset(local)}"


def span(length: timedelta) -> str:
    """About how long, never negative: `3d`, `2h5m`, `4m`, `under 1m`."""
    seconds = max(length.total_seconds(), 0.0)
    if seconds < 60:
        return "under 1m"
    # Minutes no longer matter after two days.
    unit = 60 if seconds < 48 * 3600 else 3600
    return format_duration(seconds // unit * unit)


def _zone(name: str) -> tuple[tzinfo, str]:
    try:
        return parse_zone(name), name
    except ZoneError:  # the zone was there when the agent's file was read; a session is not the place to fail
        return UTC, f"UTC; the zone {one_line(name)[:64]} is not known here"


def _offset(local: datetime) -> str:
    minutes = round((local.utcoffset() or timedelta()).total_seconds() / 60)
    sign = "-" if minutes < 0 else "+"
    return f"{sign}{abs(minutes) // 60:02d}:{abs(minutes) % 60:02d}"
