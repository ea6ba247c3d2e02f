"""Time zones: names, offsets at an instant, wall time to instant; never which zone the host is in."""

import difflib
import functools
import re
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, available_timezones

# A name of the tz database: no leading slash or dot, no "..", nothing that could leave its folder.
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(?:/[A-Za-z0-9][A-Za-z0-9_+-]*){0,2}")
# Files that lie among the zones and are none: a link to the host's zone, a template, a placeholder, and the
# copies with and without leap seconds ("right" is half a minute away from every clock on the host).
_NOT_ZONES = frozenset({"localtime", "posixrules", "Factory"})
_NOT_FOLDERS = frozenset({"right", "posix"})

_SECOND = timedelta(seconds=1)
_SHOWN = 60


class ZoneError(ValueError):
    """No such time zone; the sentence says which name is meant, where that can be guessed."""


def parse_zone(name: str) -> ZoneInfo:
    """The zone of the tz database with exactly this name (`Europe/Berlin`, `UTC`)."""
    if not name.strip():
        raise ZoneError("the time zone is empty; write a name such as Europe/Berlin or UTC")
    if not _NAME.fullmatch(name) or name in _NOT_ZONES or name.partition("/")[0] in _NOT_FOLDERS:
        raise ZoneError(_unknown(name))
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # it opens a folder ("Europe") or a table as if it were a zone
        raise ZoneError(_unknown(name)) from None


def offset_at(zone: ZoneInfo, utc: datetime) -> timedelta:
    """How far the clocks of the zone stand ahead of `utc`, which is given without a zone."""
    return zone.fromutc(utc.replace(tzinfo=zone)).replace(tzinfo=None, fold=0) - utc


def first_change(zone: ZoneInfo, start: datetime, stop: datetime) -> datetime | None:
    """The instant in (start, stop] at which the offset changes, in whole seconds; all in UTC without a zone.

    Two changes that undo each other within the span stay unseen: callers ask for a week at most, and no zone
    of the tz database has changed back within one since 1970.
    """
    offset = offset_at(zone, start)
    if offset_at(zone, stop) == offset:
        return None
    start = start.replace(microsecond=0)  # changes happen on whole seconds
    before, after = 0, -((start - stop) // _SECOND)
    while after - before > 1:
        middle = (before + after) // 2
        if offset_at(zone, start + middle * _SECOND) == offset:
            before = middle
        else:
            after = middle
    return start + after * _SECOND


def instant_of(wall: datetime, zone: ZoneInfo) -> datetime:
    """The instant (UTC) at which the clocks of the zone show `wall`, which is given without a zone.

    As with a fixed time of cron: a time that comes twice is the first of the two, and a time that the clocks
    leave out is the first moment after the gap.
    """
    first, second = (wall - _offset_of(wall, zone, fold) for fold in (0, 1))
    if first + offset_at(zone, first) == wall:
        return first.replace(tzinfo=UTC)
    # In a gap fold 0 is the offset from before it, which leads to an instant after it; fold 1 the reverse.
    change = first_change(zone, second, first)
    return (first if change is None else change).replace(tzinfo=UTC)


def show_instant(instant: datetime, zone: ZoneInfo) -> str:
    """Weekday, local time, offset and the zone in force: `Mon 2026-11-30 09:00:00+01:00 Europe/Berlin`."""
    local = instant.astimezone(zone)
    day = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")[local.weekday()]  # strftime would ask the locale
    return f"{day} {local.isoformat(sep=' ', timespec='seconds')} {zone.key}"


def _offset_of(wall: datetime, zone: ZoneInfo, fold: int) -> timedelta:
    return wall.replace(tzinfo=zone, fold=fold).utcoffset() or timedelta()


@functools.cache
def _known() -> dict[str, str]:
    """Each name by its small letters. This reads the folder of zones, so only a refusal asks for it."""
    return {name.lower(): name for name in sorted(available_timezones()) if name not in _NOT_ZONES}


def _unknown(name: str) -> str:
    shown = repr(name) if len(name) <= _SHOWN else f"{name[:_SHOWN]!r}..."
    wanted = name[:_SHOWN].lower().replace(" ", "_")
    known = _known()
    cities = [full for low, full in known.items() if low.rsplit("/", 1)[-1] == wanted.rsplit("/", 1)[-1]]
    near = [known[low] for low in difflib.get_close_matches(wanted, known, n=1)]
    guess = [known[wanted]] if wanted in known else cities or near
    hint = f" (did you mean {guess[0]}?)" if guess else "; write a name such as Europe/Berlin or UTC"
    return f"no time zone is named {shown}{hint}"
