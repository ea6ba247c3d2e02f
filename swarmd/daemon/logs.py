"""The daemon's log: standard error, one line an event, with agent and session; text or JSON.

Nobody waits for it: lines go out by a thread of their own, and where nobody takes them they are dropped and counted.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from swarmd.core.counts import counted
from swarmd.core.text import one_line, shortened
from swarmd.daemon.storms import Storms

LEVELS: Mapping[int, int] = {
    logging.DEBUG: 7,
    logging.INFO: 6,
    logging.WARNING: 4,
    logging.ERROR: 3,
    logging.CRITICAL: 2,
}
"""Python's levels as syslog's, which journald reads from a `<N>` before the line."""
LINE_CHARS = 2000
QUEUED_LINES = 5000
FLUSH_SECONDS = 2.0
log = logging.getLogger("swarmd")


def setup(format: str, level: str, stream: TextIO | None = None) -> None:
    """Send the log of swarmd and its libraries to `stream`, standard error by default."""
    flush()
    journal = stream is None and _is_journal(2)
    formatter = JsonLines() if format == "json" else TextLines(bare=journal)
    for old in logging.getLogger().handlers:
        if isinstance(old, Lines):
            old.close()
    logging.getLogger().handlers[:] = [Lines(formatter, stream, journal=journal)]
    logging.getLogger().setLevel(logging.WARNING)
    log.setLevel(level.upper())


def sum_up(*, at_once: bool = False) -> None:
    """Tell what was kept back of too many lines, where that is due."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, Lines):
            handler.sum_up(at_once=at_once)


def flush(seconds: float = FLUSH_SECONDS) -> None:
    """Wait until all lines are out, but not for long."""
    sum_up(at_once=True)
    for handler in logging.getLogger().handlers:
        if isinstance(handler, Lines):
            handler.drain(seconds)


class Lines(logging.Handler):
    """Formats lines at once and writes them by a thread of its own: a full pipe or a dead journal stops nobody."""

    def __init__(self, formatter: logging.Formatter, stream: TextIO | None, *, journal: bool) -> None:
        super().__init__()
        self.setFormatter(formatter)
        self._stream = stream
        self._journal = journal
        self._storms = Storms()
        self._lines: deque[str] = deque()
        self._lost = 0
        self._changed = threading.Condition()
        self._over = False
        self._thread: threading.Thread | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Hand the line on, or count it where there are too many of its sort."""
        try:
            serious = record.levelno >= logging.ERROR
            agent = getattr(record, "agent", None)
            if self._storms.admits(str(record.msg), record.levelno, agent, time.monotonic(), serious=serious):
                self._put(self._line(record))
        except Exception:  # noqa: BLE001 - a log that cannot be written must not stop the daemon
            return

    def sum_up(self, *, at_once: bool = False) -> None:
        """Tell what was kept back, once a minute."""
        with self.lock or threading.RLock():
            for told in self._storms.sums(time.monotonic(), at_once=at_once):
                self._put(self._line(logging.LogRecord("swarmd", told.level, "", 0, told.text, None, None)))

    def drain(self, seconds: float) -> None:
        """Wait until all lines are out."""
        with self._changed:
            self._changed.wait_for(lambda: not self._lines, seconds)

    def close(self) -> None:
        """No more lines come."""
        with self._changed:
            self._over = True
            self._changed.notify_all()
        super().close()

    def _line(self, record: logging.LogRecord) -> str:
        priority = f"<{LEVELS.get(record.levelno, 6)}>" if self._journal else ""
        return f"{priority}{self.format(record)}\n"

    def _put(self, line: str) -> None:
        with self._changed:
            if len(self._lines) >= QUEUED_LINES:
                self._lost += 1
                return
            if self._lost:
                self._lines.append(
                    f"{counted(self._lost, 'line of the log was', 'lines of the log were')} lost: nobody took them\n"
                )
                self._lost = 0
            self._lines.append(line)
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="swarmd-log", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def _serve(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._lines or self._over)
                if not self._lines:
                    return
                line = self._lines[0]
            self._write(line)
            with self._changed:
                self._lines.popleft()
                self._changed.notify_all()

    def _write(self, line: str) -> None:
        try:
            if self._stream is not None:
                self._stream.write(line)
                self._stream.flush()
            else:
                _write_all(2, line.encode("utf-8", "backslashreplace"))
        except (OSError, ValueError):
            return  # closed, or its reader is gone: nothing can be said, and nothing is


def _write_all(fd: int, data: bytes) -> None:
    while data:
        try:
            data = data[os.write(fd, data) :]
        except BlockingIOError:
            time.sleep(0.05)


def _is_journal(fd: int) -> bool:
    """Whether the journal reads this descriptor: systemd names it, and a child may have inherited the variable only."""
    try:
        status = os.fstat(fd)
    except OSError:
        return False
    return os.environ.get("JOURNAL_STREAM") == f"{status.st_dev}:{status.st_ino}"


class TextLines(logging.Formatter):
    """`agent#session: event`, with control characters escaped, so that one event is one line. `bare`: the journal
    adds time and level by itself.
    """

    def __init__(self, *, bare: bool = False) -> None:
        super().__init__()
        self._bare = bare

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        text = f"{_who(record)}{_cut(record, one_line(_message(record)))}"
        if self._bare:
            return text
        at = datetime.fromtimestamp(record.created).astimezone().isoformat(timespec="milliseconds")
        return f"{at} {record.levelname.lower()} {text}"


class JsonLines(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        agent, session = getattr(record, "agent", None), getattr(record, "session", None)
        found = {"at": at.replace("+00:00", "Z"), "level": record.levelname.lower(), "agent": agent,
                 "session": session, "event": _cut(record, _message(record))}  # fmt: skip
        return json.dumps(found, ensure_ascii=True)


def _message(record: logging.LogRecord) -> str:
    text = record.getMessage()
    if record.exc_info is not None and record.exc_info[1] is not None:
        text += f": {record.exc_info[1]!r}{_place(record.exc_info[1])}"
    return text


def _place(error: BaseException) -> str:
    """Where it was raised: a line has no room for a traceback."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "" if trace is None else f" ({Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno})"


def _cut(record: logging.LogRecord, text: str) -> str:
    """Bounded; a session has all of it."""
    if len(text) <= LINE_CHARS:
        return text
    session = getattr(record, "session", None)
    where = f" (cut; swarmd session show {session} has all of it)" if session is not None else " (cut)"
    return shortened(text, LINE_CHARS) + where


def _who(record: logging.LogRecord) -> str:
    agent, session = getattr(record, "agent", None), getattr(record, "session", None)
    if agent is None:
        return ""
    return f"{agent}#{session}: " if session is not None else f"{agent}: "


def about(agent: str, session: int | None = None) -> dict[str, object]:
    """The `extra` of a log call that is about an agent."""
    return {"agent": agent, "session": session}
