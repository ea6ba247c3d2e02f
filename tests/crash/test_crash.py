"""The crash run in short form: `make crash` is the whole."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.crash.run import ROOT
from tests.crash.shim import compiler
from tests.crash.stage import MEMORY_STORIES, SESSION_STORIES

EVERY = 127
"""A prime, so that the points of one scenario are not those of the next."""
POINTS = 3
"""Of each story of the memory: a kill, one with another of the recovery, a power cut."""
SEEDS = 2
needs_compiler = pytest.mark.skipif(
    compiler() is None, reason="there is no C compiler to build the shim with"
)


def ran(module: str, *arguments: str) -> str:
    command = [sys.executable, "-m", f"tests.crash.{module}", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.timeout(420)
@needs_compiler
def test_no_promise_breaks_wherever_a_session_and_its_recovery_are_killed():
    told = ran("run", "--every", str(EVERY), "--jobs", "2", "--stories", "sessions")
    points = re.search(r"(\d+) points ran, 0 broke", told)
    assert points is not None
    assert int(points[1]) > 900
    for variant in SESSION_STORIES:
        assert re.search(rf"{variant}: \d+ scenarios, [1-9]\d+ kills of the session", told)


@pytest.mark.slow
@pytest.mark.timeout(240)
@needs_compiler
def test_no_promise_of_the_memory_breaks_where_a_session_or_an_operators_act_is_killed():
    told = ran("run", "--points", str(POINTS), "--jobs", "2", "--stories", "memory")
    assert f"{POINTS * len(MEMORY_STORIES)} points ran, 0 broke" in told
    for variant in MEMORY_STORIES:
        assert re.search(rf"{variant}: 1 scenarios, 1 kills of the session, 1 of .*, 1 power cuts", told)


@pytest.mark.slow
@pytest.mark.timeout(240)
@needs_compiler
def test_no_line_is_lost_where_two_people_sessions_and_compactions_edit_one_memory_and_the_daemon_is_killed():
    told = ran("together", "--seeds", str(SEEDS))
    assert f"{SEEDS} seeds ran, 0 broke" in told
    assert re.search(r"\b[1-9]\d* compactions committed", told)
