"""What the loader must know of a kind of runner; it is handed these values, since config does not import runners."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

Lacks = Callable[[Mapping[str, Any], str, Mapping[str, str]], Iterable[tuple[tuple[str | int, ...], str]]]
"""Of these options, of an agent whose file stands in this folder: what a machine with this environment does not have
for them, by the place in the `[runner]` table.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerKind:
    """`options` checks the `[runner]` table without its `kind`; `measures` names the limits the runner can hold to,
    `capabilities` what else it can do.
    """

    options: type[BaseModel]
    measures: frozenset[str] = frozenset()
    capabilities: frozenset[str] = frozenset()
    lacks: Lacks | None = None


Kinds = Mapping[str, RunnerKind]
"""Kind to what it takes, as `runner.kind` spells it."""
