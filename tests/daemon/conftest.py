"""The swarm of a test, in its own places."""

from __future__ import annotations

import pytest

from swarmd.runners import registry
from tests.daemon.kit import Swarm
from tests.daemon.processes import Place, Systemd


@pytest.fixture
def swarm(tmp_path, runtime_dir, monkeypatch):
    monkeypatch.setattr(registry, "BUILT_IN", {**registry.BUILT_IN, "play": "tests.daemon.play"})
    return Swarm(tmp_path, runtime_dir)


@pytest.fixture
def place(tmp_path, runtime_dir):
    """Places for daemons in processes of their own."""
    return Place(tmp_path, runtime_dir)


@pytest.fixture
def systemd(runtime_dir):
    """A service manager that listens."""
    found = Systemd(runtime_dir / "notify")
    yield found
    found.close()
