"""From a moment to slots' rows: which agents are due, what becomes of each slot, all in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from swarmd.core.agent import Agent
from swarmd.core.schedule import ChosenSchedule, Schedule, jitter_of, next_slot
from swarmd.core.slots import Decisions, OverlapDecision, SlotDecision, due, overlapping
from swarmd.core.tree import Tree
from swarmd.service.rows import held_by, schedule_of
from swarmd.store import windows
from swarmd.store.slots import Claim

ADAPTIVE = "adaptive"
"""The key of all adaptive schedules: of each only its next moment is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Busy:
    """What an agent's sessions are like at the moment of decision."""

    running: int | None = None
    waiting: bool = False
    upkeep: bool = False
    """Whether what runs only looks after its memory: no slot is lost for that."""


def key_of(agent: Agent) -> str | None:
    """The key of the agent's schedule: agents of one expression and zone share it."""
    when = agent.when
    if when.cron is not None:
        return f"cron {when.timezone} {when.cron}"
    if when.every_seconds is not None:
        return f"every {when.every_seconds:g}"
    return f"at {when.timezone} {when.at}" if when.at is not None else None


class Book:
    """The distinct schedules of a tree, and for each agent when its next slot without a row is due.

    It is made anew for each tree and lives in memory: it says who has to be looked at. What `handled_until` is in
    truth, the rows say.
    """

    def __init__(
        self, tree: Tree, handled: Mapping[str, datetime], chosen: Mapping[str, datetime] | None = None
    ) -> None:
        self.schedules: dict[str, Schedule] = {}
        self.members: dict[str, list[str]] = {}
        self._keys: dict[str, str] = {}
        self._chosen: dict[str, datetime] = dict(chosen or {})
        """Of agents with an adaptive schedule: the moment that was chosen last."""
        self._handled: dict[str, datetime] = {}
        self._next: dict[str, datetime] = {}
        self._earliest: datetime | None = None
        for name, agent in tree.agents.items():
            self._enter(name, agent)
        self.handled(handled)

    def _enter(self, name: str, agent: Agent) -> None:
        if agent.when.adaptive is not None:
            self.members.setdefault(ADAPTIVE, []).append(name)
            self._keys[name] = ADAPTIVE
            return
        key = key_of(agent)
        if key is None:
            return
        if key not in self.schedules:
            schedule = schedule_of(agent)
            if schedule is None:
                return
            self.schedules[key] = schedule
        self.members.setdefault(key, []).append(name)
        self._keys[name] = key

    def handled(self, until: Mapping[str, datetime]) -> None:
        """These agents have rows for all their slots up to these moments."""
        found: dict[tuple[str, datetime], datetime | None] = {}
        for name, moment in until.items():
            key = self._keys.get(name)
            if key is None:
                continue
            self._handled[name] = moment
            if key == ADAPTIVE:
                self._expect(name, self._chosen_after(name))
                continue
            if (key, moment) not in found:
                found[key, moment] = next_slot(self.schedules[key], moment)
            self._expect(name, found[key, moment])
        self._earliest = min(self._next.values(), default=None)

    def _expect(self, name: str, upcoming: datetime | None) -> None:
        if upcoming is None:
            self._next.pop(name, None)
        else:
            self._next[name] = upcoming

    def _chosen_after(self, name: str) -> datetime | None:
        """The agent's chosen moment, where it has no row yet."""
        moment, handled = self._chosen.get(name), self._handled.get(name)
        return moment if moment is not None and handled is not None and handled < moment else None

    def choose(self, moments: Mapping[str, datetime]) -> None:
        """These are the next moments of agents with an adaptive schedule."""
        for name, moment in moments.items():
            if self._keys.get(name) == ADAPTIVE:
                self._chosen[name] = moment
                self._expect(name, self._chosen_after(name))
        if moments:
            self._earliest = min(self._next.values(), default=None)

    def adaptive(self, names: Iterable[str]) -> list[str]:
        """Those of the agents whose schedule is adaptive."""
        return [name for name in names if self._keys.get(name) == ADAPTIVE]

    def first_chosen(self) -> tuple[str, datetime | None]:
        """The key of all adaptive schedules, and which of their moments comes first."""
        found = (self._next[name] for name in self.members.get(ADAPTIVE, ()) if name in self._next)
        return ADAPTIVE, min(found, default=None)

    def schedule(self, name: str) -> tuple[str, Schedule] | None:
        """The agent's schedule with its key, or None; an adaptive one is the moment that was chosen."""
        key = self._keys.get(name)
        if key == ADAPTIVE:
            moment = self._chosen.get(name)
            return None if moment is None else (f"{ADAPTIVE} {moment}", ChosenSchedule(instant=moment))
        return None if key is None else (key, self.schedules[key])

    def is_due(self, now: datetime) -> bool:
        """Whether anybody is due; it costs nothing to ask."""
        return self._earliest is not None and self._earliest <= now

    def due(self, now: datetime) -> list[str]:
        """Who has a slot that is due and has no row."""
        return [name for name, moment in self._next.items() if moment <= now] if self.is_due(now) else []

    def ahead_of(self, now: datetime) -> tuple[int, datetime | None]:
        """How many agents had their slots settled beyond `now`, by a clock that was set back since, and up to when."""
        ahead = [moment for moment in self._handled.values() if moment > now]
        return len(ahead), max(ahead, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One look at the slots of agents: what it is judged by."""

    now: datetime
    grace_seconds: float
    missed_because: str
    handled: Mapping[str, datetime]
    pauses: Mapping[str, windows.Row]
    busy: Callable[[str], Busy]
    held_up: str | None = None
    """Why the last look could not be written down."""
    reasons: Mapping[str, str] = field(default_factory=dict)
    """Of agents with an adaptive schedule: why their moment is the one that it is."""


@dataclass(slots=True, kw_only=True)
class Decided:
    """The claims of one look, and the sessions that are to be cancelled for them."""

    claims: list[Claim] = field(default_factory=list)
    cancel: list[int] = field(default_factory=list)
    handled: dict[str, datetime] = field(default_factory=dict)
    """What the store will have as `handled_until` of everybody who was looked at."""


def decide(tree: Tree, names: Iterable[str], book: Book, look: Look) -> Decided:
    """What becomes of every slot of these agents up to now. Agents that are alike in all that counts are judged once:
    ten thousand of one schedule cost one judgement and ten thousand rows.
    """
    decided = Decided()
    judged: dict[tuple[object, ...], Decisions] = {}
    for name in names:
        agent, found, handled = tree.agent(name), book.schedule(name), look.handled.get(name)
        if agent is None or found is None or handled is None:
            continue
        key, schedule = found
        blocked = _blocked(agent, tree, look.pauses)
        alike = (key, handled, agent.when.catch_up, agent.when.catch_up_max_age_seconds, blocked)
        if alike not in judged:
            judged[alike] = due(
                schedule, handled, look.now, agent="", jitter_seconds=0.0, catch_up=agent.when.catch_up,
                catch_up_max_age_seconds=agent.when.catch_up_max_age_seconds, grace_seconds=look.grace_seconds,
                blocked=blocked, missed_because=look.missed_because,
            )  # fmt: skip
        rows = _with_reason(judged[alike].rows, look.reasons.get(name))
        decided.handled[name] = max([handled, *(row.last for row in rows)])
        if rows:
            _claims(agent, rows, look, decided)
    return decided


def _with_reason(rows: Sequence[SlotDecision], why: str | None) -> Sequence[SlotDecision]:
    """The rows, those that start something with the reason why it is this moment."""
    if why is None:
        return rows
    return [replace(row, reason=f"{row.reason}: {why}") if row.decision == "started" else row for row in rows]


def _blocked(agent: Agent, tree: Tree, pauses: Mapping[str, windows.Row]) -> str | None:
    if not agent.enabled:
        return "disabled: its file says enabled = false"
    if not pauses:
        return None
    held = held_by(agent.name, tree.above(agent.name), pauses)
    if held:
        reason = pauses[held[0]]["reason"]
        return f"paused at {held[0]} by {pauses[held[0]]['by']}" + (f": {reason}" if reason else "")
    return None


def _claims(agent: Agent, rows: Iterable[SlotDecision], look: Look, decided: Decided) -> None:
    busy = look.busy(agent.name)
    waiting = busy.waiting
    started = busy.running
    for row in rows:
        if row.decision != "started" or row.trigger == "catch_up":
            # Caught-up slots wait for one another: each is a session of its own, one after the other.
            held_up = (
                look.held_up is not None and look.held_up not in row.reason and row.decision == "coalesced"
            )
            reason = f"{look.held_up}; {row.reason}" if held_up else row.reason
            decided.claims.append(_claim(agent, row, row.decision, reason, look))
            continue
        verdict = _overlapping(agent, started, busy, waiting=waiting)
        reason = verdict.reason if verdict.action != "start" else row.reason
        decided.claims.append(_claim(agent, row, verdict.decision, reason, look))
        waiting = waiting or verdict.decision in ("started", "deferred")
        if verdict.action == "cancel_and_start" and started is not None:
            decided.cancel.append(started)


def _overlapping(agent: Agent, started: int | None, busy: Busy, *, waiting: bool) -> OverlapDecision:
    overlap = agent.when.overlap
    if not busy.upkeep or overlap == "cancel_running":
        return overlapping(overlap, started, queued=waiting)
    verdict = overlapping("queue", started, queued=waiting)
    if verdict.action != "queue":
        return verdict
    return replace(verdict, reason=f"until session {started}, which looks after its memory, has ended")


def _claim(agent: Agent, row: SlotDecision, decision: str, reason: str, look: Look) -> Claim:
    start = row.attempt_start
    if start is not None and row.trigger != "catch_up" and agent.when.jitter_seconds:
        start += timedelta(seconds=jitter_of(agent.name, agent.when.jitter_seconds))
    return Claim(agent=agent.name, slot=row.slot, last=row.last, count=row.count, decision=decision, reason=reason,
                 trigger=row.trigger or "cron", not_before=start,
                 note=reason if row.trigger == "catch_up" else look.reasons.get(agent.name, ""))  # fmt: skip
