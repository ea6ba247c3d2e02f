"""What the loader must know of a kind of runner; it is handed these values, since config does not import runners."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import BaseModel


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerKind:
    """`options` checks the `[runner]` table without its `kind`; `measures` names the limits the runner can hold to."""

    options: type[BaseModel]
    measures: frozenset[str] = frozenset()


Kinds = Mapping[str, RunnerKind]
"""Kind to what it takes, as `runner.kind` spells it."""
