"""What a session's desk has gathered, for the flow to commit; values only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from swarmd.core.calibration import Pair
from swarmd.core.changes import Change, act_of, target_of
from swarmd.core.staging import Verdict
from swarmd.session.drafts import TakenUp
from swarmd.store.commit import Committed

SHOWN, REASON_SHOWN = 200, 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """An act that is not in the change set, and why."""

    act: str
    target: str
    reason: str


@dataclass(slots=True, kw_only=True)
class Tally:
    """The staged changes, and what became of the other acts."""

    changes: list[Change] = field(default_factory=list)
    refusals: list[Note] = field(default_factory=list)
    superseded: list[Note] = field(default_factory=list)
    failed: str | None = None
    checkpoints: int = 0
    keys_changed: set[str] = field(default_factory=set)
    drafts: dict[int, TakenUp] = field(default_factory=dict)
    told: tuple[int, ...] = ()
    """The approvals of which the prompt has told what became of them."""
    saved: Committed | None = None
    """What the session's end has committed."""
    counted: int = 0
    """Our own count of the prompt's tokens."""
    tools: int | None = None
    """Our count of the tools that the runner says it sends beside it."""
    first_request: int | None = None
    """How many tokens the model's provider counted in the session's first request: prompt, tools and all."""

    @property
    def refused(self) -> list[dict[str, str]]:
        """The acts that were refused when they were asked for, as a hook is told of them."""
        return [{"act": n.act, "target": n.target, "reason": n.reason} for n in self.refusals]

    @property
    def pair(self) -> Pair | None:
        """Both counts of the first request, where there was one."""
        if self.first_request is None:
            return None
        return Pair(ours=self.counted, tools=self.tools, theirs=self.first_request)

    def note_usage(self, event: Mapping[str, Any]) -> None:
        """Look at a usage event of the transcript: the first tells how the prompt was counted."""
        if self.first_request is None and _is_count(event.get("tokens_in")):
            parts = (event.get(name) for name in ("tokens_in", "cache_read", "cache_write"))
            self.first_request = sum(part for part in parts if isinstance(part, int) and _is_count(part))


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def note(change: Change, verdict: Verdict, masked: Callable[[str], str]) -> Note:
    """What is kept of an act that a verdict has kept out; `masked` replaces secrets."""
    return Note(act=act_of(change), target=masked(target_of(change)), reason=masked(verdict.reason))


def refusal(call: str, args: Mapping[str, Any], reason: str, masked: Callable[[str], str]) -> Note:
    """What is kept of an act that was refused before any change came of it; its texts are cut."""

    def said(*names: str) -> str:
        return next((str(args[name]) for name in names if args.get(name) is not None), "")

    owner, about = said("agent"), said("key", "to", "id", "session", "name", "point")
    file = said("file", "path")
    target = f"{owner}:{file}" if file else "/".join(part for part in (owner, about) if part)
    return Note(act=masked(call)[:SHOWN], target=masked(target)[:SHOWN], reason=masked(reason)[:REASON_SHOWN])


def line(change: Change) -> dict[str, Any]:
    """A change in a reply."""
    return {"act": act_of(change), "target": target_of(change)}


def overtaken_draft(change: Change, draft: int) -> Note:
    """A change out of a draft that somebody else has closed."""
    reason = f"the draft of session {draft} was closed by somebody else meanwhile"
    return Note(act=act_of(change), target=target_of(change), reason=reason)
