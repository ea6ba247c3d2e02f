"""The swarm of a test, in its own places."""

from __future__ import annotations

import pytest

from swarmd.runners import registry
from tests.daemon.kit import Swarm


@pytest.fixture
def swarm(tmp_path, runtime_dir, monkeypatch):
    monkeypatch.setattr(registry, "BUILT_IN", {**registry.BUILT_IN, "play": "tests.daemon.play"})
    return Swarm(tmp_path, runtime_dir)
