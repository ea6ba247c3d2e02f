"""Fixtures of the model loop's tests."""

from __future__ import annotations

import pytest

from swarmd.runners.model import asker, breaker
from tests.runners.model.talking import SmallDesk


@pytest.fixture
def desk() -> SmallDesk:
    return SmallDesk()


@pytest.fixture
def soon(monkeypatch) -> None:
    """Tries follow one another at once."""
    monkeypatch.setattr(asker, "FIRST_SECONDS", 0.005)
    monkeypatch.setattr(breaker, "FIRST_SECONDS", 0.001)
