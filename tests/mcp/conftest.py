"""A swarm whose sessions speak over MCP."""

from __future__ import annotations

import pytest

from swarmd.runners import registry
from tests.daemon.kit import Swarm
from tests.daemon.processes import Place
from tests.mcp.kit import Stage


@pytest.fixture
def swarm(tmp_path, runtime_dir, monkeypatch):
    monkeypatch.setattr(registry, "BUILT_IN", {**registry.BUILT_IN, "play": "tests.daemon.play"})
    return Swarm(tmp_path, runtime_dir)


@pytest.fixture
def stage(swarm, tmp_path):
    return Stage(swarm, tmp_path)


@pytest.fixture
def place(tmp_path, runtime_dir):
    """Places for a daemon in a process of its own."""
    return Place(tmp_path, runtime_dir)
