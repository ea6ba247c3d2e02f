"""A checkpoint's commit: what is staged, in one transaction that only a running session of this epoch may make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from swarmd.core.changes import Change
from swarmd.core.world import Actor
from swarmd.errors import Refused
from swarmd.session import drafts
from swarmd.session.drafts import TakenUp
from swarmd.session.ports import Ports
from swarmd.store import commit as committing
from swarmd.store import sessions
from swarmd.store.connections import Connection


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """What is to be committed, and of which session. `target` is its agent; `taken` are the drafts that it took up."""

    session: int
    epoch: int
    actor: Actor
    target: str
    number: int
    changes: Sequence[Change]
    texts: Mapping[str, bytes]
    """By digest: what the session goes on from after a commit that merges."""
    taken: Mapping[int, TakenUp]


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """What was committed, and what of it somebody else has closed meanwhile with its draft."""

    changes: Sequence[Change]
    closed: Sequence[tuple[int, Change]]
    committed: committing.Committed


async def save(ports: Ports, wanted: Checkpoint) -> Saved:
    """Commit it. Raises Refused, and nothing is written, where any of it is refused."""

    def work(connection: Connection) -> Saved:
        sessions.still_running(connection, wanted.session, wanted.epoch)
        kept, closed = drafts.without_closed(connection, wanted.taken, wanted.changes)
        done = committing.commit(connection, wanted.actor, kept, ports.clock.now(), act="checkpoint",
                                 target=wanted.target, part=wanted.number)  # fmt: skip
        if done.refusals:
            raise Refused("nothing was saved: " + "; ".join(done.refusals))
        drafts.close(connection, wanted.taken)
        committing.keep_texts(connection, wanted.texts)
        sessions.checkpointed(connection, wanted.session, wanted.number)
        return Saved(changes=kept, closed=closed, committed=done)

    return await ports.writer.run(work)
