"""The machine that a test of a runner gets."""

import shutil
import tempfile
from pathlib import Path

import pytest

from swarmd.runners.host import Host
from tests.runners.machines import Machine


@pytest.fixture
def machine():
    # Not tmp_path: a socket's path must be short.
    root = Path(tempfile.mkdtemp(prefix="sw-"))
    for name in ("state", "run", "agents.d", "state/sessions"):
        (root / name).mkdir(mode=0o700)
    host = Host.here(state=f"{root}/state", runtime=f"{root}/run", agents=f"{root}/agents.d")
    yield Machine(root=root, host=host)
    shutil.rmtree(root, ignore_errors=True)
