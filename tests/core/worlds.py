"""A world of plain dicts for the rules to look at, and the tree that most tests stand on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from swarmd.core.agent import Agent, Limits, MemoryRules
from swarmd.core.digests import digest
from swarmd.core.handoffs import FINAL, Cause, Entry, Handoff, Status
from swarmd.core.judge import fold, judge
from swarmd.core.memory import is_archive
from swarmd.core.staging import Folded, HandoffWritten, KeyWritten, MemoryWritten, Staged
from swarmd.core.tree import Tree
from swarmd.core.world import Actor, Document, FileFacts, Key

NOW = datetime(2026, 11, 30, 9, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
OPERATOR = Actor(by="operator:ada")


def tree_of(**parents: str | None) -> Tree:
    """The tree in which each name has this parent."""
    return Tree({name: Agent(name=name, parent=parent) for name, parent in parents.items()})


FAMILY = {
    "house": None,
    "studio": "house",
    "game": "studio",
    "art": "studio",
    "garage": "house",
    "stranger": None,
}
"""house over studio (over game and art) and garage; stranger is a root of its own."""


def session_of(agent: str, number: int = 7, **facts) -> Actor:
    return Actor(by=f"{agent}#{number}", agent=agent, session=number, **facts)


class DictWorld:
    """core.world.World over dicts; `take` writes effects down as the store does."""

    def __init__(self, tree: Tree | None = None, now: datetime = NOW) -> None:
        self.tree = tree if tree is not None else tree_of(**FAMILY)
        self.now = now
        self.key_rows: dict[tuple[str, str], Key] = {}
        self.handoff_rows: dict[int, Handoff] = {}
        self.heads: dict[tuple[str, str], Document] = {}
        self.texts: dict[tuple[str, str, int], bytes | None] = {}
        self.blobs: dict[str, bytes] = {}
        self.sent: list[tuple[int | None, int]] = []

    def key(self, agent, key):
        return self.key_rows.get((agent, key))

    def keys(self, agent):
        rows = [row for row in self.key_rows.values() if row.agent == agent and row.value is not None]
        return sorted(rows, key=lambda row: row.key)

    def handoff(self, id):
        return self.handoff_rows.get(id)

    def handoffs(self, *, receiver=None, sender=None, statuses=None, limit=1000):
        rows = [
            row
            for row in self.handoff_rows.values()
            if (receiver is None or row.receiver == receiver)
            and (sender is None or row.sender == sender)
            and (statuses is None or row.status in statuses)
        ]
        return sorted(rows, key=lambda row: -row.id)[:limit]

    def open_with_dedupe(self, sender, receiver, dedupe):
        for row in sorted(self.handoff_rows.values(), key=lambda row: row.id):
            same = (row.sender, row.receiver, row.dedupe) == (sender, receiver, dedupe)
            if same and row.status not in FINAL:
                return row
        return None

    def sent_in_session(self, session):
        return sum(1 for row in self.handoff_rows.values() if row.cause.session == session)

    def document(self, agent, path):
        return self.heads.get((agent, path))

    def documents(self, agent):
        rows = [row for row in self.heads.values() if row.agent == agent and row.data is not None]
        return sorted((row for row in rows if not is_archive(row.path)), key=lambda row: row.path)

    def files(self, agent):
        rows = [row for row in self.heads.values() if row.agent == agent and row.data is not None]
        return [FileFacts.of(row) for row in sorted(rows, key=lambda row: row.path)]

    def revision(self, agent, path, rev):
        return self.texts.get((agent, path, rev))

    def blob(self, hash):
        return self.blobs.get(hash)

    # -- what tests put in ------------------------------------------------------------------------------------

    def put_key(self, agent, key, value, *, version=1, by="operator:ada"):
        self.key_rows[agent, key] = Key(
            agent=agent, key=key, value=value, version=version, updated=self.now, by=by
        )

    def put_handoff(self, id, sender, receiver, status=Status.OPEN, **facts):
        row = Handoff(
            id=id, sender=sender, receiver=receiver, text="do it", created=self.now - HOUR, status=Status(status),
            by=facts.pop("by", f"{sender}#1"), **facts,
        )  # fmt: skip
        self.handoff_rows[id] = row
        return row

    def put_file(self, agent, path, data, *, rev=1, by="operator:ada"):
        data = data.encode() if isinstance(data, str) else data
        self.heads[agent, path] = Document(agent=agent, path=path, rev=rev, data=data, at=self.now, by=by)
        self.texts[agent, path, rev] = data

    def put_blob(self, data: bytes) -> str:
        self.blobs[digest(data)] = data
        return digest(data)

    def take(self, folded: Folded) -> None:
        for effect in folded.effects:
            match effect:
                case KeyWritten():
                    self.key_rows[effect.key.agent, effect.key.key] = effect.key
                case HandoffWritten():
                    self.handoff_rows[effect.handoff.id] = effect.handoff
                case MemoryWritten():
                    document = effect.document
                    self.heads[document.agent, document.path] = document
                    self.texts[document.agent, document.path, document.rev] = document.data

    def with_agent(self, name: str, **fields) -> None:
        """Give an agent of the tree other fields."""
        agents = dict(self.tree.agents)
        agents[name] = replace(agents[name], **fields)
        self.tree = Tree(agents)


def ask(world: DictWorld, actor: Actor, change):
    """The verdict at the moment of asking."""
    return judge(actor, change, Staged(world), asked=True)


def commit(world: DictWorld, actor: Actor, *changes) -> Folded:
    """The verdicts at the commit; written down unless something is refused."""
    folded = fold(actor, changes, world)
    if not folded.refusals:
        world.take(folded)
    return folded


def decisions(folded: Folded) -> list[str]:
    return [verdict.decision for verdict in folded.verdicts]


def thread(*entries: tuple[str, str]) -> tuple[Entry, ...]:
    """Entries as (by, kind)."""
    return tuple(Entry(at=NOW, by=by, kind=kind) for by, kind in entries)


def names(found: Iterable[object]) -> list[str]:
    return [str(each) for each in found]


__all__ = [
    "DAY", "FAMILY", "HOUR", "NOW", "OPERATOR", "Agent", "Cause", "DictWorld", "Limits", "MemoryRules", "ask", "commit",
    "decisions", "names", "session_of", "thread", "tree_of",
]  # fmt: skip
