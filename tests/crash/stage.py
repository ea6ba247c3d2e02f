"""Where stories are played: in forked children of a warm process, killed at a chosen call, watched from outside."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.crash import power
from tests.crash.approval_story import ApprovalStory, HeldStory
from tests.crash.compact_story import VARIANTS as COMPACTIONS
from tests.crash.compact_story import CompactStory
from tests.crash.folder_story import VARIANTS, FolderStory
from tests.crash.memory_stories import ConsolidateStory, LogStory, SubjectStory, TeamStory
from tests.crash.person import Person, Scenario
from tests.crash.session_story import VARIANTS as SESSIONS
from tests.crash.session_story import SessionStory
from tests.crash.shim import Shim
from tests.crash.story import GoesOn, Story, Told, copy
from tests.crash.summary_story import VARIANTS as SUMMARIES
from tests.crash.summary_story import SummaryStory
from tests.store.memory_place import PatientDisk

PATIENCE = 60.0
SESSION_STORIES: dict[str, type[Story]] = {
    **dict.fromkeys(SESSIONS, SessionStory),
    **dict.fromkeys(VARIANTS, FolderStory),
    **dict.fromkeys(COMPACTIONS, CompactStory),
}
MEMORY_STORIES: dict[str, type[Story]] = {
    "log": LogStory, "team": TeamStory, "subject": SubjectStory, "consolidate": ConsolidateStory,
    "held": HeldStory, "approval": ApprovalStory, **dict.fromkeys(SUMMARIES, SummaryStory),
}  # fmt: skip
STORIES = {**SESSION_STORIES, **MEMORY_STORIES}
"""Who tells each variant."""


class AskingDisk(PatientDisk):
    """Whenever the session waits for a writer, the person goes on."""

    def __init__(self, shim: Shim) -> None:
        super().__init__()
        self.waits = lambda: shim.ask(ord("s"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    acknowledged: bool
    calls: int
    """How many calls it made; 0: it was killed."""


class Stage:
    """Runs stories in forked children; this process never opens the store while a child lives."""

    def __init__(self, folder: Path) -> None:
        self.shim = Shim()
        self.folder = folder
        self.story: Story
        self._stories: dict[str, Story] = {}

    def tell(self, variant: str) -> Story:
        """From now on it is this variant that is played."""
        if variant not in self._stories:
            self._stories[variant] = STORIES[variant](self.folder, variant)
            self._stories[variant].prepare()
        self.story = self._stories[variant]
        return self.story

    def play(self, scenario: Scenario, n: int, *, torn: bool = False, journal: Path | None = None
             ) -> tuple[Ended, Told]:  # fmt: skip
        """The session, killed at call `n` (0: not)."""
        story = self.tell(scenario.variant)
        story.reset()
        person = Person(scenario, story.notes)
        if scenario.moment == 0:
            person.finish(also_begin=True)
        power.remember(story.state)
        ended = self._fork(
            lambda acknowledge: story.play(acknowledge, AskingDisk(self.shim)), n, torn=torn,
            moments=scenario.moments, person=person, journal=journal,
        )  # fmt: skip
        person.finish(also_begin=scenario.moment != 0)
        return ended, Told(person=person, acknowledged=ended.acknowledged, acts=story.told())

    def recover(self, m: int, *, boot: str = "boot-1") -> Ended:
        """A start of the daemon, killed at call `m` (0: not)."""
        story = self.story
        return self._fork(lambda _: story.recover(boot, AskingDisk(self.shim)), m)

    def go_on(self, story: GoesOn, *, boot: str = "boot-1") -> None:
        """What somebody does after a recovery."""
        self._fork(lambda _: story.go_on(boot, AskingDisk(self.shim)), 0)

    def keep(self) -> None:
        """Keep the state as it is now, for `go_back`."""
        copy(self.story.state, self.folder / "kept")

    def go_back(self) -> None:
        """The state is again what was kept."""
        copy(self.folder / "kept", self.story.state)

    def _fork(self, work: Callable[[Callable[[], None]], None], n: int, *, torn: bool = False,
              moments: tuple[int, ...] = (), person: Person | None = None, journal: Path | None = None
              ) -> Ended:  # fmt: skip
        ask_read, ask = os.pipe()
        answer, answer_write = os.pipe()
        log = os.open(journal, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600) if journal else -1
        pid = os.fork()
        if pid == 0:
            self._child(work, n, torn, moments, (ask, answer), log)
        for fd in (ask, answer, log):
            if fd >= 0:
                os.close(fd)
        try:
            return self._attend(pid, ask_read, answer_write, person)
        finally:
            os.close(ask_read)
            os.close(answer_write)

    def _child(self, work, n, torn, moments, pipes, log) -> None:
        status = 3
        try:
            self.shim.arm(n, torn=torn, pipes=pipes, moments=moments, journal=log)
            work(lambda: os.write(pipes[0], b"a"))
            calls = self.shim.disarm()
            os.write(pipes[0], b"=" + calls.to_bytes(4, "big"))
            status = 0
        except BaseException:  # noqa: BLE001 - whatever it is, the parent must learn of it
            traceback.print_exc()
        finally:
            os._exit(status)

    def _attend(self, pid: int, asked: int, answer: int, person: Person | None) -> Ended:
        acknowledged, calls = False, 0
        while True:
            if not select.select([asked], [], [], PATIENCE)[0]:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                raise RuntimeError("it hangs")
            what = os.read(asked, 1)
            if what == b"a":
                acknowledged = True
            elif what == b"=":
                calls = int.from_bytes(os.read(asked, 4), "big")
            elif what in (b"m", b"s"):
                if person is not None:
                    (person.act if what == b"m" else person.go_on)()
                with contextlib.suppress(BrokenPipeError):
                    os.write(answer, b".")
            else:
                break
        _, status = os.waitpid(pid, 0)
        if os.WIFEXITED(status) and os.WEXITSTATUS(status) != 0:
            raise RuntimeError("it failed with an exception, which is printed above")
        return Ended(acknowledged=acknowledged, calls=calls)
