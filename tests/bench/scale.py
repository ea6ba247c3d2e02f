"""How much is measured: the full form and the quick one, which only shows that every benchmark still works."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """The sizes of one run."""

    folder: Path
    """A private folder on the disk that is measured; each group makes its own places in it."""
    runs: int = 300
    """Sessions, commits and floors in process."""
    processes: int = 25
    """Starts of each program."""
    due: tuple[int, ...] = (100, 1_000, 10_000)
    """Agents that are due in one minute."""
    minutes: bool = True
    """Whether they are due by a cron text, at a full minute; else every other second, for who will not wait."""
    history: tuple[int, ...] = (10_000, 1_000_000)
    """Rows of history in the store."""
    agents: int = 1_000
    """Agent files that are loaded."""
    idle_seconds: float = 20.0
    writers: int = 8
    """Programs that write at once."""
    writes: int = 25
    """Calls of each of them."""
    models: int = 200
    """Sessions of models at once."""
    notes: tuple[int, ...] = (10, 100, 500, 1_000)
    """After how many sessions that note something it is looked how large all is."""


def quick(folder: Path) -> Scale:
    """The least of everything."""
    return Scale(folder=folder, runs=3, processes=1, due=(5,), minutes=False, history=(200,), agents=10,
                 idle_seconds=0.2, writers=2, writes=2, models=3, notes=(2, 4))  # fmt: skip
