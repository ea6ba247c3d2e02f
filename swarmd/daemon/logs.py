"""The daemon's log: standard error, one line an event, with agent and session; text or JSON."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Mapping
from typing import TextIO

from swarmd.core.text import one_line, shortened

LEVELS: Mapping[int, int] = {
    logging.DEBUG: 7,
    logging.INFO: 6,
    logging.WARNING: 4,
    logging.ERROR: 3,
    logging.CRITICAL: 2,
}
"""Python's levels as syslog's, which journald reads from a `<N>` before the line."""
LINE_CHARS = 2000
log = logging.getLogger("swarmd")


def setup(format: str, level: str, stream: TextIO | None = None) -> None:
    """Send the log of swarmd and its libraries to `stream`, standard error by default."""
    target = stream if stream is not None else sys.stderr
    handler = _Quiet(target)
    journal = "JOURNAL_STREAM" in os.environ
    handler.setFormatter(JsonLines() if format == "json" else TextLines(priority=journal))
    logging.getLogger().handlers[:] = [handler]
    logging.getLogger().setLevel(logging.WARNING)
    log.setLevel(level.upper())


class _Quiet(logging.StreamHandler[TextIO]):
    """A log that cannot be written must not stop the daemon, nor fill anything with complaints about it."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
        """Nothing can be said, and nothing is."""


class TextLines(logging.Formatter):
    """`agent#session event`, with control characters escaped, so that one event is one line."""

    def __init__(self, *, priority: bool) -> None:
        super().__init__("%(asctime)s", "%Y-%m-%dT%H:%M:%S%z")
        self._priority = priority

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        who = _who(record)
        text = shortened(one_line(_message(record)), LINE_CHARS)
        if self._priority:
            return f"<{LEVELS.get(record.levelno, 6)}>{who}{text}"
        return f"{self.formatTime(record, self.datefmt)} {record.levelname.lower()} {who}{text}"


class JsonLines(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        return json.dumps({
            "at": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"), "level": record.levelname.lower(),
            "agent": getattr(record, "agent", None), "session": getattr(record, "session", None),
            "event": _message(record)[:LINE_CHARS],
        }, ensure_ascii=True)  # fmt: skip


def _message(record: logging.LogRecord) -> str:
    text = record.getMessage()
    if record.exc_info is not None and record.exc_info[1] is not None:
        text += f": {record.exc_info[1]!r}"
    return text


def _who(record: logging.LogRecord) -> str:
    agent, session = getattr(record, "agent", None), getattr(record, "session", None)
    if agent is None:
        return ""
    return f"{agent}#{session}: " if session is not None else f"{agent}: "


def about(agent: str, session: int | None = None) -> dict[str, object]:
    """The `extra` of a log call that is about an agent."""
    return {"agent": agent, "session": session}
