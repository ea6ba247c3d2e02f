"""The log: one line an event, whatever is in it; a storm is summed up; nobody waits for who reads it."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import subprocess
import sys
import time

import pytest

from swarmd.daemon import logs, storms
from swarmd.daemon.logs import about, log
from swarmd.daemon.storms import Storms
from tests.daemon.kit import until


@pytest.fixture
def written():
    """A log into a text, in the form that the call names."""
    before = logging.getLogger().handlers[:]
    levels = logging.getLogger().level, log.level

    def set_up(format: str = "text", level: str = "info"):
        stream = io.StringIO()
        logs.setup(format, level, stream)

        def lines() -> list[str]:
            logs.flush()
            return stream.getvalue().splitlines()

        return lines

    yield set_up
    for handler in logging.getLogger().handlers:
        handler.close()
    logging.getLogger().handlers[:] = before
    logging.getLogger().setLevel(levels[0])
    log.setLevel(levels[1])


def test_a_line_names_time_level_agent_and_session(written):
    lines = written()
    log.warning("failed: %s", "exit status 1", extra=about("disk", 7))
    log.info("stopped")
    first, second = lines()
    at, rest = first.split(" ", 1)
    assert rest == "warning disk#7: failed: exit status 1"
    assert at[10] == "T"
    assert second.endswith(" info stopped")


def test_json_lines_are_objects(written):
    lines = written("json")
    log.warning("failed: %s", "zwei\nZeilen \udcff ü", extra=about("disk", 7))
    (line,) = lines()
    found = json.loads(line)
    assert found["at"].endswith("Z")
    assert line.isascii()
    del found["at"]
    assert found == {
        "level": "warning",
        "agent": "disk",
        "session": 7,
        "event": "failed: zwei\nZeilen \udcff ü",
    }


@pytest.mark.parametrize("format", ["text", "json"])
def test_what_is_long_and_wild_is_one_line_that_points_to_its_session(written, format):
    lines = written(format)
    log.warning("%s", "x\n\x1b[31m\u202e\udcff" * 25_000, extra=about("disk", 7))
    (line,) = lines()
    assert len(line) < 25_000
    assert "\x1b" not in line
    assert "swarmd session show 7" in line
    if format == "text":
        assert len(line) < 2300


def test_an_error_says_where_it_came_from_on_one_line(written):
    lines = written()
    try:
        {}["gone"]
    except KeyError as error:
        log.error("a step failed", exc_info=error)
    (line,) = lines()
    assert "KeyError('gone') (test_logs.py:" in line


def test_below_the_level_nothing_is_said(written):
    lines = written(level="warning")
    log.info("not said")
    log.warning("said")
    assert len(lines()) == 1


def test_a_thousand_agents_that_fail_at_once_are_fewer_than_300_lines(written):
    lines = written()
    for number in range(1000):
        log.info("starts (%s)", "cron", extra=about(f"a{number}", number))
    for number in range(1000):
        log.warning("%s%s", "failed", ": exit status 1", extra=about(f"a{number}", number))
    log.error("something worse")
    found = lines()
    assert len(found) < 300
    assert any("something worse" in line for line in found), "what is serious gets through"
    assert any("880 more lines like 'starts (%s)' were kept back, of 880 agents" in line for line in found)
    assert any("880 more lines like '%s%s'" in line for line in found)


def test_a_storm_that_goes_on_stays_below_300_lines_in_any_minute():
    kept = Storms()
    said: list[float] = []
    for tick in range(6000):
        now = tick / 20
        for sort in range(30):
            if kept.admits(f"sort {sort}", 20, "a", now, serious=sort == 0):
                said.append(now)
        said += [now] * len(kept.sums(now))
    assert max(sum(start <= at < start + 60 for at in said) for start in range(0, 240, 3)) < 300
    assert storms.ALL + storms.SERIOUS + storms.SORTS + 1 < 300


def test_who_has_little_to_say_is_never_kept_back():
    kept = Storms()
    assert all(kept.admits("starts", 20, "a", second, serious=False) for second in range(0, 3600, 2))
    assert kept.sums(4000.0, at_once=True) == []


def test_a_reader_that_does_not_read_stops_nobody_and_lost_lines_are_counted(monkeypatch):
    monkeypatch.setattr(logs, "QUEUED_LINES", 50)
    monkeypatch.setattr(storms, "SAME", 10**6)
    monkeypatch.setattr(storms, "ALL", 10**6)
    reading, writing = os.pipe()
    stream = os.fdopen(writing, "w")
    handler = logs.Lines(logs.TextLines(), stream, journal=False)
    logger = logging.getLogger("swarmd-test-deaf")
    logger.addHandler(handler)
    logger.propagate = False
    for number in range(2000):
        logger.warning("%s", f"line {number} " + "x" * 1000)
    text = b""
    os.set_blocking(reading, False)
    while b"lines of the log were lost" not in text:
        try:
            text += os.read(reading, 65536)
        except BlockingIOError:
            logger.warning("one more")
            time.sleep(0.01)
    handler.close()
    os.close(reading)
    with contextlib.suppress(BrokenPipeError):  # what it still holds has no reader any more
        stream.close()


def test_under_the_journal_lines_begin_with_their_level():
    text = (
        "import os, sys; from swarmd.daemon import logs; s = os.fstat(2)\n"
        "os.environ['JOURNAL_STREAM'] = sys.argv[1] if len(sys.argv) > 1 else f'{s.st_dev}:{s.st_ino}'\n"
        "logs.setup('text', 'info')\n"
        "logs.log.info('one'); logs.log.warning('two'); logs.log.error('three'); logs.flush()\n"
    )
    ran = subprocess.run([sys.executable, "-c", text], stderr=subprocess.PIPE, text=True, check=True)
    assert ran.stderr.splitlines() == ["<6>one", "<4>two", "<3>three"]
    ran = subprocess.run([sys.executable, "-c", text, "1:2"], stderr=subprocess.PIPE, text=True, check=True)
    assert not ran.stderr.startswith("<"), "the variable was inherited, the stream is another"


def test_standard_files_that_are_closed_are_opened_so_that_no_other_file_gets_their_numbers():
    text = (
        "import os; from swarmd.daemon.process import open_standard_files\n"
        "open_standard_files(); fd = os.open('/dev/zero', os.O_RDONLY); os._exit(0 if fd > 2 else 1)\n"
    )
    command = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", sys.executable, "-c", text]
    assert subprocess.run(command, check=False).returncode == 0


async def test_each_session_has_its_lines(swarm, written):
    lines = written()
    swarm.agent("disk", "0 * * * *", part="fail")
    async with swarm.up():
        await swarm.at("11:00")
        await until(lambda: swarm.outcomes() == ["failed"])
    found = lines()
    assert any(line.endswith("info disk#1: starts (cron)") for line in found)
    assert any(line.endswith("warning disk#1: failed: exit status 1") for line in found)
