"""The real clients, where they are installed: in .clients (`make test-clients` puts them there), else on PATH."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

HERE = Path(__file__).parents[1] / ".clients" / "node_modules"
# What was tested; the Makefile installs these very versions.
CLAUDE_CODE, CODEX, OPENCODE = "2.1.332", "0.171.0", "1.18.34"
_PLACES = {
    "claude": "@anthropic-ai/claude-code-linux-*/claude",
    "codex": "@openai/codex-linux-*/vendor/*/bin/codex",
    "opencode": "opencode-linux-*/bin/opencode",
}


def place_of(name: str) -> str | None:
    """The client's own binary, or None."""
    found = sorted(HERE.glob(_PLACES[name]))
    return str(found[0].resolve()) if found else shutil.which(name)


def needs(name: str) -> list[pytest.MarkDecorator]:
    """The marks of a test with this client."""
    reason = f"the client {name} is not installed; `make test-clients` installs and tests it"
    return [pytest.mark.clients, pytest.mark.skipif(place_of(name) is None, reason=reason)]
