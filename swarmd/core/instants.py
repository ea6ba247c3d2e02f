"""Instants as text: ISO 8601, UTC, microseconds, `Z`: equal instants give equal text, and text sorts as time."""

from __future__ import annotations

from datetime import UTC, datetime


def to_text(instant: datetime) -> str:
    """The instant as the store and JSON output have it; an instant without a zone is a fault of the caller."""
    if instant.tzinfo is None:
        raise ValueError("an instant needs a zone")
    utc = instant.astimezone(UTC)
    # Not strftime: it is called for every row, and takes three times as long.
    return utc.isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"


def from_text(text: str) -> datetime:
    """The instant that `to_text` or a user wrote. Raises ValueError where it is none, or none that UTC can tell."""
    found = datetime.fromisoformat(text)
    try:
        return found if found.tzinfo is None or found.tzinfo is UTC else found.astimezone(UTC)
    except OverflowError:
        raise ValueError(f"{text!r} is before the year 1 or after the year 9999") from None


def maybe_text(instant: datetime | None) -> str | None:
    """`to_text`, with None for None."""
    return None if instant is None else to_text(instant)


def maybe_instant(text: str | None) -> datetime | None:
    """`from_text`, with None for None."""
    return None if text is None else from_text(text)
