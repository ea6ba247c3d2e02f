"""Finds the name of the host's time zone, as cron has it: TZ, else /etc/localtime, else /etc/timezone, else UTC."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from swarmd.core.zones import ZoneError, parse_zone

_ZONES = "/zoneinfo/"
_MOST_BYTES = 200


def host_zone(environ: Mapping[str, str], root: Path = Path("/")) -> tuple[str, str | None]:
    """The zone's name, and a sentence where it could only be guessed. `root` is where the host's files are."""
    given = environ.get("TZ", "").removeprefix(":").strip()
    if given:
        name = given.rpartition(_ZONES)[2]
        if _is_zone(name):
            return name, None
        return (
            "UTC",
            f"TZ={given!r} names no time zone of the tz database: agents without a `timezone` run in UTC",
        )
    for found in (_linked(root / "etc/localtime"), _written(root / "etc/timezone")):
        if found is not None and _is_zone(found):
            return found, None
    if not (root / "etc/localtime").exists():
        return "UTC", None  # libc takes a host without it to be in UTC
    return (
        "UTC",
        "the host's time zone has no name (/etc/localtime is no link): agents without a `timezone` run in UTC",
    )


def _is_zone(name: str) -> bool:
    try:
        parse_zone(name)
    except ZoneError:
        return False
    return True


def _linked(path: Path) -> str | None:
    try:
        target = os.readlink(path)
        if _ZONES not in target:
            target = os.path.realpath(path)
    except OSError:
        return None
    _, found, name = target.rpartition(_ZONES)
    return name if found else None


def _written(path: Path) -> str | None:
    try:
        return path.read_bytes()[:_MOST_BYTES].decode("ascii").strip() or None
    except (OSError, UnicodeDecodeError):
        return None
