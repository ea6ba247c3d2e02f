from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.swarm import Swarm


@pytest.fixture
def swarm(tmp_path: Path) -> Iterator[Swarm]:
    swarm = Swarm(tmp_path)
    yield swarm
    swarm.close()
