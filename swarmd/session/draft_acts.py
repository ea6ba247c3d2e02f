"""What a session does with its agent's open draft: finds it, and takes up what of it is still right."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from swarmd.core.approvals import held_because
from swarmd.core.changes import Change
from swarmd.core.documents import verdict_doc
from swarmd.core.judge import held, judge
from swarmd.core.staging import Staged, Verdict
from swarmd.core.world import Actor
from swarmd.session.drafts import TakenUp
from swarmd.session.tally import Tally, note
from swarmd.store import sessions
from swarmd.store.connections import Connection
from swarmd.store.past import Past


def newest(connection: Connection, agent: str, subject: str | None, past: Past | None) -> int | None:
    """The session whose draft is the agent's newest open one about this subject; in the past, the one it was then."""
    if past is None:
        return sessions.newest_draft(connection, agent, subject)
    after = past.seen.aftermath
    return None if after is None else after.draft_session


def taken_up(
    actor: Actor,
    changes: Sequence[Change],
    world: Staged,
    tally: Tally,
    keep: Callable[[Change, Verdict], None],
    masked: Callable[[str], str],
) -> tuple[TakenUp, list[dict[str, Any]]]:
    """Stage (`keep`) what of a draft is still right; the rest is named in `tally`, and goes with the draft. Also
    returns a line for each change, with its verdict.
    """
    staged, lines = [], []
    for change in changes:
        verdict = judge(actor, change, world, asked=False)
        if verdict.decision == "done":
            keep(change, verdict)
            world.wished(change)
            world.apply(verdict.effects)
            staged.append(change)
        elif verdict.decision != "nothing":
            notes = tally.refusals if verdict.decision == "refused" else tally.superseded
            notes.append(note(change, verdict, masked))
        if why := held_because(actor, change, world.tree):
            verdict = held(verdict, why)
        lines.append(verdict_doc(change, verdict))
    return TakenUp(how="applied", changes=tuple(staged)), lines
