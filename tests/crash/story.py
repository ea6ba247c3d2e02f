"""What every story shares: a process that does something to a state, can be cut off at any call, and starts anew."""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from tests.crash.person import Person
from tests.store.memory_place import PatientDisk


@dataclass(slots=True, kw_only=True)
class Told:
    """What is known outside of the process that died, and so must still be true."""

    person: Person
    acknowledged: bool = False
    acts: list[str] = field(default_factory=list)
    """What the session's program was told, in the story's own words."""
    power_cut: bool = False
    """What was not flushed may be gone."""
    person_durable: bool = True
    """False: a power cut may have taken the person's save."""


class Story(ABC):
    """One variant of a story in a folder of its own. `template` is the state it begins with, `state` the one it plays on."""

    agent: str
    """Whose memory the person edits."""
    other: str
    """Whose rows and files nothing may touch."""
    recovery_calls: int
    """About how many calls a recovery makes."""
    all_calls_are_ours: bool = True
    """No other process writes the state, so that a journal of the calls has all that the disk may keep."""

    def __init__(self, folder: Path, variant: str) -> None:
        self.folder, self.variant = folder, variant
        self.state = folder / "state"
        self.template = folder / f"template-{variant}"

    @property
    def notes(self) -> Path:
        """The folder with the file that the person edits."""
        return self.state / "memory" / self.agent

    def reset(self) -> None:
        """The state is as it was in the beginning."""
        copy(self.template, self.state)

    def told(self) -> list[str]:
        """What the session's program was told, see Told."""
        return []

    @abstractmethod
    def visits(self, calls: int, swaps: list[int], *, few: bool) -> Iterable[tuple[str, int]]:
        """How and at which of the calls the person comes; `swaps` are those that exchange the file that they edit."""

    @abstractmethod
    def prepare(self) -> None:
        """Make the template."""

    @abstractmethod
    def play(self, acknowledge: Callable[[], None], disk: PatientDisk) -> None:
        """The part that is killed."""

    @abstractmethod
    def recover(self, boot: str, disk: PatientDisk) -> None:
        """What a restarted daemon does."""

    @abstractmethod
    def broken(self, told: Told) -> list[str]:
        """Every promise that does not hold after recovery."""


class GoesOn(ABC):
    """A story in which somebody does the rest after a recovery."""

    @abstractmethod
    def go_on(self, boot: str, disk: PatientDisk) -> None:
        """The rest, on the state that was recovered."""

    @abstractmethod
    def broken_after(self) -> list[str]:
        """Every promise that does not hold after that."""


def copy(template: Path, to: Path) -> None:
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(template, to, symlinks=True)
