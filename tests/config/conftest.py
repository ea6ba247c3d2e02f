"""The folder of agent files that every test of the loader starts from."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.config.kit import Folder


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)
