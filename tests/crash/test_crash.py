"""The crash run in short form: `make crash` is the whole."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.crash.run import ROOT
from tests.crash.shim import compiler
from tests.crash.stage import STORIES

EVERY = 127
"""A prime, so that the points of one scenario are not those of the next."""


@pytest.mark.slow
@pytest.mark.timeout(420)
@pytest.mark.skipif(compiler() is None, reason="there is no C compiler to build the shim with")
def test_no_promise_breaks_wherever_a_session_and_its_recovery_are_killed():
    done = subprocess.run(
        [sys.executable, "-m", "tests.crash.run", "--every", str(EVERY), "--jobs", "2"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    ran = re.search(r"(\d+) points ran, 0 broke", done.stdout)
    assert ran is not None
    assert int(ran[1]) > 900
    for variant in STORIES:
        assert re.search(rf"{variant}: \d+ scenarios, [1-9]\d+ kills of the session", done.stdout)
